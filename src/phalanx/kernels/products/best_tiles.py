"""The tiles of a product: of all configurations the one that the model prefers, for one number of rows or for many at once.

A choice takes some hundred operations on arrays of all configurations, most of a millisecond. For many numbers of rows
together it takes a fifth of that each: those that can't be the quickest are left out first (`quickest_tiles.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from phalanx.kernels.products.by_rows import ByRows
from phalanx.kernels.products.matmul_cuts import MatmulConfig, Problem, steps_of
from phalanx.kernels.products.quickest_parts import quickest_parted_of
from phalanx.kernels.products.quickest_tiles import promising
from phalanx.kernels.products.tile_model import (
    TileTable,
    busy_microseconds,
    costs_of,
    moved_bytes,
    sizes_of_all,
)
from phalanx.machines.h200 import H200
from phalanx.runtime.device.devices import Device

ALL_ROWS = 256
"""Rows of clusters of a swapped product, which are columns of the result, that are worked on at a time: all of them."""
AT_ONCE = 256
"""Eights of rows that are chosen for at once, at most: 30 ms."""

Choice = tuple[MatmulConfig, float]
"""A configuration, and what the choice counted for it: microseconds, and more for what tiles have outside."""


def best_of(problems: Sequence[Problem], device: Device, whole: bool = False) -> list[Choice]:
    """The choices for products in eights that differ in their rows alone, in ascending order; `whole`: K is not cut."""
    alike = (list(group) for _, group in groupby(problems, key=lambda problem: id(costs_of(problem))))
    return [choice for group in alike for choice in _best_of(group, device, whole)]


def _best_of(problems: list[Problem], device: Device, whole: bool) -> list[Choice]:
    """The choices for products that have the same costs; arguments and result as in `best_of`."""
    costs = costs_of(problems[0])
    sizes = sizes_of_all(problems, costs)
    table, took, count = promising(problems, sizes, device)
    rows = [_quickest(table, count, each, problem) for problem, each in zip(problems, took)]
    found = [(table.configs[row], float(each[row])) for row, each in zip(rows, took)]
    idle = [
        place for place, problem in enumerate(problems)
        if not whole and found[place][1] > costs.split_above * busy_microseconds(problem, device)
    ]
    below = [costs.split_margin * found[place][1] for place in idle]
    cut = quickest_parted_of([problems[place] for place in idle], sizes.at(idle), device, below) if idle else []
    parted = {place: choice for place, choice in zip(idle, cut) if choice is not None}
    ordered = [(_in_order(config, problem), least) for problem, (config, least) in zip(problems, found)]
    return [parted.get(place, choice) for place, choice in enumerate(ordered)]


def _quickest(table: TileTable, count: int, took: Any, problem: Problem) -> int:
    """Chooses a row of a table by the times `took`: the default's, unless another is quicker by a margin.

    The first `count` configurations are for any width.
    """
    costs = costs_of(problem)
    best = int(np.argmin(took[:count]))
    # The pairs of the first tile come first: (1, 2), and (2, 1) where that has fewer waves.
    default = int(took[1] < costs.pair_margin * took[0])
    margin = costs.margin if _fits(table.configs[default], problem) else 1.0
    chosen = best if best > 1 and took[best] < margin * took[default] else default
    if len(took) > count:
        row = count + int(np.argmin(took[count:]))
        if took[row] < took[chosen] * _fitted_margin(table.configs[row], problem):
            return row
    return chosen


def _in_order(config: MatmulConfig, problem: Problem) -> MatmulConfig:
    """The configuration with tiles that follow each other along the rows of a result that takes most of the time."""
    costs = costs_of(problem)
    _, written = moved_bytes(problem)
    if steps_of(problem) > (costs.spilled_steps if written > costs.kept_bytes else costs.stored_steps):
        return config
    return replace(config, group=ALL_ROWS if config.swapped else 1)


def _fitted_margin(config: MatmulConfig, problem: Problem) -> float:
    """How many times what the model gives others it may give a tile that fits the result: more where HBM is the limit."""
    rule = H200.fitted
    streams = steps_of(problem) <= rule.most_steps and sum(moved_bytes(problem)) >= rule.least_bytes
    return rule.margin if config.cluster[1] == 1 and streams else 1.0


def _fits(config: MatmulConfig, problem: Problem) -> bool:
    """Whether little of a configuration's tiles lies outside: tiles that do more than they need lose even where HBM is the
    limit."""
    return config.covered(problem) <= H200.fitting


CHOSEN: ByRows[Choice] = ByRows(best_of, AT_ONCE)
"""The choices that were made, to look them up."""
