"""Loads, stores and atomics by threads: bytes are effects; what is left is the fill of edges."""

from phalanx.ir.ops import memory as ir
from phalanx.sim.timeline.costs import free
from phalanx.sim.timeline.numbers import number

free(ir.Load, ir.Store, ir.AtomicLoad, why="its time is that of its accesses")
free(ir.AtomicAdd, ir.AtomicMax, ir.AtomicMin, ir.AtomicExch, ir.AtomicCas, why="its time is that of its accesses")
free(ir.FenceAsyncProxy, ir.FenceCluster, why="its time is that of the fence that its effects name")
free(ir.Extent, why="a parameter has it")


@number(ir.Extent)
def extent(op: ir.Extent) -> str:
    """The size of an argument along an axis."""
    return f"sizes[{op.array.index}][{op.axis}]"
