"""Tensor cores that every GPU of the last years has: products of a warp, finished when the instruction is."""

from __future__ import annotations

from typing import ClassVar

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.effects import Access, Effects, Mode, Use
from phalanx.ir.traits import Product
from phalanx.ir.types import DType
from phalanx.ir.values import Value
from phalanx.ir.views import SharedView
from phalanx.markers import attribute, defined, operand

ROWS, COLUMNS = 16, 8
"""Rows and columns of the product of one instruction; the warps share the tile in steps of them."""
LEAST_STEP_BYTES = 16
"""Bytes of K that one instruction takes at least; it takes twice as many where the operands have them."""


@frozen(eq=False, repr=False)
class Mma(Op):
    """`result = acc + a @ b`, without `acc` where there is none; over when the next instruction begins.

    `a` is (M, K) and `b` is (K, N), each in shared memory or a register tile. `warps` run it together, spread over the
    rows and columns of the tile. `depth` columns of `a` from `starts[0]` and rows of `b` from `starts[1]` take part;
    0: all.
    """

    mnemonic: ClassVar[str] = "mma"
    a: SharedView | Value = operand()
    b: SharedView | Value = operand()
    acc: Value | None = operand()
    warps: int = attribute()
    result: Value = defined()
    starts: tuple[int, int] = attribute(default=(0, 0))
    depth: int = attribute(default=0)

    @property
    def written(self) -> str:
        """What users call it: a product of tiles."""
        return "dot"

    def effects(self) -> Effects:
        """Reads the operands that are in shared memory."""
        operands = [item for item in (self.a, self.b) if isinstance(item, SharedView)]
        return Effects(accesses=tuple(Access(Mode.READ, view, use=Use.OPERAND) for view in operands))

    def updates(self) -> tuple[tuple[Value, Value], ...]:
        """The accumulator, if there is one, becomes the result."""
        return () if self.acc is None else ((self.acc, self.result),)

    @property
    def product(self) -> Product | None:
        """Itself, unless only a part of its operands takes part."""
        return None if self.depth or self.starts != (0, 0) else Product(self.a, self.b, self.acc, self.result)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K), with the K that takes part."""
        return _shape(self.a)[0], _shape(self.b)[1], self.depth or _shape(self.a)[1]

    @property
    def dtypes(self) -> tuple[DType, DType]:
        """The element types of `a` and `b`."""
        a, b = (item.dtype if isinstance(item, SharedView) else item.type.dtype for item in (self.a, self.b))
        return a, b


def _shape(item: SharedView | Value) -> tuple[int, ...]:
    return item.shape if isinstance(item, SharedView) else item.type.shape  # type: ignore[union-attr]
