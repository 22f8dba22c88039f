"""In which order causal tiles go: bands of heads, each with its longest tiles first."""

from __future__ import annotations

import heapq
from functools import lru_cache
from math import gcd

import numpy as np

import phalanx as px
from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.config import AttentionConfig
from phalanx.runtime.device.arrays import ITEM_BYTES
from phalanx.runtime.exporting.choices import chosen_at_example, counted_by_sizes

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


def blocks_of(keys: int, rows: int, config: AttentionConfig) -> tuple[float, ...]:
    """The blocks of keys of a tile of each of `rows` rows of tiles, the last row first, and what it takes to begin and to
    end it."""
    return tuple([max(1, -(-(keys - config.rows * row) // config.keys)) + BETWEEN for row in range(rows)])


def longest_first(blocks: tuple[float, ...], count: int, band: int) -> np.ndarray:
    """The blocks of all tiles of `count` heads in their order: band after band, in each the last rows of all heads first."""
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
def choose_band(heads: Heads, config: AttentionConfig, ctas: int) -> int:
    """How many query heads go side by side where the longest tiles go first.

    All, or an even share of them, whichever leaves the CTAs the most evenly busy. Keys and values of a band fit into
    L2, or are few enough for several CTAs to read the same at a time, so that memory is not read for each. Anyone may
    call it; no hardware is involved. Example: ``choose_band(heads, config, 132)``.
    """
    unit = gcd(config.rows, config.keys)  # up to a multiple of it all tiles have as many blocks of keys
    each = unit * (heads.dim + heads.value_dim) * ITEM_BYTES[heads.dtype]
    rows, units = px.cdiv(heads.queries, config.rows), px.cdiv(heads.keys, unit)
    return _chosen_band(heads.batch * heads.heads, rows, units, each, heads.group, config, ctas)


@counted_by_sizes
@lru_cache(4096)
def _chosen_band(
    count: int, rows: int, units: int, unit_bytes: int, group: int, config: AttentionConfig, ctas: int
) -> int:
    """The choice for `count` heads in `rows` rows of tiles each: lengths that have as many `units` of keys have one."""
    each = units * unit_bytes / group
    shares = sorted({px.cdiv(count, part) for part in range(1, PARTS + 1)}, reverse=True)
    near = [band for band in shares if band * each <= L2_BYTES or band / group <= ctas / TOGETHER]
    near = near or [max(1, min(count, int(L2_BYTES / max(1.0, each))))]
    if len(near) == 1:
        return near[0]
    return _most_even(blocks_of(units * gcd(config.rows, config.keys), rows, config), count, tuple(near), ctas)


@lru_cache(4096)
def _most_even(blocks: tuple[float, ...], count: int, bands: tuple[int, ...], ctas: int) -> int:
    """Which of the bands leaves the CTAs the most evenly busy: lengths that have as many blocks have one choice."""
    return min(bands, key=lambda band: (round(busiest(longest_first(blocks, count, band), ctas), 3), -band))
