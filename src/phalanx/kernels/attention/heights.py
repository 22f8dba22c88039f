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

import numpy as np

import phalanx as px
from phalanx.frozen import frozen
from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.config import GROUP_ROWS, AttentionConfig
from phalanx.runtime.exporting.choices import counted_by_sizes, not_chosen_in_exports

TIMES = {1: (1.0,), 2: (0.7, 1.0), 3: (0.6, 0.8, 1.0)}
"""How long a tile takes that 1, 2 or 3 warpgroups attend to, beside one of all warpgroups there are."""
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
        """All tiles of `heads` heads."""
        return heads * self.whole + self.more + (heads - self.more) * self.first + self.more * self.second


def heights_for(heads: int, rows: int, groups: int, tiles: int, low: int) -> Heights:
    """So many tiles of all `groups`, and the rest of the `rows` (of 64 queries) of each head in tiles of `low` of them."""
    whole, more = divmod(tiles, heads)
    rest = rows - whole * groups
    return Heights(whole, more, low, px.cdiv(rest, low), px.cdiv(max(0, rest - groups), low))


@lru_cache(1 << 14)
def _low_times(groups: int, low: int, rest: int, count: int) -> tuple[np.ndarray, float]:
    """How long each of `count` tiles takes that a head has of `rest` rows, up to `low` of them each; and all of these."""
    times = [TIMES[groups][min(low, rest - piece * low) - 1] for piece in range(count)]
    return np.array(times), sum(times)


def low_tiles(plan: Heights, heads: int, rows: int, groups: int) -> tuple[tuple[int, np.ndarray, float], ...]:
    """The low tiles, in the order in which they are dealt: of how many heads, and for each `_low_times`."""
    rest = rows - plan.whole * groups
    first = heads - plan.more, *_low_times(groups, plan.low, rest, plan.first)
    return (first, (plan.more, *_low_times(groups, plan.low, rest - groups, plan.second))) if plan.more else (first,)


def longest(plan: Heights, heads: int, rows: int, groups: int, ctas: int) -> float:
    """When the last CTA ends, in the time of a whole tile: only the last turn of these is dealt, and what is behind."""
    turns, filled = divmod(heads * plan.whole + plan.more, ctas)
    low = low_tiles(plan, heads, rows, groups)
    tiles = filled + sum(count * len(times) for count, times, _ in low)
    places = np.zeros((max(1, px.cdiv(tiles, ctas)), ctas))
    dealt = places.reshape(-1)
    dealt[:filled] = 1.0
    for count, times, _ in low:
        if end := count * len(times):
            dealt[filled : filled + end].reshape(count, -1)[:] = times
        filled += end
    return turns + float(places.sum(0).max())


def least(plan: Heights, heads: int, rows: int, groups: int, ctas: int) -> float:
    """When it ends at the earliest: as if all CTAs worked equally long."""
    low = [count * total for count, _, total in low_tiles(plan, heads, rows, groups)]
    return (heads * plan.whole + plan.more + sum(low)) / ctas


@not_chosen_in_exports
def choose_heights(heads: Heads, config: AttentionConfig, ctas: int) -> Heights:
    """How the queries of each head are cut into tiles, so that the last CTA ends as early as may be.

    Anyone may call it; no hardware is involved. Example: ``choose_heights(heads, config, 132).low``.
    """
    return _chosen(heads.batch * heads.heads, px.cdiv(heads.queries, GROUP_ROWS), config.groups, ctas)


@counted_by_sizes
@lru_cache(4096)
def _chosen(count: int, rows: int, groups: int, ctas: int) -> Heights:
    """The choice for `count` heads of `rows` rows of 64 queries: lengths that differ by less have one."""
    most = count * (rows // groups)
    turns = most // ctas
    tiles = {most, *(turn * ctas for turn in range(max(0, turns - TURNS), turns + 1))}
    plans = [heights_for(count, rows, groups, number, low) for number in tiles for low in range(1, groups + 1)]
    sizes = count, rows, groups, ctas
    best: tuple[float, int, int, int] = (float("inf"), 0, 0, 0)
    for early, place in sorted((round(least(plan, *sizes), 3), place) for place, plan in enumerate(plans)):
        if early > best[0]:
            break
        plan = plans[place]
        best = min(best, (round(longest(plan, *sizes), 3), plan.count(count), -plan.whole, place))
    return plans[best[-1]]


__all__ = ["Heights", "choose_heights", "heights_for", "least", "longest"]
