"""Blackwell's tensor cores: products by one thread, and ways to and from tensor memory."""

from phalanx.ir.ops import tcgen05 as ir
from phalanx.ir.views import in_tensor
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free
from phalanx.sim.timeline.products import product_cycles

TENSOR_MEMORY = 256
"""Bytes between tensor memory and the registers of an SM in a cycle."""

free(ir.Tcgen05Commit, why="its time is that of the arrival that its effects name")
free(ir.Tcgen05WaitLoads, ir.Tcgen05WaitStores, why="its time is that of the loads and stores that it waits for")
free(ir.Tcgen05FenceBefore, ir.Tcgen05FenceAfter, why="they order, and emit next to nothing")
free(ir.TmemAlloc, ir.TmemFree, ir.TmemTake, why="part of the start and the end of a CTA (`Rates.cta_start`)")


@cost(ir.Tcgen05Mma)
def mma(op: ir.Tcgen05Mma, warps: float, rates: Rates) -> Cost:
    """The tensor cores of this CTA, and of the other one of a pair, are busy; one thread gave them the work."""
    m, n, k = op.shape
    cycles = product_cycles(max(m, rates.product_rows), n, k, op.kind.bits / 8, rates)
    left = 0 if in_tensor(op.a) else op.a.nbytes
    drain = rates.tensor_drain_registers if in_tensor(op.a) else rates.tensor_drain
    return Cost(issue=rates.product_issue, product=cycles, operands=left + op.b.nbytes, drain=drain)


@cost(ir.Tcgen05Copy)
def copy(op: ir.Tcgen05Copy, warps: float, rates: Rates) -> Cost:
    """Shared memory is read, at its rate."""
    return Cost(issue=rates.product_issue, product=1, operands=op.src.nbytes, drain=rates.tensor_drain)


@cost(ir.Tcgen05Load, ir.Tcgen05Store)
def move(op: ir.Tcgen05Load | ir.Tcgen05Store, warps: float, rates: Rates) -> Cost:
    """Every warp moves its own lanes."""
    view = op.src if isinstance(op, ir.Tcgen05Load) else op.dst
    return Cost(issue=4, stands=view.nbytes / TENSOR_MEMORY)
