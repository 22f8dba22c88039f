"""Full attention in tiles that are not all as high: lower ones at the end, so that all SMs end together.

All tiles of full attention are equally long, and the last turn of a launch has tiles for a few CTAs only: with 1,408
tiles of three warpgroups on 132 SMs, 11 turns do the work of 10.7; and a head of 4,096 queries is 21 such tiles and a
third, so that the work is in truth that of 10.3. So a head has some tiles of all warpgroups, and behind them *low* ones,
which fewer warpgroups attend to; the others pass their blocks on unread. A tile of two of three warpgroups takes about
0.8 as long as one of all, which share the tensor cores. Low tiles of all heads come last.

Nothing is cut along the keys: no sums in memory, no second kernel to join them, and results are the same bit for bit.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from operator import add
from typing import Any

import numpy as np

import phalanx as px
from phalanx.frozen import frozen
from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.config import GROUP_ROWS, AttentionConfig
from phalanx.kernels.windows import Windows
from phalanx.runtime.symbolic.choices import counted_by_sizes, not_chosen_in_exports

TENTHS = {1: (10,), 2: (7, 10), 3: (6, 8, 10)}
"""How long a tile takes that 1, 2 or 3 warpgroups attend to, in tenths of one of all warpgroups there are."""
WHOLE = 10
UNITS = {groups: gcd(*times) for groups, times in TENTHS.items()}
"""What these times are multiples of."""
WINDOW, MOST_HEADS = 8, 256
"""Rows of 64 queries for which it is decided at once, of at most so many heads: that takes less than a millisecond."""
MANY = 1000
"""From this number of tiles on, sums over the tiles behind full turns are computed as an array, not one by one."""
TURNS = 1
"""How many of the last turns may get low tiles."""


@frozen
class Heights:
    """Heads have `whole` tiles of all warpgroups, the first `more` heads one more; then come those of `low` warpgroups.

    `first` is how many of these a head has from head `more` on, `second` how many one before it.
    """

    whole: int
    more: int
    low: int
    first: int
    second: int

    def count(self, heads: int) -> int:
        """Counts all tiles of `heads` heads."""
        return heads * self.whole + self.more + (heads - self.more) * self.first + self.more * self.second


def heights_for(heads: int, rows: int, groups: int, tiles: int, low: int) -> Heights:
    """Plans `tiles` tiles of all `groups`; the rest of each head's `rows` (64 queries each) has tiles of `low` rows."""
    whole, more = divmod(tiles, heads)
    rest = rows - whole * groups
    return Heights(whole, more, low, -(-rest // low), -(-max(0, rest - groups) // low))


@lru_cache(4096)
def low_tiles(groups: int, low: int, rest: int) -> tuple[tuple[int, ...], int]:
    """How long each low tile takes of a head that has `rest` rows behind its whole ones, in order; and all of these."""
    full, last = divmod(rest, low)
    times = (TENTHS[groups][low - 1],) * full + (TENTHS[groups][last - 1],) * (last > 0)
    return times, sum(times)


Lots = tuple[tuple[int, tuple[int, ...], int], ...]
"""Low tiles as they are dealt: of how many heads, and for each `low_tiles`."""


def low_lots(heads: int, rows: int, groups: int, tiles: int, low: int) -> Lots:
    """What is left of all heads behind `tiles` whole ones: heads that have one more of these come last."""
    whole, more = divmod(tiles, heads)
    rest = rows - whole * groups
    first = heads - more, *low_tiles(groups, low, rest)
    return (first, (more, *low_tiles(groups, low, rest - groups))) if more else (first,)


def longest(lots: Lots, tiles: int, ctas: int) -> int:
    """When the last CTA ends, in tenths of the time of a whole tile: what comes behind full turns of these is dealt."""
    turns, filled = divmod(tiles, ctas)
    number = filled + sum([count * len(each) for count, each, _ in lots])
    if number > MANY:
        places = np.zeros((-(-number // ctas), ctas), np.int64)
        places.reshape(-1)[:number] = np.concatenate([
            np.full(filled, WHOLE), *(np.tile(np.array(each, np.int64), count) for count, each, _ in lots)
        ])  # fmt: skip
        return turns * WHOLE + int(places.sum(0).max())
    times = (WHOLE,) * filled
    for count, each, _ in lots:
        times += each * count
    ends = [*times[:ctas]]
    for start in range(ctas, len(times), ctas):  # the last turn may be one of the first CTAs alone
        turn = times[start : start + ctas]
        ends[: len(turn)] = map(add, ends, turn)
    return turns * WHOLE + max(ends, default=0)


def least(lots: Lots, tiles: int, unit: int, ctas: int) -> int:
    """When it ends at the earliest: as if all CTAs worked equally long, or there were whole tiles alone. All times are
    multiples of `unit`."""
    work = tiles * WHOLE
    for count, _, total in lots:
        work += count * total
    return max(-(-work // (unit * ctas)) * unit, -(-tiles // ctas) * WHOLE)


@not_chosen_in_exports
def choose_heights(heads: Heads, config: AttentionConfig, ctas: int) -> Heights:
    """How the queries of each head are cut into tiles, so that the last CTA ends as early as may be.

    Anyone may call it; no hardware is involved. Example: ``choose_heights(heads, config, 132).low``.
    """
    return _chosen(heads.batch * heads.heads, px.cdiv(heads.queries, GROUP_ROWS), config.groups, ctas)


@counted_by_sizes
def _chosen(count: int, rows: int, groups: int, ctas: int) -> Heights:
    """The choice for `count` heads of `rows` rows of 64 queries: lengths that differ by less have one."""
    return CHOSEN.find((count, rows, groups, ctas))


def first_to_end(count: int, rows: int, groups: int, ctas: int) -> Heights:
    """The plan that ends first, of several that with the fewest tiles, and then the most whole ones.

    Those that may end first are looked at first, until none can come before the best.
    """
    most = count * (rows // groups)
    turns = most // ctas
    unit = UNITS[groups]
    plans: list[tuple[Any, ...]] = []
    for tiles in {most, *(turn * ctas for turn in range(max(0, turns - TURNS), turns + 1))}:
        for low in range(1, groups + 1):
            lots = low_lots(count, rows, groups, tiles, low)
            number = tiles + sum([heads * len(times) for heads, times, _ in lots])
            plans.append((least(lots, tiles, unit, ctas), number, -(tiles // count), len(plans), lots, tiles, low))
    plans.sort()
    best: tuple[Any, ...] = (float("inf"),)
    for early in plans:
        if early > best:
            break
        lots, tiles, _ = early[-3:]
        best = min(best, (longest(lots, tiles, ctas), *early[1:]))
    return heights_for(count, rows, groups, *best[-2:])


class ByLength(Windows[tuple[int, int, int, int], Heights]):
    """Plans by what `first_to_end` is asked: lengths change from call to call, and the rows of queries with them."""

    def window(self, asked: tuple[int, int, int, int]) -> range:
        """Rows that follow each other. Many heads are chosen for alone: a window of them would take some milliseconds."""
        if asked[0] > MOST_HEADS:
            return range(0)
        first = (asked[1] - 1) // WINDOW * WINDOW + 1
        return range(max(1, first), first + WINDOW)

    def numbered(self, asked: tuple[int, int, int, int], number: int) -> tuple[int, int, int, int]:
        """Heads of so many rows."""
        return asked[0], number, *asked[2:]


CHOSEN = ByLength(lambda asked: [first_to_end(*each) for each in asked])
"""The plans that were made, to look them up."""
