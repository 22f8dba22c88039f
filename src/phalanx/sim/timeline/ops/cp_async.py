"""Copies that threads begin: every 16 bytes of a thread are an instruction."""

from phalanx.ir.ops.cp_async import CpAsyncCommit, CpAsyncLoad
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free

PIECE = 16
"""Bytes that a thread copies with one instruction."""
ISSUE = 4
"""Cycles of a warp for it."""
LANES = 32

free(CpAsyncCommit, why="its time is that of the arrival that its effects name")


@cost(CpAsyncLoad)
def load(op: CpAsyncLoad, warps: float, rates: Rates) -> Cost:
    """Threads issue it piece by piece."""
    return Cost(issue=ISSUE * op.dst.nbytes / (PIECE * LANES * warps))
