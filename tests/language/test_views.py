# ruff: noqa: F841
"""Slices and extents, tiles of arrays, elements, index tiles, shared buffers and their views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.types import ArrayType, ScalarType, f32, i32
from phalanx.ir.views import GlobalView
from phalanx.language.reader.reading import read_kernel


def view_of(kernel: Any, *types: Any, **constants: Any) -> Any:
    """The region of the first load or store of a kernel."""
    function = read_kernel(kernel, types, kernel.bind_constants(constants)).function
    return next(op.view for op in function.walk() if op.mnemonic in ("load", "store"))  # type: ignore[attr-defined]


ARRAY, SCALAR = ArrayType(2, f32), ScalarType(i32)


def test_extents_are_stop_minus_start() -> None:
    @px.kernel
    def region(X, n, *, BM=16, BN=8):
        m = px.block_id(0) * BM
        k = (n + 3) * 4 - n
        x = px.load(X[m + 2 * k - 5 : m - 5 + 2 * k + BM, (m + k) // 2 : BN + (m + k) // 2])
        px.store(X[0:BM, 0:BN], x)

    view = view_of(region, ARRAY, SCALAR)
    assert view.shape == (16, 8) and view.extents == (16, 8)


def test_extents_through_loops_functions_and_wider_integers() -> None:
    @px.func
    def start(t, BN):
        return t * BN

    @px.kernel
    def region(X, n, *, BN=8):
        for t in range(n):
            j = start(t, BN).to(px.i64)
            px.store(X[t, j : j + BN], px.load(X[t, start(t, BN) : BN * (t + 1)]))

    assert view_of(region, ARRAY, SCALAR).shape == (8,)


def test_integers_drop_their_axis() -> None:
    @px.kernel
    def region(X, n):
        px.store(X[n, 0:4], px.zeros((4,), px.f32))

    view = view_of(region, ARRAY, SCALAR)
    assert view.shape == (4,) and view.extents == (1, 4) and view.kept == (1,)


def test_tile_is_a_slice() -> None:
    @px.kernel
    def region(X, n):
        px.store(X.tile((n, 2 * n), (4, 8)), 0.0)

    view = view_of(region, ARRAY, SCALAR)
    assert isinstance(view, GlobalView) and view.shape == (4, 8)


def test_edges_load_fill_and_are_not_stored() -> None:
    @px.kernel(warps=1)
    def window(X, Y, start, *, B=8):
        px.store(Y[0:B], px.load(X[start : start + B], fill=-1))
        px.store(X[start : start + B], px.full((B,), 9, px.i32))

    for start in (-3, 0, 2, 7, 40):
        x, y = np.arange(6, dtype=np.int32), np.zeros(8, np.int32)
        window[1](x, y, start)
        inside = [0 <= k < 6 for k in range(start, start + 8)]
        assert y.tolist() == [k if ok else -1 for k, ok in zip(range(start, start + 8), inside)]
        assert x.tolist() == [9 if start <= k < start + 8 else k for k in range(6)]


def test_elements_are_scalars() -> None:
    @px.kernel
    def pick(X, OUT, n):
        x = X[n, 1]
        if X[0, 0] > 0 and x < 10:
            px.store(OUT[0], x + X[n, n] * 2)
        px.store(OUT[1], X[-1, 0])
        px.store(OUT[2], X[1, X[0, 1]])
        px.store(OUT[3], X.shape[0] * 100 + X.shape[1])

    x = np.array([[5, 1, 2], [3, 4, 7]], np.int32)
    out = np.full(4, -9, np.int32)
    pick[1](x, out, 1)
    assert out.tolist() == [4 + 8, 0, 4, 203]


def test_arrays_of_rank_0() -> None:
    @px.kernel
    def double(X, Y):
        px.store(Y[()], X[()] * 2)

    x, y = np.array(21, np.int32), np.array(0, np.int32)
    double[1](x, y)
    assert y == 42


def test_rows_by_an_index_tile() -> None:
    @px.kernel(warps=1)
    def gather(X, ROWS, Y, *, B=4):
        rows = px.load(ROWS[0:B])
        px.store(Y[0:B, 0:8], px.load(X[rows, 0:8], fill=-1))
        px.store(X[px.arange(2) * 2, 0:8], px.zeros((2, 8), px.i32))

    x = np.arange(40, dtype=np.int32).reshape(5, 8)
    before = x.copy()
    y = np.zeros((4, 8), np.int32)
    gather[1](x, np.array([3, 0, 9, 3], np.int32), y)
    np.testing.assert_array_equal(y, np.stack([before[3], before[0], np.full(8, -1), before[3]]))
    before[[0, 2]] = 0
    np.testing.assert_array_equal(x, before)


def test_shared_views() -> None:
    @px.kernel(warps=1)
    def views(X, Y, n):
        s = px.shared((2, 4, 8), px.i32)
        px.store(s[0], px.load(X[0:4, 0:8]))
        px.store(s[n], px.load(X[0:4, 0:8]) * 10)
        px.sync()
        px.store(Y[0:8, 0:4], px.load(s[0].T))
        px.store(Y[8:10, 0:4], px.load(s[n][1:3, 4:8]))
        px.store(Y[10, 0:4], px.load(s[n, 2][0:4]))
        px.store(Y[11, 0], s[0][1][2] + s[n, 3, 7])
        px.store(Y[11, 1], s.nbytes + s[0].nbytes + s[0, 1, 2:4].nbytes)
        px.store(Y[11, 2], s.shape[1] * 100 + s[0].T.shape[0] * 10 + s[0, 0].shape[0])
        px.store(Y[11, 3], s.dtype.itemsize)
        px.store(Y[12, 0:2], px.load(s[0][1:3].T[6]))
        px.store(Y[12, 2:4], px.load(s[0][:, 5][2:]))

    x = np.arange(32, dtype=np.int32).reshape(4, 8)
    y = np.zeros((13, 4), np.int32)
    views[1](x, y, 1)
    np.testing.assert_array_equal(y[:8], x.T)
    np.testing.assert_array_equal(y[8:10], 10 * x[1:3, 4:8])
    np.testing.assert_array_equal(y[10], 10 * x[2, :4])
    assert y[11].tolist() == [x[1, 2] + 10 * x[3, 7], 256 + 128 + 8, 400 + 80 + 8, 4]
    assert y[12].tolist() == [x[1, 6], x[2, 6], x[2, 5], x[3, 5]]


def test_shared_memory_of_a_peer() -> None:
    @px.kernel(warps=1, cluster=2)
    def swap(Y):
        rank = px.cluster.rank()
        s = px.shared((2, 4), px.i32)
        px.store(s[1].at(rank ^ 1), px.arange(4) + 100 * rank)
        px.store(s.at(rank ^ 1)[0, 0:2], px.arange(2) + 7 * rank)
        px.cluster.sync()
        px.store(Y[rank, 0:4], px.load(s[1]))
        px.store(Y[rank, 4:6], px.load(s[0, 0:2]))

    y = np.zeros((2, 6), np.int32)
    swap[2](y)
    assert y.tolist() == [[100, 101, 102, 103, 7, 8], [0, 1, 2, 3, 0, 1]]


def test_views_are_values() -> None:
    @px.func
    def move(src, dst, scale=1):
        px.store(dst, px.load(src) * scale)

    @px.kernel(warps=1)
    def copy(X, Y, n):
        for k in range(n):
            src = X[4 * k : 4 * k + 4]
            move(src, Y[4 * k : 4 * k + 4], scale=k + 1)
        if n > 2:
            view = Y[0:4]
        else:
            view = Y[4:8]
        px.store(view, 0)

    for n in (2, 3):
        x, y = np.arange(12, dtype=np.int32), np.full(12, -1, np.int32)
        copy[1](x, y, n)
        want = np.full(12, -1)
        for k in range(n):
            want[4 * k : 4 * k + 4] = x[4 * k : 4 * k + 4] * (k + 1)
        want[slice(0, 4) if n > 2 else slice(4, 8)] = 0
        assert y.tolist() == want.tolist()


@pytest.mark.parametrize("value", [0, 5, 2.5, True])
def test_scalars_are_spread_by_store(value: Any) -> None:
    @px.kernel(warps=1)
    def fill(Y, *, V):
        px.store(Y[0:4], V)

    y = np.zeros(4, np.float32)
    fill[1](y, V=value)
    assert y.tolist() == [float(value)] * 4


def test_reuse_shares_memory() -> None:
    @px.kernel
    def twice(X):
        a = px.shared((64,), px.f32)
        px.store(a, px.load(X[0:64]))
        px.sync()
        b = px.shared((16,), px.f32, reuse=a)
        px.store(b, px.zeros((16,)))
        px.sync()
        px.store(X[0:16], px.load(b))

    function = read_kernel(twice, (ArrayType(1, f32),), {}).function
    assert [b.name for b in function.buffers] == ["a", "b"] and function.buffers[1].reuse is function.buffers[0]


def test_buffers_and_barriers_are_named_after_their_variables() -> None:
    @px.kernel
    def names(X):
        a, b = px.shared((4,), px.f32), px.shared((4,), px.f32)
        for _ in px.static_range(2):
            stage = px.shared((4,), px.f32)
        full, empty = px.barrier(2), px.barrier(2, count=1)
        px.store(a, 0)

    function = read_kernel(names, (ArrayType(1, f32),), {}).function
    assert [b.name for b in function.buffers] == ["a", "b", "stage", "stage_1"]
    assert [b.name for b in function.barriers] == ["full", "empty"]
