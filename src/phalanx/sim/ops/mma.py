"""Products of a warp: operands are read at once, and the sum is there when the instruction is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.ir.ops.mma import Mma, MmaScaled
from phalanx.ir.ops.wgmma import STEP_BYTES
from phalanx.ir.types import f16
from phalanx.sim.agents import Agent
from phalanx.sim.ops.tile import Unwritten
from phalanx.sim.ops.wgmma import rounded_sum, scaled_product, widen
from phalanx.sim.places import BufferPlace
from phalanx.sim.registry import meaning


@meaning(Mma)
def mma(op: Mma, agent: Agent) -> Callable[..., np.ndarray]:
    """f32 (i32) accumulators as for `wgmma`; f16 ones are rounded after every 32 bytes of K."""
    widen_a, widen_b = map(widen, op.dtypes)
    rounds, step = op.result.type.dtype == f16, STEP_BYTES // op.dtypes[0].itemsize
    (first_a, first_b), depth = op.starts, op.shape[2]
    if not agent.cta.cluster.machine.values:
        return without_values(op)

    def run(a: Any, b: Any, acc: Any) -> np.ndarray:
        left = widen_a(a.array if isinstance(a, BufferPlace) else a)[:, first_a : first_a + depth]
        right = widen_b(b.array if isinstance(b, BufferPlace) else b)[first_b : first_b + depth]
        if isinstance(acc, Unwritten):
            acc.refuse()
        if rounds:
            return rounded_sum(left, right, acc, step, negate=False)
        product = left @ right
        if acc is not None:
            np.add(product, acc, out=product)
        return product

    return run


@meaning(MmaScaled)
def mma_scaled(op: MmaScaled, agent: Agent) -> Callable[..., np.ndarray]:
    """Multiplies the sums of blocks of both operands along K by the scales of both, and adds up in f32."""
    widen_a, widen_b = map(widen, op.elements)
    if not agent.cta.cluster.machine.values:
        return without_values(op)

    def run(a: Any, b: Any, scale_a: Any, scale_b: Any, acc: Any) -> np.ndarray:
        left, right, by_a, by_b = (x.array if isinstance(x, BufferPlace) else x for x in (a, b, scale_a, scale_b))
        if isinstance(acc, Unwritten):
            acc.refuse()
        product = scaled_product(widen_a(left), widen_b(right), by_a, by_b)
        if acc is not None:
            np.add(product, acc, out=product)
        return product

    return run


def without_values(op: Mma | MmaScaled) -> Callable[..., np.ndarray]:
    """A product of which only the time is asked for."""
    zeros = np.zeros(op.result.type.shape, op.result.type.dtype.numpy)  # type: ignore[union-attr]
    return lambda *operands: zeros
