"""Barrier initialisation: where it goes, and whether the CTA or the cluster waits for it."""

from __future__ import annotations

import dataclasses

import pytest

from phalanx.ir.core import Function
from phalanx.ir.ops.cluster import ClusterArrive, ClusterRank, ClusterSync, ClusterWait
from phalanx.ir.ops.control import If, Leave, Role, Roles, Scope, Sync
from phalanx.ir.ops.mbarrier import ArriveExpectTx, BarrierInit, FenceBarrierInit
from phalanx.ir.ops.tma import TmaPrefetch
from phalanx.ir.types import I32, f32
from phalanx.ir.values import Label, Value
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.passes.barrier_init import insert_barrier_init
from support.hand_ir import array, arrive, bar, block, box, const, fetch, kernel, part, role, store, wait, whole

SMEM = SharedBuffer("smem", (2, 64), f32)
FULL = BarrierArray("full", 2)
X = array("X")


def started(function: Function, ranks: int) -> list[type]:
    """The instructions with those that were put before and between them."""
    return [type(op) for op in insert_barrier_init(function, {FULL: ((1, 1),) * ranks}).body.ops]


def test_every_declared_barrier_is_initialised_then_fenced_and_synced():
    own, done = BarrierArray("own", 1, init=False), BarrierArray("done", 1, count=3)
    function = kernel(wait(FULL), barriers=(FULL, own, done))
    made = insert_barrier_init(function, {FULL: ((1, 2),), done: ((3,),)})
    init, second, fence, sync, first_use = made.body.ops
    assert (init.barrier, init.counts) == (FULL, ((1, 2),))
    assert (second.barrier, second.counts) == (done, ((3,),))
    assert isinstance(fence, FenceBarrierInit)
    assert isinstance(sync, Sync) and sync.reason == "barriers are initialised before their first use"
    assert first_use is function.body.ops[0]
    assert function.body.ops == (first_use,)


def test_nothing_to_initialise():
    function = kernel(Sync(), barriers=(BarrierArray("own", 1, init=False),))
    assert insert_barrier_init(function, {}) is function


RANK = Value(I32, "rank")


@pytest.mark.parametrize(
    ("op", "reaches_out"),
    [
        (wait(FULL), False),
        (arrive(FULL), False),
        (fetch(box(X, (0,), (64,)), part(SMEM, 0), FULL), False),
        (arrive(FULL, ctas=2), True),
        (ArriveExpectTx(bar(FULL), const(4), const(2)), True),
        (fetch(box(X, (0,), (64,)), part(SMEM, 0), FULL, multicast=3), True),
        (store(whole(SMEM, RANK))[1], True),
    ],
)
def test_the_cluster_waits_only_if_something_reaches_a_peer(op, reaches_out):
    function = kernel(ClusterRank(None, RANK), op, params=(X,), buffers=(SMEM,), barriers=(FULL,), cluster=2)
    waits = [ClusterArrive, ClusterRank, ClusterWait] if reaches_out else [ClusterRank, Sync]
    assert started(function, 2) == [BarrierInit, FenceBarrierInit, *waits, type(op)]


def test_nothing_comes_between_an_arrival_and_its_wait():
    """A sync of the cluster is both in one."""
    function = kernel(arrive(FULL, ctas=2), barriers=(FULL,), cluster=2)
    assert started(function, 2)[:3] == [BarrierInit, FenceBarrierInit, ClusterSync]


@pytest.mark.parametrize(("inside", "early"), [(ClusterRank(None, RANK), True), (wait(FULL), False)])
def test_a_branch_comes_first_if_nothing_in_it_needs_the_barriers(inside, early):
    branch = If(const(True), block(inside), block())
    function = kernel(branch, arrive(FULL, ctas=2), barriers=(FULL,), cluster=2)
    between = [ClusterArrive, If, ClusterWait] if early else [ClusterSync, If]
    assert started(function, 2)[2:-1] == between


def test_who_leaves_early_has_met_the_others():
    out = Label("out")
    leaves = If(const(True), block(Leave(out)), block())
    function = kernel(Scope(out, block(leaves, arrive(FULL, ctas=2))), barriers=(FULL,), cluster=2)
    assert started(function, 2)[2:] == [ClusterSync, Scope]


def test_a_cluster_of_one_has_no_peers():
    assert started(kernel(arrive(FULL, ctas=1), barriers=(FULL,)), 1)[2] is Sync


def in_roles(*regions: Role, warps: int) -> list[list[type]]:
    """The instructions of each role, and those before them."""
    function = kernel(ClusterRank(None, RANK), Roles(regions), params=(X,), buffers=(SMEM,), barriers=(FULL,), cluster=2)
    function = dataclasses.replace(function, warps=warps)
    made = insert_barrier_init(function, {FULL: ((1, 1),) * 2})
    *before, roles = made.body.ops
    assert isinstance(roles, Roles)
    return [[type(op) for op in before], *([type(op) for op in region.body.ops] for region in roles.regions)]


LOADS, SENDS, WAITS = fetch(box(X, (0,), (64,)), part(SMEM, 0), FULL), arrive(FULL, ctas=2), wait(FULL)
START = [BarrierInit, FenceBarrierInit]


def test_a_role_that_loads_for_its_own_cta_does_not_wait_for_the_cluster():
    before, loads, sends = in_roles(role(4, 1, LOADS), role(0, 4, store(whole(SMEM)), WAITS, SENDS), warps=5)
    assert before == [*START, ClusterArrive, ClusterRank, Sync]
    assert loads == [type(LOADS), ClusterWait]
    assert sends[0] is ClusterWait and sends[-1] is type(SENDS)


@pytest.mark.parametrize(
    ("producer", "consumer", "warps"),
    [
        (role(4, 1, fetch(box(X, (0,), (64,)), part(SMEM, 0), FULL, multicast=3)), role(0, 4, WAITS, SENDS), 5),
        (role(4, 1, WAITS), role(0, 4, store(whole(SMEM)), SENDS), 5),  # starts no copies: nothing to gain
        (role(4, 1, LOADS), role(0, 4, store(whole(SMEM)), SENDS), 6),  # a warp without a role
        (role(4, 4, LOADS), role(0, 4, store(whole(SMEM)), SENDS), 8),  # of which one warp will run
        (role(4, 1, LOADS, Leave(Label("out"))), role(0, 4, store(whole(SMEM)), SENDS), 5),
        (role(4, 1, LOADS, ClusterSync()), role(0, 4, store(whole(SMEM)), SENDS, ClusterSync()), 5),
    ],
)
def test_otherwise_all_wait_before_the_roles(producer, consumer, warps):
    before, *inside = in_roles(producer, consumer, warps=warps)
    assert before == [*START, ClusterArrive, ClusterRank, ClusterWait]
    assert inside == [[type(op) for op in region.body.ops] for region in (producer, consumer)]


def test_peers_meet_while_a_prefetch_is_on_its_way():
    sends = fetch(box(X, (0,), (64,)), part(SMEM, 0), FULL, multicast=3)
    ops = ClusterRank(None, RANK), TmaPrefetch(box(X, (0,), (64,))), sends
    function = kernel(*ops, params=(X,), buffers=(SMEM,), barriers=(FULL,), cluster=2)
    made = insert_barrier_init(function, {FULL: ((1, 1),) * 2})
    between = [ClusterArrive, ClusterRank, TmaPrefetch, ClusterWait]
    assert [type(op) for op in made.body.ops] == [*START, *between, type(sends)]
