"""`px.fence`: orders generic and asynchronous accesses, and barrier initialisations."""

from phalanx.language.ops.memory import async_proxy, barrier_init, cluster

__all__ = ["async_proxy", "barrier_init", "cluster"]
