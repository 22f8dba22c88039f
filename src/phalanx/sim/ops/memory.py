"""Ordinary loads, stores and atomics: they are over when they return. Fences order nothing that is not ordered here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.ir.ops.memory import AtomicAdd, Extent, FenceAsyncProxy, FenceCluster, Load, Store
from phalanx.sim import numerics
from phalanx.sim.agents import Agent
from phalanx.sim.places import tile_of
from phalanx.sim.registry import meaning


@meaning(Extent)
def extent(op: Extent, agent: Agent) -> Callable[..., int]:
    size = int(agent.cta.cluster.machine.args[op.array.index].shape[op.axis])
    return lambda: size


@meaning(Load)
def load(op: Load, agent: Agent) -> Callable[..., Any]:
    view = op.view
    if view.shape:
        return lambda place, fill: place.read(fill)
    return lambda place, fill: tile_of(view, place.read(fill))


@meaning(Store)
def store(op: Store, agent: Agent) -> Callable[..., None]:
    return lambda place, value: place.write(value)


@meaning(AtomicAdd)
def atomic_add(op: AtomicAdd, agent: Agent) -> Callable[..., Any]:
    view, add = op.view, numerics.binary("add", op.view.dtype)
    return lambda place, value: tile_of(view, place.fold(value, add))


@meaning(FenceAsyncProxy)
def fence_async_proxy(op: FenceAsyncProxy, agent: Agent) -> Callable[..., None]:
    return lambda: None


@meaning(FenceCluster)
def fence_cluster(op: FenceCluster, agent: Agent) -> Callable[..., None]:
    return lambda: None
