"""Rows by index in shared memory: where the engine writes is where the layout says the elements are."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.layouts.rows import UNIFORM_ROWS, index_layout, issue_layout, issued_by_warp, row_boxes
from phalanx.layouts.shared import SharedLayout

LAYOUTS = [
    SharedLayout((16, 64), 2, swizzle=128),
    SharedLayout((16, 128), 2, swizzle=128, panel=64),
    SharedLayout((16, 128), 1, swizzle=128),
    SharedLayout((16, 64), 4, swizzle=128, panel=32),
    SharedLayout((16, 32), 2, swizzle=64),
    SharedLayout((16, 64), 2, swizzle=64, panel=32),
    SharedLayout((16, 16), 2, swizzle=32),
    SharedLayout((16, 32), 2, swizzle=32, panel=16),
    SharedLayout((16, 64), 2, align=128),
    SharedLayout((16, 512), 2, panel=256, align=128),
    SharedLayout((16, 32), 2, align=128),
]


def written(layout: SharedLayout, rows: int, first: int, at_once: int) -> np.ndarray:
    """The element that the engine leaves at each byte: boxes of one row (or four), addresses XORed as hardware does."""
    columns = layout.columns
    memory = np.full(layout.nbytes, -1)
    plan = row_boxes(rows, columns, layout, (first, 0))
    for start in range(0, rows, at_once):
        for piece in plan.pieces:
            base = piece.shared_offset + start * plan.pitch
            assert base % 128 == 0
            for i in range(at_once):
                for column in range(plan.columns):
                    plain = base + (i * plan.columns + column) * layout.itemsize
                    memory[layout.swizzled(plain)] = (start + i) * columns + piece.offset[1] + column
    return memory


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
@pytest.mark.parametrize("first", [0, 4, 8, 12])
def test_four_rows_land_where_the_layout_says(layout: SharedLayout, first: int) -> None:
    plan = row_boxes(4, layout.columns, layout, (first, 0))
    ways = [4] * plan.fours + [1] * plan.single
    assert ways
    offsets = layout.offset(np.ix_(np.arange(first, first + 4), np.arange(layout.columns)))
    for at_once in ways:
        memory = written(layout, 4, first, at_once)
        assert np.array_equal(memory[offsets].reshape(-1), np.arange(4 * layout.columns))


def test_single_rows_need_rows_of_128_bytes() -> None:
    assert row_boxes(4, 64, SharedLayout((8, 64), 2)).single
    narrow = row_boxes(4, 32, SharedLayout((8, 32), 2))
    assert not narrow.single and narrow.fours
    odd = row_boxes(4, 24, SharedLayout((8, 24), 2))
    assert not odd.single and not odd.fours


def test_four_rows_need_rows_without_gaps() -> None:
    part = row_boxes(4, 64, SharedLayout((8, 128), 2), (0, 64))
    assert part.single and not part.fours


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout.swizzle], ids=repr)
@pytest.mark.parametrize("first", [0, 5])
def test_chunks_land_where_the_layout_says(layout: SharedLayout, first: int) -> None:
    plan = row_boxes(4, layout.columns, layout, (first, 0))
    step = 16 // layout.itemsize
    for row in range(4):
        for chunk in plan.chunks(layout.itemsize):
            start = layout.swizzled(chunk.shared_offset + row * plan.pitch)
            held = layout.offset((first + row, chunk.offset[1] + np.arange(step)))
            assert np.array_equal(held, start + layout.itemsize * np.arange(step))


def test_chunks_are_what_no_swizzle_separates() -> None:
    chunks = row_boxes(4, 32, SharedLayout((8, 32), 2, swizzle=64)).chunks(2)
    assert [(c.offset[1], c.shared_offset) for c in chunks] == [(0, 0), (8, 16), (16, 32), (24, 48)]


@pytest.mark.parametrize("rows, columns, reason", [(4, 60, "120 bytes"), (20, 64, "do not fit")])
def test_what_is_impossible_says_why(rows: int, columns: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        row_boxes(rows, columns, SharedLayout((8, 64), 2))


@pytest.mark.parametrize("rows", [4, 8, 12, 32, 128, 132, 256, 260])
@pytest.mark.parametrize("warps", [1, 3, 4])
def test_lane_l_holds_four_indices(rows: int, warps: int) -> None:
    layout = index_layout(rows, warps)
    for warp in range(warps):
        for lane in range(min(32, rows // 4)):
            for group in range(-(-rows // 128)):
                if 128 * group + 4 * lane < rows:
                    held = [int(layout.elements[4 * group + i, lane, warp]) for i in range(4)]
                    assert held == [128 * group + 4 * lane + i for i in range(4)]


@pytest.mark.parametrize("rows", [4, 8, 12, 16, 20, 48, 64])
@pytest.mark.parametrize("warps", [1, 2, 3, 4])
def test_all_lanes_of_a_warp_hold_what_it_asks_for(rows: int, warps: int) -> None:
    share, layout = issued_by_warp(rows, warps), issue_layout(rows, warps)
    if share is None:
        assert rows > UNIFORM_ROWS * (1 << warps.bit_length() - 1) and layout == index_layout(rows, warps)
        return
    assert share <= UNIFORM_ROWS
    asked = []
    for warp in range(-(-rows // share)):
        assert warp < warps
        mine = list(range(share * warp, min(share * warp + share, rows)))
        asked += mine
        for lane in range(32):
            assert layout.elements[: len(mine), lane, warp].tolist() == mine
    assert asked == list(range(rows))
