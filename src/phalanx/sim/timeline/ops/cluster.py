"""Clusters: what crosses from SM to SM takes the time of its bytes; what is known at the start of a CTA takes none."""

from phalanx.ir.ops import cluster as ir
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free

free(ir.ClusterRank, ir.ClusterId, ir.ClusterCount, ir.ClusterTurn, why="a register has it")
free(
    ir.ClusterArrive, ir.ClusterWait, ir.ClusterSync,
    why="its time is that of the barrier of the cluster, which its effects name",
)  # fmt: skip
free(ir.ClusterCopy, ir.ClusterStore, why="its time is that of its bytes, and of the barrier they complete on")
free(
    ir.ClusterLoad, ir.ClusterMulticast, ir.ClusterAgree, ir.ClusterReduce, ir.ClusterGather,
    why="a pass writes it out in others",
)  # fmt: skip


@cost(ir.ClusterSend, ir.ClusterReceive)
def words(op: ir.ClusterSend | ir.ClusterReceive, warps: float, rates: Rates) -> Cost:
    """Words between registers and the inboxes of the cluster."""
    return Cost(issue=4)
