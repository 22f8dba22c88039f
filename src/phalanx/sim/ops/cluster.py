"""The cluster: who am I, the barrier of all its threads, copies from CTA to CTA, reductions over it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir.core import Op
from phalanx.ir.ops import cluster as ir
from phalanx.ir.types import f32
from phalanx.sim import numerics
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.codegen import Emitter
from phalanx.sim.engines import PushCopy, SendCopy, issue
from phalanx.sim.places import BufferPlace, GlobalPlace, ranks_of
from phalanx.sim.registry import meaning, never_run, text


@meaning(ir.ClusterRank)
def cluster_rank(op: ir.ClusterRank, agent: Agent) -> Callable[..., int]:
    """This CTA's rank, or its coordinate: a constant of the agent."""
    cta = agent.cta
    number = cta.rank if op.dim is None else cta.coordinates[op.dim]
    return lambda: number


@meaning(ir.ClusterId)
def cluster_id(op: ir.ClusterId, agent: Agent) -> Callable[..., int]:
    """The cluster's index in the grid: a constant of the agent."""
    cluster, dim = agent.cta.cluster, op.dim
    if dim is None:
        return lambda: cluster.index
    return lambda: cluster.coordinates[dim]


@meaning(ir.ClusterCount)
def cluster_count(op: ir.ClusterCount, agent: Agent) -> Callable[..., int]:
    """The number of clusters of the grid: a constant of the run."""
    count = agent.cta.cluster.machine.cluster_count
    return lambda: count


@meaning(ir.ClusterArrive)
def cluster_arrive(op: ir.ClusterArrive, agent: Agent) -> Callable[..., None]:
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


@meaning(ir.ClusterWait, blocks=True)
def cluster_wait(op: ir.ClusterWait, agent: Agent) -> Callable[..., bool]:
    """Blocks until all warps of the cluster have arrived."""
    return wait_for_cluster(op, agent)


@meaning(ir.ClusterSync, blocks=True)
def cluster_sync(op: ir.ClusterSync, agent: Agent) -> Callable[..., bool]:
    """Arrives, then blocks until all warps of the cluster have arrived."""
    barrier, wait = agent.cta.cluster.barrier, wait_for_cluster(op, agent)

    def run() -> bool:
        barrier.arrive(agent, op)
        return wait()

    return run


