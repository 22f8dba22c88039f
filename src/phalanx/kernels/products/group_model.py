"""Chooses the kernel for a grouped product of few rows, and its configuration, by an estimate of the time of each.

The host knows how many rows there are in all, not how many each group has. Sizes are taken to be as uneven as times
between random events, so that a group has more than so many rows with a probability that falls exponentially. What the
estimates know of a card is in `phalanx.machines`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import ceil, exp, log

from phalanx.kernels.products.split_config import SplitConfig, with_rings
from phalanx.machines.h200 import H200

ROWS = 128
"""Rows of a tile of `grouped_ring`, two CTAs of which share them."""
PIECES = {32: 2, 64: 4, 128: 4}
"""Rows of a tile of `grouped_split_ring`, and in how many pieces they come at most: every number of them is code of its own,
and takes its time to compile."""
SPLITS = 1, 2, 4
COLUMNS, CTAS = 64, 2
"""Columns of such a tile, and how many CTAs share an SM: while one waits, sends its sums or stores, the other multiplies."""


def expected_tiles(rows: int, groups: int, height: int) -> float:
    """Tiles of `height` rows that the groups have in all, if they have `rows` rows."""
    return groups / (1 - exp(-height * groups / rows))


def ring_microseconds(rows: int, groups: int, n: int, k: int, bn: int) -> float:
    """What `grouped_ring` takes in pairs of tiles of 128 rows by `bn` columns, each of which is multiplied as a whole."""
    card = H200.groups
    clusters = expected_tiles(rows, groups, ROWS) * ceil(n / (2 * bn))
    tensor = card.ring_factor * _tensor_cycles(ROWS // 2, bn) * 2
    waves = max(1.0, clusters / H200.clusters_at_once[2])
    return card.fixed + _beside(ceil(waves) * _steps(k) * tensor / card.clock, _streamed(groups, n, k))


def few_rows_microseconds(rows: int, groups: int, n: int, k: int, config: SplitConfig) -> float:
    """What `grouped_split_ring` takes in a configuration."""
    card = H200.groups
    mean = rows / groups
    width = config.bm // config.pieces
    steps = _steps(k) / config.split
    took = [_cta_cycles((piece + 1) * width, config.bn) * steps for piece in range(config.pieces)]
    longer = [exp(-piece * width / mean) for piece in range(config.pieces)]  # has more than so many pieces
    usual = sum(cycles * (p - q) for cycles, p, q in zip(took, longer, (*longer[1:], 0.0)))
    tallest = min(rows, mean * (log(groups) + 0.58))  # of so many random times
    longest = took[min(config.pieces, ceil(tallest / width)) - 1]
    count = expected_tiles(rows, groups, config.bm) * ceil(n / config.bn) * config.split
    busy = count * usual / H200.sms
    cycles = max(longest, busy) if count <= CTAS * H200.sms else busy + longest / 2
    return card.fixed + _beside(cycles / card.clock, _streamed(groups, n, k)) + (card.split if config.split > 1 else 0.0)


@cache
def with_tiles(bm: int, split: int, ctas: int) -> SplitConfig:
    """The configuration with tiles of so many rows that fits `ctas` times on an SM."""
    plain = SplitConfig(bm, COLUMNS, split, 2, groups=1, pieces=PIECES[bm])
    fitting = (with_rings(replace(plain, reuse=reuse), ctas) for reuse in (False, True))
    return next(config for config in fitting if config is not None)


def few_rows_config(rows: int, groups: int, n: int, k: int) -> SplitConfig:
    """The configuration of `grouped_split_ring`: tiles as high as suits groups, K split so far that they fill the SMs."""
    card = H200.groups
    bm = next((height for height in PIECES if rows <= card.tile_share * height * groups), max(PIECES))
    count = expected_tiles(rows, groups, bm) * ceil(n / COLUMNS)
    most = min(card.overfull * CTAS * H200.sms / count, _steps(k))
    split = max((split for split in SPLITS if split <= most), default=1)
    return with_tiles(bm, split, 1 if count * split <= H200.sms else CTAS)


def _tensor_cycles(rows: int, columns: int) -> float:
    """Cycles of the tensor cores for a step of `columns` of one operand by 64 of the other; they read both."""
    return max(2 * columns, 64 + columns) * rows / 64


def _cta_cycles(height: int, bn: int) -> float:
    """Cycles of a step of a CTA with so many rows and columns."""
    card = H200.groups
    tensor = card.few_factor * _tensor_cycles(bn, height)
    loads = (bn + height) * H200.line_bytes / card.l2_rate
    return _beside(tensor, loads) + card.step


def _steps(k: int) -> int:
    return ceil(k / 64)


def _streamed(groups: int, n: int, k: int) -> float:
    """Microseconds in which the weights come from memory."""
    return 2 * groups * n * k / H200.groups.hbm


def _beside(one: float, other: float) -> float:
    """Two things that go on at once: as long as the longer takes, or somewhat longer."""
    return float((one**4 + other**4) ** 0.25)
