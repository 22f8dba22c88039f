"""In which order blocks of keys go in the backward pass, and how many CTAs share one."""

import heapq

import numpy as np
import pytest

from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.backward_order import BETWEEN, KeyOrder, choose_order, lengths_of

SMS = 132


def of(batch, heads, kv_heads, queries, keys=None, dim=128):
    return Heads(batch, heads, kv_heads, queries, keys or queries, dim, dim, "bf16")


@pytest.mark.parametrize("queries, keys, left, right", [
    (5, 5, None, None), (5, 5, None, 0), (3, 6, None, 0), (6, 3, None, 0), (6, 6, 200, 0), (6, 6, 130, 70), (4, 4, 0, None),
])  # fmt: skip
def test_lengths_are_those_of_all_pairs(queries, keys, left, right):
    """A block of queries counts if one of them sees one of the keys."""
    beside, key = np.arange(queries * 128)[:, None] + (keys - queries) * 128, np.arange(keys * 128)
    seen = np.ones((queries * 128, keys * 128), bool)
    if right is not None:
        seen &= key <= beside + right
    if left is not None:
        seen &= key >= beside - left
    want = seen.reshape(queries, 128, keys, 128).any((1, 3)).sum(0)
    assert lengths_of(queries, keys, left, right) == tuple(want)


def share_of_the_mean(heads, order, left, right):
    """The mean over what the busiest CTA does, where each takes the next one: 1 is even."""
    rows, blocks = -(-heads.queries // 128), -(-heads.keys // 128)
    work = [each * heads.group / order.shares + BETWEEN for each in lengths_of(rows, blocks, left, right)]
    busy, count = [0.0] * SMS, heads.batch * heads.kv_heads
    for first in range(0, count, order.band):
        for each in work:
            for _ in range(min(order.band, count - first) * order.shares):
                heapq.heapreplace(busy, busy[0] + each)
    whole = [each * heads.group + BETWEEN for each in lengths_of(rows, blocks, left, right)]
    return sum(whole) * count / SMS / max(busy)


@pytest.mark.parametrize("heads", [
    of(1, 64, 8, 4096), of(2, 28, 4, 4096), of(1, 28, 4, 8192), of(1, 28, 4, 4096), of(1, 40, 8, 4096),
    of(2, 16, 8, 4096, dim=256), of(4, 32, 8, 2048), of(1, 32, 32, 4096), of(1, 48, 1, 2048), of(1, 8, 1, 8192),
    of(4, 16, 16, 4096),
], ids=str)  # fmt: skip
def test_causal_heads_leave_all_sms_busy(heads):
    assert share_of_the_mean(heads, choose_order(heads, None, 0, SMS), None, 0) > 0.88


def test_one_order_after_another():
    """Head after head without a bound; blocks are shared where they are too few, and no band reads more than L2 holds."""
    assert choose_order(of(4, 16, 16, 4096), None, None, SMS) == KeyOrder(1)
    assert choose_order(of(1, 64, 8, 4096), None, 0, SMS) == KeyOrder(4), "the long ones of 4 heads fill up the short ones"
    assert choose_order(of(1, 32, 1, 2048), None, None, SMS).shares == 8
    assert choose_order(of(1, 28, 4, 4096), None, 0, SMS).shares > 1
    many = of(4, 16, 16, 4096)
    assert choose_order(many, None, 0, SMS).band * 4096 * 128 * 8 <= 32 << 20
    assert choose_order(of(1, 1, 1, 64), None, 0, 1) == KeyOrder(1)
    assert choose_order(of(64, 64, 64, 1 << 17), None, 0, SMS).band >= 1


@pytest.mark.parametrize("dim, shares", [(128, 8), (160, 1), (192, 1), (224, 1), (256, 8)])
def test_only_sums_that_find_room_beside_the_operands_are_shared(dim: int, shares: int) -> None:
    """Those of 160 to 224 columns pass through 48 KB of shared memory on their way, which the kernel does not have left."""
    assert choose_order(Heads(1, 32, 1, 2048, 2048, dim, dim, "bf16"), None, None, SMS).shares == shares
