"""The copy engine: one thread issues, the bytes take what the way they go has room for."""

from phalanx.ir.ops.tma import TmaCommit, TmaLoad, TmaPrefetch, TmaReduce, TmaStore, TmaWait
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free

free(TmaLoad, TmaStore, TmaReduce, why="its time is that of a copy (`Rates.copy_issue`), and of its bytes")
free(TmaCommit, TmaWait, why="its time is that of the copies that it closes or waits for")


@cost(TmaPrefetch)
def prefetch(op: TmaPrefetch, warps: float, rates: Rates) -> Cost:
    """It is issued like a copy; nobody waits for it, and the model keeps no lines of L2."""
    return Cost(stands=rates.copy_issue)
