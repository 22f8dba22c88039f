"""What orders what, row by row of the table in `docs/checks.md`: each pair of kernels differs in one thing."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, cases, planted

X, Y = array(256, 64), array(256, 64)


@planted("race", args=(X, Y))
@px.kernel(warps=2)
def waiting_for_one_copy_says_nothing_of_another(X, Y, *, BUG):
    s = px.shared((2, 64, 64), X.dtype)
    bar = px.barrier(2)
    with px.warps(0, 1):
        for i in px.static_range(2):
            with bar[i].transaction():
                px.tma.load(X[i * 64 : i * 64 + 64, 0:64], s[i], bar[i])  # other
        if not BUG:
            bar[0].wait(0)
        bar[1].wait(0)
        px.store(Y[0:64, 0:64], px.load(s[0]))  # bug
        if BUG:
            bar[0].wait(0)


@planted("race", args=(X, Y))
@px.kernel(warps=3)
def a_copy_publishes_nothing_else_of_its_issuer(X, Y, *, BUG):
    s = px.shared((2, 64, 64), X.dtype)
    full = px.barrier(count=2)
    with px.warps(0, 1):
        if not BUG:
            px.store(s[1], px.load(X[0:64, 0:64]))
        px.tma.load(X[0:64, 0:64], s[0], full)
        if BUG:
            full.arrive()
            px.store(s[1], px.load(X[0:64, 0:64]))  # other
        else:
            full.arrive()
    with px.warps(1, 1):
        full.arrive_and_expect_tx(64 * 64 * 4)
        full.wait(0)
        px.store(Y[0:64, 0:64], px.load(s[0]) + px.load(s[1]))  # bug


@planted("race", args=(X, Y))
@px.kernel(warps=2)
def an_arrive_does_not_publish_copies_in_flight(X, Y, *, BUG):
    s = px.shared((64, 64), X.dtype)
    landed = px.barrier()
    told = px.barrier()
    with px.warps(0, 1):
        with landed.transaction():
            px.tma.load(X[0:64, 0:64], s, landed)  # other
        if not BUG:
            landed.wait(0)
        told.arrive()
        if BUG:
            landed.wait(0)
    with px.warps(1, 1):
        told.wait(0)
        px.store(Y[0:64, 0:64], px.load(s))  # bug


@planted("race", args=(X, Y))
@px.kernel(warps=3)
def what_is_observed_is_handed_on(X, Y, *, BUG):
    s = px.shared((64,), X.dtype)
    first = px.barrier()
    second = px.barrier()
    with px.warps(0, 1):
        px.store(s, px.load(X[0, 0:64]))  # other
        first.arrive()
    with px.warps(1, 1):
        if not BUG:
            first.wait(0)
        second.arrive()
        if BUG:
            first.wait(0)
    with px.warps(2, 1):
        second.wait(0)
        px.store(Y[0, 0:64], px.load(s))  # bug


@planted("race", args=(X, Y))
@px.kernel(warps=2)
def a_wait_takes_over_its_own_phase_only(X, Y, *, BUG):
    s = px.shared((3, 64), X.dtype)
    done = px.barrier(count=1, checked=False)
    seen = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        for i in px.static_range(3):
            px.store(s[i], px.load(X[i, 0:64]))  # other
            done.arrive()
            if not BUG:
                seen.wait(i & 1)
    with px.warps(1, 1):
        done.wait(0)  # late: two more phases may be complete, but nothing says so
        if not BUG:
            seen.arrive()
            for i in px.static_range(1, 3):
                done.wait(i & 1)
                seen.arrive()
        px.store(Y[0, 0:64], px.load(s[2]))  # bug


@planted("race", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def a_cluster_barrier_does_not_publish_copies_in_flight(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64, 64), X.dtype)
    bar = px.barrier()
    with bar.transaction():
        px.tma.load(X[0:64, 0:64], s, bar)  # other
    if not BUG:
        bar.wait(0)
    px.cluster.sync()
    x = px.load(s.at(rank ^ 1))  # bug
    px.store(Y[rank * 64 : rank * 64 + 64, 0:64], x)
    if BUG:
        bar.wait(0)


@planted("race", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def a_relaxed_arrive_publishes_no_data(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:64]))  # other
    px.cluster.arrive(relaxed=bool(BUG))
    px.cluster.wait()
    px.store(Y[rank, 0:64], px.load(s))  # bug


@planted("race", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def a_fence_makes_a_relaxed_arrive_publish(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    if BUG:
        px.fence.cluster()
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:64]))  # other
    if not BUG:
        px.fence.cluster()
    px.cluster.arrive(relaxed=True)
    px.cluster.wait()
    px.store(Y[rank, 0:64], px.load(s))  # bug


@planted("race", args=(X, Y))
@px.kernel(warps=3)
def concurrent_roles_are_not_ordered(X, Y, *, BUG):
    s = px.shared((64,), X.dtype)
    with px.warps(0, 1):
        px.store(s, px.load(X[0, 0:64]))  # other
    if not BUG:
        px.sync()
    with px.warps(1, 1):
        px.store(Y[0, 0:64], px.load(s))  # bug


@planted("race", grid=2, args=(X, Y))
@px.kernel(warps=1, cluster=2)
def a_remote_arrive_hands_over_to_the_peer(X, Y, *, BUG):
    rank = px.cluster.rank()
    s = px.shared((64,), X.dtype)
    told = px.barrier(count=1, checked=False)
    px.store(s.at(rank ^ 1), px.load(X[rank, 0:64]))  # other
    told.arrive(ctas=1 << (rank if BUG else rank ^ 1))
    told.wait(0)
    px.store(Y[rank, 0:64], px.load(s))  # bug


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()


def test_a_prefetch_is_no_access():
    @px.kernel(warps=2)
    def prefetch(X, Y):
        with px.warps(0, 1):
            px.store(Y[0:64, 0:64], px.load(X[0:64, 0:64]))
        with px.warps(1, 1):
            px.tma.prefetch(Y[0:64, 0:64])

    assert px.check(prefetch[1], X, Y).ok


def test_the_main_code_after_a_join_knows_what_roles_did_and_observed():
    @px.kernel(warps=2)
    def joined(X, Y):
        s = px.shared((2, 64, 64), X.dtype)
        bar = px.barrier()
        with px.warps(0, 1):
            with bar.transaction():
                px.tma.load(X[0:64, 0:64], s[0], bar)
            bar.wait(0)
        with px.warps(1, 1):
            px.store(s[1], px.load(X[64:128, 0:64]))
        px.sync()
        px.store(Y[0:64, 0:64], px.load(s[0]) + px.load(s[1]))

    assert px.check(joined[1], X, Y, schedules=6).ok


def test_a_spin_on_test_wait_is_a_wait():
    @px.kernel(warps=2)
    def spin(X, Y, *, BUG):
        s = px.shared((64,), X.dtype)
        done = px.barrier(count=1 + BUG, checked=False)
        with px.warps(0, 1):
            px.store(s, px.load(X[0, 0:64]))
            done.arrive()
        with px.warps(1, 1):
            while not done.test_wait(0):
                pass
            px.store(Y[0, 0:64], px.load(s))

    assert px.check(spin[1], X, Y, BUG=False, schedules=5).ok
    finding, = px.check(spin[1], X, Y, BUG=True).findings
    assert finding.kind == "deadlock" and "spins" in finding.message
