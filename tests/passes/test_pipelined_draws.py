"""Pipelined loops in loops whose tiles a counter deals, where arrays say how many tiles there are."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from passes.test_pipelining import agrees, notes, numbers

HALF = ml_dtypes.bfloat16


@px.kernel(warps=lambda WARPS: WARPS)
def drawn(A, B, N, C, *, BM=64, BN=32, BK=32, WARPS=4, CASE="element"):
    """Tiles of rows, as many as an element, a sum of elements or an offset of a group says."""
    if CASE == "kept":
        kept = px.load(B[0:BN, 0:BK])
    elif CASE == "written":
        px.store(N[1], 2)
    n = N[0]
    if CASE == "sum":
        for i in range(1, N.shape[0]):
            n = n + N[i]
    elif CASE == "condition" and n > 1:
        n = px.cdiv(A.shape[0], BM)
    for t in px.persistent(n, schedule="counter"):
        m, acc = t * BM, px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            b = kept if CASE == "kept" else px.load(B[0:BN, k : k + BK])
            acc = acc + px.dot(px.load(A[m : m + BM, k : k + BK]), b.T) * n
        px.store(C[m : m + BM, 0:BN], acc)


@px.kernel(warps=4)
def grouped(X, W, STARTS, Y, *, BM=64, BN=32, BK=32):
    for t, g in px.persistent(px.cdiv(Y.shape[1], BN), groups=STARTS, tile=BM, schedule="counter"):
        n, acc = g.column * BN, px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, X.shape[1], BK), stages=2):
            acc = px.dot(px.load(X[t : t + BM, k : k + BK]), px.load(W[g.index, n : n + BN, k : k + BK]).T, acc)
        px.store(Y[g.rows, n : n + BN], acc)


def arguments(*counts: int) -> list[np.ndarray]:
    a, b = numbers(200, 96, dtype=HALF), numbers(32, 96, dtype=HALF, seed=1)
    return [a, b, np.array(counts, np.int32), np.zeros((200, 32), np.float32)]


@pytest.mark.parametrize("case", ["element", "sum", "condition", "kept"])
def test_their_number_is_read_before_the_roles(case: str) -> None:
    args = arguments(2, 1, 0)
    agrees(drawn[2], *args, CASE=case)
    assert "px.pipelined: 1 warp more fetches (5 warps in all)" in notes(drawn[2], *args, CASE=case)


def test_eight_warps() -> None:
    agrees(drawn[2], *arguments(1, 1, 0), CASE="sum", BM=128, WARPS=8)


def test_a_number_that_the_kernel_may_overwrite_leaves_the_loop_as_it_is() -> None:
    args = arguments(3, 0)
    agrees(drawn[1], *args, CASE="written")
    assert any("stays as it is written: a producer can't follow" in note for note in notes(drawn[1], *args, CASE="written"))


@pytest.mark.parametrize("sizes", [(70, 0, 1, 64), (0, 0), (1, 1, 1)])
def test_groups(sizes: tuple[int, ...]) -> None:
    rows, starts = sum(sizes), np.cumsum([0, *sizes]).astype(np.int32)
    x, w = numbers(rows, 64, dtype=HALF), numbers(len(sizes), 40, 64, dtype=HALF, seed=1)
    got = agrees(grouped[2], x, w, starts, np.zeros((rows, 40), np.float32))[3]
    parts = np.split(x.astype(np.float32), starts[1:-1])
    want = [part @ each.T for part, each in zip(parts, w.astype(np.float32), strict=True)]
    np.testing.assert_array_equal(got, np.concatenate(want))
