"""Atomics beside other accesses, and beside each other: whose order matters, and which are no race."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from sanitizer.planted import array, cases, line_of, planted

X = array(8, 64)
ONES = np.ones((8, 64), np.float32)


def arrays():
    return ONES, np.zeros((8, 64), np.float32), np.zeros((8, 64), np.float32)


# --- reads of what others update -----------------------------------------------------------------------------------------


@px.kernel(warps=4)
def reads_beside_reads(W, Y, *, HOW):
    """An atomic load is a read: others may read the same elements in whatever way."""
    s, full = px.shared((64,), px.f32), px.barrier()
    if px.block_id(0) == 0:
        px.store(Y[0, 0:64], px.atomic_load(W[0, 0:64]))
    else:
        if HOW == "load":
            px.store(Y[1, 0:64], px.load(W[0, 0:64]))
        elif HOW == "threads":
            px.cp_async.load(W[0, 0:64], s)
            px.cp_async.commit(full)
            full.wait(0)
            px.store(Y[1, 0:64], px.load(s))
        else:
            with full.transaction():
                px.tma.load(W[0, 0:64], s, full)
            full.wait(0)
            px.store(Y[1, 0:64], px.load(s))
    if px.block_id(0) == 0:
        px.store(W[1, 0:64], px.load(Y[0, 0:64]))


@pytest.mark.parametrize("how", ["load", "threads", "engine"])
def test_atomic_loads_beside_other_reads_are_no_race(how):
    report = px.check(reads_beside_reads[2], *arrays()[:2], HOW=how)
    assert report.ok, report


@px.kernel(warps=4)
def read_then_copied(W, Y):
    """The engine reads what an atomic load has read: two reads need no fence."""
    s, full = px.shared((64,), px.f32), px.barrier()
    v = px.atomic_load(W[0, 0:64])
    px.sync()
    with full.transaction():
        px.tma.load(W[0, 0:64], s, full)
    full.wait(0)
    px.store(Y[0, 0:64], px.load(s) + v)
    px.store(W[1, 0:64], v)


@px.kernel(warps=4)
def read_then_overwritten(W, Y):
    """The engine overwrites what an atomic load has read: that it comes after is enough."""
    s = px.shared((64,), px.f32)
    px.store(s, px.atomic_load(W[0, 0:64]) + 1)
    px.fence.async_proxy()
    px.sync()
    px.tma.store(s, W[0, 0:64])
    px.tma.commit()
    px.tma.wait(0)


@pytest.mark.parametrize("kernel", [read_then_copied, read_then_overwritten], ids=lambda kernel: kernel.name)
def test_an_atomic_load_before_the_engine_needs_no_fence(kernel):
    report = px.check(kernel[1], *arrays()[:2])
    assert report.ok, report


@planted("race", grid=2, args=arrays()[:2])
@px.kernel(warps=4)
def an_atomic_load_beside_a_store(W, Y, *, BUG):
    """Beside updates it is no race; beside an ordinary store it is."""
    if px.block_id(0) == 0:
        if BUG:
            px.store(W[0, 0:64], px.full((64,), 2.0, px.f32))  # other
        else:
            px.atomic_exch(W[0, 0:64], px.full((64,), 2.0, px.f32))
    else:
        px.store(Y[1, 0:64], px.atomic_load(W[0, 0:64]))  # bug


@planted("race", grid=2, args=arrays()[:2])
@px.kernel(warps=4)
def a_load_beside_an_update(W, Y, *, BUG):
    if px.block_id(0) == 0:
        px.atomic_add(W[0, 0:64], px.full((64,), 2.0, px.f32))  # other
    else:
        if BUG:
            px.store(Y[1, 0:64], px.load(W[0, 0:64]))  # bug
        else:
            px.store(Y[1, 0:64], px.atomic_load(W[0, 0:64]))


# --- elements of two sizes -----------------------------------------------------------------------------------------------

LONGS = np.zeros(32, np.int64)


@planted("race", grid=2, args=(LONGS, LONGS.view(np.int32)))
@px.kernel(warps=4)
def atomics_of_two_sizes(A, B, *, BUG):
    if px.block_id(0) == 0:
        px.atomic_add(A[0:16], 1)  # other
    elif BUG:
        px.atomic_add(B[0:64], 1)  # bug
    else:
        px.atomic_add(B[32:64], 1)


@planted("race", grid=2, args=(LONGS, LONGS.view(np.int32)))
@px.kernel(warps=4)
def an_atomic_load_of_another_size(A, B, *, BUG):
    if px.block_id(0) == 0:
        px.atomic_add(A[0:16], 1)  # other
    elif BUG:
        px.atomic_add(B[32:48], px.atomic_load(B[0:16]))  # bug
    else:
        px.atomic_add(A[16:32], px.atomic_load(A[0:16]))


@px.kernel(warps=2)
def of_two_sizes_in_order(A, B):
    told = px.barrier()
    with px.warps(0, 1):
        px.atomic_add(A[0:32], 1)
        told.arrive()
    with px.warps(1, 1):
        told.wait(0)
        px.atomic_add(B[0:64], 1)


def test_what_is_said_of_two_sizes():
    case, = (case for case in cases(__name__) if case.kernel is atomics_of_two_sizes)
    finding, = case.check(True).findings
    other = f"test_atomics.py:{line_of(atomics_of_two_sizes, 'other')}"
    assert finding.message == (
        f"px.atomic_add updates B[0:64] by elements of 4 bytes, and px.atomic_add ({other}) updates A[0:16], the same "
        "memory, by elements of 8: atomics go one after the other only where they take the same elements; take elements of "
        "one size in both, or order the two"
    )
    assert px.check(of_two_sizes_in_order[1], LONGS, LONGS.view(np.int32)).ok


# --- who comes first -----------------------------------------------------------------------------------------------------


@px.kernel(warps=4)
def last_comer(X, W, Y, *, WRONG):
    """The last of the CTAs to come adds up; WRONG: it does so only if it is also the one with the highest number."""
    c, me = px.counters(1), px.block_id(0)
    px.store(W[me, 0:64], px.load(X[me, 0:64]))
    if px.atomic_add(c[0], 1, order="acq_rel") == 7:
        if me == 7 or not WRONG:
            px.atomic_exch(c[0], 0)
            px.store(Y[0, 0:64], px.sum(px.load(W[0:8, 0:64]), 0))


@pytest.mark.parametrize("schedules", [1, 3])
def test_another_cta_may_come_last_to_a_counter(schedules):
    assert px.check(last_comer[8], *arrays(), WRONG=False, schedules=schedules).ok
    report = px.check(last_comer[8], *arrays(), WRONG=True, schedules=schedules)
    assert [finding.kind for finding in report.findings] == ["unfinished"]
    assert report.schedules[:2] == ("late", "early") and report.findings[0].schedule == "early"


@px.kernel(warps=4)
def first_comer(X, Y, *, WRONG):
    """The first of the CTAs to come opens the counter for all; WRONG: only if it is CTA 0."""
    c, me = px.counters(2), px.block_id(0)
    if px.atomic_add(c[0], 1) == 0:
        if me == 0 or not WRONG:
            px.atomic_add(c[1], 1)
    if px.atomic_add(c[0], 1) == 7:
        px.atomic_exch(c[0], 0)
        px.atomic_add(c[1], -1)


def test_another_cta_may_come_first():
    assert px.check(first_comer[4], *arrays()[:2], WRONG=False).ok
    assert {f.kind for f in px.check(first_comer[4], *arrays()[:2], WRONG=True).findings} == {"unfinished"}


@planted("unfinished", grid=2, args=(np.zeros(1, np.int32),))
@px.kernel(warps=1, cooperative=True)
def comes_last_though_another_waited_for_it(W, *, BUG):
    """CTA 0 waits for a flag of CTA 1 before it comes to the counter; with the bug CTA 1 counts on not being the last."""
    c = px.counters(1)
    if px.block_id(0) == 0:
        while px.atomic_add(W[0], 0, order="acq_rel") < 1:
            pass
        if px.atomic_add(c[0], 1, order="acq_rel") == 1:
            px.atomic_exch(c[0], 0)
    else:
        px.atomic_add(W[0], 1, order="acq_rel")
        if px.atomic_add(c[0], 1, order="acq_rel") == 1:  # bug
            if not BUG:
                px.atomic_exch(c[0], 0)


@planted("race", grid=2, args=(np.zeros((1, 64), np.float32), np.zeros((2, 64), np.float32), np.zeros(1, np.int32)))
@px.kernel(warps=2, cooperative=True)
def comes_first_though_it_waited(G, Y, W, *, BUG):
    """Who comes last to the counter reads a row. Role 0 of CTA 1 comes behind a flag of CTA 0, and yet may be the first:
    then CTA 0 reads what CTA 1 writes behind the counter."""
    c, me = px.counters(1), px.block_id(0)
    with px.warps(0, 1):
        if me == 1:
            while px.atomic_add(W[0], 0, order="acq_rel") < 1:
                pass
            if not BUG:
                px.store(G[0, 0:64], px.full((64,), 1.0, px.f32))
        if px.atomic_add(c[0], 1, order="acq_rel") == 1:  # counter
            px.atomic_exch(c[0], 0)
            px.store(Y[0, 0:64], px.load(G[0, 0:64]))  # bug
        if BUG and me == 1:
            px.store(G[0, 0:64], px.full((64,), 1.0, px.f32))  # other
    with px.warps(1, 1):
        if me == 0:
            px.atomic_add(W[0], 1, order="acq_rel")


def test_the_report_says_which_cta_came_before():
    case = next(case for case in cases(__name__) if case.kernel is comes_first_though_it_waited)
    report = case.check(True)
    line = line_of(case.kernel, "counter")
    assert report.findings[0].message.endswith(
        f"; here warp 0 of CTA 0 of cluster 1 comes to counters[0] (test_atomics.py:{line}) before warp 0 of CTA 0 of "
        f"cluster 0 (test_atomics.py:{line})"
    )
    assert "agent 1 of CTA 0 of cluster 0 held back" in report.schedules


@planted("race", grid=4, args=(ONES, np.zeros((8, 64), np.float32), np.zeros(1, np.int32)))
@px.kernel(warps=4)
def places_by_who_comes_first(X, W, N, *, BUG):
    """Each CTA draws a row; with the bug CTA 0 takes it for granted that it is the first."""
    me = px.block_id(0)
    at = px.atomic_add(N[0], 1)
    if BUG:
        if me == 0:
            px.store(W[0, 0:64], px.load(X[0, 0:64]))  # bug
        else:
            px.store(W[at, 0:64], px.load(X[me, 0:64]))  # other
    else:
        px.store(W[at, 0:64], px.load(X[me, 0:64]))


@planted("deadlock", grid=1, args=arrays()[:2])
@px.kernel(warps=3)
def which_role_comes_first(X, Y, *, BUG):
    """Both roles arrive; with the bug the second one only if it came second."""
    turn, done = px.shared((1,), px.i32), px.barrier(count=2, checked=False)
    px.store(turn, px.zeros((1,), px.i32))
    with px.warps(0, 1):
        px.atomic_add(turn[0], 1)
        done.arrive()
    with px.warps(1, 1):
        if px.atomic_add(turn[0], 1) == 1 or not BUG:
            done.arrive()
    with px.warps(2, 1):
        done.wait(0)  # bug


@px.kernel(warps=2)
def sums(X, Y):
    """Nobody looks at what the counters were: no order is in doubt."""
    with px.warps(0, 1):
        px.atomic_add(Y[0, 0:64], px.load(X[0, 0:64]))
    with px.warps(1, 1):
        px.atomic_add(Y[0, 0:64], px.load(X[1, 0:64]))


def test_updates_that_commute_leave_no_doubt():
    assert px.check(sums[4], *arrays()[:2], schedules=1).schedules == ("late",)


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
