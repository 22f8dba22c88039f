"""Which kernel multiplies, and how it cuts the product: `choose` among tiles, `split_side` between tiles and split K."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np

from phalanx.kernels.products.keeping import kept_parts, may_stream, reads_mostly
from phalanx.kernels.products.matmul_cuts import (
    PANEL,
    MatmulConfig,
    Problem,
    candidates,
    complete,
    deepened,
    require_fits,
)
from phalanx.kernels.products.quickest_parts import quickest_parted
from phalanx.kernels.products.split_config import MOST_ROWS, SplitConfig, best_either_way, best_split
from phalanx.kernels.products.tile_model import (
    busy_microseconds,
    cold_microseconds,
    costs_of,
    counting_outside,
    moved_bytes,
    predicted_in_turns,
    predicted_tiles,
    predicted_with_fitted,
    steps_of,
    streaming_readers,
    tabled,
)
from phalanx.machines.h200 import H200
from phalanx.machines.model import DeepRule, SplitMargin, SplitRule
from phalanx.runtime.device.devices import Device
from phalanx.runtime.device.devices import device as default_device
from phalanx.runtime.exporting.choices import chosen_at_example, chosen_by_sizes
from phalanx.runtime.exporting.numbers import is_exported

CHOICES = 1 << 14
"""Choices that are kept: a model in service has dozens of weights, and batches of any size."""

ALL_ROWS = 256
"""Rows of clusters of a swapped product, which are columns of the result, that are worked on at a time: all of them."""


def microseconds(problem: Problem, config: MatmulConfig, device: Device) -> float:
    """What the model thinks the product takes with one configuration."""
    costs = replace(costs_of(problem), wasted=0.0)
    return float(predicted_tiles(tabled([config], device, costs, problem.fused), problem, device, costs)[0])


def choose(problem: Problem, device: Device | None = None) -> MatmulConfig:
    """The configuration for a product: the default, unless the model thinks another is quicker by a margin.

    The default is a pair of CTAs with the first tile, the pair that the model prefers: both are well measured.
    Anyone may call it; no hardware is involved. Example: ``choose(Problem(4096, 4096, 4096)).bn == 256``.
    """
    on = device or default_device()
    return suited(chosen_tiles(problem, on), problem, on)


def suited(config: MatmulConfig, problem: Problem, device: Device) -> MatmulConfig:
    """The configuration with what the sizes of a product decide: which operand L2 need not keep, what is trimmed, the order.

    Where all tiles run at once and CTAs share columns, neighbours have the same rows, which each asks for: L2 puts such
    requests together (`sweep_together.json`: three products take 14, 1 and 1% less). The ring gets stages that the model
    does not count. Part of the weights of few rows may go first even where all of a product fits L2, so that less of what
    was written before has to make room (`Machine.passing_kept`).
    """
    costs, seen = costs_of(problem), problem.turned() if config.swapped else problem
    cm, cn = config.cluster
    rows, columns = ceil(seen.m / (config.bm * cm)), ceil(seen.n / (config.bn * cn))
    side, readers = ("rows", columns) if config.swapped == (problem.n >= problem.m) else ("columns", rows)
    larger, (read, written) = max(problem.m, problem.n) * problem.k * problem.batch * problem.itemsize, moved_bytes(problem)
    passing = is_passing(problem, read, written)
    most = max(streaming_readers(problem, costs), costs.streamed_readers if passing else 0)
    streamed = side if readers <= most and may_stream(read, written, problem.batch) else None
    kept = kept_parts(larger, written, passing) if streamed else 0
    last = columns * cn * config.bn  # where the last copy of columns ends
    piece = PANEL if seen.by_k[1] else (config.bn - 1) % PANEL + 1  # columns of that copy
    few = config.tiles(problem) <= costs.trimmed_waves * config.clusters(device)
    trimmed = few and rows * config.bm * cm - seen.m >= PANEL, few and last - seen.n >= piece
    group = 1 if cm > cn and config.tiles(problem) <= config.clusters(device) else config.group
    deep = deepened(config, problem)
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
    return _best_tiles(problem.in_eights(), device, True)[0]


@chosen_by_sizes
def _chosen_tiles(problem: Problem, device: Device) -> MatmulConfig:
    return _best_tiles(problem, device, False)[0]


def best_tiles(problem: Problem, device: Device) -> tuple[MatmulConfig, float]:
    """The configuration, and the microseconds that the model gives it, for sizes in eights."""
    problem = problem.in_eights()
    config, counted = _best_tiles(problem, device, False)
    return config, counted / counting_outside(config.covered(problem), costs_of(problem))


@lru_cache(maxsize=CHOICES)
def _best_tiles(problem: Problem, device: Device, whole: bool) -> tuple[MatmulConfig, float]:
    """The configuration, and what the choice counted for it: microseconds, and more for what tiles have outside."""
    table, took, count = predicted_with_fitted(problem, device)
    costs, best = costs_of(problem), int(np.argmin(took[:count]))
    # The pairs of the first tile come first: (1, 2), and (2, 1) where that has fewer waves.
    default = int(took[1] < costs.pair_margin * took[0])
    margin = costs.margin if _fits(table.configs[default], problem) else 1.0
    chosen = best if best > 1 and took[best] < margin * took[default] else default
    config, least = table.configs[chosen], float(took[chosen])
    if len(took) > count:
        row = count + int(np.argmin(took[count:]))
        if took[row] < least * _fitted_margin(table.configs[row], problem):
            config, least = table.configs[row], float(took[row])
    idle = not whole and least > costs.split_above * busy_microseconds(problem, device)
    parted = quickest_parted(problem, device, costs.split_margin * least) if idle else None
    if parted is not None:
        return parted
    turned = predicted_in_turns(problem, device) if config is table.configs[chosen] else None
    if turned is not None:
        row = int(np.argmin(turned[1]))
        if turned[1][row] < _turns_margin(turned[0].configs[row], problem, device) * least:
            config, least = turned[0].configs[row], float(turned[1][row])
    return _in_order(config, problem), least


def _in_order(config: MatmulConfig, problem: Problem) -> MatmulConfig:
    """The configuration with tiles that follow each other along the rows of a result that takes most of the time."""
    costs, (_, written) = costs_of(problem), moved_bytes(problem)
    if steps_of(problem) > (costs.spilled_steps if written > costs.kept_bytes else costs.stored_steps):
        return config
    return replace(config, group=ALL_ROWS if config.swapped else 1)


def _turns_margin(config: MatmulConfig, problem: Problem, device: Device) -> float:
    """How many times what the model gives others it may give tiles that warpgroups take in turn."""
    rule = H200.turns
    if problem.fused:
        return rule.fused_margin
    each, (low, high) = config.tiles(problem) / config.clusters(device), rule.long_steps
    if low <= steps_of(problem) <= high and each >= rule.long_tiles and config.bn >= rule.long_columns:
        return rule.long_margin
    return rule.margin if each >= rule.many_tiles else rule.few_margin


def _fitted_margin(config: MatmulConfig, problem: Problem) -> float:
    """How many times what the model gives others it may give a tile that fits the result: more where HBM is the limit."""
    rule = H200.fitted
    streams = steps_of(problem) <= rule.most_steps and sum(moved_bytes(problem)) >= rule.least_bytes
    return rule.margin if config.cluster[1] == 1 and streams else 1.0


def _fits(config: MatmulConfig, problem: Problem) -> bool:
    """Whether little of a configuration's tiles lies outside: tiles that do more than they need lose even where HBM is the
    limit."""
    return config.covered(problem) <= H200.fitting


@chosen_at_example
def split_choice(problem: Problem, device: Device | None = None) -> tuple[str, SplitConfig] | None:
    """Which side of a product has so few rows or columns that the kernel that splits K is the quicker one, and how.

    "rows": C = A @ B by `split_k_matmul(a, b)`; "columns": the transposed product, by `split_k_matmul(b.T, a.T)`; None:
    tiles. Where both sides are short and K is long (`H200.deep`) K is split, and the models decide which side is which;
    where they are not that short (`H200.long`, `H200.wide`) the models also decide whether. Else, and for these too,
    `H200.split_rows` and `H200.split_columns` are the rules of the two sides. A side qualifies if it has at most
    `most` rows or columns of 16 bits, and the other operand has at least `H200.streamed_bytes`. Up to `few` rows or columns
    are split; else the models decide. Nobody knows what a launch finds in L2: what counts is the geometric mean of the time
    with nothing there, and with what a launch like it has left. Split if that is at most `SplitMargin.allowed` times that of
    the best tiles, and the latter at most `SplitMargin.longer` times theirs.
    Anyone may call it; no hardware is involved. Example: ``split_choice(Problem(32, 8192, 8192))[0] == "rows"``.
    """
    if problem.batch != 1 or problem.itemsize != 2:
        return None
    if not is_wide(problem) and not any([_may_split(problem, *side) for side in _sides(problem)]):
        return None
    return _split_choice(problem, device or default_device())


def _sides(problem: Problem) -> tuple[tuple[str, Any, int, int, tuple[bool, bool]], ...]:
    """The sides that may be split: their names and rules, the rows and columns seen from there, and how operands lie."""
    return (
        ("rows", H200.split_rows, problem.m, problem.n, problem.by_k),
        ("columns", H200.split_columns, problem.n, problem.m, problem.by_k[::-1]),
    )


def _may_split(problem: Problem, side: str, rule: Any, few: int, many: int, by_k: tuple[bool, bool]) -> bool:
    """Whether a side qualifies."""
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
    small, large = min(problem.m, problem.n), max(problem.m, problem.n)
    return rule.least <= small and large <= rule.most and small * large <= rule.results and problem.k >= rule.least_k


def _margin(rule: SplitRule, problem: Problem) -> SplitMargin:
    """How long a product of this size may be predicted to take if it is split."""
    read, _ = moved_bytes(problem)
    return rule.small_margin if read <= H200.small_operands else rule.margin


@chosen_by_sizes
@lru_cache(maxsize=CHOICES)
def _split_choice(problem: Problem, on: Device) -> tuple[str, SplitConfig] | None:
    """What the models decide, of a product of which a side qualifies."""
    found, least, deep, long, wide = None, float("inf"), is_deep(problem), is_long(problem), is_wide(problem)
    for side, rule, few, many, by_k in _sides(problem):
        usual = not deep and _may_split(problem, side, rule, few, many, by_k)
        rows = -(-few // 8) * 8 if by_k[0] else few
        if usual and few <= rule.few:
            return side, _best_split(rows, many, problem.k, *by_k, on)[0]
        longer = long or (wide and few <= H200.wide_sides * many)
        for further in [further for further, compared in ((False, usual), (True, longer)) if compared]:
            config, cold, warm = _best_either_way(rows, many, problem.k, *by_k, on, further)
            margin = _margin(rule, problem)
            if not deep and warm > margin.longer * best_tiles(problem, on)[1]:
                continue
            counted = H200.long_columns if long and further and side == "columns" else 1.0
            took = (cold + rule.stored * few * many) * warm * (counted / margin.allowed) ** 2
            if took < least:
                found, least = (side, config), took
    if deep or found is None:
        return found
    tiles, warm = best_tiles(problem, on)
    return found if least <= warm * cold_microseconds(problem, warm, suited(tiles, problem, on)) else None


@lru_cache(maxsize=CHOICES)
def _best_split(few: int, many: int, k: int, a_rows: bool, b_rows: bool, device: Device) -> tuple[SplitConfig, float]:
    return best_split(few, many, k, a_rows, b_rows, device)


@lru_cache(maxsize=CHOICES)
def _best_either_way(
    few: int, many: int, k: int, a_rows: bool, b_rows: bool, device: Device, deep: bool
) -> tuple[SplitConfig, float, float]:
    return best_either_way(few, many, k, a_rows, b_rows, device, deep)


def split_side(problem: Problem, device: Device | None = None) -> str | None:
    """Which side of a product `split_choice` splits: "rows", "columns" or None."""
    found = split_choice(problem, device)
    return None if found is None else found[0]


__all__ = [
    "MatmulConfig", "Problem", "candidates", "choose", "complete", "is_deep", "is_long", "microseconds", "require_fits",
    "split_choice", "split_side",
]
