"""Where elements lie in tensor memory, against the hardware's tables written out here element by element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.ir.tensor_memory import stage_columns
from phalanx.ir.uses import Use
from phalanx.layouts.tensor_memory import (
    TensorLayout,
    accumulator,
    address,
    form_of,
    scales,
    tensor_operand,
)

COLUMNS_OF_8 = st.integers(1, 32).map(lambda n: 8 * n)


def grid(layout: TensorLayout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return layout.place(np.ix_(*(np.arange(extent) for extent in layout.shape)))


def table_d(r: int, c: int, n: int) -> tuple[int, int]:
    return r, c


def table_f(r: int, c: int, n: int) -> tuple[int, int]:
    return 32 * (r // 16) + r % 16, c


def table_b(r: int, c: int, n: int) -> tuple[int, int]:
    return r + 64 * (c // (n // 2)), c % (n // 2)


@pytest.mark.parametrize("n", [8, 24, 64, 136, 256])
@pytest.mark.parametrize(
    ("rows", "two_cta", "form", "table"),
    [(128, False, "D", table_d), (128, True, "A", table_d), (64, False, "F", table_f), (64, True, "B", table_b)],
)
def test_accumulators(rows: int, two_cta: bool, form: str, table, n: int) -> None:
    assert form_of(rows, two_cta) == form
    layout = accumulator((rows, n), two_cta)
    lane, column, bit = grid(layout)
    for r in range(rows):
        for c in range(n):
            assert (lane[r, c], column[r, c], bit[r, c]) == (*table(r, c, n), 0)
    assert layout.columns == (n // 2 if form == "B" else n)
    assert layout.bits == 32 and layout.copies == (0,)


@pytest.mark.parametrize("bits", [32, 16, 8, 4])
@pytest.mark.parametrize(("rows", "two_cta"), [(128, False), (128, True), (64, False), (64, True)])
def test_operands_are_packed_along_k(bits: int, rows: int, two_cta: bool) -> None:
    k = 96
    layout = tensor_operand((rows, k), bits, two_cta)
    lane, column, bit = grid(layout)
    in_cell = {32: 1, 16: 2, 8: 4, 4: 8}[bits]
    for r in range(rows):
        for c in range(k):
            # 64 rows of a pair: in both halves of the lanes, where the accumulator has its two halves of the columns
            expected = table_f(r, c, k)[0] if rows == 64 and not two_cta else r
            assert (lane[r, c], column[r, c], bit[r, c]) == (expected, c // in_cell, c % in_cell * bits)
    assert layout.columns == k // in_cell
    assert layout.copies == ((0, 64) if (rows, two_cta) == (64, True) else (0,))


def test_scales_of_one_block() -> None:
    layout = scales((128, 4))
    lane, column, bit = grid(layout)
    for r in range(128):
        for k in range(4):
            assert (lane[r, k], column[r, k], bit[r, k]) == (r % 32, r // 32, 8 * k)
    assert layout.columns == 4
    assert layout.copies == (0, 32, 64, 96)


@pytest.mark.parametrize(("rows", "count"), [(256, 8), (384, 12), (128, 6), (200, 4), (64, 2)])
def test_blocks_of_scales_follow_each_other_along_the_rows_first(rows: int, count: int) -> None:
    layout = scales((rows, count))
    blocks = -(-rows // 128)
    lane, column, bit = grid(layout)
    for r in range(rows):
        for k in range(count):
            block = k // 4 * blocks + r // 128
            assert (lane[r, k], column[r, k], bit[r, k]) == (r % 32, 4 * block + r % 128 // 32, k % 4 * 8)
    assert layout.columns == 4 * blocks * -(-count // 4)
    if rows > 128:
        assert layout.address((128, 0)) == 4  # what an instruction with more than 128 columns reads next
    if count > 4:
        assert layout.address((0, 4)) == 4 * blocks


LAYOUTS = st.one_of(
    st.builds(accumulator, st.tuples(st.sampled_from([32, 64, 96, 128, 256]), COLUMNS_OF_8)),
    st.builds(accumulator, st.tuples(st.sampled_from([64, 128]), COLUMNS_OF_8), st.just(True)),
    st.builds(accumulator, st.tuples(st.integers(1, 3), st.sampled_from([64, 128]), COLUMNS_OF_8), st.booleans()),
    st.builds(
        tensor_operand, st.tuples(st.sampled_from([64, 128]), COLUMNS_OF_8), st.sampled_from([4, 8, 16, 32]), st.booleans()
    ),
    st.builds(scales, st.tuples(st.integers(1, 400), st.integers(1, 16))),
)


@given(LAYOUTS)
def test_no_two_elements_share_a_place_and_the_columns_are_counted(layout: TensorLayout) -> None:
    lane, column, bit = (array.reshape(-1) for array in grid(layout))
    places = (lane * 4096 + column) * 32 + bit
    assert len(np.unique(places)) == len(places)
    assert lane.min() >= 0 and column.min() >= 0
    assert (lane + max(layout.copies)).max() < 128
    assert (bit % layout.bits == 0).all() and bit.max() + layout.bits <= 32
    assert column.max() < layout.columns
    # copies never lie on another element's cells
    cells = np.unique(lane * 4096 + column)
    everywhere = np.concatenate([cells + copy * 4096 for copy in layout.copies])
    assert len(np.unique(everywhere)) == len(everywhere)
    # all columns are used: those of a block of scales by its rows, where there are as many
    if "scales" not in layout.name:
        assert len(np.unique(column)) == layout.columns


@given(LAYOUTS, st.data())
def test_a_part_is_where_the_whole_has_it(layout: TensorLayout, data: st.DataObject) -> None:
    origin = [data.draw(st.integers(0, extent - 1)) for extent in layout.leading]
    rows = data.draw(st.integers(0, (layout.rows - 1) // layout.row_unit)) * layout.row_unit
    columns = data.draw(st.integers(0, (layout.width - 1) // layout.per_cell)) * layout.per_cell
    shape = (data.draw(st.integers(1, layout.rows - rows)), data.draw(st.integers(1, layout.width - columns)))
    origin += [rows, columns]
    try:
        part = layout.part(origin, shape)
    except ValueError as problem:
        assert any(word in str(problem) for word in ("side by side", "upper half"))
        return
    begin = layout.address(origin)
    lane, column, bit = grid(part)
    index = [np.full(shape, i) for i in origin[:-2]]
    index += [np.arange(shape[0])[:, None] + rows, np.arange(shape[1])[None, :] + columns]
    whole = layout.place(index)
    assert (lane + (begin >> 16) == whole[0]).all()
    assert (column + (begin & 0xFFFF) == whole[1]).all()
    assert (bit == whole[2]).all()


def test_addresses() -> None:
    ring = accumulator((2, 128, 96))
    assert ring.columns == 192
    assert ring.address((1, 64, 8)) == 64 << 16 | 104 == address(64, 104)
    assert ring.sub_layout() == accumulator((128, 96))
    assert ring.address_expression(["stage", "32", "8 * i"]) == "stage * 96 + (8 * i) + 2097152"
    assert ring.address_expression(["1", "0", "0"]) == "96"
    assert ring.address_expression(["0", "0", "0"]) == "0"
    assert tensor_operand((128, 64), 16).address_expression(["0", "k"]) == "k / 2"
    assert scales((256, 8)).address_expression(["128", "k"], divide="//") == "k // 4 * 8 + 4"
    text = ring.address_expression(["i", "32", "c"])
    assert eval(text, {"i": 1, "c": 5}) == ring.address((1, 32, 5))
    text = scales((384, 12)).address_expression(["128", "k + 4"], divide="//")
    assert eval(text, {"k": 4}) == scales((384, 12)).address((128, 8))


def test_what_is_the_same() -> None:
    assert accumulator((128, 64)) == accumulator((128, 64), two_cta=True)  # D and A
    assert accumulator((128, 64)) == tensor_operand((128, 64), 32)  # tf32
    assert accumulator((64, 64)) != accumulator((64, 64), two_cta=True)
    assert accumulator((128, 64)) != tensor_operand((128, 64), 16)
    assert accumulator((256, 64)).part((128, 0), (128, 64)) == accumulator((128, 64))
    assert scales((256, 8)).part((128, 4), (128, 4)) == scales((128, 4))


def test_objections() -> None:
    layout = accumulator((128, 64))
    with pytest.raises(ValueError, match="multiples of 32, not from 16 on"):
        layout.address((16, 0))
    with pytest.raises(ValueError, match="has 2 elements: a slice can't begin at column 3"):
        tensor_operand((128, 64), 16).address((0, 3))
    with pytest.raises(ValueError, match="multiples of 128, not from 32 on"):
        scales((256, 4)).address((32, 0))
    with pytest.raises(ValueError, match="lie partly in the upper half"):
        accumulator((64, 64), two_cta=True).part((0, 16), (64, 32))
    with pytest.raises(ValueError, match="leaves the tile"):
        layout.part((32, 0), (128, 64))
    with pytest.raises(ValueError, match="go over the 128 that lie side by side"):
        accumulator((256, 64)).part((64, 0), (128, 64))
    with pytest.raises(ValueError, match="a multiple of 128, not 192"):
        accumulator((192, 64))
    with pytest.raises(ValueError, match="sliced by constants, not by i"):
        layout.address_expression(["i", "0"])
    with pytest.raises(ValueError, match="4, 8, 16 or 32 bits, not 6"):
        tensor_operand((128, 64), 6)


@pytest.mark.parametrize("n", [8, 24, 64, 256])
def test_the_plan_of_columns_counts_the_same(n: int) -> None:
    """`ir/tensor_memory.py` counts columns before there is a layout."""
    for rows in (64, 128):
        assert stage_columns(rows, n, 32, Use.ACCUMULATOR) == accumulator((rows, n)).columns
        assert stage_columns(rows, n, 16, Use.ACCUMULATOR) == accumulator((rows, n)).columns
        for bits in (4, 8, 16, 32):
            assert stage_columns(rows, n, bits, Use.OPERAND) == tensor_operand((rows, n), bits).columns
    assert stage_columns(64, n, 32, Use.ACCUMULATOR, folded=True) == accumulator((64, n), two_cta=True).columns
    for count in (1, 4, 6, 8):
        assert stage_columns(n, count, 8, Use.SCALE) == scales((n, count)).columns
