"""Exact bytes: slices that touch, slices that overlap, views of other shapes and types, memory of peers."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 64), array(256, 64)


@planted("race", args=(X, Y))
@px.kernel(warps=2)
def rows_overlap_by_one(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    with px.warps(0, 1):
        px.store(s[0:32], px.load(X[0:32, 0:64]))  # other
    with px.warps(1, 1):
        px.store(s[32 - BUG : 64 - BUG], px.load(X[0:32, 0:64]))  # bug


@planted("race", args=(X, Y))
@px.kernel(warps=2)
def columns_overlap_by_one(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    with px.warps(0, 1):
        px.store(s[0:64, 0:32], px.load(X[0:64, 0:32]))  # other
    with px.warps(1, 1):
        px.store(s[0:64, 32 - BUG : 64 - BUG], px.load(X[0:64, 0:32]))  # bug


@planted("race", args=(X, Y))
@px.kernel(warps=2)
def transposed_view_overlaps(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    with px.warps(0, 1):
        px.store(s[0:32], px.load(X[0:32, 0:64]))  # other
    with px.warps(1, 1):
        px.store(s[0 if BUG else 32 : 32 if BUG else 64].T, px.load(X[0:64, 0:32]))  # bug


@planted("race", args=(X, Y))
@px.kernel(warps=2)
def buffer_of_another_type_in_the_same_memory(X, Y, *, BUG):
    s = px.shared((64,), X.dtype)
    wide = px.shared((32,), px.i64, reuse=s)
    with px.warps(0, 1):
        px.store(s[32:64], px.load(X[0, 0:32]))  # other
    with px.warps(1, 1):
        px.store(wide[0 + BUG : 16 + BUG], px.full((16,), 1, px.i64))  # bug


@planted("race", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def remote_store_without_order(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:64]))  # other
    if not BUG:
        px.cluster.sync()
    px.store(Y[rank, 0:64], px.load(s))  # bug


@planted("race", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def both_ctas_write_into_rank_zero(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((2, 64), X.dtype)
    px.store(s.at(0)[0 if BUG else rank], px.load(X[rank, 0:64]))  # bug, other
    px.cluster.sync()
    if rank == 0:
        px.store(Y[0, 0:64], px.load(s[0]))


@planted("uninitialised-read", args=(X, Y))
@px.kernel(warps=1)
def reads_what_nobody_wrote(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    px.store(s[0 : 64 - BUG], px.load(X[0 : 64 - BUG, 0:64]))
    px.store(Y[0:64, 0:64], px.load(s))  # bug


@planted("out-of-bounds", args=(X, Y))
@px.kernel(warps=1)
def stage_past_the_end(X, Y, *, BUG):
    s = px.shared((2, 64), X.dtype)
    for t in range(2 + BUG):
        px.store(s[t], px.load(X[t, 0:64]))  # bug
    px.store(Y[0, 0:64], px.load(s[0]))


@planted("out-of-bounds", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def cta_outside_the_cluster(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    px.store(s, px.load(X[rank, 0:64]))
    px.cluster.sync()
    px.store(Y[rank, 0:64], px.load(s.at(rank + 1 if BUG else rank ^ 1)))  # bug


@planted("out-of-bounds", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def mask_outside_the_cluster(X, Y, *, BUG):
    rank = px.cluster.rank()
    bar = px.barrier(count=1, checked=False)
    bar.arrive(ctas=1 << (rank + 1 if BUG else rank ^ 1))  # bug
    if not BUG:
        bar.wait(0)


@planted("misaligned", args=(X[:, 1:], Y))
@px.kernel(warps=1)
def array_that_does_not_begin_at_sixteen_bytes(X, Y, *, BUG):
    s = px.shared((32, 32), X.dtype)
    if BUG:
        bar = px.barrier()
        with bar.transaction():
            px.tma.load(X[0:32, 0:32], s, bar)  # bug
        bar.wait(0)
    else:
        px.store(s, px.load(X[0:32, 0:32]))
    px.store(Y[0:32, 0:32], px.load(s))


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
