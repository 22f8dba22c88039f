"""Tiles of ragged groups of rows: each tile is of one group, every row is in one tile, and the loop is like any other."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from support.host_build import COMPILER, MISSING
from support.host_cuda import run_on_host


@px.kernel(warps=1)
def seen(STARTS, OUT, columns, *, BM=8, ALONE=False, SCHEDULE=None):
    """How often each row is seen in each column, by tiles of which group, and by how many rows besides."""
    tiles = px.persistent(None if ALONE else columns, SCHEDULE, groups=STARTS, tile=BM)
    for t, g in tiles:
        px.atomic_add(OUT[0, g.column, g.rows], px.full((BM,), 1, px.i32))
        px.atomic_add(OUT[1, g.column, g.rows], px.full((BM,), g.index, px.i32))
        px.atomic_add(OUT[2, g.column, t], 1)


def offsets(*sizes: int, dtype: Any = np.int32) -> np.ndarray:
    return np.cumsum([0, *sizes]).astype(dtype)


def expected(starts: np.ndarray, rows: int, columns: int, bm: int) -> np.ndarray:
    want = np.zeros((3, columns, rows), np.int32)
    for group, (first, last) in enumerate(itertools.pairwise(starts)):
        want[0, :, first:last] = 1
        want[1, :, first:last] = group
        want[2, :, first:last:bm] = 1
    return want


SIZES = {
    "ragged": (13, 0, 1, 8, 0, 40), "none at first": (0, 0, 5), "none at last": (9, 0), "one": (3,), "none": (),
    "empty": (0, 0), "many": tuple(n % 11 for n in range(300)), "tall": (200, 3),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("grid", [1, 5])
@pytest.mark.parametrize("schedule", [None, "counter"])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("sizes", SIZES)
def test_every_row_is_in_one_tile_of_its_group(sizes: str, columns: int, schedule: str | None, grid: int) -> None:
    starts = offsets(*SIZES[sizes])
    out = np.zeros((3, columns, int(starts[-1]) + 8), np.int32)
    seen[grid](starts, out, columns, SCHEDULE=schedule)
    np.testing.assert_array_equal(out, expected(starts, out.shape[2], columns, 8))


def test_groups_may_begin_anywhere_and_have_wide_offsets() -> None:
    starts, out = offsets(5, 9, 2, dtype=np.int64) + 3, np.zeros((3, 1, 40), np.int32)
    seen[2](starts, out, 7, ALONE=True)
    np.testing.assert_array_equal(out, expected(starts, 40, 1, 8))


@px.kernel(warps=2)
def by_roles(STARTS, A, B, *, BM=8):
    """One loop in two roles, and once more behind another: each begins at the first group."""
    tiles = px.persistent(groups=STARTS, tile=BM)
    with px.warps(0, 1):
        for _, g in tiles:
            px.atomic_add(A[g.rows], px.full((BM,), g.index, px.i32))
        for _, g in tiles:
            px.atomic_add(A[g.rows], px.full((BM,), 100, px.i32))
    with px.warps(1, 1):
        for begin, group in tiles:
            px.atomic_add(B[group.rows], px.full((BM,), begin, px.i32))


def test_a_loop_begins_at_the_first_group_wherever_it_stands() -> None:
    starts, (a, b) = offsets(9, 0, 12), np.zeros((2, 21), np.int32)
    by_roles[2](starts, a, b)
    np.testing.assert_array_equal(a, np.repeat([100, 102], [9, 12]))
    np.testing.assert_array_equal(b, np.repeat([0, 8, 9, 17], [8, 1, 8, 4]))


@px.kernel(warps=4, cluster=lambda CTAS: CTAS)
def product(X, W, STARTS, Y, *, BM=64, BN=32, BK=32, CTAS=1, PRODUCER=True):
    for t, g in px.persistent(px.cdiv(Y.shape[1], CTAS * BN), groups=STARTS, tile=BM):
        n, acc = (g.column * CTAS + px.cluster.rank()) * BN, px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, X.shape[1], BK), stages=2, producer=PRODUCER):
            acc = px.dot(px.load(X[t : t + BM, k : k + BK]), px.load(W[g.index, n : n + BN, k : k + BK]).T, acc)
        px.store(Y[g.rows, n : n + BN], acc)


def factors(*sizes: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(len(sizes))
    x = rng.integers(-2, 3, (sum(sizes), 96)).astype(ml_dtypes.bfloat16)
    w = rng.integers(-2, 3, (len(sizes), 64, 96)).astype(ml_dtypes.bfloat16)
    starts = offsets(*sizes)
    parts = np.split(x.astype(np.float32), starts[1:-1])
    want = np.concatenate([rows @ m.T for rows, m in zip(parts, w.astype(np.float32), strict=True)])
    return [x, w, starts, np.full((sum(sizes), 64), 7, np.float32)], want


@pytest.mark.parametrize("producer", [True, False])
@pytest.mark.parametrize("ctas", [1, 2])
def test_a_grouped_product_runs_ahead_over_its_tiles(ctas: int, producer: bool) -> None:
    args, want = factors(70, 0, 1, 64)
    for pipelined in (False, True):
        given = [x.copy() for x in args]
        product[2 * ctas](*given, CTAS=ctas, PRODUCER=producer, pipelined=pipelined)
        np.testing.assert_array_equal(given[3], want)
    report = px.check(product[ctas], *args, schedules=1, CTAS=ctas, PRODUCER=producer)
    assert report.ok, str(report)
    made = px.compile(product[px.auto], *args, arch="sm_90a", CTAS=ctas, PRODUCER=producer)
    staged = [note for note in made.notes if "px.load of" in note]
    assert len(staged) == 2 and all("staged by the copy engine" in note for note in staged) and made.spills == 0
    assert sum("each of 2 CTAs a share" in note for note in staged) == ctas - 1, "both multiply the same rows"


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_its_text_on_the_host() -> None:
    args, want = factors(70, 0, 1)
    run_on_host(product, 2, *args)
    np.testing.assert_array_equal(args[3], want)


def test_a_row_that_is_left_to_the_next_group_is_found() -> None:
    """The planted mistake: a slice in the place of `g.rows` stores what the next group's tile stores, too."""

    @px.kernel(warps=4)
    def slices(X, STARTS, Y, *, BM=64):
        for t, g in px.persistent(groups=STARTS, tile=BM):
            px.store(Y[t : t + BM, 0:8], px.load(X[t : t + BM, 0:8]) + g.index)

    x, y = np.zeros((90, 8), np.float32), np.zeros((90, 8), np.float32)
    report = px.check(slices[2], x, offsets(20, 70), y)
    assert [finding.kind for finding in report.findings][:1] == ["race"], str(report)
