"""Blackwell's tensor cores: products by one thread, and ways to and from tensor memory."""

from phalanx.ir.ops.tcgen05 import (
    Tcgen05Commit,
    Tcgen05Copy,
    Tcgen05FenceAfter,
    Tcgen05FenceBefore,
    Tcgen05Load,
    Tcgen05Mma,
    Tcgen05Store,
    Tcgen05WaitLoads,
    Tcgen05WaitStores,
    TmemAlloc,
    TmemFree,
    TmemTake,
)
from phalanx.ir.views import in_tensor
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free
from phalanx.sim.timeline.products import product_cycles

TENSOR_MEMORY = 256
"""Bytes between tensor memory and the registers of an SM in a cycle."""

free(Tcgen05Commit, why="its time is that of the arrival that its effects name")
free(Tcgen05WaitLoads, Tcgen05WaitStores, why="its time is that of the loads and stores that it waits for")
free(Tcgen05FenceBefore, Tcgen05FenceAfter, why="they order, and emit next to nothing")
free(TmemAlloc, TmemFree, TmemTake, why="part of the start and the end of a CTA (`Rates.cta_start`)")


@cost(Tcgen05Mma)
def mma(op: Tcgen05Mma, warps: float, rates: Rates) -> Cost:
    """The tensor cores of this CTA, and of the other one of a pair, are busy; one thread gave them the work."""
    m, n, k = op.shape
    cycles = product_cycles(max(m, rates.product_rows), n, k, op.kind.bits / 8, rates)
    left = 0 if in_tensor(op.a) else op.a.nbytes
    drain = rates.tensor_drain_registers if in_tensor(op.a) else rates.tensor_drain
    return Cost(issue=rates.product_issue, product=cycles, operands=left + op.b.nbytes, drain=drain)


@cost(Tcgen05Copy)
def copy(op: Tcgen05Copy, warps: float, rates: Rates) -> Cost:
    """Shared memory is read, at its rate."""
    return Cost(issue=rates.product_issue, product=1, operands=op.src.nbytes, drain=rates.tensor_drain)


@cost(Tcgen05Load, Tcgen05Store)
def move(op: Tcgen05Load | Tcgen05Store, warps: float, rates: Rates) -> Cost:
    """Every warp moves its own lanes."""
    view = op.src if isinstance(op, Tcgen05Load) else op.dst
    return Cost(issue=4, stands=view.nbytes / TENSOR_MEMORY)
