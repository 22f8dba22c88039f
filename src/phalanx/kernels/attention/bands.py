"""In which order causal tiles go: bands of heads, each with its longest tiles first."""

from __future__ import annotations

import heapq
from functools import lru_cache
from math import gcd

import phalanx as px
from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.config import AttentionConfig
from phalanx.runtime.device.arrays import ITEM_BYTES
from phalanx.runtime.symbolic.choices import chosen_at_example, counted_by_sizes

L2_BYTES = 32 << 20
"""How much of L2 the keys and values of a band may take."""
TOGETHER = 4
"""CTAs that read the same keys and values at about the same time, where those of a band do not fit into L2."""
BETWEEN = 2.0
"""What it takes to begin and to end a tile, in blocks of keys."""
PARTS = 8
"""Into how many bands heads are divided at most."""
MANY = 4096
"""A launch of more tiles than this is balanced in any order: bands are not compared."""
FEW = 4
"""With more tiles for each CTA than this the mean decides, not the longest tiles."""
ALIKE = 16
"""Numbers of an octave for which bands are chosen: lengths between two of them have the choice of the longer one."""


def blocks_of(keys: int, rows: int, config: AttentionConfig) -> tuple[float, ...]:
    """The blocks of keys of a tile of each of `rows` rows of tiles, the last row first, and what it takes to begin and to
    end it."""
    return tuple([max(1, -(-(keys - config.rows * row) // config.keys)) + BETWEEN for row in range(rows)])


def busiest(blocks: tuple[float, ...], count: int, band: int, ctas: int, enough: float = float("inf")) -> float:
    """What the busiest CTA does, where each takes the next tile when it is done with one.

    `count` heads, each with tiles of so many `blocks`, go band after band, in each the first tiles of all heads first. CTAs
    that have done as much as others are one entry here. The answer is only known to be too much if it is more than `enough`.
    """
    done = [(0.0, ctas)]
    most = 0.0
    left = count
    while left:
        heads = min(band, left)
        left -= heads
        for each in blocks:
            tiles = heads
            while tiles:
                before, idle = done[0]
                taking = min(idle, tiles)
                after = before + each
                tiles -= taking
                if after > most:
                    most = after
                    if most > enough:
                        return most
                if taking == idle:
                    heapq.heapreplace(done, (after, taking))
                else:
                    done[0] = before, idle - taking
                    heapq.heappush(done, (after, taking))
    return most


def least_busiest(blocks: tuple[float, ...], count: int, ctas: int) -> float:
    """What the busiest CTA does at least, in any order: the mean; of the n `ctas` + 1 longest tiles one CTA has n + 1."""
    found = sum(blocks) * count / ctas
    for turns in range(min(FEW, -(-len(blocks) * count // ctas))):
        last = turns * ctas  # of these, the longest one being 0
        found = max(found, sum([blocks[(last - place) // count] for place in range(turns + 1)]))
    return found


@chosen_at_example
def choose_band(heads: Heads, config: AttentionConfig, ctas: int) -> int:
    """How many query heads go side by side where the longest tiles go first.

    All, or an even share of them, whichever leaves the CTAs the most evenly busy. Keys and values of a band fit into
    L2, or are few enough for several CTAs to read the same at a time, so that memory is not read for each. Anyone may
    call it; no hardware is involved. Example: ``choose_band(heads, config, 132)``.
    """
    unit = gcd(config.rows, config.keys)  # up to a multiple of it all tiles have as many blocks of keys
    each = unit * (heads.dim + heads.value_dim) * ITEM_BYTES[heads.dtype]
    rows = px.cdiv(heads.queries, config.rows)
    units = px.cdiv(heads.keys, unit)
    return _chosen_band(heads.batch * heads.heads, rows, units, each, heads.group, config, ctas)


@counted_by_sizes
@lru_cache(4096)
def _chosen_band(
    count: int, rows: int, units: int, unit_bytes: int, group: int, config: AttentionConfig, ctas: int
) -> int:
    """The choice for `count` heads in `rows` rows of tiles each, with so many `units` of keys."""
    each = units * unit_bytes / group
    shares = dict.fromkeys([-(-count // part) for part in range(1, PARTS + 1)])
    near = [band for band in shares if band * each <= L2_BYTES or band / group <= ctas / TOGETHER]
    near = near or [max(1, min(count, int(L2_BYTES / max(1.0, each))))]
    if len(near) == 1:
        return near[0]
    unit = gcd(config.rows, config.keys)
    alike = rounded(units)
    if rows == -(-units * unit // config.rows):  # as many queries as keys
        rows = -(-alike * unit // config.rows)
    return most_even(alike * unit, rows, config, count, tuple(near), ctas)


def rounded(units: int) -> int:
    """The least of `ALIKE` numbers in an octave that is as large: powers of two are among them."""
    step = 1 << max(0, units.bit_length() - ALIKE.bit_length())
    return -(-units // step) * step


@lru_cache(4096)
def most_even(keys: int, rows: int, config: AttentionConfig, count: int, bands: tuple[int, ...], ctas: int) -> int:
    """Chooses the size of a band that leaves CTAs the most evenly busy.

    `bands` are the sizes to choose from, the largest first; times that are equal to a thousandth count as equal, and
    the larger band is taken.
    """
    if rows * count > MANY:
        return bands[0]
    blocks = blocks_of(keys, rows, config)
    mean = sum(blocks) * count / ctas
    best = float("inf")
    chosen = bands[0]
    least = round(least_busiest(blocks, count, ctas) / mean, 3)
    for band in bands:
        found = round(busiest(blocks, count, band, ctas, (best - 0.0005) * mean) / mean, 3)
        if found < best:
            best = found
            chosen = band
        if best <= least:
            break
    return chosen
