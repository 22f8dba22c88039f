"""mbarriers: signals and waits are effects, and their times those of `Rates`."""

from phalanx.ir.ops import mbarrier as ir
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free

free(ir.Arrive, ir.ArriveExpectTx, ir.ExpectTx, why="its time is that of the signal that its effects name")
free(ir.Wait, why="its time is that of the wait that its effects name")
free(ir.FenceBarrierInit, why="it orders, and emits nothing")
free(ir.Transaction, why="a pass writes it out in others")


@cost(ir.TestWait)
def test_wait(op: ir.TestWait, warps: float, rates: Rates) -> Cost:
    """It asks, and goes on with the answer."""
    return Cost(stands=rates.query)


@cost(ir.BarrierInit, ir.BarrierInvalidate)
def life(op: ir.BarrierInit | ir.BarrierInvalidate, warps: float, rates: Rates) -> Cost:
    """One thread writes a word for each barrier that begins or ends its life: one with an index, or all of the array."""
    written = sum(1 if each.index is not None else each.barrier.n for each in op.effects().lifecycle)
    return Cost(issue=written)
