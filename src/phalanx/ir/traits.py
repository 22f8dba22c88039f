"""What instructions say of themselves besides their effects: properties that passes ask for, each with its usual answer.

An instruction overrides the ones that are different for it. So a pass need not know which instructions there are. What a
single pass asks is no property: it declares a table, which the families fill in (`ir/tables.py`, `passes/registry.py`,
`cuda/lower/registry.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from phalanx.frozen import frozen
from phalanx.ir.values import Value

if TYPE_CHECKING:
    from phalanx.ir.ops.cluster import Collective, Exchange
    from phalanx.ir.ops.control import NextTile
    from phalanx.ir.ops.memory import Load, Store
    from phalanx.ir.views import SharedView


@frozen
class Fold:
    """What an instruction defines is `x`, folded with `fn`: along `axis`, or over the CTAs of the cluster without one."""

    fn: str
    x: Value
    axis: int | None = None


@frozen
class Product:
    """`result` is `acc + a @ b`, or `a @ b` without `acc`; each operand in shared memory or a register tile.

    `along`: the axis of the tile that the user wants the agent's warpgroups to share, "m" or "n". With scales, of shapes
    (M, K / block) and (N, K / block), blocks along K of both operands are multiplied by theirs.
    """

    a: SharedView | Value
    b: SharedView | Value
    acc: Value | None
    result: Value
    along: str = "m"
    scale_a: SharedView | Value | None = None
    scale_b: SharedView | Value | None = None


@frozen
class Permutation:
    """What an instruction defines is the tile `x` with its axes in the order `perm`."""

    x: Value
    perm: tuple[int, ...]


class Traits:
    """The properties of every instruction, with what holds for most of them.

    `method`: what users write after a barrier's name, for what they call as a method of it. `nonnegative`: the scalar that
    it defines is never negative. `moves`: what it defines has the registers of its operand, or some of them, under another
    type or shape. `asks_for_work`: it asks for a cluster of the grid that has not started, so that not all of them start.
    `is_step`: whoever steps through a run stops before it. `stops`: it does nothing but stop such a run, where it says so.
    """

    method: ClassVar[str] = ""
    nonnegative: ClassVar[bool] = False
    moves: ClassVar[bool] = False
    asks_for_work: ClassVar[bool] = False
    is_step: ClassVar[bool] = True
    stops: ClassVar[bool] = False

    def in_rank(self, cluster: tuple[int, int, int], rank: int) -> int | None:
        """The number that it defines in the CTA of that rank, where the cluster's shape alone decides it."""
        return None

    @property
    def block_dimension(self) -> int | None:
        """The dimension of the grid along which it gives the CTA's own index; None for what gives another number."""
        return None

    def in_copy(self, copy: int) -> int | None:
        """The number that it defines in that copy of the role around it, where the copy alone decides it."""
        return None

    @property
    def most(self) -> int | None:
        """The largest number that it defines, where nothing but the instruction itself says one."""
        return None

    @property
    def fold(self) -> Fold | None:
        """How its result follows from one operand, if it is a reduction whose result all who take part have."""
        return None

    @property
    def product(self) -> Product | None:
        """What it multiplies, if it is a product of matrices that is over when the next instruction begins."""
        return None

    @property
    def scaled_product(self) -> Product | None:
        """What it multiplies, if it is such a product of operands whose blocks along K have scales."""
        return None

    @property
    def tile_load(self) -> Load | None:
        """Itself, if it brings a region of memory into registers and does nothing else."""
        return None

    @property
    def tile_store(self) -> Store | None:
        """Itself, if it brings registers into a region of memory and does nothing else."""
        return None

    @property
    def permutation(self) -> Permutation | None:
        """The tile of which its result is another view, if it only changes the order of the axes."""
        return None

    @property
    def converted(self) -> Value | None:
        """The value whose elements it defines under another element type, if that is all it does."""
        return None

    @property
    def reshaped(self) -> Value | None:
        """The tile whose elements it defines under another shape, if that is all it does."""
        return None

    @property
    def numbers(self) -> int | None:
        """How many elements the tile has that it defines, if each is its own number, from 0 on."""
        return None

    @property
    def filled_with(self) -> int | float | bool | None:
        """The number that every element of the tile it defines has, where one is known; 0 where anything may be there."""
        return None

    @property
    def collective(self) -> Collective | None:
        """Itself, if several CTAs carry it out together: a pass turns it into what each rank issues."""
        return None

    @property
    def exchange(self) -> Exchange | None:
        """Itself, if all CTAs of the cluster tell each other values by it: a pass gives it inboxes and a protocol."""
        return None

    @property
    def dealt_tiles(self) -> Value | None:
        """How many tiles it deals to the clusters of the grid, however many there are; None for what deals none."""
        return None

    @property
    def draw(self) -> NextTile | None:
        """Itself, if it asks for the next tile of a loop: a pass writes out how."""
        return None

    @property
    def assembly(self) -> str:
        """Assembly text of the user's in it, which nobody but the assembler checks; empty for all but one instruction."""
        return ""

    @property
    def pairing(self) -> bool | None:
        """Whether two CTAs of a pair carry it out; None for what has no such form. A kernel's are all of one kind."""
        return None
