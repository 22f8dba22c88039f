"""Products of warps, finished at once: `mma.sync`, at its share of the rate of the tensor cores."""

from phalanx.ir.ops.mma import Mma, MmaScaled
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.costs import Cost, cost
from phalanx.sim.timeline.products import product_cycles

INSTRUCTION = 16 * 8 * 32
"""Rows, columns and bytes of K of one instruction of a warp."""


@cost(Mma)
def mma(op: Mma, warps: float, rates: Rates) -> Cost:
    """The agent stands still until its product is there."""
    m, n, k = op.shape
    return _product(m, n, k, op.dtypes[0].itemsize, warps, rates)


@cost(MmaScaled)
def scaled(op: MmaScaled, warps: float, rates: Rates) -> Cost:
    """A product with scales costs what one without them does: scales are few."""
    m, n, k = op.shape
    return _product(m, n, k, op.elements[0].itemsize, warps, rates)


def _product(m: int, n: int, k: int, itemsize: float, warps: float, rates: Rates) -> Cost:
    cycles = product_cycles(m, n, k, itemsize, rates) / rates.tensor_share_mma
    issue = m * n * k * itemsize / INSTRUCTION / warps
    return Cost(issue=issue, product=cycles, drain=rates.shared_latency, at_once=True)
