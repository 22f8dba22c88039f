"""Operands of `tcgen05.mma` in shared memory, and a product cut into instructions: what is added to which word for each.

Tiles in shared memory are those of wgmma (`layouts/mma.py`): groups of eight rows under a swizzle, panel after panel. What
differs is which of them may be read MN-major, and the word that names them.
"""

from __future__ import annotations

from dataclasses import replace

from phalanx.frozen import frozen
from phalanx.ir.tensor_kinds import STEP_BYTES, Kind, Objection, product_shape
from phalanx.ir.tensor_memory import SCALES_PER_CELL
from phalanx.layouts.mma import ATOM_ROWS, NO_OFFSET, SharedOperand
from phalanx.layouts.shared import CHUNK, SharedLayout
from phalanx.layouts.tcgen05_words import UNIT, InstructionDescriptor, SharedDescriptor
from phalanx.layouts.tensor_memory import TensorLayout, accumulator, scales, tensor_operand

WIDE_ATOM_ROWS = 4
"""Rows of K after which the swizzle of 32-byte atoms repeats."""


def tcgen05_operand(layout: SharedLayout, transposed: bool, kind: Kind | None = None) -> SharedOperand:
    """The operand form of a tile whose last two axes are (rows, K), or (K, rows) if it is `transposed` (MN-major).

    `layout` counts containers: for the kinds mxf4 and mxf4nvf4, which read 4-bit types two to a byte, it has K / 2
    columns of one byte; for f8f6f4 and mxf8f6f4 every element has a byte. Without a swizzle, K-major panels are 16 bytes
    wide. `kind` is None for `tcgen05.cp`. ValueError says what the hardware can't read.

    Example: `tcgen05_operand(SharedLayout((128, 64), 2, 128, 64), False).stride == 1024`.
    """
    item, width = layout.itemsize, layout.swizzle or CHUNK
    if layout.panel_columns * item != width or layout.row_pitch != width:
        row = layout.columns * item
        if layout.swizzle:
            raise ValueError(f"a panel is to be as wide as the swizzle of {layout.swizzle} bytes")
        why = f": rows of {row} bytes can't have one" if row % STEP_BYTES else ""
        raise ValueError(f"tcgen05 reads tiles with a swizzle of 32, 64 or 128 bytes, or in panels of {CHUNK} bytes{why}")
    if layout.rows % ATOM_ROWS:
        raise ValueError(f"its rows come in eights, not {layout.rows}")
    if transposed:
        _check_transposed(layout, kind)
    stride = (WIDE_ATOM_ROWS if transposed and layout.wide else ATOM_ROWS) * layout.row_pitch
    beside = transposed or not layout.swizzle  # whether the other offset is looked at
    leading = layout.panel_bytes if beside else NO_OFFSET * UNIT
    return SharedOperand(layout.swizzle, leading, stride, transposed, layout, STEP_BYTES // item, layout.wide)


def _check_transposed(layout: SharedLayout, kind: Kind | None) -> None:
    if kind is not None and kind.bits == 4:
        raise ValueError(f"4-bit operands of kind {kind} are read along K alone (K-major)")
    if (layout.itemsize == 4) != layout.wide:
        raise ValueError("tf32, and it alone, is read across K (MN-major) under the swizzle of 128 bytes in atoms of 32")
    if not layout.swizzle:
        raise ValueError("a tile that is read across K (MN-major) has a swizzle of 32, 64 or 128 bytes")


def descriptor_of(operand: SharedOperand, address: int = 0) -> SharedDescriptor:
    """The descriptor of a tile that begins at `address`, on a multiple of the swizzle's period; `.fields` is its word
    without the address. Offsets of rows and steps are added to it in units of 16 bytes."""
    return SharedDescriptor(address, operand.leading, operand.stride, operand.swizzle, operand.wide)


@frozen
class ProductStep:
    """One `tcgen05.mma` of a product, on `row`, `column` and `k` of this CTA's tile on.

    `a` and `b` are added to the descriptors of A and B (in units of 16 bytes; `a` to the address where A is in tensor
    memory), `d`, `scale_a` and `scale_b` to the addresses of the accumulator and the scales. `word` is the instruction
    descriptor. `first`: it begins the sum, and adds to what the accumulator holds only if the product does.
    """

    row: int
    column: int
    k: int
    a: int
    b: int
    d: int
    scale_a: int
    scale_b: int
    word: int
    first: bool


def split_product(
    kind: Kind,
    shape: tuple[int, int, int],
    a: SharedOperand | TensorLayout,
    b: SharedOperand,
    d: TensorLayout,
    word: InstructionDescriptor,
    *,
    two_cta: bool = False,
    scale_a: TensorLayout | None = None,
    scale_b: TensorLayout | None = None,
    block: int = 0,
    a_column: int = 0,
    b_column: int = 0,
) -> tuple[ProductStep, ...]:
    """The instructions of a product of `shape` (rows of this CTA's accumulator, N, K), in order.

    `a` and `b` are operands in shared memory whose tiles begin in column `a_column`, `b_column` of their buffers (in
    containers), or `a` a matrix of tensor memory; `d` is the accumulator's, `scale_a` and `scale_b` those of the scales
    for every `block` elements of K. `word` has the types and flags; M, N and the bytes of the scales are filled in. In a
    pair of CTAs B has half of the columns in each.

    ValueError where the hardware has no such product (`product_shape` gives the remedy) or the layouts are others than it
    uses.
    """
    rows, n, k = shape
    found = product_shape(kind, rows, n, k, two_cta, b.transposed)
    if isinstance(found, Objection):
        raise ValueError(found.what)
    m, widest, depth = found
    columns = _readable_columns(kind, b, n, widest, b_column) if b.transposed and not two_cta else widest
    height = m // 2 if two_cta else m
    _check_scales(kind, scale_a, scale_b, block)
    check_places(kind, shape, (m, columns), d, a if isinstance(a, TensorLayout) else None, two_cta)
    steps = []
    for row in range(0, rows, height):
        for column in range(0, n, columns):
            for number in range(k // depth):
                scale = number * depth // block if block else 0
                cell, byte = scale // SCALES_PER_CELL * SCALES_PER_CELL, scale % SCALES_PER_CELL
                filled = replace(word, m=m, n=columns, scale_a=byte, scale_b=byte)
                steps.append(
                    ProductStep(
                        row,
                        column,
                        number * depth,
                        _left(a, kind, row, number, a_column),
                        (b.row_offset(column, b_column) + b.step_offset(number, b_column)) // UNIT,
                        d.address((row, column)),
                        scale_a.address((row, cell)) if scale_a is not None else 0,
                        scale_b.address((column, cell)) if scale_b is not None else 0,
                        filled.encode(),
                        number == 0,
                    )
                )
    return tuple(steps)


def _readable_columns(kind: Kind, b: SharedOperand, n: int, widest: int, first: int) -> int:
    """The columns of each instruction where B is MN-major: the most of which none begins inside a panel and goes beyond."""
    for columns in range(widest, 0, -kind.column_step(False, True)):
        if n % columns == 0 and not any(b.reach_problem(first + column, columns) for column in range(0, n, columns)):
            return columns
    raise ValueError(f"{n} columns can't be cut where panels of {b.layout.panel_columns} begin")


def check_places(
    kind: Kind, shape: tuple[int, int, int], each: tuple[int, int], d: TensorLayout, a: TensorLayout | None, two_cta: bool
) -> None:
    """ValueError if an accumulator `d`, or an `a` in tensor memory, lies otherwise than products of `shape` use them.

    `each` is (M, N) of an instruction. For `split_product`, and for the simulator, which knows no layouts of shared memory.
    """
    rows, n, k = shape
    m, columns = each
    height = m // 2 if two_cta else m
    for row in range(0, rows, height):
        for column in range(0, n, columns):
            if d.part((row, column), (height, columns)) != accumulator((height, columns), two_cta):
                raise ValueError(f"the accumulator ({d}) does not lie as products of {height} x {columns} write it")
        for start in range(0, k if a is not None else 0, kind.k):
            assert a is not None
            if a.part((row, start), (height, kind.k)) != tensor_operand((height, kind.k), kind.bits, two_cta):
                raise ValueError(f"the operand in tensor memory ({a}) does not lie as products of kind {kind} read it")


def _left(a: SharedOperand | TensorLayout, kind: Kind, row: int, number: int, a_column: int) -> int:
    if isinstance(a, SharedOperand):
        return (a.row_offset(row, a_column) + a.step_offset(number, a_column)) // UNIT
    return a.address((row, number * kind.k))


def _check_scales(kind: Kind, scale_a: TensorLayout | None, scale_b: TensorLayout | None, block: int) -> None:
    given = [scale for scale in (scale_a, scale_b) if scale is not None]
    if not kind.scaled:
        if given or block:
            raise ValueError(f"products of kind {kind} take no scales")
        return
    if len(given) != 2 or block not in dict((size, name) for name, size in kind.scales):
        raise ValueError(f"products of kind {kind} take scales of A and of B, for blocks that the kind has")
    for scale in given:
        if scale.atom != scales((1, 1)).atom or scale.row_step not in (0, scale.atom.shape[1]):
            raise ValueError(f"the scales ({scale}) do not lie as products read them")
