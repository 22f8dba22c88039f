"""How long tensor cores take for a product, whatever instruction it is."""

from phalanx.machines.rates import Rates

FULL_ITEM = 2
"""Bytes of an element at which the rate of the tensor cores is given."""


def product_cycles(m: float, n: float, k: float, itemsize: float, rates: Rates) -> float:
    """Cycles of the tensor cores of one SM for (m, k) times (k, n): narrower types go as much faster."""
    return 2 * m * n * k * itemsize / FULL_ITEM / rates.tensor_rate
