"""The end: CTAs that exit too early, loads and stores that nobody waited for."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 64), array(256, 64)


@planted("unfinished", args=(X, Y))
@px.kernel(warps=1)
def load_that_nobody_waits_for(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    with bar.transaction():
        px.tma.load(X[0:64, 0:64], s, bar)  # bug
    if not BUG:
        bar.wait(0)


@planted("unfinished", args=(X, Y))
@px.kernel(warps=1)
def store_that_is_not_committed(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    px.store(s, px.load(X[0:64, 0:64]))
    px.fence.async_proxy()
    px.tma.store(s, Y[0:64, 0:64])  # bug
    if not BUG:
        px.tma.commit()
    px.tma.wait(0)


@planted("unfinished", args=(X, Y))
@px.kernel(warps=1)
def store_that_nobody_waits_for(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    px.store(s, px.load(X[0:64, 0:64]))
    px.fence.async_proxy()
    px.tma.store(s, Y[0:64, 0:64])  # bug
    px.tma.commit()
    if not BUG:
        px.tma.wait(0, read=True)


@planted("unfinished", args=(X, Y))
@px.kernel(warps=2)
def another_role_waits_for_the_store(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    issued = px.barrier()
    with px.warps(0, 1):
        px.store(s, px.load(X[0:64, 0:64]))
        px.fence.async_proxy()
        px.tma.store(s, Y[0:64, 0:64])  # bug
        px.tma.commit()
        if not BUG:
            px.tma.wait(0)
        issued.arrive()
    with px.warps(1, 1):
        issued.wait(0)
        px.tma.wait(0)


@planted("exit-hazard", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2, exit_sync=False)
def remote_store_after_the_peer_may_be_gone(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:64]))  # bug
    if not BUG:
        px.cluster.sync()


@planted("exit-hazard", grid=2, args=(X, Y))
@px.kernel(warps=2, cluster=2, exit_sync=False)
def last_release_may_reach_an_exited_peer(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((2, 64, 64), X.dtype)
    full = px.barrier(2)
    empty = px.barrier(2)
    ring = px.ring(2)
    tiles = X.shape[0] // 64
    with px.warps(0, 1):
        for t in range(tiles):
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.tma.load(
                    X[t * 64 + rank * 32 : t * 64 + rank * 32 + 32, 0:64], s[ring.stage][rank * 32 : rank * 32 + 32],
                    full[ring.stage], multicast=3,
                )
            ring.advance()
        if not BUG:
            for _ in range(2):
                empty[ring.stage].wait(ring.parity ^ 1)
                ring.advance()
    with px.warps(1, 1):
        for t in range(tiles):
            full[ring.stage].wait(ring.parity)
            x = px.load(s[ring.stage])
            empty[ring.stage].arrive(ctas=3)  # bug
            px.store(Y[t * 64 + rank * 32 : t * 64 + rank * 32 + 32, 0:64], px.load(X[0:32, 0:64]) + px.sum(x))
            ring.advance()


@planted("exit-hazard", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def receiver_of_a_multicast_does_not_wait(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    bar.arrive_and_expect_tx(s.nbytes)
    if rank == 0:
        px.tma.load(X[0:64, 0:64], s, bar, multicast=3)  # bug
    if not BUG or rank == 0:
        bar.wait(0)


@planted("exit-hazard", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2, exit_sync=False)
def remote_read_of_a_peer_that_may_be_gone(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    px.store(s, px.load(X[rank, 0:64]))
    px.cluster.sync()
    px.store(Y[rank, 0:64], px.load(s.at(rank ^ 1)))  # bug
    if not BUG:
        px.cluster.arrive(relaxed=True)  # the read has returned: enough to let the peer go
        px.cluster.wait()


@planted("exit-hazard", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2, exit_sync=False)
def relaxed_arrive_does_not_cover_a_remote_store(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:64]))  # bug
    px.cluster.arrive(relaxed=bool(BUG))
    px.cluster.wait()


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
