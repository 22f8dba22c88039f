"""Ordinary loads, stores and atomics: they are over when they return. Fences order nothing that is not ordered here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.ir.ops import memory as ir
from phalanx.sim import numerics
from phalanx.sim.agents import Agent
from phalanx.sim.places import tile_of
from phalanx.sim.registry import meaning


@meaning(ir.Extent)
def extent(op: ir.Extent, agent: Agent) -> Callable[..., int]:
    """The size of an axis of a global array: a constant of the run."""
    size = int(agent.cta.cluster.machine.args[op.array.index].shape[op.axis])
    return lambda array: size


@meaning(ir.Load)
def load(op: ir.Load, agent: Agent) -> Callable[..., Any]:
    """Reads a region into a tile or a scalar."""
    view = op.view
    if view.shape:
        return lambda place, fill: place.read(fill)
    return lambda place, fill: tile_of(view, place.read(fill))


@meaning(ir.Store)
def store(op: ir.Store, agent: Agent) -> Callable[..., None]:
    """Writes a tile or a scalar into a region."""
    return lambda place, value: place.write(value)


@meaning(ir.AtomicAdd)
@meaning(ir.AtomicMax)
@meaning(ir.AtomicMin)
def atomic_fold(op: ir.Atomic, agent: Agent) -> Callable[..., Any]:
    """Replaces every element by what the operation makes of it and the new one; gives the old ones."""
    view, function = op.view, noting(numerics.binary(op.update, op.view.dtype), agent)
    return lambda place, value: tile_of(view, place.fold(function, value))


@meaning(ir.AtomicExch)
def atomic_exch(op: ir.AtomicExch, agent: Agent) -> Callable[..., Any]:
    """Replaces every element; gives the old ones."""
    view, function = op.view, noting(lambda old, new: np.broadcast_to(new, np.shape(old)), agent)
    return lambda place, value: tile_of(view, place.fold(function, value))


@meaning(ir.AtomicCas)
def atomic_cas(op: ir.AtomicCas, agent: Agent) -> Callable[..., Any]:
    """Replaces the elements that equal what they are compared with; gives the old ones."""
    view = op.view

    def swap(old: Any, new: Any, expected: Any) -> Any:
        return np.where(old == expected, new, old)

    function = noting(swap, agent)
    return lambda place, value, compare: tile_of(view, place.fold(function, value, compare))


def noting(function: Callable[..., Any], agent: Agent) -> Callable[..., Any]:
    """`function` of the old elements and others, which takes note of what is not as it was."""

    def run(old: Any, *others: Any) -> Any:
        new = function(old, *others)
        if not np.array_equal(old, new):
            agent.changes += 1
        return new

    return run


@meaning(ir.AtomicLoad)
def atomic_load(op: ir.AtomicLoad, agent: Agent) -> Callable[..., Any]:
    """Reads every element; 0 outside an array."""
    view = op.view
    return lambda place: tile_of(view, place.read(0))


@meaning(ir.FenceAsyncProxy)
def fence_async_proxy(op: ir.FenceAsyncProxy, agent: Agent) -> Callable[..., None]:
    """Does nothing by itself: monitors see that it was run."""
    return lambda: None


@meaning(ir.FenceCluster)
def fence_cluster(op: ir.FenceCluster, agent: Agent) -> Callable[..., None]:
    """Does nothing by itself: monitors see that it was run."""
    return lambda: None
