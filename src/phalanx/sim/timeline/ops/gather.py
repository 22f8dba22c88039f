"""Rows by index: one copy for each row, or for four where the target has that."""

from phalanx.ir.ops.gather import TmaGather, TmaGather4, TmaScatter, TmaScatter4
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free

ROW_ISSUE = 2
"""Cycles for each row beyond the first: the lanes of a warp issue them side by side."""

free(TmaGather4, TmaScatter4, why="its time is that of a copy, and of its bytes")


@cost(TmaGather)
def gather(op: TmaGather, warps: float, rates: Rates) -> Cost:
    """A copy for each row."""
    return Cost(issue=ROW_ISSUE * op.dst.shape[0])


@cost(TmaScatter)
def scatter(op: TmaScatter, warps: float, rates: Rates) -> Cost:
    """A copy for each row."""
    return Cost(issue=ROW_ISSUE * op.src.shape[0])
