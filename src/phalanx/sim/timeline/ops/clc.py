"""Clusters that have not started: a request is a message to the launcher, its answer lands like a copy."""

from phalanx.ir.ops.clc import ClcQuery, ClcTryCancel
from phalanx.sim.timeline.costs import Cost, cost, free

free(ClcTryCancel, why="its time is that of the bytes it brings, which its effects name")


@cost(ClcQuery)
def query(op: ClcQuery, warps: float, rates: object) -> Cost:
    """A few words of the answer are taken apart."""
    return Cost(issue=8)
