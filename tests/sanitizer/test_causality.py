"""What one agent learned of another cluster goes on by every release that follows, of whatever kind, within its scope."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.core import rewrite
from phalanx.ir.effects import Span
from sanitizer.leaving_out import findings_of, function_of
from sanitizer.planted import array, cases, planted

X = array(4, 64)


def arrays():
    return X, np.zeros((4, 64), np.float32), np.zeros((4, 64), np.float32)


@px.kernel(warps=4, cluster=2, cooperative=True)
def grid_barrier(X, W, Y, *, SYNC="sync", LATE=False):
    """Every CTA writes a row and reads one of the other cluster: rank 0 meets the other cluster, then tells its own.

    LATE: a CTA tells its own rank 0 before it has written.
    """
    c, me = px.counters(2), px.block_id(0)
    if not LATE:
        px.store(W[me, 0:64], px.load(X[me, 0:64]))
    px.cluster.sync()
    if LATE:
        px.store(W[me, 0:64], px.load(X[me, 0:64]))
    if px.cluster.rank() == 0:
        n = px.atomic_add(c[0], 1, order="acq_rel") + 1
        while n < 2:
            n = px.atomic_add(c[0], 0, order="acq_rel")
    if SYNC == "sync":
        px.cluster.sync()
    elif SYNC == "relaxed":
        px.cluster.arrive(relaxed=True)
        px.cluster.wait()
    else:
        px.fence.cluster()
        px.cluster.arrive(relaxed=True)
        px.cluster.wait()
    px.store(Y[me, 0:64], px.load(W[(me + 2) % 4, 0:64]))
    if px.cluster.rank() == 0:
        if px.atomic_add(c[1], 1) == 1:
            px.atomic_exch(c[0], 0)
            px.atomic_exch(c[1], 0)


@pytest.mark.parametrize("sync", ["sync", "fenced"])
def test_a_grid_barrier_of_clusters_is_clean(sync):
    x, w, y = arrays()
    grid_barrier[4](x, w, y, SYNC=sync)
    assert (y == np.roll(x, 2, 0)).all()
    report = px.check(grid_barrier[4], *arrays(), SYNC=sync)
    assert report.ok, report


@pytest.mark.parametrize("wrong", [{"SYNC": "relaxed"}, {"LATE": True}])
def test_a_grid_barrier_that_some_cta_is_not_ordered_by_is_a_race(wrong):
    report = px.check(grid_barrier[4], *arrays(), **wrong)
    assert {finding.kind for finding in report.findings} == {"race"}, report


@planted("race", grid=4, args=arrays())
@px.kernel(warps=5)
def a_role_tells_another(X, W, Y, *, BUG):
    """One role meets the other CTAs, and tells the rest of its own by an mbarrier: behind that meeting, or before it."""
    c, me = px.counters(1), px.block_id(0)
    told, last = px.barrier(), px.shared((1,), px.i32)
    px.store(W[me, 0:64], px.load(X[me, 0:64]))  # other
    px.sync()
    with px.warps(0, 1):
        if BUG:
            px.store(last[0], px.i32(3) * (me == 3))
            told.arrive()
        old = px.atomic_add(c[0], 1, order="acq_rel")
        if old == 3:
            px.atomic_exch(c[0], 0)
        if not BUG:
            px.store(last[0], old)
            told.arrive()
    with px.warps(1, 4):
        told.wait(0)
        if px.load(last[0]) == 3:
            px.store(Y[0, 0:64], px.sum(px.load(W[0:4, 0:64]), 0))  # bug


@planted("race", grid=4, args=arrays())
@px.kernel(warps=6)
def along_two_barriers(X, W, Y, *, BUG):
    """The role in the middle hands on what it was told, if it waits before it arrives."""
    c, me = px.counters(1), px.block_id(0)
    told, passed, last = px.barrier(), px.barrier(), px.shared((1,), px.i32)
    px.store(W[me, 0:64], px.load(X[me, 0:64]))  # other
    px.store(last[0], 0)
    with px.warps(0, 1):
        old = px.atomic_add(c[0], 1, order="acq_rel")
        if old == 3:
            px.atomic_exch(c[0], 0)
        px.atomic_exch(last[0:1], old)
        told.arrive()
    with px.warps(1, 1):
        if BUG:
            passed.arrive()
        told.wait(0)
        if not BUG:
            passed.arrive()
    with px.warps(2, 4):
        passed.wait(0)
        if px.max(px.atomic_add(last[0:1], 0)) == 3:
            px.store(Y[0, 0:64], px.sum(px.load(W[0:4, 0:64]), 0))  # bug
        if BUG:
            told.wait(0)


@px.kernel(warps=4, cluster=2, cooperative=True)
def told_by_a_peer(X, W, Y):
    """Rank 0 of each cluster meets the other cluster, and tells rank 1 by an arrive on its barrier."""
    c, me, told = px.counters(2), px.block_id(0), px.barrier()
    px.store(W[me, 0:64], px.load(X[me, 0:64]))
    px.cluster.sync()
    if px.cluster.rank() == 0:
        n = px.atomic_add(c[0], 1, order="acq_rel") + 1
        while n < 2:
            n = px.atomic_add(c[0], 0, order="acq_rel")
        told.arrive(ctas=0b10)
        if px.atomic_add(c[1], 1) == 1:
            px.atomic_exch(c[0], 0)
            px.atomic_exch(c[1], 0)
    else:
        told.wait(0)
        px.store(Y[me, 0:64], px.load(W[(me + 2) % 4, 0:64]))


def at_cta_scope(function):
    """The kernel whose signals order memory within a CTA only."""

    def visit(op):
        effects = op.effects()
        return [dataclasses.replace(op, scope=Span.CTA)] if effects.arrivals or effects.waits else None

    return dataclasses.replace(function, body=rewrite(function.body, visit))


def test_a_signal_to_a_peer_brings_other_clusters_at_cluster_scope():
    function = function_of(told_by_a_peer, arrays())
    scopes = {arrival.scope for op in function.walk() for arrival in op.effects().arrivals}
    assert scopes == {Span.CLUSTER}
    assert px.check(told_by_a_peer[4], *arrays()).ok
    narrow = at_cta_scope(function)
    assert [finding.kind for finding in findings_of(narrow, 4, arrays())] == ["race"]


@px.kernel(warps=5)
def by_a_copy_that_landed(X, W, Y, *, ROW):
    """One role learns of another cluster and copies a row of its; who waits for the copy knows that row's writes alone."""
    c, me = px.counters(1), px.block_id(0)
    s, full = px.shared((64,), px.f32), px.barrier(count=1)
    if me == 0:
        px.store(W[0, 0:64], px.load(X[0, 0:64]))
        px.store(W[1, 0:64], px.load(X[1, 0:64]))
        px.fence.async_proxy("global")
        px.atomic_add(c[0], 1, order="acq_rel")
    else:
        with px.warps(0, 1):
            while px.atomic_add(c[0], 0, order="acq_rel") < 1:
                px.sync()
            px.tma.load(W[0, 0:64], s, full)
            px.atomic_exch(c[0], 0)
        with px.warps(1, 4):
            full.arrive_and_expect_tx(256)
            full.wait(0)
            px.store(W[ROW, 0:64], px.load(s) * 2.0)


