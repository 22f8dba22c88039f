"""Arrivals that an engine makes when its work is over: they come when they come, not when they are asked for."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array, cases, line_of, planted

Y = array(4, 16)
WIDE = array(64, 128)
COPIED = dict(grid=1, args=(WIDE, np.zeros_like(WIDE)))


@planted("race", **COPIED)
@px.kernel(warps=4)
def the_barrier_is_asked_once(X, O, *, BUG):
    """Whoever asked for an arrival of the copies does not know when it comes: a test may say no."""
    s, t, full = px.shared((64, 64), X.dtype), px.shared((64, 64), X.dtype), px.barrier(2)
    px.cp_async.load(X[0:64, 0:64], s)
    px.cp_async.commit(full[0])
    px.cp_async.load(X[0:64, 64:128], t)  # other
    px.cp_async.commit(full[1])
    full[0].wait(0)
    px.store(O[0:64, 0:64], px.load(s))
    arrived = full[1].test_wait(0)
    if not BUG:
        if not arrived:
            full[1].wait(0)
    px.store(O[0:64, 64:128], px.load(t))  # bug


@planted("race", **COPIED)
@px.kernel(warps=4)
def the_barrier_is_asked_three_times(X, O, *, BUG):
    t, full = px.shared((64, 64), X.dtype), px.barrier()
    px.cp_async.load(X[0:64, 64:128], t)  # other
    px.cp_async.commit(full)
    n = 0
    while n < 3:
        n = n + 1
        if full.test_wait(0):
            n = 3
    if not BUG:
        full.wait(0)
    px.store(O[0:64, 64:128], px.load(t))  # bug


@planted("race", **COPIED)
@px.kernel(warps=12)
def arrives_overtake_a_commit(X, O, *, BUG):
    """A phase of two arrivals, one of the copies: two arrives of a role that did not wait for it end it without them."""
    s, t = px.shared((64, 64), X.dtype), px.shared((64, 64), X.dtype)
    old, told, b = px.barrier(), px.barrier(), px.barrier(1, count=2, checked=False)
    with px.warps(0, 4):
        px.cp_async.load(X[0:64, 0:64], s)
        px.cp_async.commit(old)
        px.cp_async.load(X[0:64, 64:128], t)  # other
        px.cp_async.commit(b[0])  # asks
        told.arrive()
    with px.warps(4, 4):
        told.wait(0)
        old.wait(0)
        px.store(O[0:64, 0:64], px.load(s))
        b[0].arrive()
        if not BUG:
            b[0].wait(0)
        b[0].arrive()  # early
    with px.warps(8, 4):
        b[0].wait(0)
        px.store(O[0:64, 64:128], px.load(t))  # bug
        b[0].arrive()
        b[0].wait(1)


@planted("race", **COPIED)
@px.kernel(warps=4)
def a_commit_covers_the_copies_before_it(X, O, *, BUG):
    """The later commit tells of both copies, the earlier one of its own."""
    s, t, full = px.shared((64, 64), X.dtype), px.shared((64, 64), X.dtype), px.barrier(2)
    px.cp_async.load(X[0:64, 0:64], s)
    px.cp_async.commit(full[0])
    px.cp_async.load(X[0:64, 64:128], t)  # other
    px.cp_async.commit(full[1])
    full[0 if BUG else 1].wait(0)
    px.store(O[0:64, 0:64], px.load(s))
    px.store(O[0:64, 64:128], px.load(t))  # bug
    full[1 if BUG else 0].wait(0)


@planted("barrier-invalidated", **COPIED)
@px.kernel(warps=4)
def the_arrival_comes_in_the_second_life(X, O, *, BUG):
    s, t, b = px.shared((64, 64), X.dtype), px.shared((64, 64), X.dtype), px.barrier(1, init=False)
    full = px.barrier()
    b[0].init(1)
    px.fence.barrier_init()
    px.sync()
    px.cp_async.load(X[0:64, 0:64], s)
    px.cp_async.commit(b[0])  # bug
    if not BUG:
        b[0].wait(0)
    b[0].invalidate()  # other
    px.sync()
    b[0].init(1)
    px.fence.barrier_init()
    px.sync()
    px.cp_async.load(X[0:64, 64:128], t)
    px.cp_async.commit(b[0])
    b[0].wait(0)
    px.store(O[0:64, 64:128], px.load(t))
    px.cp_async.commit(full)
    full.wait(0)
    px.store(O[0:64, 0:64], px.load(s))


@planted("unfinished", **COPIED)
@px.kernel(warps=4)
def copies_of_threads_are_never_committed(X, O, *, BUG):
    s, full = px.shared((2, 64, 64), X.dtype), px.barrier(2)
    px.cp_async.load(X[0:64, 0:64], s[0])
    px.cp_async.commit(full[0])
    full[0].wait(0)
    px.store(O[0:64, 0:64], px.load(s[0]))
    px.cp_async.load(X[0:64, 64:128], s[1])  # bug
    if not BUG:
        px.cp_async.commit(full[1])
        full[1].wait(0)


@planted("exit-hazard", **COPIED)
@px.kernel(warps=4)
def copies_of_threads_are_committed_and_left(X, O, *, BUG):
    s, full = px.shared((64, 64), X.dtype), px.barrier()
    px.cp_async.load(X[0:64, 0:64], s)
    px.cp_async.commit(full)  # bug
    if not BUG:
        full.wait(0)


def test_what_is_said_of_an_arrival_that_others_overtake():
    case, = (case for case in cases(__name__) if case.kernel is arrives_overtake_a_commit)
    finding, = case.check(True).findings
    there, commit, early = (
        f"test_late_arrivals.py:{line_of(arrives_overtake_a_commit, mark)}" for mark in ("other", "asks", "early")
    )
    assert finding.message == (
        f"px.load reads t and nothing orders it after px.cp_async.load ({there}), which writes it; px.cp_async.commit(bar) "
        f"in warps 0-3 and bar.wait(parity) first, then arrive on a barrier that the other side waits for; here the signal "
        f"of {early} counts for phase 0 of b: nothing tells warps 4-7 that it is complete without the arrive of {commit}"
    )


def test_what_is_said_of_copies_that_are_never_committed():
    case, = (case for case in cases(__name__) if case.kernel is copies_of_threads_are_never_committed)
    finding, = case.check(True).findings
    assert finding.message == (
        "this px.cp_async.load was never committed before the kernel ends; px.cp_async.commit(bar) and bar.wait(parity) in "
        "the same role"
    )


@px.kernel(warps=4)
def only_commits(Y, *, ENGINE):
    """A commit arrives at once where nothing is in flight."""
    bar = px.barrier()
    if ENGINE == "threads":
        px.cp_async.commit(bar)
    else:
        tile = px.tmem((128, 64), px.f32)
        px.tcgen05.store(tile, px.zeros((128, 64), px.f32))
        px.tcgen05.commit(bar)
    bar.wait(0)
    px.store(Y[0, 0:16], px.full((16,), 1.0, px.f32))


@px.kernel(warps=8)
def commits_on_a_pipe(Y, *, ENGINE):
    pipe = px.pipe(2)
    with px.warps(0, 4):
        pipe.acquire()
        if ENGINE == "threads":
            px.cp_async.commit(pipe)
        else:
            px.tcgen05.commit(pipe)
    with px.warps(4, 4):
        pipe.wait()
        pipe.release()
        px.store(Y[0, 0:16], px.full((16,), 1.0, px.f32))


@pytest.mark.parametrize("engine", ["threads", "tensor cores"])
@pytest.mark.parametrize("kernel", [only_commits, commits_on_a_pipe], ids=lambda kernel: kernel.name)
def test_commits_without_any_work(kernel, engine):
    report = px.check(kernel[1], Y, ENGINE=engine)
    assert report.ok, report


EXPLORED = (the_barrier_is_asked_once, the_barrier_is_asked_three_times, arrives_overtake_a_commit)


@pytest.mark.parametrize("kernel", EXPLORED, ids=lambda kernel: kernel.name)
def test_the_exploration_says_the_same(kernel):
    x = np.random.default_rng(0).random((64, 128), np.float32)
    assert px.explore(kernel[1], x, np.zeros_like(x), BUG=False).ok
    assert px.explore(kernel[1], x, np.zeros_like(x), BUG=True).outcomes == 2


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
