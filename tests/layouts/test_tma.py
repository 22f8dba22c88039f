"""TMA boxes: they tile the region exactly once, and land where the shared layout says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.layouts import BoxPlan, SharedLayout, boxes, check_descriptor, choose_panel, choose_swizzle

QUICK = settings(deadline=None, max_examples=60)


def copy_engine(plan: BoxPlan, layout: SharedLayout, tile: np.ndarray) -> np.ndarray:
    """What the hardware does: each box row-major from its address on, the swizzle applied to the address.

    Rows of fewer bytes than the swizzle spans are as far apart as if they had them all.
    """
    memory = np.full(layout.nbytes // layout.itemsize, -1, dtype=np.int64)
    for piece in plan.pieces:
        part = tile[tuple(slice(o, o + b) for o, b in zip(piece.offset, plan.box))]
        assert part.shape == plan.box, "a box reaches beyond the tile"
        row, column = np.divmod(np.arange(part.size), plan.box[-1])
        pitch = max(layout.swizzle, plan.box[-1] * layout.itemsize)
        addresses = piece.shared_offset + row * pitch + column * layout.itemsize
        where = layout.swizzled(addresses) // layout.itemsize
        assert (memory[where] == -1).all(), "two boxes overlap in shared memory"
        memory[where] = part.reshape(-1)
    return memory


@st.composite
def tiles(draw: st.DrawFn):
    """A tile and a shared layout made for TMA, with dropped axes."""
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    swizzle = draw(st.sampled_from([0, 32, 64, 128]))
    leading = draw(st.lists(st.integers(1, 3), max_size=2))
    rows = draw(st.sampled_from([1, 3, 8, 16, 64, 300]))
    unit = (swizzle or 16) // itemsize
    columns = unit * draw(st.integers(1, 3))
    shape = (*leading, rows, columns)
    panel = choose_panel(columns, itemsize, swizzle)
    layout = SharedLayout(shape, itemsize, swizzle, panel, align=128)
    extents, axes = list(shape), list(range(len(shape)))
    if len(shape) < 5 and draw(st.booleans()):
        at = draw(st.integers(0, len(shape) - 1))
        extents.insert(at, 1)
        axes = [axis for axis in range(len(extents)) if axis != at]
    return tuple(extents), tuple(axes), layout


@QUICK
@given(tiles())
def test_boxes_fill_the_layout_byte_for_byte(case) -> None:
    extents, axes, layout = case
    try:
        plan = boxes(extents, layout, axes)
    except ValueError as error:
        # Rows that do not add up to 128 bytes can't be cut.
        assert "128" in str(error)
        assert layout.rows * layout.row_pitch % 128 or layout.rows > 256 or layout.row_pitch % 128
        return
    tile = np.arange(math.prod(extents)).reshape(extents)
    memory = copy_engine(plan, layout, tile)
    assert np.array_equal(memory[layout.offsets() // layout.itemsize], tile.reshape(layout.shape))
    assert plan.nbytes == tile.size * layout.itemsize
    assert check_descriptor(itemsize=layout.itemsize, box=plan.box, swizzle=layout.swizzle) == []
    assert all(piece.shared_offset % 128 == 0 for piece in plan.pieces)


@pytest.mark.parametrize(
    ("extents", "layout", "box", "count"),
    [
        ((128, 128), SharedLayout((128, 128), 2, 128, 64), (128, 64), 2),
        ((64, 64), SharedLayout((64, 64), 4), (64, 64), 1),
        ((1024,), SharedLayout((1024,), 4), (256,), 4),
        ((512, 64), SharedLayout((512, 64), 2, 128), (256, 64), 2),
        ((8, 512), SharedLayout((8, 512), 4), (1, 256), 16),
        ((8, 512), SharedLayout((8, 512), 4, panel=256), (8, 256), 2),
        ((2, 4, 64, 64), SharedLayout((2, 4, 64, 64), 2, 128), (2, 4, 64, 64), 1),
        ((2, 4, 64, 128), SharedLayout((2, 4, 64, 128), 2, 128, 64), (1, 1, 64, 64), 16),
        ((1920,), SharedLayout((1920,), 1), (128,), 15),
    ],
)
def test_box_of_typical_tiles(
    extents: tuple[int, ...], layout: SharedLayout, box: tuple[int, ...], count: int
) -> None:
    plan = boxes(extents, layout)
    assert plan.box == box
    assert len(plan.pieces) == count
    assert plan.box_bytes == math.prod(box) * layout.itemsize


def test_dropped_axes_have_a_box_of_one() -> None:
    layout = SharedLayout((32, 64), 2, 128)
    assert boxes((1, 32, 64), layout).box == (1, 32, 64)
    assert boxes((32, 1, 64), layout).box == (32, 1, 64)


def test_a_view_of_rows_is_a_smaller_box() -> None:
    layout = SharedLayout((64, 128), 2, 128, 64)
    plan = boxes((16, 64), layout, origin=(8, 64))
    assert plan.box == (16, 64)
    assert [p.shared_offset for p in plan.pieces] == [64 * 128 + 8 * 128]
    inner = boxes((16, 32), SharedLayout((64, 128), 4), origin=(0, 32))
    assert inner.box == (1, 32)
    assert [p.shared_offset for p in inner.pieces][:2] == [128, 128 + 512]


@pytest.mark.parametrize(
    "rows, columns, itemsize, swizzle", [(64, 16, 2, 128), (16, 8, 2, 64), (32, 4, 4, 32), (8, 112, 1, 128)]
)
def test_a_narrow_box_has_the_first_columns_of_a_panel(rows: int, columns: int, itemsize: int, swizzle: int) -> None:
    panel = swizzle // itemsize
    layout = SharedLayout((64, 2 * panel), itemsize, swizzle, panel)
    plan = boxes((rows, columns), layout, origin=(0, panel))
    assert plan.box == (rows, columns) and len(plan.pieces) == 1 and plan.nbytes == rows * columns * itemsize
    tile = np.arange(rows * columns).reshape(rows, columns)
    memory = copy_engine(plan, layout, tile)
    assert np.array_equal(memory[layout.offsets() // itemsize][:rows, panel : panel + columns], tile)
    assert (memory >= 0).sum() == tile.size
    with pytest.raises(ValueError, match="boxes of fewer columns have the first ones"):
        boxes((rows, columns // 2), layout, origin=(0, panel + columns // 2))


@pytest.mark.parametrize(
    ("extents", "layout", "options", "message"),
    [
        ((8, 3), SharedLayout((8, 3), 4), {}, "multiples of 16"),
        ((64, 96), SharedLayout((64, 96), 2, 128, 64), {}, "neither whole panels"),
        ((64, 64), SharedLayout((64, 64), 2, 64), {}, "64-byte swizzle needs boxes of 64 bytes"),
        ((1000,), SharedLayout((1000,), 4), {}, "can't be cut"),
        ((2, 3, 4), SharedLayout((2, 3, 4), 4, pitch=48), {}, "TMA needs a multiple of 128"),
        ((64, 32), SharedLayout((32, 64), 4), {"axes": (1, 0)}, "TMA can't transpose"),
        ((2, 64, 32), SharedLayout((64, 32), 4), {"axes": (1, 2)}, "not in the shared tile"),
        ((1, 1, 32), SharedLayout((1, 32), 4), {}, "say which axes"),
        ((64, 32), SharedLayout((32, 32), 4), {}, "does not fit"),
        ((1,) * 5 + (32,), SharedLayout((32,), 4), {"axes": (5,)}, "rank 1 to 5"),
    ],
)
def test_what_can_not_be_copied_says_why(
    extents: tuple[int, ...], layout: SharedLayout, options: dict, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        boxes(extents, layout, **options)


@pytest.mark.parametrize(
    ("columns", "itemsize", "swizzle", "panel"),
    [
        (256, 2, 128, 64),
        (64, 2, 128, None),
        (512, 4, 0, 256),
        (256, 4, 0, None),
        (96, 2, 64, 32),
        (300, 4, 0, 100),
    ],
)
def test_choose_panel(columns: int, itemsize: int, swizzle: int, panel: int | None) -> None:
    assert choose_panel(columns, itemsize, swizzle) == panel


def test_choose_panel_refuses_rows_it_can_not_cut() -> None:
    with pytest.raises(ValueError, match="no multiple of the 128-byte swizzle"):
        choose_panel(96, 2, 128)
    with pytest.raises(ValueError, match="no part of a multiple of 16"):
        choose_panel(3, 4)


def test_choose_swizzle_takes_the_widest_that_divides_a_row() -> None:
    assert [choose_swizzle(n, 2) for n in (64, 128, 96, 32, 16, 48, 24, 8)] == [
        128,
        128,
        64,
        64,
        32,
        32,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"box": (1,) * 6}, "a descriptor has rank 1 to 5, not 6"),
        ({"box": (257, 64)}, "the box has 257 elements along axis 0; 1 to 256 are allowed"),
        ({"box": (8, 6)}, "the box has 24 bytes along the inner axis; it must be a multiple of 16"),
        (
            {"box": (8, 64), "swizzle": 128},
            "the box has 256 bytes along the inner axis; a 128-byte swizzle allows 128",
        ),
        (
            {"box": (8, 64), "address": 0x1008},
            "the array starts at an address that is no multiple of 16 bytes",
        ),
        ({"box": (8, 64), "dims": (0, 64)}, "the array has 0 elements along axis 0; 1 to 2**32 are allowed"),
        (
            {"box": (8, 64), "strides": (100, 4)},
            "the stride of axis 0 is 100 bytes; it must be a multiple of 16, from 0 to below 2**40",
        ),
        (
            {"box": (8, 64), "strides": (256, 8)},
            "the inner stride is 8 bytes; elements of 4 bytes must be adjacent",
        ),
        ({"box": (8, 64), "shared_offset": 64}, "byte 64 of shared memory is no multiple of 128"),
    ],
)
def test_descriptor_rules(arguments: dict, problem: str) -> None:
    problems = check_descriptor(itemsize=4, **arguments)
    assert problem in problems
    assert len(problems) == (2 if arguments["box"] == (1,) * 6 else 1)


def test_valid_descriptor_has_no_problems() -> None:
    assert (
        check_descriptor(
            itemsize=2,
            box=(64, 64),
            dims=(1000, 4096),
            strides=(8192, 2),
            address=1 << 20,
            swizzle=128,
            shared_offset=1024,
        )
        == []
    )
