"""Tensor memory: 128 lanes of 512 columns of 32-bit cells in every SM, and how buffers are dealt columns of it.

A buffer's shape is logical. What it is used for decides how many columns it takes: an accumulator has a cell per element,
whatever its type; an operand has its elements packed into cells along K; scales lie four to a cell, a block of 128 rows in
four columns. Leading axes are stages, one behind the other.
"""

from __future__ import annotations

from math import prod

from phalanx.ir.uses import Use
from phalanx.ir.views import TensorBuffer

LANES = 128
COLUMNS = 512
CELL_BITS = 32
LEAST_COLUMNS = 32
"""Columns are allocated in powers of two from this many on."""
SCALE_ROWS = 128
"""Rows of a block of scales."""
SCALES_PER_CELL = 4
LANES_PER_WARP = 32
"""Lanes that a warp reaches: those of its number modulo 4."""


def columns_of(buffer: TensorBuffer, use: Use, folded: bool) -> int:
    """The columns that a buffer takes in this use.

    `folded`: an accumulator of 64 rows per CTA of a pair, whose second half of the columns lies in the upper lanes.
    """
    *stages, rows, width = buffer.shape
    return prod(stages) * stage_columns(rows, width, buffer.dtype.bits, use, folded)


def stage_columns(rows: int, width: int, bits: int, use: Use, folded: bool = False) -> int:
    """The columns of one matrix of `rows` by `width` elements."""
    if use is Use.SCALE:
        return -(-rows // SCALE_ROWS) * -(-width // SCALES_PER_CELL) * (SCALE_ROWS // LANES_PER_WARP)
    if use is Use.OPERAND:
        return -(-width * bits // CELL_BITS)
    return width // 2 if folded else width


def allocation(columns: int) -> int:
    """The columns that are allocated for so many: the next power of two."""
    return max(LEAST_COLUMNS, 1 << (columns - 1).bit_length())
