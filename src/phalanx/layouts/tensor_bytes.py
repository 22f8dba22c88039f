"""The bytes of tensor memory that the elements of a buffer occupy: for those who keep account of it byte by byte."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from phalanx.ir.tensor_memory import CELL_BITS, COLUMNS, LANES
from phalanx.ir.views import TensorBuffer
from phalanx.layouts.tensor_memory import layout_of

CELL_BYTES = CELL_BITS // 8
TENSOR_BYTES = LANES * COLUMNS * CELL_BYTES
"""The tensor memory of an SM."""


@lru_cache(maxsize=64)
def bytes_of(buffer: TensorBuffer) -> np.ndarray:
    """The numbers of the bytes of each element, along one more axis: (lane * 512 + column) * 4 + byte of the cell.

    For a buffer whose columns are planned. All copies that the layout has of an element count; elements of less than a
    byte share one. Example: ``bytes_of(acc)[0, 0]`` are the four bytes of the first cell of an accumulator.
    """
    layout = layout_of(buffer)
    lane, column, bit = layout.place(np.indices(buffer.shape, sparse=True))
    first = (lane * COLUMNS + buffer.column + column) * CELL_BYTES + bit // 8
    copies = np.array(layout.copies) * COLUMNS * CELL_BYTES
    inside = np.arange(max(1, layout.bits // 8))
    return np.asarray(first[..., None] + np.add.outer(copies, inside).ravel(), np.int32)
