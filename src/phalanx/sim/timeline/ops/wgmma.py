"""Hopper's tensor cores: instructions of 64 rows, each of which reads its operands from shared memory anew."""

from phalanx.ir.ops.wgmma import ROWS, STEP_BYTES, Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost, free
from phalanx.sim.timeline.products import product_cycles

WIDEST = 256
"""Columns of one instruction."""

free(WgmmaFence, why="it orders, and costs an issue slot")
free(WgmmaCommit, WgmmaWait, why="its time is that of the products that it closes or waits for")


@cost(Wgmma)
def wgmma(op: Wgmma, warps: float, rates: Rates) -> Cost:
    """Tensor cores are busy with N / 2 cycles an instruction of N columns, shared memory with both operands."""
    m, n, k = op.shape
    itemsize = op.b.dtype.itemsize
    blocks = max(1.0, m / ROWS)
    instructions = blocks * -(-n // WIDEST) * k * itemsize / STEP_BYTES
    left = 0 if op.a_view is None else m * k * itemsize * -(-n // WIDEST)
    drain = rates.tensor_drain_registers if op.a_view is None else rates.tensor_drain
    return Cost(
        issue=rates.product_issue * instructions / (warps / 4),
        product=product_cycles(m, n, k, itemsize, rates),
        operands=left + blocks * op.b.nbytes,
        drain=drain,
    )
