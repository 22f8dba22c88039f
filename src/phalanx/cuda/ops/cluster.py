"""The cluster in PTX: special registers, `barrier.cluster` in its halves, pushes and reductions.

What writes pushes and exchanges is loaded for the first kernel that has one.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from phalanx.cuda.ops.mbarrier import arrive_expect_tx, emit_wait_for
from phalanx.cuda.text.by_rank import rank_of_cta
from phalanx.cuda.text.prelude import instruction
from phalanx.cuda.text.registry import emits, never_emits
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.control_text import COUNTS_CLUSTERS
from phalanx.ir.effects import Span
from phalanx.ir.ops import cluster as ir

if TYPE_CHECKING:
    from phalanx.cuda.exchanges.exchange import Signals


@emits(ir.ClusterRank, expression=True)
def emit_rank(w: Writer, op: ir.ClusterRank) -> None:
    """Writes the read of a special register: the CTA's rank, or its coordinate along one dimension of the cluster."""
    size = w.plan.function.cluster_size if op.dim is None else w.plan.function.cluster[op.dim]
    if size == 1:
        w.define(op.result, "0", pure=True)
    elif op.dim is None:
        w.define(op.result, rank_of_cta(w), pure=True)
    else:  # out of the rank: of %cluster_ctaid the hardware has only the CTA's index in the grid, which costs a division
        extents = w.plan.function.cluster
        below, above = prod(extents[: op.dim]), prod(extents[op.dim + 1 :])
        rank = f"(unsigned){rank_of_cta(w)}"
        rank = rank if below == 1 else f"{rank} / {below}u"
        w.define(op.result, f"(int)({rank})" if above == 1 else f"(int)({rank} % {size}u)", pure=True)


@emits(ir.ClusterId)
def emit_id(w: Writer, op: ir.ClusterId) -> None:
    """The grid counts CTAs, so a cluster's index is the block's, divided by the cluster's extent."""
    if op.dim is not None:
        w.define(op.result, _along(w, "blockIdx", op.dim), pure=True)
        return
    x, y, z = (_along(w, "blockIdx", dim) for dim in range(3))
    nx, ny = (_along(w, "gridDim", dim) for dim in range(2))
    w.define(op.result, f"{x} + {nx} * ({y} + {ny} * {z})", pure=True)


COUNTS_CLUSTERS.add(ir.ClusterCount)


@emits(ir.ClusterCount)
def emit_count(w: Writer, op: ir.ClusterCount) -> None:
    """The CTAs of the grid along each dimension, divided by the cluster's extent."""
    x, y, z = (f"(int)gridDim.{dim}" for dim in "xyz")
    size = w.plan.function.cluster_size
    w.define(op.result, f"{x} * {y} * {z}" + (f" / {size}" if size > 1 else ""), pure=True)


def _along(w: Writer, what: str, dim: int) -> str:
    size = w.plan.function.cluster[dim]
    text = f"(int){what}.{'xyz'[dim]}"
    return text if size == 1 else f"{text} / {size}" if what == "blockIdx" and dim == 0 else f"({text} / {size})"


@emits(ir.ClusterArrive)
def emit_arrive(w: Writer, op: ir.ClusterArrive) -> None:
    """Writes `barrier.cluster.arrive`, by every thread."""
    if op.reason:
        w.comment(op.reason)
    _arrive(w, relaxed=op.relaxed)


@emits(ir.ClusterWait)
def emit_wait(w: Writer, op: ir.ClusterWait) -> None:
    """Writes `barrier.cluster.wait`, by every thread."""
    if op.reason:
        w.comment(op.reason)
    _wait(w)


@emits(ir.ClusterSync)
def emit_sync(w: Writer, op: ir.ClusterSync) -> None:
    """Writes both halves of the cluster barrier, one after the other."""
    if op.reason:
        w.comment(op.reason)
    _arrive(w, relaxed=op.relaxed)
    _wait(w)


def _arrive(w: Writer, *, relaxed: bool = False) -> None:
    mnemonic = f"barrier.cluster.arrive.{'relaxed' if relaxed else 'release'}.aligned"
    w.line(f"{w.use(instruction(mnemonic))}();")


def _wait(w: Writer) -> None:
    w.line(f"{w.use(instruction('barrier.cluster.wait.acquire.aligned'))}();")


@emits(ir.ClusterCopy)
def emit_copy(w: Writer, op: ir.ClusterCopy) -> None:
    """Writes a push into a peer's shared memory, on the path that was chosen for it."""
    from phalanx.cuda.exchanges.push import emit_push

    scope = "" if op.scope is Span.CTA else f".release.{op.scope.value}"
    emit_push(w, op, arrive_expect_tx("cluster", scope))


@emits(ir.ClusterStore)
def emit_cluster_store(w: Writer, op: ir.ClusterStore) -> None:
    """Writes a push of a register tile into a peer's shared memory."""
    from phalanx.cuda.exchanges.push import emit_register_push

    emit_register_push(w, op)


@emits(ir.ClusterAgree)
def emit_agree(w: Writer, op: ir.ClusterAgree) -> None:
    """Checked in the simulator."""


def _signals(w: Writer, op: ir.Exchange) -> Signals:
    from phalanx.cuda.exchanges.exchange import Signals

    barrier = op.barrier
    if barrier is None:
        return Signals("0", lambda bar, parity: None, "")
    arm = w.use(arrive_expect_tx("cta"))
    return Signals(rank_of_cta(w), lambda bar, parity: emit_wait_for(w, op, barrier.name, bar, parity), arm)


@emits(ir.ClusterReduce)
def emit_reduce(w: Writer, op: ir.ClusterReduce) -> None:
    """Writes a reduction over the cluster, through inboxes in shared memory."""
    from phalanx.cuda.exchanges.reductions import Reduction

    Reduction(w, op, _signals(w, op)).emit()


@emits(ir.ClusterGather)
def emit_gather(w: Writer, op: ir.ClusterGather) -> None:
    """Writes a gather over the cluster, through inboxes in shared memory."""
    from phalanx.cuda.exchanges.gathers import Gather

    Gather(w, op, _signals(w, op)).emit()


never_emits(ir.ClusterLoad, "a pass turns it into the tma.load of each rank's share")
never_emits(ir.ClusterMulticast, "a pass turns it into the tma.load of the rank that fetches")
never_emits(ir.ClusterTurn, "the text of an exchange counts by itself")
never_emits(ir.ClusterSend, "the text of an exchange sends by itself")
never_emits(ir.ClusterReceive, "the text of an exchange reads by itself")
