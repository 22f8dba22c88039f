"""Cells that go from hand to hand: chains of roles, buffers in turn, store groups, views of a buffer, late waiters."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(64, 16), array(64, 16)
ONE = dict(grid=1, args=(X, Y))
TWO = dict(grid=2, args=(X, Y))


@planted("race", **ONE)
@px.kernel(warps=3)
def chain_of_three_skips_a_link(X, Y, *, BUG):
    s = px.shared((16,), X.dtype)
    a, b = px.barrier(count=1), px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        px.store(s, px.load(X[0, 0:16]))  # other
        a.arrive()
    with px.warps(1, 1):
        if not BUG:
            a.wait(0)
        b.arrive()
        a.wait(0)
    with px.warps(2, 1):
        b.wait(0)
        px.store(Y[0, 0:16], px.load(s))  # bug


@planted("race", **ONE)
@px.kernel(warps=2)
def two_buffers_in_turn_but_one_release(X, Y, *, BUG):
    s = px.shared((2, 16), X.dtype)
    full, empty = px.barrier(2, count=1), px.barrier(2, count=1, checked=False)
    with px.warps(0, 1):
        for t in range(6):
            if not BUG or t % 2 == 0:
                empty[t % 2].wait((t // 2 & 1) ^ 1)
            px.store(s[t % 2], px.load(X[t, 0:16]))  # bug
            full[t % 2].arrive()
    with px.warps(1, 1):
        for t in range(6):
            full[t % 2].wait(t // 2 & 1)
            px.store(Y[t, 0:16], px.load(s[t % 2]))  # other
            empty[t % 2].arrive()


@planted("race", **ONE)
@px.kernel(warps=1)
def store_group_is_waited_for_one_too_late(X, Y, *, BUG):
    s = px.shared((2, 16), X.dtype)
    for t in range(4):
        px.tma.wait(2 if BUG else 1, read=True)
        px.store(s[t % 2], px.load(X[t, 0:16]))  # bug
        px.fence.async_proxy()
        px.tma.store(s[t % 2], Y[t, 0:16])  # other
        px.tma.commit()
    px.tma.wait(0)


@planted("race", **ONE)
@px.kernel(warps=1)
def reads_of_a_store_are_over_but_not_its_writes(X, Y, *, BUG):
    s = px.shared((16,), X.dtype)
    px.store(s, px.load(X[0, 0:16]))
    px.fence.async_proxy()
    px.tma.store(s, Y[0, 0:16])  # other
    px.tma.commit()
    px.tma.wait(0, read=BUG)
    px.store(Y[1, 0:16], px.load(Y[0, 0:16]))  # bug


@planted("race", **ONE)
@px.kernel(warps=2)
def halves_that_overlap_by_one_row(X, Y, *, BUG):
    s = px.shared((8, 16), X.dtype)
    with px.warps(0, 1):
        px.store(s[0:4], px.load(X[0:4, 0:16]))  # other
    with px.warps(1, 1):
        first = 3 if BUG else 4
        px.store(s[first : first + 4], px.load(X[4:8, 0:16]))  # bug
    px.store(Y[0:4, 0:16], px.load(s[0:4]))


@planted("race", **ONE)
@px.kernel(warps=2)
def columns_that_overlap(X, Y, *, BUG):
    s = px.shared((8, 16), X.dtype)
    with px.warps(0, 1):
        px.store(s[:, 0:8], px.load(X[0:8, 0:8]))  # other
    with px.warps(1, 1):
        first = 4 if BUG else 8
        px.store(s[:, first : first + 8], px.load(X[0:8, 8:16]))  # bug
    px.store(Y[0:8, 0:16], px.load(s))


@planted("race", **ONE)
@px.kernel(warps=2)
def reused_memory_is_filled_while_it_is_read(X, Y, *, BUG):
    s = px.shared((16,), X.dtype)
    r = px.shared((16,), X.dtype, reuse=s)
    go = px.barrier(count=1, checked=False)
    px.store(s, px.load(X[0, 0:16]))
    with px.warps(0, 1):
        px.store(Y[0, 0:16], px.load(s))  # other
        go.arrive()
    with px.warps(1, 1):
        if not BUG:
            go.wait(0)
        px.store(r, px.load(X[1, 0:16]))  # bug
        px.store(Y[1, 0:16], px.load(r))
        go.wait(0)


@planted("race", **ONE)
@px.kernel(warps=2)
def plain_update_beside_an_atomic_one(X, Y, *, BUG):
    with px.warps(0, 1):
        px.atomic_add(Y[0, 0:16], px.load(X[0, 0:16]))  # other
    with px.warps(1, 1):
        if BUG:
            px.store(Y[0, 0:16], px.load(X[1, 0:16]))  # bug
        else:
            px.atomic_add(Y[0, 0:16], px.load(X[1, 0:16]))


@planted("deadlock", **ONE)
@px.kernel(warps=2)
def barrier_runs_two_phases_ahead(X, Y, *, BUG):
    """In time where the waiter comes first, and stuck where it does not: it is held back in a run of its own."""
    done, seen = px.barrier(count=1, checked=False), px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        done.wait(0)  # bug
        seen.arrive()
        done.wait(1)
    with px.warps(1, 1):
        done.arrive()
        if not BUG:
            seen.wait(0)
        done.arrive()


@planted("deadlock", **ONE)
@px.kernel(warps=3)
def first_wait_of_parity_one_may_come_too_late(X, Y, *, BUG):
    free, taken = px.barrier(count=1, checked=False), px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        free.wait(1)  # bug
        taken.arrive()
    with px.warps(1, 1):
        if not BUG:
            taken.wait(0)
        free.arrive()


@planted("deadlock", **TWO)
@px.kernel(warps=1, cluster=2)
def ping_without_pong(X, Y, *, BUG):  # other
    rank = px.cluster.rank()
    ball = px.barrier(count=1, checked=False)
    px.cluster.sync()
    if rank == 0:
        ball.arrive(ctas=2)
        ball.wait(0)  # bug
    else:
        ball.wait(0)
        if not BUG:
            ball.arrive(ctas=1)


@planted("race", **TWO)
@px.kernel(warps=1, cluster=2)
def pong_comes_before_the_ball_was_read(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((16,), X.dtype)
    ball = px.barrier(count=1, checked=False)
    px.cluster.sync()
    if rank == 0:
        px.store(s.at(1), px.load(X[0, 0:16]))
        ball.arrive(ctas=2)
        ball.wait(0)
        px.store(s.at(1), px.load(X[1, 0:16]))  # bug
    else:
        ball.wait(0)
        if BUG:
            ball.arrive(ctas=1)
        px.store(Y[0, 0:16], px.load(s))  # other
        if not BUG:
            ball.arrive(ctas=1)


@planted("race", **ONE)
@px.kernel(warps=2)
def join_comes_after_the_read(X, Y, *, BUG):
    s = px.shared((16,), X.dtype)
    if BUG:
        with px.warps(0, 1):
            px.store(s, px.load(X[0, 0:16]))  # other
        with px.warps(1, 1):
            px.store(Y[0, 0:16], px.load(s))  # bug
    else:
        with px.warps(0, 1):
            px.store(s, px.load(X[0, 0:16]))
        px.sync()
        with px.warps(1, 1):
            px.store(Y[0, 0:16], px.load(s))


@planted("proxy", **ONE)
@px.kernel(warps=2)
def fence_before_the_last_write(X, Y, *, BUG):
    s = px.shared((2, 16), X.dtype)
    ready = px.barrier(count=1)
    with px.warps(0, 1):
        px.store(s[0], px.load(X[0, 0:16]))
        if BUG:
            px.fence.async_proxy()
        px.store(s[1], px.load(X[1, 0:16]))  # other
        if not BUG:
            px.fence.async_proxy()
        ready.arrive()
    with px.warps(1, 1):
        ready.wait(0)
        px.tma.store(s, Y[0:2, 0:16])  # bug
        px.tma.commit()
        px.tma.wait(0)


@planted("tx-mismatch", **ONE)
@px.kernel(warps=1)
def bytes_of_the_last_tile_are_not_expected(X, Y, *, BUG):
    s = px.shared((2, 16), X.dtype)
    full = px.barrier()
    full.arrive_and_expect_tx(64 if BUG else 128)  # bug
    px.tma.load(X[0, 0:16], s[0], full)  # other
    px.tma.load(X[1, 0:16], s[1], full)
    full.wait(0)
    px.store(Y[0:2, 0:16], px.load(s))


@planted("uninitialised-read", **ONE)
@px.kernel(warps=1)
def last_row_is_never_written(X, Y, *, BUG):
    s = px.shared((4, 16), X.dtype)
    for i in px.static_range(3 if BUG else 4):
        px.store(s[i], px.load(X[i, 0:16]))
    px.store(Y[0:4, 0:16], px.load(s))  # bug


@planted("unfinished", **ONE)
@px.kernel(warps=1)
def last_group_of_several_is_left_open(X, Y, *, BUG):
    s = px.shared((2, 16), X.dtype)
    for t in px.static_range(2):
        px.store(s[t], px.load(X[t, 0:16]))
        px.fence.async_proxy()
        px.tma.store(s[t], Y[t, 0:16])  # bug
        px.tma.commit()
    px.tma.wait(1 if BUG else 0)


@planted("race", **ONE)
@px.kernel(warps=1)
def copy_into_what_is_still_read_by_a_store(X, Y, *, BUG):
    s = px.shared((16,), X.dtype)
    full = px.barrier(count=1)
    for t in range(3):
        if not BUG:
            px.tma.wait(0, read=True)
        full.arrive_and_expect_tx(64)
        px.tma.load(X[t, 0:16], s, full)  # bug
        full.wait(t & 1)
        px.tma.store(s, Y[t, 0:16])  # other
        px.tma.commit()
    px.tma.wait(0)


@planted("race", **TWO)
@px.kernel(warps=2, cluster=2)
def peer_reads_what_a_role_still_writes(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((16,), X.dtype)
    ready = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        if BUG:
            ready.arrive(ctas=1 << (rank ^ 1))
        px.store(s, px.load(X[rank, 0:16]))  # other
        if not BUG:
            ready.arrive(ctas=1 << (rank ^ 1))
    with px.warps(1, 1):
        ready.wait(0)
        px.store(Y[rank, 0:16], px.load(s.at(rank ^ 1)))  # bug


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
