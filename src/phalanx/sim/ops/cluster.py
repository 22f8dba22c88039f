"""The cluster: who am I, and the barrier of all its threads."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.ir.core import Op
from phalanx.ir.ops.cluster import ClusterArrive, ClusterId, ClusterRank, ClusterSync, ClusterWait
from phalanx.sim.agents import Agent
from phalanx.sim.registry import meaning


@meaning(ClusterRank)
def cluster_rank(op: ClusterRank, agent: Agent) -> Callable[..., int]:
    cta = agent.cta
    number = cta.rank if op.dim is None else cta.coordinates[op.dim]
    return lambda: number


@meaning(ClusterId)
def cluster_id(op: ClusterId, agent: Agent) -> Callable[..., int]:
    cluster, dim = agent.cta.cluster, op.dim
    if dim is None:
        return lambda: cluster.index
    return lambda: cluster.coordinates[dim]


@meaning(ClusterArrive)
def cluster_arrive(op: ClusterArrive, agent: Agent) -> Callable[..., None]:
    """Every warp of the agent arrives."""
    barrier = agent.cta.cluster.barrier
    return lambda: barrier.arrive(agent, op)


def wait_for_cluster(op: Op, agent: Agent) -> Callable[..., bool]:
    """Blocks until the phase in which the agent arrived is complete."""
    barrier = agent.cta.cluster.barrier
    monitor = agent.cta.cluster.machine.monitor

    def run() -> bool:
        if barrier.passed(agent, op):
            if monitor is not None:
                monitor.cluster_passed(agent, op, agent.cluster_phase)
            return False
        barrier.waiters.append((agent, op))
        agent.waiting = (op, barrier)
        return True

    return run


@meaning(ClusterWait, blocks=True)
def cluster_wait(op: ClusterWait, agent: Agent) -> Callable[..., bool]:
    return wait_for_cluster(op, agent)


@meaning(ClusterSync, blocks=True)
def cluster_sync(op: ClusterSync, agent: Agent) -> Callable[..., bool]:
    barrier, wait = agent.cta.cluster.barrier, wait_for_cluster(op, agent)

    def run() -> bool:
        barrier.arrive(agent, op)
        return wait()

    return run
