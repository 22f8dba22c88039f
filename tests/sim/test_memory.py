"""Loads, stores and atomics of global and shared memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.errors import Error
from phalanx.ir import types as ty
from phalanx.ir.ops import memory
from phalanx.ir.types import ScalarType, TileType
from phalanx.ir.values import Value
from phalanx.ir.views import GlobalView
from phalanx.sim.run import simulate
from sim.build import Build, at, const, ref, sh


@settings(max_examples=100, deadline=None)
@given(st.integers(-9, 14), st.integers(-9, 14))
def test_boxes_are_masked_at_every_edge(row, column):
    x = np.arange(10 * 12, dtype=np.float32).reshape(10, 12)
    b = Build()
    src, dst, back = b.array(2), b.array(2), b.array(2)
    r, c = b.scalar(ty.i32), b.scalar(ty.i32)
    tile = b.load(at(src, (r, 8), (c, 6)), fill=-5)
    b.store(at(dst, (0, 8), (0, 6)), tile)
    b.store(at(back, (r, 8), (c, 6)), tile)
    got, copied = np.zeros((8, 6), np.float32), np.zeros((10, 12), np.float32)
    simulate(b.done(), 1, [x, got, copied, row, column])
    padded = np.full((40, 40), -5, np.float32)
    padded[15:25, 15:27] = x
    assert np.array_equal(got, padded[15 + row : 23 + row, 15 + column : 21 + column])
    inside = np.zeros((10, 12), bool)
    inside[max(row, 0) : max(row + 8, 0), max(column, 0) : max(column + 6, 0)] = True
    assert np.array_equal(copied, np.where(inside, x, 0))


def test_integer_index_drops_its_axis_and_strided_arrays_work():
    x = np.arange(4 * 6 * 8, dtype=np.float32).reshape(4, 6, 8)
    strided = x[:, ::2, ::-1]
    b = Build()
    src, dst = b.array(3), b.array(2)
    b.store(at(dst, (0, 2), (0, 4)), b.load(at(src, (1, 2), 2, (3, 4))))
    got = np.zeros((2, 4), np.float32)
    simulate(b.done(), 1, [strided, got])
    assert np.array_equal(got, strided[1:3, 2, 3:7])


def test_a_dropped_axis_outside_the_array_loads_fill():
    b = Build()
    src, dst, row = b.array(2), b.array(1), b.scalar(ty.i32)
    b.store(at(dst, (0, 3)), b.load(at(src, row, (0, 3)), fill=9))
    b.store(at(src, row, (0, 3)), const(1.0))
    for where in (-1, 2):
        x, got = np.zeros((2, 3), np.float32), np.zeros(3, np.float32)
        simulate(b.done(), 1, [x, got, where])
        assert (got == 9).all() and (x == 0).all()


def test_transposed_views():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    b = Build()
    src, dst = b.array(2), b.array(2)
    turned = GlobalView(src, (const(0), const(1)), (3, 4), (1, 0))
    b.store(at(dst, (0, 4), (0, 3)), b.load(turned, fill=-1))
    got = np.zeros((4, 3), np.float32)
    simulate(b.done(), 1, [x, got])
    expected = np.full((4, 3), -1, np.float32)
    expected[:3] = x.T[1:]
    assert np.array_equal(got, expected)


def test_scalar_loads_are_numbers():
    b = Build()
    src, dst = b.array(1, ty.i32), b.array(1, ty.i32)
    first = b.load(at(src, 0))
    beyond = b.load(at(src, 5), fill=-3)
    b.store(at(dst, first), beyond)
    got = np.zeros(4, np.int32)
    simulate(b.done(), 1, [np.array([2, 0], np.int32), got])
    assert got.tolist() == [0, 0, -3, 0]


def rows_kernel(columns: tuple[int, int]):
    b = Build()
    src, index, dst, back = b.array(2), b.array(1, ty.i32), b.array(2), b.array(2)
    rows = b.load(at(index, (0, 4)))
    view = GlobalView(src, (rows, const(columns[0])), (4, columns[1]), (0, 1))
    tile = b.load(view, fill=-1)
    b.store(at(dst, (0, 4), (0, columns[1])), tile)
    b.store(GlobalView(back, view.offsets, view.extents, view.kept), tile)
    return b.done()


@pytest.mark.parametrize("columns", [(0, 5), (2, 5), (-2, 5), (7, 2)])
def test_rows_by_index(columns):
    x = np.arange(30, dtype=np.float32).reshape(6, 5)
    index = np.array([4, -1, 0, 6], np.int32)
    got, back = np.zeros((4, columns[1]), np.float32), np.zeros((6, 5), np.float32)
    simulate(rows_kernel(columns), 1, [x, index, got, back])
    padded = np.full((6, 20), -1, np.float32)
    padded[:, 5:10] = x
    expected = np.full((4, columns[1]), -1, np.float32)
    for i, row in enumerate(index):
        if 0 <= row < 6:
            expected[i] = padded[row, 5 + columns[0] : 5 + columns[0] + columns[1]]
    assert np.array_equal(got, expected)
    low, high = max(columns[0], 0), max(min(columns[0] + columns[1], 5), 0)
    stored = np.zeros_like(back)
    stored[[0, 4], low:high] = x[[0, 4], low:high]
    assert np.array_equal(back, stored)


def test_atomic_add_returns_the_old_values_and_respects_the_edge():
    b = Build()
    x, old = b.array(1, ty.i32), b.array(1, ty.i32)
    before = b.add(memory.AtomicAdd(at(x, (2, 4)), b.load(at(x, (0, 4))), Value(TileType((4,), ty.i32)), loc=b.here()))
    b.store(at(old, (0, 4)), before)
    data, got = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    simulate(b.done(), 1, [data, got])
    assert data.tolist() == [0, 1, 2 + 0, 3 + 1]
    assert got.tolist() == [2, 3, 0, 0]


def test_atomic_add_of_a_scalar_counts_every_block():
    b = Build()
    counter, order = b.array(1, ty.i32), b.array(1, ty.i32)
    ticket = b.add(memory.AtomicAdd(at(counter, 0), const(1), Value(ScalarType(ty.i32)), loc=b.here()))
    b.store(at(order, ticket), b.block_id())
    count, got = np.zeros(1, np.int32), np.full(7, -1, np.int32)
    simulate(b.done(), 7, [count, got])
    assert count[0] == 7 and sorted(got) == list(range(7))


def test_atomic_add_by_rows_folds_a_row_named_twice():
    b = Build()
    x, index = b.array(2, ty.bf16), b.array(1, ty.i32)
    rows = b.load(at(index, (0, 3)))
    ones = b.load(at(x, (0, 3), (0, 2)))
    b.add(memory.AtomicAdd(GlobalView(x, (rows, const(0)), (3, 2), (0, 1)), ones, None, loc=b.here()))
    data = np.ones((4, 2), ml_dtypes.bfloat16)
    simulate(b.done(), 1, [data, np.array([1, 1, 9], np.int32)])
    assert data.astype(np.float32).tolist() == [[1, 1], [3, 3], [1, 1], [1, 1]]


FOLDS = {
    memory.AtomicMax: ([5, -1, 3, np.nan, np.nan], [2, -3, 8, 1, np.nan], [5, -1, 8, np.nan, np.nan]),
    memory.AtomicMin: ([5, -1, 3, np.nan, 0], [2, -3, 8, 1, np.nan], [2, -3, 3, np.nan, np.nan]),
    memory.AtomicExch: ([5, -1, 3, 0, 0], [2, -3, 8, 1, 7], [2, -3, 8, 1, 7]),
}


@pytest.mark.parametrize("op", FOLDS, ids=lambda op: op.mnemonic)
@pytest.mark.parametrize("dtype", [ty.f32, ty.f64, ty.f16, ty.bf16], ids=str)
def test_an_update_returns_the_old_values(op, dtype):
    """A NaN wins over every number, whichever of the two it is."""
    b = Build()
    x, y, old = b.array(1, dtype), b.array(1, dtype), b.array(1, dtype)
    before = b.add(op(at(x, (0, 5)), b.load(at(y, (0, 5))), Value(TileType((5,), dtype)), loc=b.here()))
    b.store(at(old, (0, 5)), before)
    data, new, expected = (np.array(numbers, dtype.numpy) for numbers in FOLDS[op])
    got, start = np.zeros(5, dtype.numpy), data.copy()
    simulate(b.done(), 1, [data, new, got])
    assert np.array_equal(data.astype(float), expected.astype(float), equal_nan=True)
    assert np.array_equal(got.astype(float), start.astype(float), equal_nan=True)


def test_compare_and_swap_replaces_what_is_equal_and_inside():
    b = Build()
    x, y, old = b.array(1, ty.i32), b.array(1, ty.i32), b.array(1, ty.i32)
    new, expected = b.load(at(y, (0, 4))), b.load(at(y, (4, 4)))
    swap = memory.AtomicCas(at(x, (1, 4)), new, Value(TileType((4,), ty.i32)), expected, loc=b.here())
    b.store(at(old, (0, 4)), b.add(swap))
    data, got = np.array([9, 1, 2, 3], np.int32), np.full(4, -1, np.int32)
    simulate(b.done(), 1, [data, np.array([10, 20, 30, 40, 1, 5, 3, 0], np.int32), got])
    assert data.tolist() == [9, 10, 2, 30] and got.tolist() == [1, 2, 3, 0]


def test_compare_and_swap_of_a_scalar_is_won_by_one_block():
    b = Build()
    lock, winners = b.array(1, ty.i32), b.array(1, ty.i32)
    before = b.add(memory.AtomicCas(at(lock, 0), const(1), Value(ScalarType(ty.i32)), const(0), loc=b.here()))
    b.store(at(winners, b.block_id()), before)
    taken, got = np.zeros(1, np.int32), np.full(5, -1, np.int32)
    simulate(b.done(), 5, [taken, got])
    assert taken[0] == 1 and sorted(got) == [0, 1, 1, 1, 1]


def test_shared_memory_starts_poisoned():
    for dtype in (ty.f32, ty.f16, ty.bf16, ty.f8e4m3, ty.f8e5m2):
        b = Build()
        out = b.array(1)
        s = b.shared((4,), dtype)
        b.store(at(out, (0, 4)), b.cast(b.load(sh(s)), ty.f32))
        got = np.zeros(4, np.float32)
        simulate(b.done(), 2, [got])
        assert np.isnan(got).all()


def test_the_next_cta_starts_poisoned_too():
    b = Build()
    out = b.array(2)
    s = b.shared((4,))
    b.store(at(out, b.block_id(), (0, 4)), b.load(sh(s)))
    b.store(sh(s), const(1.0))
    got = np.zeros((3, 4), np.float32)
    simulate(b.done(), 3, [got])
    assert np.isnan(got).all()


def test_shared_views_slices_stages_and_transposes():
    b = Build()
    x, out = b.array(2), b.array(2)
    stage, column = b.scalar(ty.i32), b.scalar(ty.i32)
    s = b.shared((3, 4, 6))
    b.store(sh(s, stage), b.load(at(x, (0, 4), (0, 6))))
    b.store(at(out, (0, 2), (0, 4)), b.load(sh(s, stage, (0, 4), (column, 2), kept=(2, 1))))
    data, got = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros((2, 4), np.float32)
    simulate(b.done(), 1, [data, got, 2, 3])
    assert np.array_equal(got, data[:, 3:5].T)


@pytest.mark.parametrize(("stage", "column", "message"), [
    (3, 0, "index 3 is outside axis 0 of s, whose size is 3"),
    (-1, 0, "index -1 is outside axis 0 of s, whose size is 3"),
    (0, 5, "5:7 is outside axis 2 of s, whose size is 6"),
    (0, -1, "-1:1 is outside axis 2 of s, whose size is 6"),
])
def test_shared_views_stay_inside(stage, column, message):
    b = Build()
    i, j = b.scalar(ty.i32), b.scalar(ty.i32)
    s = b.shared((3, 4, 6))
    b.store(sh(s, i), const(0.0))
    b.load(sh(s, 0, (0, 4), (j, 2)))
    with pytest.raises(Error) as error:
        simulate(b.done(), 1, [stage, column])
    assert error.value.message == message and error.value.kind == "out-of-bounds"
    assert error.value.location.line == (1 if stage else 2)


def test_a_constant_index_outside_fails_only_where_it_runs():
    b = Build()
    never = b.scalar(ty.bool_)
    s = b.shared((3, 4))
    bar = b.barrier(2)
    with b.if_(never):
        b.store(sh(s, 7), const(0.0))
        b.arrive(ref(bar, 2))
    simulate(b.done(), 1, [False])
    with pytest.raises(Error, match="index 7 is outside axis 0"):
        simulate(b.done(), 1, [True])


def test_reuse_shares_bytes():
    b = Build()
    out = b.array(1, ty.i32)
    s = b.shared((4,), ty.f32, "first")
    again = b.shared((6,), ty.i32, "second", reuse=s)
    other = b.shared((4,), ty.i32, "third")
    b.store(sh(other), const(7, ty.i32))
    b.store(sh(s), const(1.0))
    b.store(at(out, (0, 6)), b.load(sh(again)))
    b.store(at(out, (6, 4)), b.load(sh(other)))
    got = np.zeros(10, np.int32)
    simulate(b.done(), 1, [got])
    assert got.tolist() == [0x3F800000] * 4 + [-1, -1, 7, 7, 7, 7]


def test_extent():
    b = Build()
    x, out = b.array(2), b.array(1, ty.i32)
    for axis in range(2):
        b.store(at(out, axis), b.add(memory.Extent(x, axis, Value(ty.I32))))
    got = np.zeros(2, np.int32)
    simulate(b.done(), 1, [np.zeros((3, 5), np.float32), got])
    assert got.tolist() == [3, 5]


def test_arguments_are_checked():
    b = Build()
    x = b.array(2, name="X")
    b.store(at(x, 0, 0), const(1.0))
    function = b.done()
    with pytest.raises(Error, match="takes 1 arguments, not 0"):
        simulate(function, 1, [])
    with pytest.raises(Error, match=r"X is to be a global f32\[\?, \?\], not a float64 array of rank 1"):
        simulate(function, 1, [np.zeros(3)])
    frozen = np.zeros((2, 2), np.float32)
    frozen.setflags(write=False)
    with pytest.raises(Error, match="X is written by the kernel, but is a read-only array"):
        simulate(function, 1, [frozen])
    with pytest.raises(Error, match="positive numbers"):
        simulate(function, (1, 0), [np.zeros((2, 2), np.float32)])
