"""In which order blocks of keys go in the backward pass, and how many CTAs share one.

Under a bound to the right the first keys are seen by the most queries: a CTA that begins late and has them keeps the card
waiting. So heads go side by side, their longest blocks first. As all CTAs begin with the last block of queries and take
the heads of a group in turn, those of one head of keys read the same queries at the same time, whatever the size of the
group. Bands of heads (as in `bands.py`) are as small as leaves the CTAs nearly evenly busy: then more CTAs share what L2
has.

Blocks of keys may be too few all the same: 4 heads of 4,096 keys are 128 blocks, the longest of which takes twice the mean.
Then several CTAs share the queries of each block, and leave f32 sums that another kernel adds up.
"""

from __future__ import annotations

from functools import lru_cache

import phalanx as px
from phalanx.frozen import frozen
from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.backward_config import KEYS
from phalanx.kernels.attention.bands import L2_BYTES, MANY, PARTS, TOGETHER, busiest, least_busiest, rounded
from phalanx.runtime.symbolic.choices import chosen_at_example, chosen_by_sizes

BETWEEN = 1.0
"""What it takes a CTA to begin and to end, in blocks of 128 queries."""
SHARED = 1.0
"""What it takes besides to leave sums and to read them again, and a launch that adds them up."""
EVEN = 0.99
"""A band is even enough if no CTA does more than the mean over this."""
WORTH = 0.92
"""CTAs share blocks of keys where all are done in so much of the time."""
MOST_SHARES = 16
UNSHARED = (160, 192, 224)
"""Sizes of heads whose sums have no room to be put in order beside the operands, so that no CTAs share their blocks."""
ELEMENT_BYTES = 2 + 2 + 4
"""Bytes of an element of the queries, of the result's gradient, and of the queries' f32 gradient, together."""


@frozen
class KeyOrder:
    """`band` heads of keys go side by side, each block of which `shares` CTAs have together."""

    band: int = 1
    shares: int = 1


def lengths_of(rows: int, blocks: int, left: int | None, right: int | None) -> tuple[int, ...]:
    """How many blocks of 128 queries, of `rows`, see each block of 128 keys; the last query is beside the last key."""
    ahead = (blocks - rows) * KEYS
    found = []
    for start in range(0, blocks * KEYS, KEYS):
        first = 0 if right is None else max(0, start - ahead - right) // KEYS
        last = rows if left is None else min(rows, -(-max(0, start + KEYS - ahead + left) // KEYS))
        found.append(max(0, last - first))
    return tuple(found)


@chosen_at_example
def choose_order(heads: Heads, left: int | None, right: int | None, ctas: int) -> KeyOrder:
    """The order of a call whose sequences have one length.

    Anyone may call it; no hardware is involved. Example: ``choose_order(heads, None, 0, 132).shares``.
    """
    rows = rounded(px.cdiv(heads.queries, KEYS))
    blocks = rounded(px.cdiv(heads.keys, KEYS))
    most_shares = 1 if max(heads.columns) in UNSHARED else MOST_SHARES
    return _chosen(heads.batch * heads.kv_heads, heads.group, heads.dim, rows, blocks, left, right, ctas, most_shares)


@chosen_by_sizes
@lru_cache(4096)
def _chosen(
    count: int, group: int, dim: int, rows: int, blocks: int, left: int | None, right: int | None, ctas: int,
    most_shares: int,
) -> KeyOrder:  # fmt: skip
    """The choice for `count` heads of keys."""
    lengths = tuple(group * each for each in lengths_of(rows, blocks, left, right))
    each = rows * KEYS * dim * ELEMENT_BYTES
    shares = sorted({-(-count // part) for part in range(1, PARTS + 1)})
    bands = [1] if right is None else [band for band in shares if band * each <= L2_BYTES or band <= ctas / TOGETHER]
    band = bands[0] if bands else max(1, min(count, L2_BYTES // each))
    if blocks * count > MANY:
        return KeyOrder(band)
    whole = tuple(each + BETWEEN for each in lengths)
    least = max(least_busiest(tuple(sorted(whole, reverse=True)), count, ctas), 1e-9)
    most = float("inf")
    for one in bands or [band]:
        found = busiest(whole, count, one, ctas)
        if found < most:
            band = one
            most = found
        if most * EVEN <= least:
            break
    best = KeyOrder(band)
    limit = WORTH * most
    if limit <= sum(whole) * count / ctas:
        return best
    for shares_of_each in range(2, min(most_shares, 2 * group * rows) + 1):
        cut = tuple(each / shares_of_each + BETWEEN + SHARED for each in lengths)
        found = busiest(cut, count * shares_of_each, count * shares_of_each, ctas, limit) + SHARED
        if found < limit:
            best = KeyOrder(count, shares_of_each)
            limit = found
    return best
