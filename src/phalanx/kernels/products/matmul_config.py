"""Chooses the kernel of a product and how it is cut: `choose` among tiles, `split_side` between tiles and split K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np

from phalanx.kernels.products.best_tiles import CHOSEN, best_of
from phalanx.kernels.products.by_rows import ByRows
from phalanx.kernels.products.keeping import kept_parts, may_stream, reads_mostly
from phalanx.kernels.products.matmul_cuts import (
    PANEL,
    MatmulConfig,
    Problem,
    candidates,
    complete,
    deepened,
    require_fits,
    stored_whole,
)
from phalanx.kernels.products.split_config import (
    MOST_ROWS,
    SHARES,
    SplitConfig,
    Times,
    best_either_way,
    counted,
    feeds_memory,
)
from phalanx.kernels.products.tile_model import (
    TileTable,
    cold_microseconds,
    costs_of,
    counting_outside,
    moved_bytes,
    predicted_tiles,
    sizes_of,
    streaming_readers,
    tabled,
)
from phalanx.kernels.windows import CHOICES
from phalanx.machines.h200 import H200
from phalanx.machines.model import DeepRule, SplitMargin, SplitRule, TileCosts
from phalanx.runtime.device.devices import Device
from phalanx.runtime.device.devices import device as default_device
from phalanx.runtime.symbolic.choices import chosen_at_example, chosen_by_sizes
from phalanx.runtime.symbolic.numbers import is_exported

SPLITS_AT_ONCE = 32
"""Eights of rows for which it is decided at once whether K is split: 3 to 20 ms, and the time of choosing their tiles."""

LONG_KINDS = H200.deep, H200.long, H200.wide
LONGEST_SIDE = max(rule.most for rule in LONG_KINDS)
"""Products whose K is long, and the most rows or columns that one has."""

SplitChoice = tuple[str, SplitConfig] | None
"""The side that is split, "rows" or "columns", and how; None: no side is."""


def microseconds(problem: Problem, config: MatmulConfig, device: Device, found: float = 1.0) -> float:
    """What the model thinks the product takes with one configuration, behind another launch like it, which leaves in L2 what
    fits; or, with `found` 0, behind launches over other operands."""
    costs = replace(costs_of(problem), wasted=0.0)
    table = tabled([config], device, costs)
    sizes = sizes_of(problem, costs, found)
    return float(predicted_tiles(table, problem, device, costs, sizes=sizes)[0])


def choose(problem: Problem, device: Device | None = None) -> MatmulConfig:
    """The configuration for a product: the default, unless the model thinks another is quicker by a margin.

    The default is a pair of CTAs with the first tile, the pair that the model prefers: both are well measured.
    Anyone may call it; no hardware is involved. Example: ``choose(Problem(4096, 4096, 4096)).bn == 256``.
    """
    on = device or default_device()
    return suited(chosen_tiles(problem, on), problem, on)


@chosen_at_example
def suited(config: MatmulConfig, problem: Problem, device: Device) -> MatmulConfig:
    """The configuration with what the sizes of a product decide: which operand L2 need not keep, what is trimmed, the order.

    Where all tiles run at once and CTAs share columns, neighbours have the same rows, which each asks for: L2 puts such
    requests together (`sweep_together.json`: three products take 14, 1 and 1% less). The ring gets stages that the model
    does not count. Part of the weights of few rows may go first even where all of a product fits L2, so that less of what
    was written before has to make room (`Machine.passing_kept`).
    """
    costs = costs_of(problem)
    seen = problem.turned() if config.swapped else problem
    cm, cn = config.cluster
    rows = ceil(seen.m / (config.bm * cm))
    columns = ceil(seen.n / (config.bn * cn))
    side, readers = ("rows", columns) if config.swapped == (problem.n >= problem.m) else ("columns", rows)
    larger = max(problem.m, problem.n) * problem.k * problem.batch * problem.itemsize
    read, written = moved_bytes(problem)
    passing = is_passing(problem, read, written)
    most = max(streaming_readers(problem, costs), costs.streamed_readers if passing else 0)
    streamed = side if readers <= most and may_stream(read, written, problem.batch) else None
    kept = kept_parts(larger, written, passing) if streamed else 0
    last = columns * cn * config.bn  # where the last copy of columns ends
    piece = PANEL if seen.by_k[1] else (config.bn - 1) % PANEL + 1  # columns of that copy
    few = config.tiles(problem) <= costs.trimmed_waves * config.clusters(device)
    trimmed = few and rows * config.bm * cm - seen.m >= PANEL, few and last - seen.n >= piece
    group = 1 if cm > cn and config.tiles(problem) <= config.clusters(device) else config.group
    deep = deepened(stored_whole(config, problem), problem)
    if streamed is None and not any(trimmed) and group == config.group:
        return deep
    return replace(deep, streamed=streamed, trimmed=trimmed, kept=kept, group=group)


def is_passing(problem: Problem, read: int, written: int) -> bool:
    """Whether a product of 16-bit elements, which reads and writes so many bytes, has so few rows, or columns, that L2 need
    not keep all of its larger operand even if it could.

    The model of tiles does not count what that costs behind a launch like it, some 2%. Beside a large result it would cost
    more: what may go first leaves for what is written.
    """
    few = problem.batch == 1 and problem.itemsize == 2 and min(problem.m, problem.n) <= H200.passing_rows
    return few and read >= H200.passing_bytes and reads_mostly(read, written)


def chosen_tiles(problem: Problem, device: Device) -> MatmulConfig:
    """The configuration that `choose` gives, before it is suited to the sizes.

    An export has none with parts of K: what it is called with may have too short a K for them.
    """
    return _exported_tiles(problem, device) if is_exported() else _chosen_tiles(problem.in_eights(), device)


@chosen_at_example
def _exported_tiles(problem: Problem, device: Device) -> MatmulConfig:
    return best_of([problem.in_eights()], device, whole=True)[0][0]


@chosen_by_sizes
def _chosen_tiles(problem: Problem, device: Device) -> MatmulConfig:
    return CHOSEN.of(problem, device)[0]


def best_tiles(problem: Problem, device: Device) -> tuple[MatmulConfig, Times]:
    """The configuration for sizes in eights, and the microseconds that the model gives it in each of `split_config.STATES`:
    alone, behind launches over other operands, and behind one like it."""
    problem = problem.in_eights()
    config, _ = CHOSEN.of(problem, device)
    costs = costs_of(problem)
    behind_others = sizes_of(problem, costs, found=0.0)
    behind_one_like_it = sizes_of(problem, costs, found=1.0)
    either = replace(behind_others, missed=np.array([[behind_others.missed], [behind_one_like_it.missed]]))
    took = predicted_tiles(_table_of(config, device, costs), problem, device, costs, sizes=either)
    others, alike = map(float, took[:, 0] / counting_outside(config.covered(problem), costs))
    return config, (cold_microseconds(problem, alike, suited(config, problem, device)), others, alike)


@lru_cache(maxsize=CHOICES)
def _table_of(config: MatmulConfig, device: Device, costs: TileCosts) -> TileTable:
    return tabled([config], device, costs)


@chosen_at_example
def split_choice(problem: Problem, device: Device | None = None) -> SplitChoice:
    """Decides whether the kernel that splits K is quicker than tiles: which side of the product has few rows, and how.

    "rows": C = A @ B by `split_k_matmul(a, b)`; "columns": the transposed product, by `split_k_matmul(b.T, a.T)`; None:
    tiles. Where both sides are short and K is long (`H200.deep`) K is split, and the models decide which side is which;
    where they are not that short (`H200.long`, `H200.wide`) the models also decide whether. Else, and for these too,
    `H200.split_rows` and `H200.split_columns` are the rules of the two sides. A side qualifies if it has at most
    `most` rows or columns of 16 bits, and the other operand has at least `H200.streamed_bytes`. Up to `few` rows or columns
    are split where that makes enough SMs ask for all that HBM brings; else the models decide. Nobody knows how a launch
    begins: what counts is the geometric mean of its times alone, behind launches over other operands (twice), and behind
    one like it. Split if that is at most `SplitMargin.allowed` times that of the best tiles, and the last of them at most
    `SplitMargin.longer` times theirs.
    Anyone may call it; no hardware is involved. Example: ``split_choice(Problem(32, 8192, 8192))[0] == "rows"``.
    """
    if problem.batch != 1 or problem.itemsize != 2:
        return None
    if not _qualifies(problem):
        return None
    on = device or default_device()
    return _split_choice(problem.in_eights(), on) if problem.n > LONGEST_SIDE else _split_choice_near(problem, on)


def _qualifies(problem: Problem) -> bool:
    """Whether a side does, or K is long."""
    return is_wide(problem) or any([_may_split(problem, *side) for side in _sides(problem)])


def _sides(problem: Problem) -> tuple[tuple[str, Any, int, int, tuple[bool, bool]], ...]:
    """The sides that may be split: their names and rules, the rows and columns seen from there, and how operands lie."""
    return (
        ("rows", H200.split_rows, problem.m, problem.n, problem.by_k),
        ("columns", H200.split_columns, problem.n, problem.m, problem.by_k[::-1]),
    )


def _may_split(problem: Problem, side: str, rule: Any, few: int, many: int, by_k: tuple[bool, bool]) -> bool:
    """Whether a side has few enough rows or columns to be split."""
    return few <= min(rule.most, MOST_ROWS, many) and many * problem.k * problem.itemsize >= H200.streamed_bytes


def is_deep(problem: Problem) -> bool:
    """Whether K is so long, and the result so small, that tiles can't keep the SMs busy, however they are cut along K."""
    return _is_among(problem, H200.deep)


