"""Pictures of layouts as text tables: who holds each element, and where it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from phalanx.layouts.linear import LinearLayout
    from phalanx.layouts.registers import RegisterLayout
    from phalanx.layouts.shared import SharedLayout

MAX_ROWS = 16
MAX_COLUMNS = 16
MAX_TABLES = 4


def draw_linear(layout: LinearLayout) -> str:
    """One row per input, with the coordinates of each of its bits."""
    bits = max((len(images) for _, images in layout.bases), default=0)
    table = [["", *(f"bit {b}" for b in range(bits))]]
    for name, images in layout.bases:
        cells = ["(" + ", ".join(map(str, image)) + ")" for image in images]
        table.append([name, *cells, *[""] * (bits - len(cells))])
    sizes = ", ".join(f"{name} {layout.in_size(name)}" for name in layout.in_names)
    return f"linear layout ({sizes}) -> {_times(layout.shape)}\n{_render(table)}"


def draw_registers(layout: RegisterLayout) -> str:
    """Each element's owner as thread:slot; `+` marks elements that other threads hold too."""
    replication = layout.replication
    lanes = np.arange(layout.alive.shape[1])[:, None]
    warps = np.arange(layout.warps)[None, :]
    owner = ((lanes & replication.lane_mask) == 0) & ((warps & replication.warp_mask) == 0)
    holder = np.full(layout.size, -1, dtype=np.int64)
    slots, lane, warp = np.nonzero(layout.alive & owner[None])
    # Several slots can hold an element too; writing them in reverse order leaves the first one.
    threads = layout.warps * 32
    codes = slots * threads + warp * 32 + lane
    holder[layout.elements[slots, lane, warp][::-1]] = codes[::-1]
    mark = "+" if replication else ""

    def cell(flat: int) -> str:
        slot, thread = divmod(int(holder[flat]), threads)
        return f"T{thread}:{slot}{mark}"

    title = f"register layout of {_times(layout.shape)} over {_count(layout.warps, 'warp')}"
    title += f", {_count(layout.num_registers, 'register')} per thread"
    if replication:
        title += (
            f", replicated over lane bits {replication.lane_mask:#x} and warp bits {replication.warp_mask:#x}"
        )
    return title + "\n" + _tables(layout.shape, cell)


def draw_shared(layout: SharedLayout) -> str:
    """Each element's byte offset."""
    offsets = layout.offsets().reshape(-1)
    title = f"shared layout of {_times(layout.shape)} x {layout.itemsize} bytes"
    title += f", swizzle {layout.swizzle}" if layout.swizzle else ""
    title += f", panels of {layout.panel_columns}" if layout.panels > 1 else ""
    title += f", {layout.nbytes} bytes, byte offsets"
    return title + "\n" + _tables(layout.shape, lambda flat: str(int(offsets[flat])))


def _tables(shape: Sequence[int], cell: Callable[[int], str]) -> str:
    """One table per index of the leading dimensions; large ones are elided in the middle."""
    matrix = (1,) * (2 - len(shape)) + tuple(shape[-2:])
    rows, columns = matrix
    leading = tuple(shape[:-2])
    count = int(np.prod(leading)) if leading else 1
    texts = []
    for which in range(min(count, MAX_TABLES)):
        base = which * rows * columns
        shown_rows, shown_columns = _elide(rows, MAX_ROWS), _elide(columns, MAX_COLUMNS)
        table = [["", *("..." if c is None else str(c) for c in shown_columns)]]
        for r in shown_rows:
            if r is None:
                table.append(["..."] * len(table[0]))
                continue
            cells = ["..." if c is None else cell(base + r * columns + c) for c in shown_columns]
            table.append([str(r), *cells])
        if leading:
            texts.append(f"[{', '.join(map(str, np.unravel_index(which, leading)))}]")
        texts.append(_render(table))
    if count > MAX_TABLES:
        texts.append(f"... and {count - MAX_TABLES} more")
    return "\n".join(texts)


def _elide(size: int, limit: int) -> list[int | None]:
    if size <= limit:
        return list(range(size))
    half = limit // 2
    return [*range(half), None, *range(size - half, size)]


def _render(table: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = []
    for number, row in enumerate(table):
        cells = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        lines.append(f"{row[0].ljust(widths[0])} | {'  '.join(cells)}".rstrip())
        if number == 0:
            lines.append("-" * (widths[0] + 1) + "+" + "-" * (sum(widths[1:]) + 2 * len(widths[1:]) - 1))
    return "\n".join(lines)


def _times(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) if shape else "a scalar"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
