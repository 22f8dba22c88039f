"""Ordinary loads, stores and atomics: they are over when they return. Fences order nothing that is not ordered here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.ir.ops.memory import (
    Atomic,
    AtomicAdd,
    AtomicCas,
    AtomicExch,
    AtomicMax,
    AtomicMin,
    Extent,
    FenceAsyncProxy,
    FenceCluster,
    Load,
    Store,
)
from phalanx.sim import numerics
from phalanx.sim.agents import Agent
from phalanx.sim.places import tile_of
from phalanx.sim.registry import meaning


@meaning(Extent)
def extent(op: Extent, agent: Agent) -> Callable[..., int]:
    size = int(agent.cta.cluster.machine.args[op.array.index].shape[op.axis])
    return lambda array: size


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
@meaning(AtomicMax)
@meaning(AtomicMin)
def atomic_fold(op: Atomic, agent: Agent) -> Callable[..., Any]:
    view, function = op.view, numerics.binary(op.update, op.view.dtype)
    return lambda place, value: tile_of(view, place.fold(function, value))


@meaning(AtomicExch)
def atomic_exch(op: AtomicExch, agent: Agent) -> Callable[..., Any]:
    view = op.view
    return lambda place, value: tile_of(view, place.fold(lambda old, new: new, value))


@meaning(AtomicCas)
def atomic_cas(op: AtomicCas, agent: Agent) -> Callable[..., Any]:
    view = op.view

    def swap(old: Any, new: Any, expected: Any) -> Any:
        return np.where(old == expected, new, old)

    return lambda place, value, compare: tile_of(view, place.fold(swap, value, compare))


@meaning(FenceAsyncProxy)
def fence_async_proxy(op: FenceAsyncProxy, agent: Agent) -> Callable[..., None]:
    return lambda: None


@meaning(FenceCluster)
def fence_cluster(op: FenceCluster, agent: Agent) -> Callable[..., None]:
    return lambda: None
