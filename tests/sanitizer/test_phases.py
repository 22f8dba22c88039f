"""Which phase a signal counts for, and what a test says, where it depends on the order of events: at default settings."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 64), array(256, 64)
N = np.zeros(64, np.int32)


@planted("race", args=(X, Y))
@px.kernel(warps=8)
def arrives_for_the_expect_of_another(X, Y, *, BUG):
    """The phase may complete without a byte, before it is expected."""
    s, bar = px.shared((64, 64), X.dtype), px.barrier(count=1, checked=False)
    with px.warps(0, 4):
        if BUG:
            bar.expect_tx(s.nbytes)
        else:
            bar.arrive_and_expect_tx(s.nbytes)
        px.tma.load(X[0:64, 0:64], s, bar)  # other
    with px.warps(4, 4):
        if BUG:
            bar.arrive()
        bar.wait(0)
        px.store(Y[0:64, 0:64], px.load(s))  # bug


@planted("race", args=(N,))
@px.kernel(warps=12)
def fills_a_phase_of_two_alone(Y, *, BUG):
    """Nothing keeps the second arrive of the last role out of phase 0, unless it waits."""
    s = px.shared((2, 2, 32), px.i32)
    full, seen = px.barrier(count=2, checked=False), px.barrier()
    with px.warps(0, 4):
        px.store(s[0, 1], px.full((32,), 3, px.i32))  # other
        full.arrive()
        seen.wait(0)
        px.store(s[1, 1], px.full((32,), 4, px.i32))
        full.arrive()
    with px.warps(4, 4):
        full.wait(0)
        px.store(Y[0:32], px.load(s[0, 0]) + px.load(s[0, 1]))  # bug
        seen.arrive()
        full.wait(1)
        px.store(Y[32:64], px.load(s[1, 0]) + px.load(s[1, 1]))
    with px.warps(8, 4):
        px.store(s[0, 0], px.full((32,), 1, px.i32))
        full.arrive()
        px.store(s[1, 0], px.full((32,), 2, px.i32))
        if not BUG:
            full.wait(0)
        full.arrive()


@planted("race", grid=2, args=(N,))
@px.kernel(warps=2, cluster=2)
def a_peer_fills_a_phase_of_two_alone(Y, *, BUG):
    """The same over the cluster: CTA 1 signals twice before CTA 0 has signalled itself."""
    rank = px.cluster.rank()
    s = px.shared((32,), px.i32)
    full, seen = px.barrier(count=2, checked=False), px.barrier(count=1, checked=False)
    px.cluster.sync()
    with px.warps(0, 1):
        if rank == 1:
            full.arrive(ctas=0b01)
            if not BUG:
                seen.wait(0)
            full.arrive(ctas=0b01)
        else:
            px.store(s, px.full((32,), 1, px.i32))  # other
            full.arrive()
            seen.wait(0)
            full.arrive()
    with px.warps(1, 1):
        if rank == 0:
            full.wait(0)
            px.store(Y[0:32], px.load(s))  # bug
            seen.arrive(ctas=0b11)
            full.wait(1)


@planted("race", args=(X, Y), TRIES=4)
@px.kernel(warps=4)
def polls_a_few_times_and_goes_on(X, Y, *, BUG, TRIES):
    s, bar = px.shared((64, 64), X.dtype), px.barrier()
    with bar.transaction():
        px.tma.load(X[0:64, 0:64], s, bar)  # other
    for _ in range(TRIES):
        if bar.test_wait(0):
            break
    if not BUG:
        bar.wait(0)
    px.store(Y[0:64, 0:64], px.load(s))  # bug
    if BUG:
        bar.wait(0)


@planted("race", args=(X, Y))
@px.kernel(warps=2)
def asks_once_for_what_another_hands_over(X, Y, *, BUG):
    s, bar = px.shared((64,), X.dtype), px.barrier()
    with px.warps(0, 1):
        px.store(s, px.load(X[0, 0:64]))  # other
        bar.arrive()
    with px.warps(1, 1):
        if bar.test_wait(0):
            px.store(Y[0, 0:64], px.load(s))
        elif BUG:
            px.store(Y[1, 0:64], px.load(s))  # bug


@planted("deadlock", args=(N,), schedules=1)
@px.kernel(warps=3)
def a_loop_that_asks_may_come_late(Y, *, BUG):
    """To ask until the answer is yes is to wait: the barrier may be two phases further by then."""
    bar, seen = px.barrier(count=1, checked=False), px.barrier()
    with px.warps(0, 1):
        bar.arrive()
    with px.warps(1, 1):
        while not bar.test_wait(0):  # bug
            pass
        seen.arrive()
    with px.warps(2, 1):
        if not BUG:
            seen.wait(0)
        bar.arrive()


@planted("deadlock", args=(N,), schedules=1)
@px.kernel(warps=3)
def a_test_may_come_late(Y, *, BUG):
    """It comes after phase 0, and says no all the same where phase 1 is complete, too: then warp 1 waits for nothing."""
    bar, done, seen = px.barrier(count=1, checked=False), px.barrier(count=1, checked=False), px.barrier()
    with px.warps(0, 1):
        bar.arrive()
        done.arrive()
    with px.warps(1, 1):
        done.wait(0)
        if not bar.test_wait(0):
            done.wait(1)  # bug
        seen.arrive()
    with px.warps(2, 1):
        bar.wait(0)
        if not BUG:
            seen.wait(0)
        bar.arrive()


@planted("deadlock", grid=4, args=(N,), schedules=1)
@px.kernel(warps=2, cluster=4)
def all_peers_may_be_late(Y, *, BUG):
    """Whoever is late is saved by a third phase, which comes from another CTA, unless all of them are late."""
    bar = px.barrier(count=1, checked=False)
    px.cluster.sync()
    with px.warps(0, 1):
        bar.wait(0)  # bug
        if BUG:
            bar.arrive(ctas=1 << (px.cluster.rank() + 1) % 4)
    with px.warps(1, 1):
        bar.arrive()
        bar.arrive()
        if not BUG:
            bar.arrive()


@planted("deadlock", args=(N,), schedules=1)
@px.kernel(warps=4)
def late_for_a_signal_that_may_be_early(Y, *, BUG):
    """Warp 3 can be late for phase 0 of `bar` only if warp 1 does not wait for what warp 3 does after it: if it comes to its
    wait before warp 0 arrives."""
    bar, free, told = px.barrier(count=1, checked=False), px.barrier(count=1, checked=False), px.barrier()
    with px.warps(0, 1):
        free.arrive()
        told.arrive()
    with px.warps(1, 1):
        if not BUG:
            told.wait(0)
        free.wait(1)
        bar.arrive()
    with px.warps(2, 1):
        bar.arrive()
    with px.warps(3, 1):
        bar.wait(0)  # bug
        told.wait(0)
        free.arrive()


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


@pytest.mark.share(4)
@pytest.mark.parametrize("tries", [1, 2, 3, 100])
def test_however_often_it_polls(tries):
    report = px.check(polls_a_few_times_and_goes_on[1], X, Y, BUG=True, TRIES=tries)
    assert [finding.kind for finding in report.findings] == ["race"]
    seen = px.explore(polls_a_few_times_and_goes_on[1], X, Y, BUG=True, TRIES=tries)
    assert seen.outcomes == 2
    assert px.explore(polls_a_few_times_and_goes_on[1], X, Y, BUG=False, TRIES=tries).ok


def test_the_findings_say_which_signal_counts_for_what():
    finding, = px.check(fills_a_phase_of_two_alone[1], N, BUG=True).findings
    assert "counts for phase 0 of full: nothing tells warps 8-11 that it is complete without the arrive" in finding.message
    finding, = px.check(arrives_for_the_expect_of_another[1], X, Y, BUG=True).findings
    assert "here phase 0 of bar completes before the expect of" in finding.message
    finding, = px.check(polls_a_few_times_and_goes_on[1], X, Y, BUG=True, TRIES=4).findings
    assert "here the test of" in finding.message and "says no" in finding.message


@px.kernel(warps=3)
def takes_turns(Y, *, TURNS=6):
    """Two roles arrive in turns on a barrier of one, each after the other's phase: the order is there."""
    s = px.shared((32,), px.i32)
    turn = px.barrier(count=1, checked=False)
    done = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        for t in range(TURNS // 2):
            if t > 0:
                turn.wait(1)
            px.store(s, px.full((32,), t, px.i32))
            turn.arrive()
    with px.warps(1, 1):
        for _ in range(TURNS // 2):
            turn.wait(0)
            px.store(s, px.load(s) + 1)
            turn.arrive()
        done.arrive()
    with px.warps(2, 1):
        done.wait(0)
        px.store(Y[0:32], px.load(s))


def test_roles_that_take_turns_are_clean_and_cost_no_further_run():
    report = px.check(takes_turns[1], N)
    assert report.ok, report
    assert px.explore(takes_turns[1], N).ok
    assert len(report.schedules) == 3


@px.kernel(warps=2)
def comes_to_the_same(Y):
    """The second arrive of warp 1 may count for phase 0, and then warp 0's first one for phase 1: no matter."""
    s = px.shared((32,), px.i32)
    both = px.barrier(count=2, checked=False)
    with px.warps(0, 1):
        both.arrive()
        both.wait(0)
        both.arrive()
        both.wait(1)
        px.store(Y[0:32], px.load(s))
    with px.warps(1, 1):
        both.arrive()
        px.store(s, px.full((32,), 1, px.i32))
        both.arrive()


def test_phases_that_depend_on_the_order_are_no_mistake_by_themselves():
    report = px.check(comes_to_the_same[1], N)
    assert report.ok, report
    assert any("held back from signal" in schedule for schedule in report.schedules)
    assert px.explore(comes_to_the_same[1], N).ok


@px.kernel(warps=2, cluster=16)
def sixteen_late_waiters(Y, *, BUG):
    """Every first wait may come late; a third phase saves it, and the last CTA has none."""
    rank = px.cluster.rank()
    bar = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        bar.wait(0)
        px.store(Y[rank], 1)
    with px.warps(1, 1):
        bar.arrive()
        bar.arrive()
        if not BUG or rank < 15:
            bar.arrive()


def test_every_late_waiter_is_tried():
    """Each alone, then all of them."""
    report = px.check(sixteen_late_waiters[16], N, BUG=False)
    assert report.ok, report
    held = [schedule.count("agent 1") for schedule in report.schedules if "held back" in schedule]
    assert held.count(1) == 16 and held.count(16) == 1
    report = px.check(sixteen_late_waiters[16], N, BUG=True)
    assert [finding.kind for finding in report.findings] == ["deadlock"]
    assert sum("held back" in schedule for schedule in report.schedules) == 16


@px.kernel(warps=1)
def waits_for_a_parity(Y, p, *, TEST):
    bar = px.barrier()
    bar.arrive()
    if TEST:
        while not bar.test_wait(p):
            pass
    else:
        bar.wait(p)
    px.store(Y[0], 1)


@pytest.mark.parametrize("test", [False, True])
def test_a_parity_at_run_time_is_0_or_1(test):
    for use in (px.check, px.explore):
        assert use(waits_for_a_parity[1], N, 0, TEST=test).ok
    for parity in (2, -1):
        with pytest.raises(px.Error, match=f"bar is waited for with parity {parity}") as caught:
            px.check(waits_for_a_parity[1], N, parity, TEST=test)
        assert "bar." in caught.value.location.text and "k & 1" in caught.value.remedy
        seen = px.explore(waits_for_a_parity[1], N, parity, TEST=test)
        assert [error.message for error in seen.errors] == [f"bar is waited for with parity {parity}"]