def is_long(problem: Problem) -> bool:
    """Whether K is so long, and the result so small, that K may be split as for those. Of those that are not that small one
    side has at most as many rows or columns as any that is split."""
    short = min(problem.m, problem.n) <= max(H200.split_rows.most, H200.split_columns.most)
    return (short and _is_among(problem, H200.long)) or is_deep(problem)


def is_wide(problem: Problem) -> bool:
    """Whether K may be split because it is long: of a product that `is_long`, or of a larger one neither side of which is
    short. Of the latter a side is compared that has at most `H200.wide_sides` times as many rows or columns as the other."""
    return _is_among(problem, H200.wide) or is_long(problem)


def _is_among(problem: Problem, rule: DeepRule) -> bool:
    small = min(problem.m, problem.n)
    large = max(problem.m, problem.n)
    return rule.least <= small and large <= rule.most and small * large <= rule.results and problem.k >= rule.least_k


def _margin(rule: SplitRule, problem: Problem) -> SplitMargin:
    """How long a product of this size may be predicted to take if it is split."""
    read, _ = moved_bytes(problem)
    return rule.small_margin if read <= H200.small_operands else rule.margin


@chosen_by_sizes
def _split_choice(problem: Problem, device: Device) -> SplitChoice:
    """What the models decide for rows in eights."""
    return SPLITS.of(problem, device)


