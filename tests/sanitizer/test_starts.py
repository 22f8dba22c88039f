"""A peer's memory before the peer has started, and CTAs that share a copy but not its region."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(64, 64), array(64, 64)
TWO = dict(grid=2, args=(X, Y))


@planted("race", **TWO)
@px.kernel(warps=1, cluster=2)
def stores_into_a_peer_that_may_not_have_started(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    if not BUG:
        px.cluster.sync()
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:64]))  # bug
    px.cluster.sync()
    px.store(Y[rank, 0:64], px.load(s))


@planted("race", **TWO)
@px.kernel(warps=1, cluster=2)
def pushes_without_a_barrier_before_the_peer_has_started(X, Y, *, BUG):
    rank = px.cluster.rank()
    s, inbox = px.shared((64,), X.dtype), px.shared((64,), X.dtype)
    px.store(s, px.load(X[rank, 0:64]))
    px.fence.async_proxy()
    if not BUG:
        px.cluster.arrive(relaxed=True)
        px.cluster.wait()
    px.cluster.copy(s, inbox, cta=rank ^ 1)  # bug
    px.cluster.sync()
    px.store(Y[rank, 0:64], px.load(inbox))


@planted("race", grid=4, args=(X, Y))
@px.kernel(warps=2, cluster=4)
def one_half_of_the_cluster_starts_late(X, Y, *, BUG):
    """The barrier's init brings a cluster barrier with it: without one, a role may be ahead of its peers."""
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    if not BUG:
        bar = px.barrier(count=1)
        bar.arrive(ctas=1 << (rank ^ 2))
        bar.wait(0)
    with px.warps(0, 1):
        px.store(s.at(rank ^ 2), px.load(X[rank, 0:64]))  # bug
    with px.warps(1, 1):
        px.store(Y[rank + 8, 0:64], px.load(X[rank, 0:64]))
    px.cluster.sync()
    px.store(Y[rank, 0:64], px.load(s))


@planted("region-mismatch", **TWO)
@px.kernel(warps=1, cluster=2)
def shares_a_load_of_two_regions(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((8, 32), X.dtype)
    bar = px.barrier()
    row = rank * 8 if BUG else 0
    with bar.transaction():
        px.cluster.load(X[row:row + 8, 0:32], s, bar, ctas=3)  # bug, other
    bar.wait(0)
    px.store(Y[rank * 8:rank * 8 + 8, 0:32], px.load(s))


@planted("region-mismatch", **TWO)
@px.kernel(warps=1, cluster=2)
def receives_another_tile_than_it_names(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((8, 32), X.dtype)
    bar = px.barrier(2)
    for step in range(2):
        column = 32 * step if not BUG or rank == 0 else 32 * (1 - step)
        with bar[step].transaction():
            px.cluster.copy(X[0:8, column:column + 32], s, bar[step], mask=3)  # bug, other
        bar[step].wait(0)
        px.store(Y[rank * 8:rank * 8 + 8, 32 * step:32 * step + 32], px.load(s))
        px.cluster.sync()


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_both_ctas_are_named():
    case = next(case for case in cases(__name__) if case.kernel.name == "shares_a_load_of_two_regions")
    (finding,) = case.check(True).findings
    assert "CTA 0 and CTA 1 share a copy of X, but name different regions" in finding.message
    assert "[0, 0]" in finding.message and "[8, 0]" in finding.message
    (soon,) = cases(__name__)[0].check(True).findings
    assert "CTA 1 may not have started" in soon.message or "CTA 0 may not have started" in soon.message
