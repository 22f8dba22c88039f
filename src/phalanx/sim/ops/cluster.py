"""The cluster: who am I, the barrier of all its threads, copies from CTA to CTA, reductions over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir.core import Op
from phalanx.ir.ops.cluster import (
    ClusterAgree,
    ClusterArrive,
    ClusterCopy,
    ClusterId,
    ClusterRank,
    ClusterReduce,
    ClusterStore,
    ClusterSync,
    ClusterWait,
)
from phalanx.ir.types import f32
from phalanx.sim import numerics
from phalanx.sim.agents import STEP, Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.codegen import Emitter
from phalanx.sim.engines import PushCopy, issue
from phalanx.sim.exchange import Turn
from phalanx.sim.monitor import watched
from phalanx.sim.places import GlobalPlace, SharedPlace, ranks_of
from phalanx.sim.registry import meaning, text


@meaning(ClusterRank)
def cluster_rank(op: ClusterRank, agent: Agent) -> Callable[..., int]:
    cta = agent.cta
    number = cta.rank if op.dim is None else cta.coordinates[op.dim]
    return lambda: number


@meaning(ClusterId)
def cluster_id(op: ClusterId, agent: Agent) -> Callable[..., int]:
    cluster, dim = agent.cta.cluster, op.dim
    if dim is None:
        return lambda: cluster.index
    return lambda: cluster.coordinates[dim]


@meaning(ClusterArrive)
def cluster_arrive(op: ClusterArrive, agent: Agent) -> Callable[..., None]:
    """Every warp of the agent arrives."""
    barrier = agent.cta.cluster.barrier
    return lambda: barrier.arrive(agent, op)


def wait_for_cluster(op: Op, agent: Agent) -> Callable[..., bool]:
    """Blocks until the phase in which the agent arrived is complete."""
    barrier = agent.cta.cluster.barrier
    monitor = agent.cta.cluster.machine.monitor

    def run() -> bool:
        if barrier.passed(agent, op):
            if monitor is not None:
                monitor.cluster_passed(agent, op, agent.cluster_phase)
            return False
        barrier.waiters.append((agent, op))
        agent.waiting = (op, barrier)
        return True

    def register() -> bool:
        barrier.passed(agent, op)  # an error where it never arrived
        agent.waiting = (op, barrier)
        return True

    return register if agent.cta.cluster.machine.patient else run


@meaning(ClusterWait, blocks=True)
def cluster_wait(op: ClusterWait, agent: Agent) -> Callable[..., bool]:
    return wait_for_cluster(op, agent)


@meaning(ClusterSync, blocks=True)
def cluster_sync(op: ClusterSync, agent: Agent) -> Callable[..., bool]:
    barrier, wait = agent.cta.cluster.barrier, wait_for_cluster(op, agent)

    def run() -> bool:
        barrier.arrive(agent, op)
        return wait()

    return run


@meaning(ClusterCopy)
def cluster_copy(op: ClusterCopy, agent: Agent) -> Callable[..., None]:
    """Reads its source and lands when the schedule says so; at once without a barrier: a cluster sync orders it."""
    shape, nbytes = op.dst.shape, op.dst.nbytes
    cast = numerics.cast(op.src.dtype, op.dst.dtype)

    def convert(source: np.ndarray) -> np.ndarray:
        return np.asarray(cast(source.copy())).reshape(shape)

    def now(src: SharedPlace, dst: SharedPlace, bar: None, ctas: int) -> None:
        dst.write(convert(src.array))

    def later(src: SharedPlace, dst: SharedPlace, bar: MBarrier, ctas: int) -> None:
        barrier = bar.peer(dst.cta.rank)
        if op.arm:  # expects first, so that the phase can't complete between the two
            barrier.expect(nbytes, op)
            barrier.arrive(1, op)
        issue(PushCopy(agent, op, src.array, dst.array, convert, barrier, nbytes))

    return now if op.bar is None else later


@meaning(ClusterStore)
def cluster_store(op: ClusterStore, agent: Agent) -> Callable[..., None]:
    """Lands when the schedule says so, with what the registers hold now."""
    nbytes = op.view.nbytes

    def later(view: SharedPlace, value: Any, bar: MBarrier, ctas: int) -> None:
        held = np.array(value, dtype=view.array.dtype).reshape(view.array.shape)
        issue(PushCopy(agent, op, held, view.array, lambda source: source, bar.peer(view.cta.rank), nbytes))

    return later


@meaning(ClusterAgree)
def cluster_agree(op: ClusterAgree, agent: Agent) -> Callable[..., None]:
    """The n-th time that the CTAs of a mask come here, they name the same region."""
    cta = agent.cta
    cluster, rank, name = cta.cluster, cta.rank, op.src.array.name

    def run(src: GlobalPlace, ctas: int) -> None:
        ranks = ranks_of(ctas, cta, op.loc)
        if rank not in ranks:
            return
        visits = cluster.visits
        key = (op, ctas, visits.number(op, rank))
        first, starts, seen = visits.regions.setdefault(key, (rank, src.starts, set()))
        if starts != src.starts:
            (a, here), (b, there) = sorted([(first, starts), (rank, src.starts)])
            raise Error(
                f"CTA {a} and CTA {b} share a copy of {name}, but name different regions: they begin at "
                f"{_point(here)} and at {_point(there)}",
                location=op.loc,
                remedy="all CTAs of the mask receive one tile: compute its place from what they have in common",
            )
        seen.add(rank)
        if len(seen) == len(ranks):
            del visits.regions[key]

    return run


def _point(starts: tuple[Any, ...]) -> str:
    return "[" + ", ".join(map(str, starts)) + "]"


@text(ClusterReduce)
def cluster_reduce(op: ClusterReduce, emit: Emitter) -> None:
    """Brings this CTA's value, waits until all have, and combines them in the order of the ranks."""

    def prepare(agent: Agent) -> Callable[..., bool]:
        cluster, rank = agent.cta.cluster, agent.cta.rank
        size = len(cluster.ctas)

        def bring(x: Any, cta: int | None) -> bool:
            if cta is not None:
                cluster.cta_of(cta, op.loc)
            visits = cluster.visits
            key = (op, visits.number(op, rank))
            turn = visits.turns.setdefault(key, Turn(op, size))
            if turn.bring(rank, x):
                return False
            turn.waiters.append(agent)
            agent.waiting = (op, turn)
            return True

        monitor = cluster.machine.monitor
        return bring if monitor is None else watched(bring, op, agent, monitor)

    def finish(agent: Agent) -> Callable[..., Any]:
        cluster, rank = agent.cta.cluster, agent.cta.rank
        combine = combination(op)

        def result(x: Any, cta: int | None) -> Any:
            visits = cluster.visits
            key = (op, visits.seen[op, rank] - 1)
            turn = visits.turns[key]
            turn.left -= 1
            if not turn.left:
                del visits.turns[key]
            if cta is not None and cta != rank:
                return x
            return combine([turn.values[peer] for peer in range(turn.size)])

        return result

    operands = f"{emit.expr(op.x)}, {emit.expr(op.cta)}"
    if emit.preempt:
        emit.line(f"yield {STEP}")
    emit.line(f"if {emit.bind('o', prepare)}({operands}):")
    emit.line("    yield 0")
    emit.line(f"{emit.define(op.result)} = {emit.bind('o', finish)}({operands})")


def combination(op: ClusterReduce) -> Callable[[list[Any]], Any]:
    """From the values of all ranks to their combination; f16 and bf16 are rounded once, at the end."""
    dtype = op.x.type.dtype  # type: ignore[union-attr]
    narrow = numerics.is_narrow(dtype)
    wide = f32 if narrow else dtype
    fold = numerics.binary("add" if op.fn == "sum" else op.fn, wide)
    widen, back = numerics.cast(dtype, wide), numerics.cast(wide, dtype)
    scalar = not op.x.type.shape  # type: ignore[union-attr]

    def combine(values: list[Any]) -> Any:
        total = widen(np.asarray(values[0], dtype.numpy)) if narrow else np.asarray(values[0], dtype.numpy)
        for value in values[1:]:
            total = fold(total, widen(np.asarray(value, dtype.numpy)) if narrow else np.asarray(value, dtype.numpy))
        out = back(total) if narrow else total
        return numerics.scalar_of(out, dtype) if scalar else np.asarray(out, dtype.numpy)

    return combine