@meaning(ir.ClusterCopy)
def cluster_copy(op: ir.ClusterCopy, agent: Agent) -> Callable[..., None]:
    """Reads its source and lands when the schedule says so; at once without a barrier: a cluster sync orders it."""
    cast = numerics.cast(op.src.dtype, op.dst.dtype)

    def shaped(shape: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
        return lambda source: np.asarray(cast(source.copy())).reshape(shape)

    def now(src: BufferPlace, dst: BufferPlace, bar: None, ctas: int, given: int | None) -> None:
        dst.write(shaped(dst.array.shape)(src.array))

    def later(src: BufferPlace, dst: BufferPlace, bar: MBarrier, ctas: int, given: int | None) -> None:
        nbytes, convert = op.dst.dtype.nbytes(dst.array.size), shaped(dst.array.shape)
        barrier = bar.peer(dst.cta.rank)
        if op.arm:  # expects first, so that the phase can't complete between the two
            barrier.expect(nbytes, op)
            barrier.arrive(1, op)
        if nbytes:  # nothing to send is nothing in flight
            issue(PushCopy(agent, op, src.array, dst.array, convert, barrier, nbytes))

    return now if op.bar is None else later


@meaning(ir.ClusterStore)
def cluster_store(op: ir.ClusterStore, agent: Agent) -> Callable[..., None]:
    """Lands when the schedule says so, with what the registers hold now."""
    nbytes = op.view.nbytes

    def later(view: BufferPlace, value: Any, bar: MBarrier, ctas: int) -> None:
        held = np.array(value, dtype=view.array.dtype).reshape(view.array.shape)
        issue(PushCopy(agent, op, held, view.array, lambda source: source, bar.peer(view.cta.rank), nbytes))

    return later


@meaning(ir.ClusterAgree)
def cluster_agree(op: ir.ClusterAgree, agent: Agent) -> Callable[..., None]:
    """The n-th time that the CTAs of a mask come here, they name the same region."""
    cta = agent.cta
    cluster, rank, name = cta.cluster, cta.rank, op.src.array.name
    monitor = cluster.machine.monitor

    def refuse(error: Error) -> None:
        if monitor is not None:
            monitor.current = agent
        error.other = op.loc  # where the other one named its own
        raise error

    def run(src: GlobalPlace, ctas: int) -> None:
        ranks = ranks_of(ctas, cta, op.loc)
        if op.count is not None and (len(ranks) != op.count or rank not in ranks):
            refuse(_miscounted(op, rank, ctas, len(ranks)))
        meeting = cluster.visits.meet(op, rank, agent.copy, ctas, ranks, src.starts)
        if meeting is not None and meeting.starts != src.starts:
            (a, here), (b, there) = sorted([(meeting.first, meeting.starts), (rank, src.starts)])
            refuse(Error(
                f"CTA {a} and CTA {b} share a copy of {name}, but name different regions: they begin at "
                f"{_point(here)} and at {_point(there)}",
                location=op.loc,
                kind="region-mismatch",
                remedy="all CTAs of the mask receive one tile: compute its place from what they have in common",
            ))

    return run


def _miscounted(op: ir.ClusterAgree, rank: int, ctas: int, named: int) -> Error:
    """A written number of CTAs is not that of the mask, or the mask leaves out the CTA that names it."""
    if named != op.count:
        what = f"CTA {rank} names the mask {ctas:#b} of {named} CTA{'s' * (named != 1)}, count={op.count} is written"
        remedy = "write the number of CTAs that the mask names"
    else:
        what = f"CTA {rank} names the mask {ctas:#b}, which does not name it"
        remedy = "the CTAs of the mask share the work: call it in those only, or name this one too"
    return Error(what, location=op.loc, kind="count-mismatch", remedy=remedy)


def _point(starts: tuple[Any, ...]) -> str:
    return "[" + ", ".join(map(str, starts)) + "]"


@meaning(ir.ClusterTurn)
def cluster_turn(op: ir.ClusterTurn, agent: Agent) -> Callable[..., tuple[int, int]]:
    """The number of the inbox that is next in turn, and the parity of its barrier."""
    turns, start = op.turns, ir.TURNS * agent.copy
    key = op.slots, agent.copy

    def run() -> tuple[int, int]:
        count = agent.turns.get(key, 0)
        agent.turns[key] = count + 1
        return start + count % turns, count // turns & 1

    return run


@meaning(ir.ClusterSend)
def cluster_send(op: ir.ClusterSend, agent: Agent) -> Callable[..., None]:
    """Lands in each CTA when the schedule says so."""
    cta, nbytes = agent.cta, op.dst.nbytes
    dtypes = [x.type.dtype.numpy for x in op.xs]  # type: ignore[union-attr]

    found: dict[Any, tuple[tuple[np.ndarray, ...], tuple[MBarrier, ...]]] = {}

    def run(xs: tuple[Any, ...], dst: BufferPlace, bar: MBarrier, ctas: int) -> None:
        where = (dst.key[0], dst.key[1].start, bar.index, ctas)
        inboxes = found.get(where)
        if inboxes is None:
            ranks = ranks_of(ctas, cta, op.loc)
            inboxes = found[where] = tuple(map(dst.peer, ranks)), tuple(map(bar.peer, ranks))
        words = b"".join([np.asarray(x, dtype).tobytes() for x, dtype in zip(xs, dtypes)])
        issue(SendCopy(agent, op, np.frombuffer(words, np.uint8), *inboxes, nbytes))

    return run


@meaning(ir.ClusterReceive)
def cluster_receive(op: ir.ClusterReceive, agent: Agent) -> Callable[..., np.ndarray]:
    """Reads what the ranks have sent to this CTA's inbox."""
    return lambda place: place.read()


def exchange(op: ir.Exchange, emit: Emitter) -> tuple[str, Callable[[Any], list[Any]]]:
    """Runs the protocol; the name of what was received, and how to tell it apart: by rank, what that CTA sent."""
    emit.block(op.protocol)
    emit.op = op
    read = next(inner for inner in op.protocol.walk() if isinstance(inner, ir.ClusterReceive))
    nbytes = op.sent_bytes()
    size = read.view.nbytes // nbytes
    types = [x.type for x in op.sent]
    dtype, shape = types[0].dtype.numpy, types[0].shape  # type: ignore[union-attr]
    used = len(types) * prod(shape) * dtype.itemsize

    def decode(words: np.ndarray) -> list[Any]:
        if used < nbytes:  # what is narrow, or three of a record of four
            words = np.ascontiguousarray(words.reshape(size, nbytes)[:, :used])
        return list(words.view(dtype).reshape(size, len(types), *shape))

    return emit.expr(read.result), decode


@text(ir.ClusterReduce)
def cluster_reduce(op: ir.ClusterReduce, emit: Emitter) -> None:
    """The values of all CTAs, combined in the order of their ranks; where one receives, the others keep their own."""
    received, decode = exchange(op, emit)
    combine = combination(op)
    fold = emit.bind("o", lambda agent: lambda words: combine([parts[0] for parts in decode(words)]))
    result = f"{fold}({received})"
    if op.cta is not None:
        result += f" if {emit.expr(op.cta)} == {emit.bind('r', lambda agent: agent.cta.rank)} else {emit.expr(op.x)}"
    emit.line(f"{emit.define(op.result)} = {result}")


@text(ir.ClusterGather)
def cluster_gather(op: ir.ClusterGather, emit: Emitter) -> None:
    """Entry r of each result is what rank r sent. In a cluster of one there is nobody to tell."""
    results = "".join(f"{emit.define(result)}, " for result in op.results)
    if op.barrier is None:
        dtype = op.xs[0].type.dtype.numpy  # type: ignore[union-attr]
        alone = emit.bind("o", lambda agent: lambda xs: [np.asarray(x, dtype)[None].copy() for x in xs])
        emit.line(f"{results}= {alone}({emit.operand(op.xs)})")
        return
    received, decode = exchange(op, emit)
    stack = emit.bind("o", lambda agent: lambda words: list(np.stack(decode(words), axis=1)))
    emit.line(f"{results}= {stack}({received})")


def combination(op: ir.ClusterReduce) -> Callable[[list[Any]], Any]:
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


never_run(ir.ClusterLoad, "a pass turns it into the TmaLoad of each rank's share")
never_run(ir.ClusterMulticast, "a pass turns it into the TmaLoad of the rank that fetches")
