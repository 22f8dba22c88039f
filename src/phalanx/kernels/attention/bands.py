"""In which order causal tiles go: bands of heads, each with its longest tiles first."""

from __future__ import annotations

import heapq
from functools import lru_cache

import numpy as np

import phalanx as px
from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.config import AttentionConfig
from phalanx.runtime.device.arrays import ITEM_BYTES
from phalanx.runtime.exporting.choices import chosen_at_example

L2_BYTES = 32 << 20
"""How much of L2 the keys and values of a band may take."""
TOGETHER = 4
"""CTAs that read the same keys and values at about the same time, where those of a band do not fit into L2."""
BETWEEN = 2.0
"""What it takes to begin and to end a tile, in blocks of keys."""
PARTS = 8
"""Into how many bands heads are divided at most."""
MANY = 4096
"""So many tiles are even enough in any order."""


def longest_first(heads: Heads, config: AttentionConfig, band: int) -> np.ndarray:
    """The blocks of keys of all tiles in their order: band after band, in each the last rows of all heads first."""
    rows, count = px.cdiv(heads.queries, config.rows), heads.batch * heads.heads
    ends = heads.keys - config.rows * np.arange(rows)  # behind the last key of a row of tiles, the last row first
    blocks = np.maximum(1, -(-ends // config.keys)) + BETWEEN
    full, rest = divmod(count, band)
    return np.concatenate([np.repeat(blocks, band)] * full + [np.repeat(blocks, rest)])


def busiest(blocks: np.ndarray, ctas: int) -> float:
    """What the busiest CTA does, where each takes the next tile when it is done with one, relative to the mean."""
    if len(blocks) > MANY:
        return 1.0
    busy = [0.0] * ctas
    for each in blocks.tolist():
        heapq.heapreplace(busy, busy[0] + each)
    return max(busy) / (float(blocks.sum()) / ctas)


@chosen_at_example
@lru_cache(1024)
def choose_band(heads: Heads, config: AttentionConfig, ctas: int) -> int:
    """How many query heads go side by side where the longest tiles go first.

    All, or an even share of them, whichever leaves the CTAs the most evenly busy. Keys and values of a band fit into
    L2, or are few enough for several CTAs to read the same at a time, so that memory is not read for each. Anyone may
    call it; no hardware is involved. Example: ``choose_band(heads, config, 132)``.
    """
    count = heads.batch * heads.heads
    each = heads.keys * (heads.dim + heads.value_dim) * ITEM_BYTES[heads.dtype] / heads.group
    shares = sorted({px.cdiv(count, part) for part in range(1, PARTS + 1)}, reverse=True)
    near = [band for band in shares if band * each <= L2_BYTES or band / heads.group <= ctas / TOGETHER]
    near = near or [max(1, min(count, int(L2_BYTES / max(1.0, each))))]
    return min(near, key=lambda band: (round(busiest(longest_first(heads, config, band), ctas), 3), -band))
