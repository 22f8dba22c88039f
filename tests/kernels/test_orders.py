"""Tile orders: each visits every tile once, the same in kernels and outside; Hilbert's goes from neighbour to neighbour."""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phalanx as px
from phalanx.ir.types import I32, i32
from phalanx.kernels.products.orders import by_rows, grouped, hilbert
from support.cuda_text import compiles
from support.front import array

SIDES = st.integers(1, 48)


def visited(order, rows: int, columns: int, *more: int) -> list[tuple[int, int]]:
    return [order(t, rows, columns, *more) for t in range(rows * columns)]


def all_tiles(rows: int, columns: int) -> list[tuple[int, int]]:
    return [(row, column) for row in range(rows) for column in range(columns)]


@settings(max_examples=60, deadline=None)
@given(SIDES, SIDES)
def test_hilbert_visits_every_tile_once_and_steps_to_a_neighbour(rows: int, columns: int) -> None:
    path = visited(hilbert, rows, columns)
    assert sorted(path) == all_tiles(rows, columns)
    diagonal = 0
    for (a, b), (c, d) in pairwise(path):
        assert max(abs(a - c), abs(b - d)) == 1
        diagonal += abs(a - c) + abs(b - d) == 2
    assert diagonal <= 1, "at most one step across a corner"


@settings(max_examples=40, deadline=None)
@given(SIDES, SIDES, st.integers(0, 12))
def test_grouped_visits_every_tile_once(rows: int, columns: int, group: int) -> None:
    path = visited(grouped, rows, columns, group)
    assert sorted(path) == all_tiles(rows, columns)
    first = path[: group * columns]
    assert all(row < group for row, _ in first), "a band of rows before the next"
    assert sorted(visited(by_rows, rows, columns)) == all_tiles(rows, columns)


def test_a_wave_of_hilbert_is_compact() -> None:
    """What 128 CTAs work on at a time spans few rows and columns, wherever in the output they are."""
    path = visited(hilbert, 64, 64)
    spans = []
    for start in range(0, 64 * 64, 128):
        rows, columns = zip(*path[start : start + 128], strict=True)
        spans.append(len(set(rows)) + len(set(columns)))
    assert max(spans) <= 32, "row after row it would be 66"


@px.kernel(warps=1)
def walk(Rows, Columns, rows, columns, group, *, ORDER=0):
    t = px.block_id(0)
    i, j = 0, 0
    if ORDER == 0:
        i, j = by_rows(t, rows, columns)
    elif ORDER == 1:
        i, j = grouped(t, rows, columns, group)
    else:
        i, j = hilbert(t, rows, columns)
    px.store(Rows[t], i)
    px.store(Columns[t], j)


@pytest.mark.parametrize("rows, columns", [(1, 7), (5, 3), (12, 9), (8, 16)])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_kernels_see_the_same_order(order: int, rows: int, columns: int) -> None:
    total = rows * columns
    found = np.zeros(total, np.int32), np.zeros(total, np.int32)
    walk[total](*found, rows, columns, 4, ORDER=order)
    want = visited([by_rows, grouped, hilbert][order], rows, columns, *([4] if order == 1 else []))
    assert list(zip(*(x.tolist() for x in found), strict=True)) == want


@pytest.mark.long
def test_compiled_for_both_targets() -> None:
    types = (array(1, i32), array(1, i32), I32, I32, I32)
    assert compiles(walk, types, ORDER=2).registers <= 64


@px.kernel(warps=8)
def persistent(A, B, C, *, BM=64, BN=64, BK=64, STAGES=px.auto):
    """The order in both roles of a persistent kernel: the same tiles in the same order."""
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    steps = px.cdiv(A.shape[1], BK)
    rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
    ring = px.ring(STAGES)
    with px.warps(0, 4, regs=40):
        for tile in range(px.block_id(0), rows * columns, px.num_blocks(0)):
            i, j = hilbert(tile, rows, columns)
            for k in range(steps):
                empty[ring.stage].wait(ring.parity ^ 1)
                with full[ring.stage].transaction():
                    px.tma.load(A[i * BM : i * BM + BM, k * BK : k * BK + BK], a[ring.stage], full[ring.stage])
                    px.tma.load(B[j * BN : j * BN + BN, k * BK : k * BK + BK], b[ring.stage], full[ring.stage])
                ring.advance()
    with px.warps(4, 4, regs=232):
        for tile in range(px.block_id(0), rows * columns, px.num_blocks(0)):
            i, j = hilbert(tile, rows, columns)
            acc = px.empty((BM, BN), px.f32)
            for k in range(steps):
                full[ring.stage].wait(ring.parity)
                px.wgmma(a[ring.stage], b[ring.stage].T, acc, accumulate=k > 0)
                px.wgmma_commit()
                px.wgmma_wait(0)
                empty[ring.stage].arrive()
                ring.advance()
            px.store(C[i * BM : i * BM + BM, j * BN : j * BN + BN], acc)


@pytest.mark.long
def test_a_persistent_product_in_hilbert_order() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((extent, 128), np.float32).astype(ml_dtypes.bfloat16) for extent in (192, 320))
    c = np.zeros((192, 320), np.float32)
    persistent[2](a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-4, atol=1e-3)
    assert px.check(persistent[2], a, b, c, schedules=1).ok
    made = px.compile(persistent[2], a, b, c)
    assert made.spills == 0 and "wgmma.mma_async" in made.ptx
