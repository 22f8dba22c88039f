"""Clusters: what crosses from SM to SM takes the time of its bytes; what is known at the start of a CTA takes none."""

from phalanx.ir.ops import cluster as ir
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free
from phalanx.sim.timeline.numbers import number

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


@number(ir.ClusterId)
def cluster_id(op: ir.ClusterId) -> str:
    """The number of the cluster, or its place among all along an axis."""
    return "cluster" if op.dim is None else f"place[{op.dim}] // shape[{op.dim}]"


@number(ir.ClusterCount)
def cluster_count(op: ir.ClusterCount) -> str:
    """The number of clusters."""
    return "clusters"
