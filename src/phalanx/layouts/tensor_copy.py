"""`tcgen05.cp`: bytes of shared memory into lanes and columns of tensor memory, in shapes of rows x bits.

The source is named by the same descriptor as an operand: rows in groups of eight, K-major. Byte b of a row goes to column
b / 4, and the row to one lane, or to several.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.tensor_memory import CELL_BITS, LANES, SCALE_ROWS, SCALES_PER_CELL
from phalanx.layouts.bits import log2
from phalanx.layouts.linear import LinearLayout
from phalanx.layouts.mma import ATOM_ROWS, SharedOperand
from phalanx.layouts.shared import CHUNK, SWIZZLE_MASKS, SharedLayout
from phalanx.layouts.tcgen05 import descriptor_of, tcgen05_operand
from phalanx.layouts.tcgen05_words import SharedDescriptor
from phalanx.layouts.tensor_memory import SCALE_COPIES, TensorLayout, address

CELL_BYTES = CELL_BITS // 8
BLOCK_BYTES = SCALE_ROWS * SCALES_PER_CELL
"""A block of scales in shared memory: 128 rows x 4, byte (r % 32) * 16 + (r / 32) * 4 + k."""
COLUMN_MULTIPLE = 4
"""A copy begins on a multiple of as many columns of tensor memory (128 bits)."""


@frozen
class CopyShape:
    """One shape of `tcgen05.cp`, with its `.warpx` qualifier: `rows` rows of `row_bytes` bytes.

    `row_lanes` is the lane of each bit of the row's number; the row is also written `copies` lanes further on.
    """

    name: str
    row_bytes: int
    row_lanes: tuple[int, ...]
    copies: tuple[int, ...] = (0,)

    @property
    def rows(self) -> int:
        """Rows of the source."""
        return 1 << len(self.row_lanes)

    @property
    def columns(self) -> int:
        """Columns of tensor memory that it fills."""
        return self.row_bytes // CELL_BYTES

    def linear(self) -> LinearLayout:
        """(row, byte) of the source -> (lane, column, bit) of the first copy, from the instruction's address on."""
        cells = [(0, 0, 8 << b) for b in range(log2(CELL_BYTES))]
        cells += [(0, 1 << b, 0) for b in range(log2(self.columns))]
        rows = [(lane, 0, 0) for lane in self.row_lanes]
        return LinearLayout.make({"row": rows, "byte": cells}, (LANES, self.columns, CELL_BITS))


COPY_SHAPES = {
    shape.name: shape
    for shape in (
        CopyShape("128x256b", 32, (1, 2, 4, 8, 16, 32, 64)),
        CopyShape("128x128b", 16, (1, 2, 4, 8, 16, 32, 64)),
        CopyShape("4x256b", 32, (32, 64)),
        CopyShape("64x128b.warpx2::02_13", 16, (1, 2, 4, 8, 16, 32), (0, 64)),
        CopyShape("64x128b.warpx2::01_23", 16, (1, 2, 4, 8, 16, 64), (0, 32)),
        CopyShape("32x128b.warpx4", 16, (1, 2, 4, 8, 16), SCALE_COPIES),
    )
}


@frozen
class Expansion:
    """A format of the source that a copy widens to bytes: 16 elements of `bits` bits in 16 bytes, the rest of them unused.

    Element j of each 16 bytes comes from the bits `j * bits` on and fills byte j: places in tensor memory are those of a
    copy without one. (Where in its byte the element stands is the hardware's own affair; products read it there.)
    """

    name: str
    bits: int

    def source_bit(self, byte: Any) -> Any:
        """The bit of the source row at which the element for byte `byte` of the target's row begins."""
        return byte // CHUNK * (CHUNK * 8) + byte % CHUNK * self.bits


EXPANSIONS = {
    4: Expansion("b8x16.b4x16_p64", 4),
    6: Expansion("b8x16.b6x16_p32", 6),
}
"""By the bits of the elements."""


def source_offset(descriptor: SharedDescriptor, row: Any, byte: Any) -> Any:
    """The address of byte `byte` of row `row` of what a descriptor names, K-major; arrays are fine.

    Rows begin at (row / 8) * stride + (row % 8) * the swizzle's bytes (16 without one), and are swizzled from there.
    """
    row, byte = np.asarray(row), np.asarray(byte)
    if not descriptor.swizzle:
        inside = row % ATOM_ROWS * CHUNK + byte // CHUNK * descriptor.leading + byte % CHUNK
        return descriptor.address + row // ATOM_ROWS * descriptor.stride + inside
    linear = descriptor.address + row // ATOM_ROWS * descriptor.stride + row % ATOM_ROWS * descriptor.swizzle + byte
    return linear ^ (linear >> 3 & SWIZZLE_MASKS[descriptor.swizzle])


@frozen
class CopyStep:
    """One `tcgen05.cp`: `source` bytes are added to the shared address, `target` to that of tensor memory."""

    shape: CopyShape
    source: int
    target: int


@frozen
class CopyPlan:
    """The copies that bring a whole shared tile to tensor memory. `descriptor` has the address 0; `expansion` widens."""

    descriptor: SharedDescriptor
    steps: tuple[CopyStep, ...]
    expansion: Expansion | None = None


