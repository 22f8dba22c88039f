"""mbarriers: signals and waits are effects, and their times those of `Rates`."""

from phalanx.ir.ops.mbarrier import (
    Arrive,
    ArriveExpectTx,
    BarrierInit,
    BarrierInvalidate,
    ExpectTx,
    FenceBarrierInit,
    TestWait,
    Transaction,
    Wait,
)
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free

free(Arrive, ArriveExpectTx, ExpectTx, why="its time is that of the signal that its effects name")
free(Wait, why="its time is that of the wait that its effects name")
free(FenceBarrierInit, why="it orders, and emits nothing")
free(Transaction, why="a pass writes it out in others")


@cost(TestWait)
def test_wait(op: TestWait, warps: float, rates: Rates) -> Cost:
    """It asks, and goes on with the answer."""
    return Cost(stands=rates.query)


@cost(BarrierInit, BarrierInvalidate)
def life(op: BarrierInit | BarrierInvalidate, warps: float, rates: Rates) -> Cost:
    """One thread writes a word for each barrier that begins or ends its life: one with an index, or all of the array."""
    written = sum(1 if each.index is not None else each.barrier.n for each in op.effects().lifecycle)
    return Cost(issue=written)
