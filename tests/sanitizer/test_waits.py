"""Waits that are missing, too early, too late, or for the wrong parity or barrier."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 64), array(256, 64)
RING = dict(grid=1, args=(X, Y))


@planted("race", **RING)
@px.kernel(warps=1)
def load_is_not_waited_for(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[0:64, 0:64], s, bar)  # other
    if not BUG:
        bar.wait(0)
    px.store(Y[0:64, 0:64], px.load(s))  # bug
    if BUG:
        bar.wait(0)


@planted("race", **RING)
@px.kernel(warps=2)
def consumer_does_not_wait_for_full(X, Y, *, BUG):
    stages = px.shared((2, 64, 64), X.dtype)
    full = px.barrier(2)
    empty = px.barrier(2)
    ring = px.ring(2)
    with px.warps(0, 1):
        for t in range(X.shape[0] // 64):
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.tma.load(X[t * 64 : t * 64 + 64, 0:64], stages[ring.stage], full[ring.stage])  # other
            ring.advance()
    with px.warps(1, 1):
        for t in range(X.shape[0] // 64):
            if not BUG:
                full[ring.stage].wait(ring.parity)
            px.store(Y[t * 64 : t * 64 + 64, 0:64], px.load(stages[ring.stage]))  # bug
            if BUG:
                full[ring.stage].wait(ring.parity)
            empty[ring.stage].arrive()
            ring.advance()


@planted("race", **RING)
@px.kernel(warps=2)
def producer_does_not_wait_for_empty(X, Y, *, BUG):
    stages = px.shared((2, 64, 64), X.dtype)
    full = px.barrier(2)
    empty = px.barrier(2, count=1)
    ring = px.ring(2)
    with px.warps(0, 1):
        for t in range(X.shape[0] // 64):
            if not BUG:
                empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.tma.load(X[t * 64 : t * 64 + 64, 0:64], stages[ring.stage], full[ring.stage])  # bug, other
            ring.advance()
    with px.warps(1, 1):
        for t in range(X.shape[0] // 64):
            full[ring.stage].wait(ring.parity)
            px.store(Y[t * 64 : t * 64 + 64, 0:64], px.load(stages[ring.stage]))
            empty[ring.stage].arrive()
            ring.advance()


@planted("race", **RING)
@px.kernel(warps=2)
def consumer_waits_for_the_wrong_parity(X, Y, *, BUG):
    stages = px.shared((2, 64, 64), X.dtype)
    full = px.barrier(2)
    empty = px.barrier(2)
    ring = px.ring(2)
    with px.warps(0, 1):
        for t in range(X.shape[0] // 64):
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.tma.load(X[t * 64 : t * 64 + 64, 0:64], stages[ring.stage], full[ring.stage])  # other
            ring.advance()
    with px.warps(1, 1):
        for t in range(X.shape[0] // 64):
            full[ring.stage].wait(ring.parity ^ BUG)
            px.store(Y[t * 64 : t * 64 + 64, 0:64], px.load(stages[ring.stage]))  # bug
            empty[ring.stage].arrive()
            ring.advance()


@planted("deadlock", **RING)
@px.kernel(warps=2)
def producer_waits_for_the_wrong_parity(X, Y, *, BUG):
    stages = px.shared((2, 64, 64), X.dtype)
    full = px.barrier(2)
    empty = px.barrier(2)
    ring = px.ring(2)
    with px.warps(0, 1):
        for t in range(X.shape[0] // 64):
            empty[ring.stage].wait(ring.parity ^ (0 if BUG else 1))  # bug
            with full[ring.stage].transaction():
                px.tma.load(X[t * 64 : t * 64 + 64, 0:64], stages[ring.stage], full[ring.stage])
            ring.advance()
    with px.warps(1, 1):
        for t in range(X.shape[0] // 64):
            full[ring.stage].wait(ring.parity)  # other
            px.store(Y[t * 64 : t * 64 + 64, 0:64], px.load(stages[ring.stage]))
            empty[ring.stage].arrive()
            ring.advance()


@planted("race", **RING)
@px.kernel(warps=2)
def consumer_waits_for_the_wrong_barrier(X, Y, *, BUG):
    stages = px.shared((2, 64, 64), X.dtype)
    full = px.barrier(2)
    with px.warps(0, 1):
        for i in px.static_range(2):
            with full[i].transaction():
                px.tma.load(X[i * 64 : i * 64 + 64, 0:64], stages[i], full[i])  # other
    with px.warps(1, 1):
        full[0].wait(0)
        px.store(Y[0:64, 0:64], px.load(stages[0]))
        full[0 if BUG else 1].wait(0)
        px.store(Y[64:128, 0:64], px.load(stages[1]))  # bug
        if BUG:
            full[1].wait(0)


@planted("race", **RING)
@px.kernel(warps=2)
def consumer_waits_after_it_read(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    full = px.barrier()
    with px.warps(0, 1):
        with full.transaction():
            px.tma.load(X[0:64, 0:64], s, full)  # other
    with px.warps(1, 1):
        if not BUG:
            full.wait(0)
        x = px.load(s)  # bug
        if BUG:
            full.wait(0)
        px.store(Y[0:64, 0:64], x)


@planted("race", **RING)
@px.kernel(warps=2)
def consumer_releases_before_it_read(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    full = px.barrier()
    empty = px.barrier()
    with px.warps(0, 1):
        for t in range(X.shape[0] // 64):
            empty.wait((t & 1) ^ 1)
            with full.transaction():
                px.tma.load(X[t * 64 : t * 64 + 64, 0:64], s, full)  # bug
    with px.warps(1, 1):
        for t in range(X.shape[0] // 64):
            full.wait(t & 1)
            if BUG:
                empty.arrive()
            px.store(Y[t * 64 : t * 64 + 64, 0:64], px.load(s))  # other
            if not BUG:
                empty.arrive()


@planted("race", grid=1, args=(X, Y))
@px.kernel(warps=2)
def first_wait_of_parity_one_waits_for_nothing(X, Y, *, BUG):
    s = px.shared((64,), X.dtype)
    done = px.barrier()
    with px.warps(0, 1):
        done.wait(BUG)
        px.store(Y[0, 0:64], px.load(s))  # bug
    with px.warps(1, 1):
        px.store(s, px.load(X[0, 0:64]))  # other
        done.arrive()


@planted("deadlock", grid=1, args=(X, Y))
@px.kernel(warps=2)
def barrier_ran_ahead_of_the_waiter(X, Y, *, BUG):
    s = px.shared((64,), X.dtype)
    done = px.barrier()
    with px.warps(0, 1):
        px.store(s, px.load(X[0, 0:64]))
        done.arrive()
    with px.warps(1, 1):
        done.wait(BUG)  # bug
        px.store(Y[0, 0:64], px.load(s))


@planted("deadlock", grid=1, args=(X, Y))
@px.kernel(warps=2)
def two_roles_wait_for_each_other(X, Y, *, BUG):
    s = px.shared((2, 64), X.dtype)
    a = px.barrier()
    b = px.barrier()
    with px.warps(0, 1):
        px.store(s[0], px.load(X[0, 0:64]))
        if not BUG:
            a.arrive()
        b.wait(0)  # bug
        if BUG:
            a.arrive()
        px.store(Y[0, 0:64], px.load(s[1]))
    with px.warps(1, 1):
        px.store(s[1], px.load(X[1, 0:64]))
        a.wait(0)  # other
        b.arrive()
        px.store(Y[1, 0:64], px.load(s[0]))


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_a_wait_may_be_repeated():
    """Waiting twice for a phase is legal, and so is a test that says yes after a wait."""

    @px.kernel(warps=1)
    def twice(X, Y):
        s = px.shared((64, 64), X.dtype)
        bar = px.barrier()
        with bar.transaction():
            px.tma.load(X[0:64, 0:64], s, bar)
        bar.wait(0)
        bar.wait(0)
        px.store(Y[0:64, 0:64], px.load(s))

    assert px.check(twice[1], X, Y, schedules=5).ok
