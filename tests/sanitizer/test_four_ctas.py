"""Clusters of four: multicast rings, releases over rows and columns, pushes around the cluster, exits."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 16), array(256, 16)
FOUR = dict(grid=4, args=(X, Y))


@planted("race", **FOUR)
@px.kernel(warps=2, cluster=4)
def ring_refilled_before_all_four_released_it(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((2, 16, 16), X.dtype)
    full = px.barrier(2)
    empty = px.barrier(2, count=1 if BUG else 4, checked=False)
    ring = px.ring(2)
    with px.warps(0, 1):
        for t in range(4):
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                if rank == 0:
                    px.tma.load(X[t * 16 : t * 16 + 16, 0:16], s[ring.stage], full[ring.stage], multicast=15)  # bug
            ring.advance()
    with px.warps(1, 1):
        for t in range(4):
            full[ring.stage].wait(ring.parity)
            px.store(Y[rank * 64 + t * 16 : rank * 64 + t * 16 + 16, 0:16], px.load(s[ring.stage]))  # other
            if BUG:
                empty[ring.stage].arrive()
            else:
                empty[ring.stage].arrive(ctas=15)
            ring.advance()


@planted("race", **FOUR)
@px.kernel(warps=2, cluster=4)
def released_to_ctas_that_fetch_nothing_for_it(X, Y, *, BUG):
    """All that CTA 0 reads it fetches itself: it may be done with a stage twice before CTA 3 is once, and tells CTA 1 both
    times. CTA 1, which fetches for CTA 3, takes the second for that of CTA 3."""
    rank = px.cluster.rank()
    row, column = 3 << (rank // 2 * 2), 5 << (rank % 2)
    s = px.shared((2, 16, 16), X.dtype)
    full, empty = px.barrier(2), px.barrier(2, count=3 if BUG else 2)
    ring = px.ring(2)
    with px.warps(0, 1):
        for t in range(4):
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.cluster.copy(X[t * 16 : t * 16 + 16, 0:16], s[ring.stage], full[ring.stage], mask=column)  # bug, other
            ring.advance()
    with px.warps(1, 1):
        for t in range(4):
            full[ring.stage].wait(ring.parity)
            px.store(Y[rank * 64 + t * 16 : rank * 64 + t * 16 + 16, 0:16], px.load(s[ring.stage]))
            empty[ring.stage].arrive(ctas=row | column if BUG else column)
            ring.advance()


@planted("race", **FOUR)
@px.kernel(warps=1, cluster=4)
def one_of_four_receivers_does_not_wait(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((16, 16), X.dtype)
    full = px.barrier()
    with full.transaction():
        if rank == 0:
            px.tma.load(X[0:16, 0:16], s, full, multicast=15)  # other
    if not (BUG and rank == 3):
        full.wait(0)
    px.store(Y[rank * 16 : rank * 16 + 16, 0:16], px.load(s))  # bug
    full.wait(0)


@planted("tx-mismatch", **FOUR)
@px.kernel(warps=1, cluster=4)
def four_shares_are_expected_as_one(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((16, 16), X.dtype)
    full = px.barrier()
    full.arrive_and_expect_tx(256 if BUG else 1024)  # bug
    px.cluster.sync()
    px.tma.load(X[rank * 4 : rank * 4 + 4, 0:16], s[rank * 4 : rank * 4 + 4], full, multicast=15)  # other
    full.wait(0)
    px.store(Y[rank * 16 : rank * 16 + 16, 0:16], px.load(s))


@planted("race", **FOUR)
@px.kernel(warps=1, cluster=4)
def push_around_the_ring_is_read_without_a_sync(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((16,), X.dtype)
    px.cluster.sync()
    px.store(s.at((rank + 1) % 4), px.load(X[rank, 0:16]))  # other
    if not BUG:
        px.cluster.sync()
    px.store(Y[rank, 0:16], px.load(s))  # bug


@planted("race", **FOUR)
@px.kernel(warps=1, cluster=4)
def second_round_overwrites_what_is_still_read(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((16,), X.dtype)
    px.cluster.sync()
    px.store(s.at((rank + 1) % 4), px.load(X[rank, 0:16]))
    px.cluster.sync()
    px.store(Y[rank, 0:16], px.load(s))  # bug
    if not BUG:
        px.cluster.sync()
    px.store(s.at((rank + 2) % 4), px.load(X[rank, 0:16]))  # other
    px.cluster.sync()
    px.store(Y[rank + 4, 0:16], px.load(s))


@planted("deadlock", **FOUR)
@px.kernel(warps=1, cluster=4)
def one_release_of_four_is_missing(X, Y, *, BUG):
    rank = px.cluster.rank()
    done = px.barrier(count=4, checked=False)
    px.cluster.sync()
    if not BUG or rank != 2:
        done.arrive(ctas=15)
    done.wait(0)  # bug
    px.store(Y[rank, 0:16], px.load(X[rank, 0:16]))


@planted("deadlock", **FOUR)
@px.kernel(warps=1, cluster=4)
def mask_leaves_out_a_waiter(X, Y, *, BUG):  # other
    rank = px.cluster.rank()
    done = px.barrier(count=4, checked=False)
    px.cluster.sync()
    done.arrive(ctas=7 if BUG else 15)
    done.wait(0)  # bug
    px.store(Y[rank, 0:16], px.load(X[rank, 0:16]))


@planted("over-arrival", **FOUR)
@px.kernel(warps=1, cluster=4)
def more_arrivals_at_once_than_are_pending(X, Y, *, BUG):
    rank = px.cluster.rank()
    done = px.barrier(count=3, checked=False)
    s = px.shared((16,), X.dtype)
    if rank == 0:
        done.arrive_and_expect_tx(64)  # other
    else:
        done.arrive()
    px.cluster.sync()
    if rank == 0:
        if BUG:
            done.arrive(count=3)  # bug
        else:
            done.arrive(count=2)
        px.tma.load(X[0, 0:16], s, done)
    else:
        done.arrive(count=2)
    done.wait(0)
    px.store(Y[rank, 0:16], px.load(X[rank, 0:16]))


@planted("exit-hazard", grid=4, args=(X, Y))
@px.kernel(warps=1, cluster=4, exit_sync=False)
def one_of_four_leaves_while_it_is_read(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((16,), X.dtype)
    px.store(s, px.load(X[rank, 0:16]))
    px.cluster.sync()
    px.store(Y[rank, 0:16], px.load(s.at((rank + 1) % 4)))  # bug
    if not BUG:
        px.cluster.sync()


@planted("barrier-uninitialised", grid=4, args=(X, Y))
@px.kernel(warps=1, cluster=4)
def signal_before_a_peer_has_initialised(X, Y, *, BUG):
    rank = px.cluster.rank()
    done = px.barrier(count=4, init=False)
    done.init(4)  # other
    px.fence.barrier_init()
    if BUG:
        px.sync()
    else:
        px.cluster.sync()
    done.arrive(ctas=15)  # bug
    done.wait(0)
    px.store(Y[rank, 0:16], px.load(X[rank, 0:16]))


@planted("proxy", grid=4, args=(X, Y))
@px.kernel(warps=1, cluster=4)
def written_to_a_peer_and_stored_by_its_engine_without_a_fence(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((16,), X.dtype)
    px.cluster.sync()
    px.store(s.at(rank ^ 3), px.load(X[rank, 0:16]))  # other
    if not BUG:
        px.fence.async_proxy("cluster")
    px.cluster.sync()
    px.tma.store(s, Y[rank, 0:16])  # bug
    px.tma.commit()
    px.tma.wait(0)


@planted("out-of-bounds", grid=4, args=(X, Y))
@px.kernel(warps=1, cluster=4)
def peer_outside_the_cluster(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((16,), X.dtype)
    px.cluster.sync()
    target = px.where(px.block_id(0) == 3, 4 if BUG else 0, rank + 1)
    px.store(s.at(target), px.load(X[rank, 0:16]))  # bug
    px.cluster.sync()
    px.store(Y[rank, 0:16], px.load(X[rank, 0:16]))


@planted("race", grid=4, args=(X, Y))
@px.kernel(warps=1, cluster=4)
def relaxed_arrive_where_data_is_handed_on(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((16,), X.dtype)
    px.cluster.sync()
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:16]))  # other
    px.cluster.arrive(relaxed=BUG)
    px.cluster.wait()
    px.store(Y[rank, 0:16], px.load(s))  # bug


@planted("race", grid=8, args=(X, Y))
@px.kernel(warps=1, cluster=4)
def clusters_write_the_same_row(X, Y, *, BUG):
    rank, which = px.cluster.rank(), px.cluster.id()
    px.store(Y[rank + (0 if BUG else 4 * which), 0:16], px.load(X[rank, 0:16]))  # bug, other


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
