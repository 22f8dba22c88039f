"""Clusters: what crosses from SM to SM takes the time of its bytes; what is known at the start of a CTA takes none."""

from phalanx.ir.ops.cluster import (
    ClusterAgree,
    ClusterArrive,
    ClusterCopy,
    ClusterCount,
    ClusterGather,
    ClusterId,
    ClusterLoad,
    ClusterMulticast,
    ClusterRank,
    ClusterReceive,
    ClusterReduce,
    ClusterSend,
    ClusterStore,
    ClusterSync,
    ClusterTurn,
    ClusterWait,
)
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free

free(ClusterRank, ClusterId, ClusterCount, ClusterTurn, why="a register has it")
free(ClusterArrive, ClusterWait, ClusterSync, why="its time is that of the barrier of the cluster, which its effects name")
free(ClusterCopy, ClusterStore, why="its time is that of its bytes, and of the barrier they complete on")
free(ClusterLoad, ClusterMulticast, ClusterAgree, ClusterReduce, ClusterGather, why="a pass writes it out in others")


@cost(ClusterSend, ClusterReceive)
def words(op: ClusterSend | ClusterReceive, warps: float, rates: Rates) -> Cost:
    """Words between registers and the inboxes of the cluster."""
    return Cost(issue=4)
