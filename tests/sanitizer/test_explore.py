"""`px.explore`: how many orders of events there are, what they end in, and that the search can be spread."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array

X, Y = array(8, 4), array(8, 4)


@px.kernel(warps=3)
def adders(X, Y, *, ORDERED):
    """Two roles write the same row, one after the other or not."""
    turn = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        px.store(Y[0, 0:4], px.load(X[0, 0:4]))
        turn.arrive()
    with px.warps(1, 1):
        if ORDERED:
            turn.wait(0)
        px.store(Y[0, 0:4], px.load(X[1, 0:4]))
    with px.warps(2, 1):
        px.store(Y[1, 0:4], px.load(X[2, 0:4]))


def test_two_writes_in_either_order_have_two_outcomes() -> None:
    seen = px.explore(adders[1], X, Y, ORDERED=False)
    assert (seen.explored, seen.complete, seen.outcomes, seen.deadlocks, seen.errors) == (2, True, 2, [], [])
    assert not seen.ok
    assert len(seen.clashes) == 1


def test_ordered_writes_have_one_order_that_counts() -> None:
    seen = px.explore(adders[1], X, Y, ORDERED=True)
    assert (seen.explored, seen.complete, seen.outcomes) == (1, True, 1)
    assert seen.ok and not seen.clashes
    assert str(seen) == "adders: 1 outcome, no deadlock in all 1 order of events"


def test_the_arguments_stay_as_they_are() -> None:
    y = np.zeros_like(Y)
    px.explore(adders[1], X, y, ORDERED=False)
    assert not y.any()


@px.kernel(warps=4)
def racing(X, Y, *, N):
    """Every role writes the same row N times: (4 N)! / N!^4 orders, of which none commute."""
    for i in px.static_range(4):
        with px.warps(i, 1):
            for n in px.static_range(N):
                px.store(Y[0, 0:4], px.load(X[i, 0:4]) + n)


@pytest.mark.long
def test_orders_of_conflicting_events_are_all_counted_once() -> None:
    seen = px.explore(racing[1], X, Y, N=1)
    assert (seen.explored, seen.complete, seen.outcomes) == (24, True, 4)
    seen = px.explore(racing[1], X, Y, N=2, limit=5000)
    assert (seen.explored, seen.complete, seen.outcomes) == (2520, True, 4)  # 8! / 2!^4


def test_the_limit_is_said_to_be_reached() -> None:
    seen = px.explore(racing[1], X, Y, N=2, limit=100)
    assert not seen.complete and not seen.ok and 0 < seen.explored <= 100
    assert "the first" in seen.summary()


@px.kernel(warps=4)
def counting(X, Y):
    """Three roles arrive, one waits: their arrivals commute."""
    s = px.shared((4, 4), px.f32)
    done = px.barrier(count=3)
    for i in px.static_range(3):
        with px.warps(i, 1):
            px.store(s[i], px.load(X[i, 0:4]))
            done.arrive()
    with px.warps(3, 1):
        done.wait(0)
        for i in px.static_range(3):
            px.store(Y[i, 0:4], px.load(s[i]))


def test_arrivals_of_one_phase_commute() -> None:
    seen = px.explore(counting[1], X, Y)
    assert (seen.explored, seen.outcomes) == (1, 1) and seen.ok


@px.kernel(warps=2)
def atomics(Y, *, SEEN, UPDATE):
    """Two roles update the same element; with SEEN, each keeps what it found there."""
    for i in px.static_range(2):
        with px.warps(i, 1):
            old = px.atomic_add(Y[0], i + 1) if UPDATE == "add" else px.atomic_exch(Y[0], i + 1)
            if SEEN:
                px.store(Y[i + 1], old)


@pytest.mark.parametrize(("update", "seen", "outcomes"), [("add", False, 1), ("add", True, 2), ("exch", False, 2)])
def test_atomics_commute_where_nobody_sees_the_order(update: str, seen: bool, outcomes: int) -> None:
    found = px.explore(atomics[1], np.zeros(4, np.int32), SEEN=seen, UPDATE=update)
    assert found.complete and (found.explored, found.outcomes) == (outcomes, outcomes)
    assert px.check(atomics[1], np.zeros(4, np.int32), SEEN=seen, UPDATE=update).ok


@px.kernel(warps=2)
def late_waiter(X, Y, *, TURNS):
    """Where the barrier runs ahead, the wait never passes."""
    bar = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        bar.wait(0)
    with px.warps(1, 1):
        for _ in px.static_range(TURNS):
            bar.arrive()


def test_a_deadlock_of_some_orders_is_found() -> None:
    assert px.explore(late_waiter[1], X, Y, TURNS=1).ok
    seen = px.explore(late_waiter[1], X, Y, TURNS=2)
    assert seen.complete and len(seen.deadlocks) == 1 and seen.outcomes == 1
    assert "ran ahead" not in str(seen.deadlocks[0]) and "never comes" in str(seen.deadlocks[0])
    assert "1 deadlock" in seen.summary()


def test_the_check_holds_back_a_waiter_that_may_come_too_late() -> None:
    """The default schedules let it wait in time; only a run that starves it shows the deadlock."""
    assert px.check(late_waiter[1], X, Y, TURNS=1).ok
    report = px.check(late_waiter[1], X, Y, TURNS=2)
    assert [finding.kind for finding in report.findings] == ["deadlock"]
    assert any("held back" in schedule for schedule in report.schedules)


@px.kernel(warps=2)
def spinning(X, Y):
    s = px.shared((4,), px.f32)
    bar = px.barrier()
    with px.warps(0, 1):
        px.store(s, px.load(X[0, 0:4]))
        bar.arrive()
    with px.warps(1, 1):
        while not bar.test_wait(0):
            pass
        px.store(Y[0, 0:4], px.load(s))


def test_a_spin_ends() -> None:
    seen = px.explore(spinning[1], X, Y)
    assert seen.ok and seen.outcomes == 1


@px.kernel(warps=1, cluster=2)
def exchange(X, Y, *, SYNC):
    rank = px.cluster.rank()
    s = px.shared((4,), px.f32)
    px.cluster.sync()
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:4]))
    if SYNC:
        px.cluster.sync()
    px.store(Y[rank, 0:4], px.load(s))


def test_clusters() -> None:
    assert px.explore(exchange[2], X, Y, SYNC=True).ok
    seen = px.explore(exchange[2], X, Y, SYNC=False)
    assert seen.complete and seen.outcomes == 3  # either reads its poison or not; the second to read never does


@px.kernel(warps=1)
def copies(X, Y, *, WAIT):
    s = px.shared((2, 4), px.f32)
    bar = px.barrier(2)
    for i in px.static_range(2):
        bar[i].arrive_and_expect_tx(16)
        px.tma.load(X[i, 0:4], s[i], bar[i])
    bar[0].wait(0)
    if WAIT:
        bar[1].wait(0)
    px.tma.store(s[1], Y[0, 0:4])
    px.tma.commit()
    px.tma.wait(0)
    bar[1].wait(0)


def test_copies_are_threads_of_their_own() -> None:
    assert px.explore(copies[1], X, Y, WAIT=True).ok
    assert px.explore(copies[1], X, Y, WAIT=False).outcomes == 2


def test_refused_signals_are_errors() -> None:
    @px.kernel(warps=2)
    def twice(X, Y):
        s = px.shared((4,), px.f32)
        bar = px.barrier(count=1, checked=False)
        with px.warps(0, 1):
            bar.arrive_and_expect_tx(16)
            px.tma.load(X[0, 0:4], s, bar)
            bar.wait(0)
        with px.warps(1, 1):
            bar.arrive()

    seen = px.explore(twice[1], X, Y)
    assert not seen.ok and "over-arrival" in {error.kind for error in seen.errors}


def test_what_is_not_a_launch_is_an_error() -> None:
    with pytest.raises(px.Error, match="kernel with its grid"):
        px.explore(adders, X, Y)
    with pytest.raises(px.Error, match="limit"):
        px.explore(adders[1], X, Y, ORDERED=True, limit=0)


# --- executors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(1), lambda: ProcessPoolExecutor(2, get_context("fork"))])
def test_exploration_is_spread_over_an_executor(make) -> None:
    with make() as executor:
        seen = px.explore(racing[1], X, Y, N=1, executor=executor)
        assert (seen.explored, seen.complete, seen.outcomes) == (24, True, 4) and seen.parts > 1
        assert px.explore(adders[1], X, Y, ORDERED=True, executor=executor).ok
        stuck = px.explore(late_waiter[1], X, Y, TURNS=2, executor=executor)
        assert len(stuck.deadlocks) == 1 and stuck.deadlocks[0].location.line


def test_schedules_are_spread_over_an_executor() -> None:
    """What travels is the IR: the kernel is local to this function and could not be imported elsewhere."""

    @px.kernel(warps=2)
    def early(X, Y):
        s = px.shared((4,), px.f32)
        bar = px.barrier(count=1, checked=False)
        with px.warps(0, 1):
            px.store(s, px.load(X[0, 0:4]))
            bar.arrive()
        with px.warps(1, 1):
            bar.wait(0)
            px.store(Y[0, 0:4], px.load(s))

    with ProcessPoolExecutor(2, get_context("fork")) as executor:
        report = px.check(early[1], X, Y, schedules=8, executor=executor)
        assert report.ok and len(report.schedules) == 8
        report = px.check(late_waiter[1], X, Y, TURNS=2, schedules=4, executor=executor)
        assert [finding.kind for finding in report.findings] == ["deadlock"]
        assert report.findings[0].location.file == __file__


def test_processes_help_where_there_is_much_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from phalanx.runtime import checking

    monkeypatch.setattr(checking, "WORTH_PROCESSES", 0.0)
    report = px.check(counting[1], X, Y, schedules=7)
    assert report.ok and len(report.schedules) == 7


def test_the_ir_comes_back_as_it_was() -> None:
    """Through bytes and back: the same text, one object for the same bytes, places that are nowhere still nowhere."""
    from phalanx.ir import printer
    from phalanx.location import NOWHERE
    from phalanx.runtime.launch.specialise import read_arguments, specialise
    from phalanx.runtime.process_pool import pack, unpack

    function = specialise(counting, read_arguments(counting, (X, Y)), {}).prepared
    packed = pack(function)
    again = unpack(packed)
    assert printer.text(again) == printer.text(function)
    assert unpack(packed) is again
    nowhere = [op for op in function.walk() if op.loc is NOWHERE]
    assert len([op for op in again.walk() if op.loc is NOWHERE]) == len(nowhere)


def test_on_a_dask_cluster() -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            executor = client.get_executor()
            assert px.check(counting[1], X, Y, schedules=5, executor=executor).ok
            seen = px.explore(racing[1], X, Y, N=1, executor=executor)
            assert (seen.explored, seen.complete, seen.outcomes) == (24, True, 4)


@pytest.mark.parametrize("starved", [(0, 0), (0, 1), (0, 3)])
def test_a_run_that_holds_an_agent_back_is_right(starved: tuple[int, int]) -> None:
    from phalanx.runtime.launch.specialise import read_arguments, specialise
    from phalanx.sim.run import simulate
    from phalanx.sim.scheduler import Hold, Schedule

    y = np.zeros_like(Y)
    function = specialise(counting, read_arguments(counting, (X, y)), {}).prepared
    simulate(function, 3, [X, y], schedule=Schedule("starve", held=(Hold(starved),)))
    assert np.array_equal(y[:3], X[:3])


@px.kernel(warps=3)
def one_wait_or_the_other(Y):
    s = px.shared((4,), px.f32)
    first = px.barrier(count=1, checked=False)
    asked = px.barrier(count=1, checked=False)
    go = px.barrier(count=1, checked=False)
    px.store(s, px.full((4,), 2.0, px.f32))
    with px.warps(0, 1):
        first.arrive()
        go.wait(0)
        px.store(s, px.full((4,), 4.0, px.f32))
    with px.warps(1, 1):
        first.wait(0)
        while not asked.test_wait(0):
            pass
        px.store(Y[0:4], px.load(s))
        first.arrive()
    with px.warps(2, 1):
        asked.arrive()
        first.wait(1)  # passes before the first arrive, or after the second
        go.arrive()


def test_a_wait_for_a_phase_that_is_past_when_it_is_reached() -> None:
    """The wait is over at once or much later: one that passes late follows the arrive that made it wait: no race shows."""
    seen = px.explore(one_wait_or_the_other[1], np.zeros(4, np.float32))
    assert seen.complete and not seen.deadlocks and seen.outcomes == 2
