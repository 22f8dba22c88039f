"""Everything the emitters need to know that is not in the IR: layouts, addresses, copy paths, descriptors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from phalanx.analysis.signs import Signs
from phalanx.cuda.abi import PLAIN, Extras, TensorMapSlot
from phalanx.frozen import frozen
from phalanx.ir.archs import Arch
from phalanx.ir.core import Function, Note, Op
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.layouts import RegisterLayout, SharedLayout


@frozen
class Placement:
    """Where a shared buffer lies (bytes from the start of dynamic shared memory), and how its elements are arranged."""

    offset: int
    layout: SharedLayout


@frozen
class Box:
    """One hardware copy of a tensor path: its offset in the tile per array axis, and in bytes in the shared tile."""

    offsets: tuple[int, ...]
    shared_offset: int


class CopyPath(StrEnum):
    """The ways of a TMA copy; rows by index have their own."""

    TENSOR = "tensor"
    """Boxes of a descriptor."""
    BULK = "bulk"
    """One contiguous run."""
    FOUR_ROWS = "four rows"
    """Boxes of a descriptor, four rows at once."""
    ROWS = "rows"
    """Boxes of a descriptor, one row after the other."""
    BULK_ROWS = "bulk rows"
    """Contiguous runs, one row after the other."""


@frozen
class CopyPlan:
    """How a TMA instruction is carried out: `boxes` are those of the tile; of rows by index, those of the first row.

    `guarded` lists the array axes along which a store may begin at a negative index, which takes another way. `pitch` is
    the bytes from one row to the next in shared memory, `columns` the elements of a box, both of rows by index.
    """

    path: CopyPath
    reason: str
    tensor_map: int | None = None
    boxes: tuple[Box, ...] = ()
    guarded: tuple[int, ...] = ()
    pitch: int = 0
    columns: int = 0

    @property
    def rank(self) -> int:
        """The axes of the descriptor: those of the array, the last of which may be taken for one."""
        return len(self.boxes[0].offsets)


@frozen
class Step:
    """One level of regular places: how many, which only a run may know, and the bytes from one to the next on both sides."""

    count: int | Value
    src: int
    dst: int


class PushPath(StrEnum):
    """The ways of a push into a peer's shared memory."""

    BULK = "bulk"
    """One contiguous run."""
    BULK_ROWS = "bulk rows"
    """Several contiguous runs."""
    ST_ASYNC = "st.async"
    """Stores that complete bytes by themselves."""
    STORES = "stores"
    """Ordinary stores, and a credit behind them where a barrier waits for bytes."""


@frozen
class PushPlan:
    """How a push is carried out.

    Bulk copies move `nbytes` each, or `length` times as many, from `src` to `dst` (bytes from where the run-time offsets
    lead), repeated over `steps`, or at `places` that follow no rule. Stores move `vector` elements at a time; `fenced`:
    engines read them later.
    """

    path: PushPath
    reason: str
    nbytes: int = 0
    length: Value | None = None
    src: int = 0
    dst: int = 0
    steps: tuple[Step, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    vector: int = 1
    fenced: bool = False


@frozen
class Scratch:
    """Where an agent's scratch memory begins, and from one copy of a role to the next, how many bytes further."""

    offset: int
    step: int = 0


@frozen
class OwnRegisters:
    """Registers of a product's own: the loop that they are declared before, None where it needs none across a turn; and
    whether nothing is in flight where the product stands."""

    loop: Op | None
    idle: bool


@frozen(eq=False)
class Plan:
    """A function with all choices made for one target."""

    function: Function
    arch: Arch
    layouts: Mapping[Value, RegisterLayout] = field(default_factory=dict)
    buffers: Mapping[SharedBuffer, Placement] = field(default_factory=dict)
    barriers: Mapping[BarrierArray, int] = field(default_factory=dict)
    scratch: Mapping[Op, Scratch] = field(default_factory=dict)
    copies: Mapping[Op, CopyPlan] = field(default_factory=dict)
    pushes: Mapping[Op, PushPlan] = field(default_factory=dict)
    partial: frozenset[Op] = frozenset()
    """Reductions of tiles that leave each warp its own part, and those over the cluster that put them together."""
    own_registers: Mapping[Op, OwnRegisters] = field(default_factory=dict)
    """Products that have registers of their own for a left operand."""
    careful: bool = False
    """Whether products have their fences in their own statements and are marked (`text.cautions`)."""
    tensor_maps: tuple[TensorMapSlot, ...] = ()
    credited: frozenset[BarrierArray] = frozenset()
    """Barriers on which a peer credits bytes after ordinary stores, released by a fence: their waits acquire them."""
    signs: Signs = field(default_factory=lambda: Signs(set(), set()))
    shared_bytes: int = 0
    extras: Extras = PLAIN
    notes: tuple[Note, ...] = ()
