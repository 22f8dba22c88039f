"""The times of those configurations of a product that may be the quickest: the model is asked for few of them.

First comes what each takes at the least (`tile_bounds.py`), then the model for those with the least of that, and for others
only where the quickest of these does not beat what they take at the least.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from phalanx.kernels.products.matmul_cuts import Problem
from phalanx.kernels.products.tile_bounds import Bounds, bounds_of, least_times
from phalanx.kernels.products.tile_model import (
    Comparison,
    Sizes,
    TileTable,
    compared,
    comparison,
    predicted_tiles,
)
from phalanx.runtime.device.devices import Device

FIRST = 12
"""Configurations of each product that the model is asked for first: most often all that may be the quickest are there."""
ALWAYS = 2
"""How many of the first ones it is asked for in any case: the default is one of them."""
AT_ONCE = 32
"""Products that are looked at at once: arrays that a core's cache holds."""


@lru_cache(maxsize=512)
def _bounds(*compares: Any) -> Bounds:
    return bounds_of(compared(*compares)[0], compares[0].by_k)


def promising(problems: Sequence[Problem], sizes: Sizes, device: Device) -> tuple[TileTable, Any, int]:
    """What `predicted_with_fitted` gives for products of these sizes, which differ in their rows alone and have the same
    costs, a row of times for each. But configurations for any width that are not the quickest may take forever, unless they
    come first."""
    compares = comparison(problems[0], device)
    table, count, allowed = compared(*compares)
    if len(problems) == 1:  # of one, bounds would cost more than they save
        took = predicted_tiles(table, problems[0], device, compares[-1], sizes=sizes)
        return table, np.where(allowed, took, np.inf)[None], count
    blocks = [slice(start, start + AT_ONCE) for start in range(0, len(problems), AT_ONCE)]
    return table, np.concatenate([_times(problems[0], sizes.at(block), compares) for block in blocks]), count


def _times(problem: Problem, sizes: Sizes, compares: Comparison) -> Any:
    """The times of some of them: of products of these sizes that are else like `problem`."""
    device, costs = compares[-2:]
    table, count, allowed = compared(*compares)
    least = np.atleast_2d(least_times(_bounds(*compares), problem, device, costs, sizes.columns))
    if not allowed.all():
        least = np.where(allowed, least, np.inf)
    asked = np.zeros(least.shape, bool)
    first = min(FIRST, count - 1)
    nearest = np.argpartition(least[:, :count], first, axis=1)[:, :first]
    np.put_along_axis(asked, nearest, True, axis=1)
    asked[:, :ALWAYS] = asked[:, count:] = True
    took = np.full(least.shape, np.inf)
    while asked.any():
        places, rows = np.nonzero(asked)
        found = predicted_tiles(table.at(rows), problem, device, costs, sizes=sizes.at(places))
        took[places, rows] = np.where(allowed[rows], found, np.inf)
        least[asked] = np.inf  # known now
        asked = least < took[:, :count].min(axis=1, keepdims=True)
    return took
