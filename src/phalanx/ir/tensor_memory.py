"""Tensor memory: 128 lanes of 512 columns of 32-bit cells in every SM, and how buffers are dealt columns of it.

A buffer's shape is logical. What it is used for decides how many columns it takes: an accumulator has a cell per element,
whatever its type; an operand has its elements packed into cells along K; scales lie four to a cell, a block of 128 rows in
four columns. Leading axes are stages, one behind the other.
"""

from __future__ import annotations

from math import prod

from phalanx.ir.uses import Use
from phalanx.ir.views import CELL_BITS as CELL_BITS
from phalanx.ir.views import TensorBuffer

LANES = 128
COLUMNS = 512
LEAST_COLUMNS = 32
"""Columns are allocated in powers of two from this many on."""
SCALE_ROWS = 128
"""Rows of a block of scales."""
SCALES_PER_CELL = 4
LANES_PER_WARP = 32
"""Lanes that a warp reaches: those of its number modulo 4."""


def reaches_all_lanes(first: int, warps: int) -> bool:
    """Whether `warps` from warp `first` of the CTA on reach all lanes, each set of four a share of the columns."""
    quarters = LANES // LANES_PER_WARP
    return warps % quarters == 0 and first % quarters == 0 and warps & (warps - 1) == 0


def columns_of(buffer: TensorBuffer) -> int:
    """The columns that a buffer takes, given what it is for."""
    *stages, rows, width = buffer.shape
    assert buffer.purpose is not None
    folded = is_folded(buffer)
    return prod(stages) * stage_columns(rows, width, buffer.bits, buffer.purpose, folded)


def is_folded(buffer: TensorBuffer) -> bool:
    """Whether it is an accumulator of 64 rows in each CTA of a pair: half of its columns lie in the upper lanes."""
    return buffer.purpose is Use.ACCUMULATOR and buffer.pair and buffer.shape[-2] == LANES // 2


def stage_columns(rows: int, width: int, bits: int, use: Use, folded: bool = False) -> int:
    """The columns of one matrix of `rows` by `width` elements in containers of `bits`."""
    if use is Use.SCALE:
        return -(-rows // SCALE_ROWS) * -(-width // SCALES_PER_CELL) * (SCALE_ROWS // LANES_PER_WARP)
    cells = width // 2 if folded else width
    if use is Use.OPERAND:
        cells = -(-width * bits // CELL_BITS)
    return cells * -(-rows // LANES)


def allocation(columns: int) -> int:
    """The columns that are allocated for so many: the next power of two."""
    return max(LEAST_COLUMNS, 1 << (columns - 1).bit_length())
