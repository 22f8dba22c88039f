"""Layouts as pictures: which thread holds each element of a tile, and in which bank each element of a buffer lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phalanx.tools.draw.svg import Canvas, shade

if TYPE_CHECKING:
    from phalanx.layouts.registers import RegisterLayout
    from phalanx.layouts.shared import SharedLayout

CELL, LEFT, TOP = 26, 34, 40
LANES = 32
CHUNK, BANK_ROW = 16, 128
"""Bytes: what a copy engine and `ldmatrix` move at once, and what all 32 banks of shared memory hold."""


def register_picture(layout: RegisterLayout, rows: int = 16, columns: int = 16) -> str:
    """Who holds each element of a tile's first rows and columns, as "thread:register"; a colour for every four threads.

    Anyone may call it, without a GPU. Example: ``register_picture(wgmma_accumulator(64, 16, 4))``.
    """
    shape = tuple(layout.shape)
    rows, columns = min(rows, shape[0]), min(columns, shape[1])
    canvas = Canvas(f"Who holds each element of a tile of {shape[0]} x {shape[1]} in {layout.warps} warps")
    canvas.text(0, 14, f"{shape[0]} x {shape[1]} in {layout.warps * LANES} threads: thread:register", size=12)
    slots, lanes, warps = np.nonzero(layout.alive)
    holders: dict[int, tuple[int, int]] = {}
    for slot, lane, warp in zip(slots.tolist(), lanes.tolist(), warps.tolist(), strict=True):
        holders.setdefault(int(layout.elements[slot, lane, warp]), (warp * LANES + lane, slot))
    cell = CELL * 1.5
    headings(canvas, rows, columns, cell)
    for row in range(rows):
        for column in range(columns):
            thread, slot = holders[row * shape[1] + column]
            x, y = LEFT + column * cell, TOP + row * CELL
            fill = shade(thread % LANES // 4, LANES // 4)
            canvas.box(x, y, cell - 1, CELL - 1, fill, hint=f"[{row}, {column}]: thread {thread}, register {slot}")
            canvas.text(x + cell / 2, y + 17, f"{thread}:{slot}", size=9.5, anchor="middle", on=True)
    return canvas.svg()


def shared_picture(layout: SharedLayout, rows: int = 8, columns: int | None = None) -> str:
    """Where each 16-byte chunk of a buffer's first rows lies: its banks, four of 32 to a colour, and its byte offset.

    Anyone may call it, without a GPU. A column of one colour is a conflict: threads that read it take turns. Example:
    ``shared_picture(SharedLayout((64, 64), 2, 128))``.
    """
    shape = tuple(layout.shape)
    offsets = layout.offsets().reshape(shape)
    step = max(1, CHUNK // layout.itemsize)
    rows, count = min(rows, shape[0]), min(columns or shape[1], shape[1]) // step
    swizzle = f"swizzle of {layout.swizzle} bytes" if layout.swizzle else "no swizzle"
    canvas = Canvas(f"Where the rows of a buffer of {shape[0]} x {shape[1]} lie in shared memory, {swizzle}")
    canvas.text(0, 14, f"{shape[0]} x {shape[1]}, {layout.itemsize} bytes each, {swizzle}: banks of each 16 bytes", size=12)
    cell = CELL * 2.2
    headings(canvas, rows, count, cell, step)
    for row in range(rows):
        for number in range(count):
            offset = int(offsets[row, number * step])
            first = offset % BANK_ROW // 4
            x, y = LEFT + number * cell, TOP + row * CELL
            hint = f"[{row}, {number * step}:{number * step + step}] at byte {offset}"
            canvas.box(x, y, cell - 1, CELL - 1, shade(first // 4, 8), hint=hint)
            canvas.text(x + cell / 2, y + 17, f"{first}-{first + 3}", size=10, anchor="middle", on=True)
    return canvas.svg()


def headings(canvas: Canvas, rows: int, columns: int, cell: float, step: int = 1) -> None:
    """The numbers of rows and columns."""
    for row in range(rows):
        canvas.text(LEFT - 6, TOP + row * CELL + 17, str(row), size=10, anchor="end")
    for column in range(columns):
        canvas.text(LEFT + column * cell + cell / 2, TOP - 6, str(column * step), size=10, anchor="middle")
