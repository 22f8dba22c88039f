"""Reductions over the cluster: their memory, and which of them need no barrier of the CTA's threads."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.ir.core import Function
from phalanx.ir.ops.cluster import ClusterReduce, ClusterSync, ClusterTurn, Exchange
from phalanx.ir.ops.control import Sync
from phalanx.ir.ops.tile import Reduce
from phalanx.ir.types import bf16, f32
from support.cuda_text import plan_of
from support.front import array, prepared


def reductions(function: Function) -> list[ClusterReduce]:
    return [op for op in function.walk() if isinstance(op, ClusterReduce)]


@px.kernel(warps=4, cluster=2)
def two_sizes(X, Y):
    x = px.load(X[0:64])
    total = px.cluster.reduce(x, "sum")
    px.store(Y[0:64], total * px.cluster.reduce(px.max(x), "max"))


def test_the_reductions_of_an_agent_share_the_largest_inboxes() -> None:
    function = prepared(two_sizes, (array(1), array(1)))
    first, second = reductions(function)
    assert first.slots is second.slots and first.barrier is second.barrier
    assert first.slots.shape == (2, 2 * 256 + 16)  # two turns of two ranks' 64 floats, and a receiver's thanks
    assert (first.barrier.n, first.barrier.count) == (2, 1)
    assert [b.name for b in function.buffers] == ["reduce_inbox"] and [b.name for b in function.barriers] == [
        "reduce_full"
    ]


@px.kernel(warps=4, cluster=2)
def two_roles(X, Y):
    with px.warps(0, 2):
        px.store(Y[0:64], px.cluster.reduce(px.load(X[0:64]), "sum"))
    with px.warps(2, 2):
        px.store(Y[64:96], px.cluster.reduce(px.load(X[64:96]), "sum"))


def test_agents_have_memory_of_their_own() -> None:
    first, second = reductions(prepared(two_roles, (array(1), array(1))))
    assert first.slots is not second.slots and first.barrier is not second.barrier
    assert (first.slots.shape, second.slots.shape) == ((2, 528), (2, 272))


@px.kernel(warps=4, cluster=2)
def refill(X, Y, *, N=256):
    """Threads have read the stage when the reduction is over: the copy that refills it needs no barrier."""
    s = px.shared(N, X.dtype)
    full = px.barrier()
    with full.transaction():
        px.tma.load(X[0:N], s, full)
    for k in range(3):
        full.wait(k % 2)
        total = px.cluster.reduce(px.sum(px.load(s)), "sum")
        with full.transaction():
            px.tma.load(X[k * N : k * N + N], s, full)
        px.store(Y[k], total)
    full.wait(1)


def test_a_reduction_brings_the_threads_together() -> None:
    function = prepared(refill, (array(1), array(1)))
    assert not [op for op in function.walk() if isinstance(op, Sync)]


@px.kernel(warps=4, cluster=lambda C: C)
def gathers(X, Y, *, C, N=64):
    x = px.load(X[0:N])
    a, b, c = px.cluster.gather((x, x + 1, x + 2))
    px.store(Y[0:N], px.sum(a * b + c, axis=0) + px.cluster.reduce(px.max(x), "max"))


def test_gathers_and_reductions_share_inboxes() -> None:
    function = prepared(gathers, (array(1), array(1)), C=2)
    gather, reduction = (op for op in function.walk() if isinstance(op, Exchange))
    assert gather.slots is reduction.slots and gather.barrier is reduction.barrier
    assert gather.slots.shape == (2, 2 * 64 * 16 + 16)  # a record of three words takes four


def test_a_cluster_of_one_needs_inboxes_but_no_barrier() -> None:
    function = prepared(gathers, (array(1), array(1)), C=1)
    (gather,) = (op for op in function.walk() if isinstance(op, Exchange))
    assert gather.slots.shape[0] == 2 and gather.barrier is None and not gather.protocol.ops
    assert not function.barriers


def test_the_protocol_is_written_out_for_the_simulator_alone() -> None:
    function = prepared(gathers, (array(1), array(1)), C=2)
    for op in (op for op in function.walk() if isinstance(op, Exchange)):
        turn, *_, armed, send, wait, read = op.protocol.ops
        assert isinstance(turn, ClusterTurn) and turn.turns == 2
        assert armed.effects().expects[0].nbytes.value == 2 * op.sent_bytes() == 2 * send.dst.nbytes
        assert wait.bar == armed.bar == send.bar and read.view.nbytes == 2 * op.sent_bytes()
        assert not op.effects().completes  # its instructions say so
    plan = plan_of(gathers, (array(1), array(1)), C=2)
    for op in (op for op in plan.function.walk() if isinstance(op, Exchange)):
        assert not op.protocol.ops and op.effects().completes


def test_nothing_is_left_to_publish_at_exit() -> None:
    function = prepared(two_sizes, (array(1), array(1)))
    last = function.body.ops[-1]
    assert isinstance(last, ClusterSync) and last.relaxed


@px.kernel(warps=4, cluster=2)
def parts(X, Y, *, N=1024):
    x = px.load(X[0:N])
    px.store(Y[0], px.cluster.reduce(px.sum(x), "sum"))
    largest = px.max(x)
    px.store(Y[1], px.cluster.reduce(largest, "max") + largest)
    px.store(Y[2], px.cluster.reduce(px.min(x), "max"))
    px.store(Y[3], px.cluster.reduce(px.min(x), "min", cta=0))


def partial(dtype: Any = f32, **constants: Any) -> list[bool]:
    plan = plan_of(parts, (array(1, dtype), array(1, dtype)), **constants)
    return [op in plan.partial for op in plan.function.walk() if isinstance(op, Reduce)]


def test_warps_send_their_parts_where_nobody_else_needs_the_whole() -> None:
    assert partial() == [True, False, False, False]  # read twice; another function; to one CTA


def test_parts_need_every_warp_and_a_type_that_is_not_rounded() -> None:
    assert partial(N=64) == [False] * 4  # two of four warps hold the tile, the others copies
    assert partial(bf16) == [False] * 4
