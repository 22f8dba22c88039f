"""What attention of 8-bit floats needs besides: values that lie along the keys, and powers in the order of their columns.

`wgmma` reads 8-bit operands contiguous along the sum alone, so that values, whose sum is over keys, are transposed by a
kernel of their own before. It also puts the keys of each 16 in another order: a thread holds the powers of keys 2q, 2q
+ 1, 2q + 8 and 2q + 9 where the operand of the next product wants four neighbours. A sum does not care for the order of
its terms, so the powers stay where they are, and the values are stored in their order.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import empty
from phalanx.runtime.device.arrays import describe

UNIT = 16
"""Keys that change their places among each other."""
SHIFT = 8.0
"""Powers are at most 2 ** SHIFT: e4m3 ends at 448, and what is that much smaller than 2 ** -10 is 0."""


@px.func
def in_order_of_registers(powers, ROWS, KEYS):
    """Powers with their columns in the order in which the threads hold them: an operand without a move."""
    return powers.reshape(ROWS, KEYS // UNIT, 2, 4, 2).permute(0, 1, 3, 2, 4).reshape(ROWS, KEYS)


@px.kernel(warps=4, pdl=True)
def turn_values(V, T, *, WIDE, KEYS=64):
    """T[b, h, :, n] = V[b, h, key, :], the keys of each 16 ordered as `in_order_of_registers` has them; then zeros."""
    key = px.block_id(0) * KEYS
    head = px.block_id(1)
    batch = px.block_id(2)
    wait_for_prior_launch()
    v = px.load(V[batch, head, key : key + KEYS, 0:WIDE])
    v = v.reshape(KEYS // UNIT, 2, 4, 2, WIDE).permute(0, 2, 1, 3, 4).reshape(KEYS, WIDE)
    px.store(T[batch, head, 0:WIDE, key : key + KEYS], v.T)


def turned_values(v: Any, columns: int) -> Any:
    """Values (batch, heads, keys, dim) as (batch, heads, dim, keys rounded up to 16), for `wgmma` of 8-bit floats; dim is at
    most `columns`, with which the kernel computes."""
    info = describe(v)
    assert info is not None
    batch, heads, keys, wide = info.shape
    turned = empty(v, (batch, heads, wide, px.cdiv(keys, UNIT) * UNIT), info.dtype_name)
    turn_values[px.cdiv(keys, 64), heads, batch](v, turned, WIDE=columns)
    return turned
