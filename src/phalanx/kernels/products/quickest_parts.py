"""The quickest configuration with parts of K, if it beats a time that is known: most often none does.

Those are left out first that can't stay below the time to beat (`tile_bounds.py`), and the model is asked for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from phalanx.kernels.products.matmul_cuts import MatmulConfig, Problem
from phalanx.kernels.products.tile_bounds import Bounds, bounds_of, least_working, working_below
from phalanx.kernels.products.tile_model import (
    Sizes,
    costs_of,
    longest_split,
    parted_table_for,
    parts_of,
    predicted_tiles,
)
from phalanx.machines.model import TileCosts
from phalanx.runtime.device.devices import Device


@lru_cache(maxsize=256)
def _bounds(kind: Problem, device: Device, costs: TileCosts) -> Bounds:
    return bounds_of(parted_table_for(kind, device, costs), kind.by_k)


def quickest_parted_of(
    problems: Sequence[Problem], sizes: Sizes, device: Device, below: Sequence[float]
) -> list[tuple[MatmulConfig, float] | None]:
    """The quickest configurations with parts of K, and their microseconds, of those products for which these are fewer than
    `below`; None for others. The products have these sizes, differ in their rows alone, and have the same costs."""
    first = problems[0]
    costs = costs_of(problems[0])
    columns = sizes.columns
    found: list[tuple[MatmulConfig, float] | None] = [None] * len(problems)
    longest = [longest_split(problem, costs) for problem in problems]
    if max(longest) < 2:
        return found
    bounds = _bounds(first.kind(), device, costs)
    table = bounds.table
    tiles = bounds.tiles(first, columns)
    most, limits = (longest[0], below[0]) if len(problems) == 1 else (np.array(each)[:, None] for each in (longest, below))
    parts = parts_of(table, tiles, most)
    working = least_working(bounds, first, device, costs, columns.missed, tiles, np.maximum(parts, 1))
    promising = (parts >= 2) & (working <= working_below(bounds, columns, costs, limits))
    parts = np.atleast_2d(parts)
    places, rows = np.nonzero(np.atleast_2d(promising))
    if not len(rows):
        return found
    some = table.at(rows, split=parts[places, rows])
    took = predicted_tiles(some, first, device, costs, sizes=sizes.at(places))
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    for start, end in zip(starts, (*starts[1:], len(places))):
        best = start + int(np.argmin(took[start:end]))
        place = int(places[start])
        if took[best] < below[place]:
            config = table.configs[rows[best]]
            split = int(parts[place, rows[best]])
            found[place] = replace(config, split=split), float(took[best])
    return found
