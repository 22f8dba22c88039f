"""What a box of an array takes of L2: rows that begin within a line take more of them than they have bytes for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

LINE, SECTOR = 128, 32
"""Bytes of a line of L2, and of the parts of it that move."""
LINE_COST, SECTOR_COST = 64, 16
"""What a line and a sector that are touched take, in bytes of whole lines: half of the time goes to either.

So a piece of 128 bytes costs 1.5 times as much where it begins at a sector within a line, and 1.6 times where it begins
within a sector; products of such rows were measured at 1.5, and at 1.5 to 2.1 times the time of L2.
"""
SHIFTS = 8
"""Rows that stand for all: those of the copy engine begin at multiples of 16 bytes."""


def in_lines(place: Any) -> float:
    """Bytes of whole lines that take L2 as long as the part of a box that its array has."""
    view = getattr(place, "view", None)
    if view is None or not view.size:
        return 0.0
    itemsize = view.dtype.itemsize
    axes = sorted((abs(stride), size) for stride, size in zip(view.strides, view.shape) if size > 1)
    run = itemsize
    while axes and axes[0][0] == run:
        run *= axes.pop(0)[1]
    rows = int(view.nbytes) // run
    pitch, count = axes[0] if axes else (0, 1)
    begin = view.__array_interface__["data"][0] - place.window.array.__array_interface__["data"][0]
    return rows * of_rows(begin % LINE, pitch % LINE, run, min(count, SHIFTS))


@lru_cache(4096)
def of_rows(begin: int, pitch: int, run: int, count: int) -> float:
    """What one of some rows takes, which begin so far within a line, a pitch apart, and have so many bytes each."""
    total = 0
    for number in range(count):
        first = (begin + number * pitch) % LINE
        lines = (first + run - 1) // LINE + 1
        sectors = (first + run - 1) // SECTOR - first // SECTOR + 1
        total += LINE_COST * lines + SECTOR_COST * sectors
    return total / count
