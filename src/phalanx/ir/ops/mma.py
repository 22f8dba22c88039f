"""Tensor cores that every GPU of the last years has: products of a warp, finished when the instruction is."""

from __future__ import annotations

from typing import ClassVar

from phalanx.frozen import frozen
from phalanx.ir.archs import Feature
from phalanx.ir.core import Op
from phalanx.ir.effects import Access, Effects, Mode, Target, Use
from phalanx.ir.traits import Product
from phalanx.ir.type_rules import need, shape_of, type_rules
from phalanx.ir.types import DType
from phalanx.ir.values import Value
from phalanx.ir.views import SharedView
from phalanx.markers import attribute, defined, operand

ROWS, COLUMNS = 16, 8
"""Rows and columns of the product of one instruction; the warps share the tile in steps of them."""
SCALED_STEP_BYTES = 32
"""Bytes of K that one block-scaled instruction takes: 32 elements of 8 bits, 64 of 4."""
LEAST_STEP_BYTES = 16
"""Bytes of K that one instruction takes at least; it takes twice as many where the operands have them."""

UNPACKED = "a register tile"
"""What an operand of 4 bits may not be, and what helps."""
PACKED = "give a view of shared memory, which is packed"


@frozen(eq=False, repr=False)
class Mma(Op):
    """`result = acc + a @ b`, without `acc` where there is none; over when the next instruction begins.

    `a` is (M, K) and `b` is (K, N), each in shared memory or a register tile. `warps` run it together, spread over the
    rows and columns of the tile. `depth` columns of `a` from `starts[0]` and rows of `b` from `starts[1]` take part;
    0: all. `along` is for the product of warpgroups that may take its place.
    """

    mnemonic: ClassVar[str] = "mma"
    a: SharedView | Value = operand()
    b: SharedView | Value = operand()
    acc: Value | None = operand()
    warps: int = attribute()
    result: Value = defined()
    starts: tuple[int, int] = attribute(default=(0, 0))
    depth: int = attribute(default=0)
    along: str = attribute(default="m")

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
        if self.depth or self.starts != (0, 0):
            return None
        return Product(self.a, self.b, self.acc, self.result, self.along)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K), with the K that takes part."""
        return shape_of(self.a)[0], shape_of(self.b)[1], self.depth or shape_of(self.a)[1]

    @property
    def dtypes(self) -> tuple[DType, DType]:
        """The element types of `a` and `b`."""
        a, b = (item.dtype if isinstance(item, SharedView) else item.type.dtype for item in (self.a, self.b))
        return a, b


BLOCK_SCALED = Target(
    (Feature.MMA_BLOCK_SCALE,), family="mma.sync with block scales",
    alternative="where there is tensor memory, px.tcgen05.mma(a, b, acc, scale_a=, scale_b=) takes scales there; elsewhere "
    "multiply the operands, or the products of blocks, by the scales",
)


@frozen(eq=False, repr=False)
class MmaScaled(Op):
    """`result = acc + (a * scale_a) @ (b * scale_b)`, without `acc` where there is none; over when the next begins.

    `a` is (M, K) and `b` is (K, N); a factor of `scale_a` (M, scales) belongs to `block` neighbours along K of a row of `a`,
    one of `scale_b` (N, scales) to as many of a column of `b`. Each is in shared memory or a register tile. `elements` are
    the types of `a` and `b`, also where these are packed and a target sees bytes. `warps` run it together. `depth` bytes of
    K, from `starts[0]` and `starts[1]` on, and the scales from `starts[2]` on take part; 0: all.
    """

    mnemonic: ClassVar[str] = "mma.scaled"
    a: SharedView | Value = operand()
    b: SharedView | Value = operand()
    scale_a: SharedView | Value = operand()
    scale_b: SharedView | Value = operand()
    acc: Value | None = operand()
    elements: tuple[DType, DType] = attribute()
    block: int = attribute()
    warps: int = attribute()
    result: Value = defined()
    starts: tuple[int, int, int] = attribute(default=(0, 0, 0))
    depth: int = attribute(default=0)

    @property
    def written(self) -> str:
        """What users call it: a product of tiles."""
        return "dot"

    def effects(self) -> Effects:
        """Reads the operands and scales that are in shared memory."""
        operands = [item for item in (self.a, self.b) if isinstance(item, SharedView)]
        scales = [item for item in (self.scale_a, self.scale_b) if isinstance(item, SharedView)]
        accesses = [Access(Mode.READ, view, use=Use.OPERAND) for view in operands]
        return Effects(accesses=(*accesses, *(Access(Mode.READ, view) for view in scales)), target=BLOCK_SCALED)

    def updates(self) -> tuple[tuple[Value, Value], ...]:
        """The accumulator, if there is one, becomes the result."""
        return () if self.acc is None else ((self.acc, self.result),)

    @property
    def scaled_product(self) -> Product | None:
        """Itself, unless only a part of its operands takes part."""
        if self.depth or self.starts != (0, 0, 0):
            return None
        return Product(self.a, self.b, self.acc, self.result, scale_a=self.scale_a, scale_b=self.scale_b)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(M, N, K), with K as the operands count it: elements, or bytes where a target sees those."""
        return shape_of(self.a)[0], shape_of(self.b)[1], self.depth or shape_of(self.a)[1]

    @property
    def scale(self) -> DType:
        """The element type of the scales."""
        return self.scale_a.dtype if isinstance(self.scale_a, SharedView) else self.scale_a.type.dtype

    @property
    def scales_per_step(self) -> int:
        """Scales of a row that one instruction takes."""
        return SCALED_STEP_BYTES * self.elements[0].per_byte // self.block



# What the types of operands and results must be.


@type_rules(Mma, MmaScaled)
def _check_product(op: Mma | MmaScaled) -> None:
    (m, depth), (rows, n) = shape_of(op.a), shape_of(op.b)
    need(bool(op.depth) or depth == rows, op, f"{m} x {depth} times {rows} x {n}")
    need(shape_of(op.result) == (m, n), op, f"{m} x {depth} times {rows} x {n} into {shape_of(op.result)}")
    need(op.acc is None or op.acc.type == op.result.type, op, "a result unlike its accumulator")
