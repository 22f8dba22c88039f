"""Shared layouts: offsets, swizzles, sub-buffers, contiguity, and their text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.layouts import SharedLayout
from phalanx.layouts.shared import SWIZZLE_PERIODS

QUICK = settings(deadline=None, max_examples=60)


@st.composite
def shared_layouts(draw: st.DrawFn, powers: bool = False) -> SharedLayout:
    size = st.sampled_from([1, 2, 4, 8, 16]) if powers else st.integers(1, 20)
    shape = tuple(draw(st.lists(size, min_size=1, max_size=3)))
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    swizzle = draw(st.sampled_from([0, 32, 64, 128]))
    columns = st.sampled_from([1, 2, 4, 8]) if powers else st.integers(1, 12)
    panel = draw(st.one_of(st.none(), columns))
    layout = SharedLayout(shape, itemsize, swizzle, panel, align=draw(st.sampled_from([1, 16, 128])))
    if not powers and draw(st.booleans()):
        padding = draw(st.integers(0, 5)) * itemsize
        layout = SharedLayout(shape, itemsize, swizzle, panel, layout.row_pitch + padding)
    return layout


@QUICK
@given(shared_layouts())
def test_elements_do_not_overlap_and_fit(layout: SharedLayout) -> None:
    offsets = layout.offsets()
    assert offsets.shape == layout.shape
    assert len(np.unique(offsets)) == offsets.size
    assert (offsets % layout.itemsize == 0).all()
    assert offsets.min() >= 0
    assert offsets.max() + layout.itemsize <= layout.nbytes


@QUICK
@given(shared_layouts())
def test_scalar_offsets_agree_with_the_array(layout: SharedLayout) -> None:
    for index in list(np.ndindex(*layout.shape))[::7]:
        assert layout.offset(index) == layout.offsets()[index]


@QUICK
@given(shared_layouts())
def test_expression_evaluates_to_the_offset(layout: SharedLayout) -> None:
    names = [f"i{d}" for d in range(layout.rank)]
    code = compile(layout.offset_expression(names, divide="//"), "expression", "eval")
    for index in list(np.ndindex(*layout.shape))[::5]:
        assert eval(code, dict(zip(names, index))) == layout.offset(index)
        assert eval(layout.offset_expression([str(i) for i in index])) == layout.offset(index)


@pytest.mark.parametrize(
    ("layout", "terms", "text"),
    [
        (SharedLayout((64, 32), 4), ["r", "c"], "r * 128 + c * 4"),
        (SharedLayout((3, 64, 32), 4), ["s", "r + 1", "0"], "s * 8192 + (r + 1) * 128"),
        (SharedLayout((8,), 1), ["c"], "c"),
        (SharedLayout((8, 128), 2, panel=64), ["r", "c"], "r * 128 + c / 64 * 1024 + (c % 64) * 2"),
        (
            SharedLayout((8, 64), 2, swizzle=128),
            ["r", "c"],
            "(r * 128 + c * 2) ^ (((r * 128 + c * 2) >> 3) & 112)",
        ),
    ],
)
def test_expression_is_readable(layout: SharedLayout, terms: list[str], text: str) -> None:
    assert layout.offset_expression(terms) == text


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_swizzles_are_involutions_that_repeat_and_keep_chunks(swizzle: int) -> None:
    layout = SharedLayout((64, swizzle), 1, swizzle)
    addresses = np.arange(4096)
    moved = layout.swizzled(addresses)
    assert np.array_equal(layout.swizzled(moved), addresses)
    period = SWIZZLE_PERIODS[swizzle]
    assert layout.alignment == period
    assert np.array_equal(moved[period:], moved[:-period] + period)
    assert not np.array_equal(moved[period // 2 : period], addresses[period // 2 : period])
    assert np.array_equal(moved % 16, addresses % 16)
    assert np.array_equal(moved // swizzle, addresses // swizzle)


def test_the_swizzle_of_wide_atoms() -> None:
    """32 bytes stay together: the four of a row of 128 are exchanged by its number modulo 4."""
    layout = SharedLayout((8, 32), 4, 128, wide=True)
    assert layout.period == layout.alignment == 512
    row, column = np.indices((8, 32))
    assert np.array_equal(layout.offsets(), row * 128 + (column // 8 ^ row % 4) * 32 + column % 8 * 4)
    assert layout.offset_expression(["r", "c"]) == "(r * 128 + c * 4) ^ (((r * 128 + c * 4) >> 2) & 96)"
    assert np.array_equal(layout.as_linear().apply(dim0=row, dim1=column)[0] * 4, layout.offsets())
    with pytest.raises(ValueError, match="the swizzle of 128 bytes alone has atoms of 32, not that of 64"):
        SharedLayout((8, 16), 4, 64, wide=True)


@pytest.mark.parametrize(
    ("swizzle", "chunk"),
    [
        (128, lambda row, c: c ^ (row & 7)),
        (64, lambda row, c: c ^ ((row >> 1) & 3)),
        (32, lambda row, c: c ^ ((row >> 2) & 1)),
    ],
)
def test_swizzled_rows_are_the_documented_chunks(swizzle: int, chunk) -> None:
    layout = SharedLayout((16, swizzle // 2), 2, swizzle)
    for row in range(16):
        for c in range(swizzle // 16):
            assert layout.offset((row, c * 8)) == row * swizzle + 16 * chunk(row, c)


@QUICK
@given(shared_layouts(), st.data())
def test_leading_indices_select_a_sub_layout(layout: SharedLayout, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, max(0, layout.rank - 2)))
    index = tuple(data.draw(st.integers(0, n - 1)) for n in layout.shape[:count])
    part = layout.sub_layout(count)
    # The swizzle moves even the first element: the start is that of the unswizzled address.
    start = int(layout.swizzled(layout.offset((*index, *(0,) * (layout.rank - count)))))
    assert np.array_equal(layout.offsets()[index] - start, part.offsets())
    assert start % part.alignment == 0


def test_a_row_is_a_sub_layout_without_swizzle_only() -> None:
    assert SharedLayout((4, 32), 4, align=128).sub_layout(1).offset((3,)) == 12
    assert SharedLayout((4, 32), 4, align=128).sub_layout(1).alignment == 128
    with pytest.raises(ValueError, match="no tile itself"):
        SharedLayout((8, 64), 2, swizzle=128).sub_layout(1)
    with pytest.raises(ValueError, match="leave nothing"):
        SharedLayout((8,), 2).sub_layout(1)


def test_stages_of_swizzled_tiles_start_on_the_period() -> None:
    layout = SharedLayout((3, 4, 64), 2, swizzle=128)  # 512 bytes of data each
    assert [layout.offset((s, 0, 0)) for s in range(3)] == [0, 1024, 2048]
    assert layout.nbytes == 3072


@QUICK
@given(shared_layouts(powers=True), st.data())
def test_linear_form_agrees_where_all_is_a_power_of_two(layout: SharedLayout, data: st.DataObject) -> None:
    sizes = (layout.row_pitch, layout.panel_bytes, layout.matrix_bytes)
    if not all(n & (n - 1) == 0 for n in sizes):
        with pytest.raises(ValueError, match="not linear"):
            layout.as_linear()
        return
    linear = layout.as_linear()
    for index in list(np.ndindex(*layout.shape))[::3]:
        (position,) = linear(**{f"dim{d}": i for d, i in enumerate(index)})
        assert position * layout.itemsize == layout.offset(index)
    assert linear.is_injective


def test_linear_form_needs_powers_of_two() -> None:
    with pytest.raises(ValueError, match="not linear"):
        SharedLayout((3, 64), 2).as_linear()


@QUICK
@given(shared_layouts(), st.data())
def test_contiguity_by_enumeration(layout: SharedLayout, data: st.DataObject) -> None:
    origin = tuple(data.draw(st.integers(0, n - 1)) for n in layout.shape)
    sizes = tuple(data.draw(st.integers(1, n - o)) for n, o in zip(layout.shape, origin))
    region = layout.offsets()[tuple(slice(o, o + e) for o, e in zip(origin, sizes))].reshape(-1)
    in_order = region.tolist() == [region[0] + k * layout.itemsize for k in range(region.size)]
    assert layout.is_contiguous(origin, sizes) == in_order
    covered = {b for offset in region.tolist() for b in range(offset, offset + layout.itemsize)}
    filled = max(covered) - min(covered) + 1 == len(covered)
    assert layout.byte_range(origin, sizes) == ((min(covered), len(covered)) if filled else None)


def test_contiguity_of_typical_views() -> None:
    plain = SharedLayout((4, 64, 32), 4)
    assert plain.is_row_major
    assert plain.is_contiguous((1, 0, 0), (2, 64, 32))
    assert plain.is_contiguous((1, 8, 0), (1, 16, 32))
    assert not plain.is_contiguous((0, 0, 0), (1, 2, 16))
    swizzled = SharedLayout((4, 64, 64), 2, swizzle=128)
    assert not swizzled.is_row_major
    assert not swizzled.is_contiguous((1, 0, 0), (1, 64, 64))
    assert swizzled.byte_range((1, 0, 0), (1, 64, 64)) == (8192, 8192)
    with pytest.raises(ValueError, match="outside a tile"):
        plain.is_contiguous((0, 60, 0), (1, 8, 32))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (), "itemsize": 4}, "rank of at least 1"),
        ({"shape": (4, 0), "itemsize": 4}, "positive extents"),
        ({"shape": (4,), "itemsize": 3}, "1, 2, 4, 8 or 16 bytes"),
        ({"shape": (4,), "itemsize": 4, "swizzle": 16}, "0, 32, 64 and 128"),
        ({"shape": (4, 4), "itemsize": 4, "pitch": 12}, "does not hold 4 elements"),
        ({"shape": (4, 4), "itemsize": 4, "align": 48}, "power of two"),
    ],
)
def test_wrong_layouts_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SharedLayout(**arguments)


def test_print_draws_the_offsets() -> None:
    assert str(SharedLayout((2, 2, 4), 4)).splitlines() == [
        "shared layout of 2 x 2 x 4 x 4 bytes, 64 bytes, byte offsets",
        "[0]",
        "  |  0   1   2   3",
        "--+---------------",
        "0 |  0   4   8  12",
        "1 | 16  20  24  28",
        "[1]",
        "  |  0   1   2   3",
        "--+---------------",
        "0 | 32  36  40  44",
        "1 | 48  52  56  60",
    ]
    assert "... and 5 more" in str(SharedLayout((9, 2, 2), 4))