def plan_copy(
    source: SharedLayout, target: TensorLayout, element_bits: int | None = None, part: tuple[int, int, int] | None = None
) -> CopyPlan:
    """How `tcgen05.cp` brings the tile `source` to `target`; ValueError says why it can't.

    Scales come in block order, shape (rows / 128, scales / 4, 32, 4, 4). Anything else is a matrix of the target's rows,
    read as an operand is (K-major); its columns are the target's containers, or bytes with two elements of 4 bits.
    `element_bits` 4 or 6 with a target of bytes: the source has 16 elements in the first bits of each 16 bytes, which are
    widened. `part` is (rows, first column, columns) of what is copied of the source, from its own start on; None for all.

    Example: `plan_copy(SharedLayout((1, 1, 32, 4, 4), 1), scales((128, 4))).steps[0].shape.name == "32x128b.warpx4"`.
    """
    shapes = shapes_into(target, source.shape)
    if target.copies == SCALE_COPIES:
        return _copy_scales(source, target)
    expansion = EXPANSIONS[element_bits] if target.bits == 8 and element_bits in EXPANSIONS else None
    operand = tcgen05_operand(source, transposed=False)
    rows, first, columns = part or (source.rows, 0, source.columns)
    row_bytes, start = columns * source.itemsize, first * source.itemsize
    if source.leading or rows != target.rows or row_bytes * 8 != target.width * target.bits:
        raise ValueError(f"a tile of {rows} x {columns} with {source.itemsize} bytes each is not what {target} holds")
    steps = []
    for atom in range(target.row_atoms):
        byte = 0
        while byte < row_bytes:
            able = [shape for shape in shapes if shape.row_bytes <= row_bytes - byte and byte % shape.row_bytes == 0]
            if not able:
                raise ValueError(f"rows of {row_bytes} bytes are copied by multiples of {CHUNK}")
            shape, row = able[0], atom * target.atom_rows
            at = operand.row_offset(row) + _place(operand, start + byte) - _place(operand, start)
            cell = atom * target.row_step + byte // CELL_BYTES
            if cell % COLUMN_MULTIPLE:
                raise ValueError(f"a copy begins on a multiple of {COLUMN_MULTIPLE} columns of tensor memory, not on {cell}")
            steps.append(CopyStep(shape, at, address(0, cell)))
            byte += shape.row_bytes
    return CopyPlan(descriptor_of(operand), tuple(steps), expansion)


def shapes_into(target: TensorLayout, source: tuple[int, ...]) -> tuple[CopyShape, ...]:
    """The shapes that write lanes as a target lies, from a source of the shape `source`; ValueError if there are none.

    For `plan_copy`, and for the simulator, which knows no layouts of shared memory.
    """
    if target.leading:
        raise ValueError(f"a copy fills a matrix of tensor memory, not the shape {target.shape}")
    if target.copies == SCALE_COPIES:
        if len(source) == 2:
            raise _not_in_blocks(target, source)
        return (COPY_SHAPES["32x128b.warpx4"],)
    found = tuple(shape for shape in COPY_SHAPES.values() if _fits(shape, target))
    if not found:
        raise ValueError(f"tcgen05.cp writes no lanes as {target} lies: store it from registers")
    return found


def _place(operand: SharedOperand, byte: int) -> int:
    """Bytes from a row's start to its byte `byte`: panel after panel."""
    layout = operand.layout
    width = layout.panel_columns * layout.itemsize
    return byte // width * layout.panel_bytes + byte % width


def _fits(shape: CopyShape, target: TensorLayout) -> bool:
    """Whether a shape writes each row of an atom to the lanes where the target has it, and all of the target's rows."""
    lanes = tuple(lane for lane, column, _ in target.atom.basis("row") if not column)
    whole = target.rows % target.atom_rows == 0 and target.atom_rows == shape.rows
    return whole and lanes == shape.row_lanes and target.copies == shape.copies and not target.folded


def _not_in_blocks(target: TensorLayout, source: tuple[int, ...]) -> ValueError:
    wanted = (target.row_atoms, target.column_atoms, 32, 4, 4)
    return ValueError(
        f"scales of {target.rows} rows x {target.width} lie in shared memory in block order, "
        f"in bytes of the shape {wanted}, not {source}"
    )


def _copy_scales(source: SharedLayout, target: TensorLayout) -> CopyPlan:
    blocks = (target.row_atoms, target.column_atoms)
    size = blocks[0] * blocks[1] * BLOCK_BYTES
    if source.itemsize != 1 or source.shape[:2] != blocks or source.nbytes != size or not source.is_row_major:
        raise _not_in_blocks(target, source.shape)
    shape = COPY_SHAPES["32x128b.warpx4"]
    steps = []
    for along in range(blocks[1]):
        for row in range(blocks[0]):
            cell = row * target.row_step + along * target.column_step
            steps.append(CopyStep(shape, (row * blocks[1] + along) * BLOCK_BYTES, address(0, cell)))
    return CopyPlan(SharedDescriptor(0, 0, ATOM_ROWS * CHUNK), tuple(steps))
