"""The life of a barrier: init, fence, sync, use, invalidate; and its memory."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 64), array(256, 64)


@planted("barrier-uninitialised", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def signals_a_peer_before_its_init(X, Y, *, BUG):
    rank = px.cluster.rank()
    bar = px.barrier(init=False)
    bar.init(1)  # other
    px.fence.barrier_init()
    if not BUG:
        px.cluster.sync()
    bar.arrive(ctas=1 << (rank ^ 1))  # bug
    bar.wait(0)
    px.store(Y[rank, 0:64], px.load(X[rank, 0:64]))


@planted("barrier-uninitialised", args=(X, Y))
@px.kernel(warps=2)
def is_never_initialised(X, Y, *, BUG):
    bar = px.barrier(init=False)
    if not BUG:
        bar.init(1)
        px.fence.barrier_init()
        px.sync()
    bar.arrive()  # bug
    if not BUG:
        bar.wait(0)
    px.store(Y[0, 0:64], px.load(X[0, 0:64]))


@planted("barrier-uninitialised", args=(X, Y))
@px.kernel(warps=2)
def one_role_initialises_and_another_does_not_wait(X, Y, *, BUG):
    ready = px.barrier()
    bar = px.barrier(init=False)
    with px.warps(0, 1):
        bar.init(1)  # other
        px.fence.barrier_init()
        ready.arrive()
        bar.wait(0)
    with px.warps(1, 1):
        if not BUG:
            ready.wait(0)
        bar.arrive()  # bug


@planted("barrier-uninitialised", args=(X, Y))
@px.kernel(warps=1)
def init_is_not_fenced_for_the_engine(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier(init=False)
    bar.init(1)  # other
    if not BUG:
        px.fence.barrier_init()
    px.sync()
    bar.arrive_and_expect_tx(s.nbytes)
    px.tma.load(X[0:64, 0:64], s, bar)  # bug
    bar.wait(0)
    px.store(Y[0:64, 0:64], px.load(s))


@planted("barrier-uninitialised", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def a_relaxed_arrive_hands_on_fenced_inits_only(X, Y, *, BUG):
    rank = px.cluster.rank()
    bar = px.barrier(init=False)
    bar.init(1)  # other
    if not BUG:
        px.fence.barrier_init()
    px.cluster.arrive(relaxed=True)
    px.cluster.wait()
    bar.arrive(ctas=1 << (rank ^ 1))  # bug
    bar.wait(0)
    px.store(Y[rank, 0:64], px.load(X[rank, 0:64]))


@planted("barrier-reinitialised", args=(X, Y))
@px.kernel(warps=1)
def is_initialised_twice(X, Y, *, BUG):
    bar = px.barrier(init=False)
    bar.init(1)  # other
    px.fence.barrier_init()
    px.sync()
    bar.arrive()
    bar.wait(0)
    if not BUG:
        bar.invalidate()
    bar.init(1)  # bug
    px.fence.barrier_init()
    px.sync()
    bar.arrive()
    bar.wait(BUG)


@planted("barrier-invalidated", args=(X, Y))
@px.kernel(warps=1)
def is_used_after_its_end(X, Y, *, BUG):
    bar = px.barrier()
    bar.arrive()
    bar.wait(0)
    if BUG:
        bar.invalidate()  # other
    bar.arrive()  # bug
    if not BUG:
        bar.wait(1)
        bar.invalidate()


@planted("barrier-invalidated", args=(X, Y))
@px.kernel(warps=2)
def ends_while_a_role_still_uses_it(X, Y, *, BUG):
    bar = px.barrier()
    done = px.barrier()
    with px.warps(0, 1):
        bar.arrive()
        bar.wait(0)  # bug
        done.arrive()
    with px.warps(1, 1):
        if BUG:
            bar.wait(0)
        else:
            done.wait(0)
        bar.invalidate()  # other


@planted("barrier-memory", args=(X, Y))
@px.kernel(warps=1)
def data_over_a_live_barrier(X, Y, *, BUG):
    bar = px.barrier(2)  # other
    s = px.shared((16,), X.dtype, reuse=bar)
    for i in px.static_range(2):
        bar[i].arrive()
        bar[i].wait(0)
    if not BUG:
        for i in px.static_range(2):
            bar[i].invalidate()
    px.store(s, px.load(X[0, 0:16]))  # bug
    px.store(Y[0, 0:16], px.load(s))


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_a_barrier_may_live_twice():
    @px.kernel(warps=2)
    def again(X, Y):
        s = px.shared((64,), X.dtype)
        bar = px.barrier(init=False)
        for t in range(3):
            bar.init(1)
            px.fence.barrier_init()
            px.sync()
            with px.warps(0, 1):
                px.store(s, px.load(X[t, 0:64]))
                bar.arrive()
            with px.warps(1, 1):
                bar.wait(0)
                px.store(Y[t, 0:64], px.load(s))
            px.sync()
            bar.invalidate()

    assert px.check(again[1], X, Y, schedules=5).ok


@px.kernel(warps=2)
def is_used_by_all_and_initialised_by_nobody(X, Y):
    s, bar = px.shared((64, 64), X.dtype), px.barrier(init=False)
    with px.warps(0, 1):
        bar.arrive_and_expect_tx(s.nbytes)
        px.tma.load(X[0:64, 0:64], s, bar)
    with px.warps(1, 1):
        bar.wait(0)
        px.store(Y[0:64, 0:64], px.load(s))


def test_a_barrier_that_is_not_initialised_is_one_finding():
    finding, = px.check(is_used_by_all_and_initialised_by_nobody[1], X, Y).findings
    assert finding.kind == "barrier-uninitialised" and finding.count > 1
