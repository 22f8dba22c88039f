"""Loads, stores and atomics by threads: bytes are effects; what is left is the fill of edges."""

from phalanx.ir.ops.memory import (
    AtomicAdd,
    AtomicCas,
    AtomicExch,
    AtomicLoad,
    AtomicMax,
    AtomicMin,
    Extent,
    FenceAsyncProxy,
    FenceCluster,
    Load,
    Store,
)
from phalanx.sim.timeline.costs import free

free(Load, Store, AtomicLoad, why="its time is that of its accesses")
free(AtomicAdd, AtomicMax, AtomicMin, AtomicExch, AtomicCas, why="its time is that of its accesses")
free(FenceAsyncProxy, FenceCluster, why="its time is that of the fence that its effects name")
free(Extent, why="a parameter has it")
