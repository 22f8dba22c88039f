"""mbarriers: what each instruction does to their state. `sim/barriers.py` has the state itself."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.errors import Error
from phalanx.ir.ops import mbarrier as ir
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.places import outside, ranks_of
from phalanx.sim.registry import meaning, never_run


@meaning(ir.BarrierInit)
def barrier_init(op: ir.BarrierInit, agent: Agent) -> Callable[..., None]:
    """Begins a barrier's life: one of an array, or all of them with their counts."""
    cta = agent.cta
    barriers = cta.barriers[op.barrier]

    def run(index: int | None, count: int | None) -> None:
        if index is not None and not 0 <= index < len(barriers):
            outside(op.barrier, index, op.loc)
        for i in range(len(barriers)) if index is None else (index,):
            barriers[i].init(op.counts[cta.rank][i] if count is None else count, op)

    return run


@meaning(ir.BarrierInvalidate)
def barrier_invalidate(op: ir.BarrierInvalidate, agent: Agent) -> Callable[..., None]:
    """Ends a barrier's life."""
    return lambda bar: bar.invalidate(op)


@meaning(ir.FenceBarrierInit)
def fence_barrier_init(op: ir.FenceBarrierInit, agent: Agent) -> Callable[..., None]:
    """Does nothing by itself: monitors see that it was run."""
    return lambda: None


@meaning(ir.Arrive)
def arrive(op: ir.Arrive, agent: Agent) -> Callable[..., None]:
    """Counts arrivals on a barrier here, or in each CTA of the mask."""
    cta = agent.cta

    def here(bar: MBarrier, count: int, ctas: None) -> None:
        bar.arrive(count, op)

    def everywhere(bar: MBarrier, count: int, ctas: int) -> None:
        for rank in ranks_of(ctas, cta, op.loc):
            bar.peer(rank).arrive(count, op)

    return here if op.ctas is None else everywhere


@meaning(ir.ExpectTx)
def expect_tx(op: ir.ExpectTx, agent: Agent) -> Callable[..., None]:
    """Makes a barrier wait for more bytes, here or in each CTA of the mask."""
    cta = agent.cta

    def here(bar: MBarrier, nbytes: int, ctas: None) -> None:
        bar.expect(nbytes, op)

    def everywhere(bar: MBarrier, nbytes: int, ctas: int) -> None:
        for rank in ranks_of(ctas, cta, op.loc):
            bar.peer(rank).expect(nbytes, op)

    return here if op.ctas is None else everywhere


@meaning(ir.ArriveExpectTx)
def arrive_expect_tx(op: ir.ArriveExpectTx, agent: Agent) -> Callable[..., None]:
    """Expects first, so that the phase can't complete between the two."""
    cta = agent.cta

    def here(bar: MBarrier, nbytes: int, ctas: None) -> None:
        bar.expect(nbytes, op)
        bar.arrive(1, op)

    def everywhere(bar: MBarrier, nbytes: int, ctas: int) -> None:
        for rank in ranks_of(ctas, cta, op.loc):
            here(bar.peer(rank), nbytes, None)

    return here if op.ctas is None else everywhere


def require_parity(parity: int, bar: MBarrier, op: ir.Wait | ir.TestWait) -> None:
    """Phases are even or odd; what the hardware does with another number is not defined."""
    if parity not in (0, 1):
        raise Error(
            f"{bar.name} is waited for with parity {parity}", location=op.loc,
            remedy="a parity is 0 or 1: k & 1 for phase k; px.ring gives .parity, a producer waits for ring.parity ^ 1",
        )


@meaning(ir.Wait, blocks=True)
def wait(op: ir.Wait, agent: Agent) -> Callable[..., bool]:
    """Passes if the current phase's parity is not the one asked for; otherwise the phase's flip wakes the agent."""
    monitor = agent.cta.cluster.machine.monitor

    def run(bar: MBarrier, parity: int) -> bool:
        if parity not in (0, 1):
            require_parity(parity, bar, op)
        if not bar.live:
            bar.require(op)
            return False
        if (bar.phase ^ parity) & 1:
            if monitor is not None:
                monitor.wait_passed(agent, op, bar, bar.phase - 1)
            return False
        bar.waiters.append((agent, op))
        agent.waiting = (op, bar)
        return True

    def register(bar: MBarrier, parity: int) -> bool:
        require_parity(parity, bar, op)
        agent.waiting, agent.wanted = (op, bar), parity
        return True

    return register if agent.cta.cluster.machine.patient else run


@meaning(ir.TestWait)
def test_wait(op: ir.TestWait, agent: Agent) -> Callable[..., bool]:
    """Whether a phase is complete, without waiting."""
    monitor = agent.cta.cluster.machine.monitor

    def run(bar: MBarrier, parity: int) -> bool:
        require_parity(parity, bar, op)
        if not bar.live:
            bar.require(op)
            return False
        passed = bool((bar.phase ^ parity) & 1)
        if monitor is not None:
            if passed:
                monitor.wait_passed(agent, op, bar, bar.phase - 1)
            else:
                monitor.test_failed(agent, op, bar)
        return passed

    return run


never_run(ir.Transaction, "a pass turns it into ArriveExpectTx before the simulator sees it")
