"""Barrier initialisation: where it goes, and whether the CTA or the cluster waits for it."""

from __future__ import annotations

import pytest

from hand_ir import array, arrive, bar, box, const, fetch, kernel, part, store, wait, whole
from phalanx.ir.core import Function
from phalanx.ir.ops.cluster import ClusterRank, ClusterSync
from phalanx.ir.ops.control import Sync
from phalanx.ir.ops.mbarrier import ArriveExpectTx, BarrierInit, FenceBarrierInit
from phalanx.ir.types import I32, f32
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray, SharedBuffer
from phalanx.passes.barrier_init import insert_barrier_init

SMEM = SharedBuffer("smem", (2, 64), f32)
FULL = BarrierArray("full", 2)
X = array("X")


def prologue(function: Function, ranks: int) -> list[type]:
    made = insert_barrier_init(function, {FULL: ((1, 1),) * ranks})
    return [type(op) for op in made.body.ops[: len(made.body.ops) - len(function.body.ops)]]


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
    sync = ClusterSync if reaches_out else Sync
    assert prologue(function, 2) == [BarrierInit, FenceBarrierInit, sync]


def test_a_cluster_of_one_has_no_peers():
    assert prologue(kernel(arrive(FULL, ctas=1), barriers=(FULL,)), 1)[-1] is Sync