@chosen_by_sizes
def _split_choice_near(problem: Problem, device: Device) -> SplitChoice:
    """The choice for any rows: that of the next multiples of 8, if the rules for a long K treat both sizes alike."""
    rounded = problem.in_eights()
    alike = all([_is_among(problem, rule) == _is_among(rounded, rule) for rule in LONG_KINDS])
    return SPLITS.of(rounded if alike else problem, device)


def _split_choices(problems: Sequence[Problem], device: Device) -> list[SplitChoice]:
    """What the models decide of products that differ in their rows alone."""
    return [_split_or_not(problem, device) if _qualifies(problem) else None for problem in problems]


SPLITS: ByRows[SplitChoice] = ByRows(_split_choices, SPLITS_AT_ONCE)
"""The choices that were made, to look them up."""


def _split_or_not(problem: Problem, on: Device) -> SplitChoice:
    """What they decide of a product of which a side qualifies."""
    found = None
    least = float("inf")
    deep = is_deep(problem)
    long = is_long(problem)
    wide = is_wide(problem)
    sides = [(*side, -(-side[2] // 8) * 8 if side[4][0] else side[2]) for side in _sides(problem)]
    for side, rule, few, many, by_k, rows in sides:
        if few <= rule.few and not deep and _may_split(problem, side, rule, few, many, by_k):
            config, _ = _best_either_way(rows, many, problem.k, *by_k, on, False)
            if feeds_memory(config, rows, many):
                return side, config
    tiles = None if deep else best_tiles(problem, on)[1]
    for side, rule, few, many, by_k, rows in sides:
        usual = not deep and _may_split(problem, side, rule, few, many, by_k)
        longer = long or (wide and few <= H200.wide_sides * many)
        for further in [further for further, compared in ((False, usual), (True, longer)) if compared]:
            config, times = _best_either_way(rows, many, problem.k, *by_k, on, further)
            margin = _margin(rule, problem)
            if tiles is not None and times[-1] > margin.longer * tiles[-1]:
                continue
            factor = (H200.long_columns if long and further and side == "columns" else 1.0) / margin.allowed
            took = counted((times[0] + rule.stored * few * many, *times[1:])) * factor ** sum(SHARES)
            if took < least:
                found = (side, config)
                least = took
    return found if tiles is None or least <= counted(tiles) else None


@lru_cache(maxsize=CHOICES)
def _best_either_way(
    few: int, many: int, k: int, a_rows: bool, b_rows: bool, device: Device, deep: bool
) -> tuple[SplitConfig, Times]:
    return best_either_way(few, many, k, a_rows, b_rows, device, deep)


def split_side(problem: Problem, device: Device | None = None) -> str | None:
    """The side of a product that `split_choice` splits: "rows", "columns" or None."""
    found = split_choice(problem, device)
    return None if found is None else found[0]


__all__ = [
    "MatmulConfig", "Problem", "candidates", "choose", "complete", "is_deep", "is_long", "microseconds", "require_fits",
    "split_choice", "split_side",
]
