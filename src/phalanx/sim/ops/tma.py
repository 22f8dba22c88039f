"""Copies by the TMA engine: issued here, carried out by `sim/engines.py` when the schedule says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.errors import Error
from phalanx.ir.core import Op
from phalanx.ir.effects import leader_of
from phalanx.ir.engines import COPY_ENGINE
from phalanx.ir.ops.tma import TmaCommit, TmaLoad, TmaPrefetch, TmaReduce, TmaStore, TmaWait
from phalanx.ir.views import GlobalView
from phalanx.sim import numerics
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.engines import GroupWait, LoadCopy, StoreCopy, commit_group, groups_done, issue, join_open_group
from phalanx.sim.places import BufferPlace, GlobalPlace, misaligned, misspread, ranks_of
from phalanx.sim.registry import meaning


def require_aligned(
    run: Callable[..., None], op: Op, view: GlobalView, agent: Agent, spread: bool = False
) -> Callable[..., None]:
    """`run`, or where the array breaks the engine's alignment rules, an error when it is reached.

    `spread`: the copy puts room between elements, for which there are further rules.
    """
    array = agent.cta.cluster.machine.args[view.array.index]
    problem = misaligned(view, array)
    remedy = "pass an array whose rows begin at multiples of 16 bytes, or copy with px.load and px.store"
    if problem is None and spread:
        problem = misspread(view, array)
        remedy = "pad its rows to a multiple of 128 elements: only such arrays are copied with room between elements"
    if problem is None:
        return run

    def fail(*operands: Any) -> None:
        raise Error(
            f"TMA can't copy this: {problem}", location=op.loc, kind="misaligned", remedy=remedy,
        )

    return fail


@meaning(TmaLoad)
def tma_load(op: TmaLoad, agent: Agent) -> Callable[..., None]:
    """Lands at the same offset in every CTA of the mask, with the region's bytes on each one's barrier, or its leader's."""
    nbytes, cta = op.dst.nbytes, agent.cta
    credited = leader_of if op.pair else int

    def here(src: GlobalPlace, dst: BufferPlace, bar: MBarrier, multicast: None) -> None:
        issue(LoadCopy(agent, op, src, (dst.array,), (bar.peer(credited(cta.rank)) if op.pair else bar,), nbytes))

    def everywhere(src: GlobalPlace, dst: BufferPlace, bar: MBarrier, multicast: int) -> None:
        ranks = ranks_of(multicast, cta, op.loc)
        if not ranks:
            raise Error("the multicast mask names no CTA", location=op.loc, remedy="use a bit per rank that receives")
        destinations = tuple(dst.peer(rank) for rank in ranks)
        issue(LoadCopy(agent, op, src, destinations, tuple(bar.peer(credited(rank)) for rank in ranks), nbytes))

    return require_aligned(here if op.multicast is None else everywhere, op, op.src, agent, op.dst.buffer.padded)


@meaning(TmaStore)
def tma_store(op: TmaStore, agent: Agent) -> Callable[..., None]:
    """Starts a copy from shared to global memory, as work of the agent's next group."""

    def run(src: BufferPlace, dst: GlobalPlace) -> None:
        issue(StoreCopy(agent, op, src.array, dst.write, join_open_group(agent)))

    return require_aligned(run, op, op.dst, agent)


@meaning(TmaReduce)
def tma_reduce(op: TmaReduce, agent: Agent) -> Callable[..., None]:
    """Starts a fold of shared memory into global memory, as work of the agent's next group."""
    function = numerics.binary(op.op, op.dst.dtype, numerics.IN_MEMORY)

    def run(src: BufferPlace, dst: GlobalPlace) -> None:
        issue(StoreCopy(agent, op, src.array, lambda data: dst.fold(function, data), join_open_group(agent)))

    return require_aligned(run, op, op.dst, agent)


@meaning(TmaCommit)
def tma_commit(op: TmaCommit, agent: Agent) -> Callable[..., None]:
    """Closes the agent's group of stores."""
    return lambda: commit_group(agent)


@meaning(TmaWait, blocks=True)
def tma_wait(op: TmaWait, agent: Agent) -> Callable[..., bool]:
    """Blocks until at most `n` groups of the agent are unfinished, or have not read their sources."""
    monitor = agent.cta.cluster.machine.monitor

    def passed() -> None:
        if monitor is not None:
            monitor.groups_passed(agent, op, COPY_ENGINE, op.n, op.read)

    waiting = (op, GroupWait(op.n, op.read, passed))

    def run() -> bool:
        if groups_done(agent, op.n, op.read):
            passed()
            return False
        agent.waiting = waiting
        return True

    def register() -> bool:
        agent.waiting = waiting
        return True

    return register if agent.cta.cluster.machine.patient else run


@meaning(TmaPrefetch)
def tma_prefetch(op: TmaPrefetch, agent: Agent) -> Callable[..., None]:
    """Does nothing: there are no caches here."""
    return lambda src: None