def test_a_copy_that_landed_tells_of_what_it_read():
    assert px.check(by_a_copy_that_landed[2], *arrays(), ROW=0).ok
    report = px.check(by_a_copy_that_landed[2], *arrays(), ROW=1)
    assert [finding.kind for finding in report.findings] == ["race"]


@px.func
def spin(counter):
    """Until another cluster has told."""
    while px.atomic_add(counter, 0, order="acq_rel") < 1:
        px.sync()


@planted("proxy", grid=3, args=arrays())
@px.kernel(warps=4)
def a_third_cluster_fences_on_the_way(X, W, Y, *, BUG):
    """What the first stores, the second fences, behind the meeting with the first, and the third has copied."""
    c, me = px.counters(2), px.block_id(0)
    s, full = px.shared((64,), px.f32), px.barrier()
    if me == 0:
        px.store(W[0, 0:64], px.load(X[0, 0:64]))  # other
        px.atomic_add(c[0], 1, order="acq_rel")
    if me == 1:
        if BUG:
            px.fence.async_proxy("global")
        spin(c[0])
        if not BUG:
            px.fence.async_proxy("global")
        px.atomic_add(c[1], 1, order="acq_rel")
    if me == 2:
        spin(c[1])
        with full.transaction():
            px.tma.load(W[0, 0:64], s, full)  # bug
        full.wait(0)
        px.store(Y[0, 0:64], px.load(s))
        px.atomic_exch(c[0], 0)
        px.atomic_exch(c[1], 0)


@planted("proxy", grid=2, args=arrays())
@px.kernel(warps=4)
def another_cluster_fences_for_the_first(X, W, Y, *, BUG):
    """It goes to the other cluster and back: what the first has stored is fenced on that way, if it is."""
    c, me = px.counters(2), px.block_id(0)
    s, full = px.shared((64,), px.f32), px.barrier()
    if me == 0:
        px.store(W[0, 0:64], px.load(X[0, 0:64]))  # other
        px.atomic_add(c[0], 1, order="acq_rel")
        spin(c[1])
        with full.transaction():
            px.tma.load(W[0, 0:64], s, full)  # bug
        full.wait(0)
        px.store(Y[0, 0:64], px.load(s))
        px.atomic_exch(c[0], 0)
        px.atomic_exch(c[1], 0)
    else:
        spin(c[0])
        if not BUG:
            px.fence.async_proxy("global")
        px.atomic_add(c[1], 1, order="acq_rel")


@planted("race", grid=3, args=arrays())
@px.kernel(warps=4)
def a_relaxed_atomic_in_the_chain(X, W, Y, *, BUG):
    c, me = px.counters(2), px.block_id(0)
    if me == 0:
        px.store(W[0, 0:64], px.load(X[0, 0:64]))  # other
        px.atomic_add(c[0], 1, order="acq_rel")
    if me == 1:
        spin(c[0])
        if BUG:
            px.atomic_add(c[1], 1)
        else:
            px.atomic_add(c[1], 1, order="acq_rel")
    if me == 2:
        spin(c[1])
        px.store(Y[0, 0:64], px.load(W[0, 0:64]))  # bug
        px.atomic_exch(c[0], 0)
        px.atomic_exch(c[1], 0)


@pytest.mark.parametrize("case", cases(__name__), ids=str)
def test_planted(case):
    case.verify()
