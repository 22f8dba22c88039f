"""Bounds of what tiles take are bounds, whatever the costs."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import numpy as np
import pytest

from phalanx.kernels.products import tile_bounds
from phalanx.kernels.products.tile_model import costs_of, parts_of, predicted_tiles, sizes_of, sizes_of_all, table_for
from phalanx.machines.model import TileCosts
from phalanx.runtime.device.devices import device
from support.product_draws import KINDS, drawn

CARD = device()


def changed(costs: TileCosts, rng: random.Random) -> TileCosts:
    """Costs that nobody measured: bounds hold for any."""
    numbers = {
        each.name: float(getattr(costs, each.name)) * rng.choice((0.25, 0.5, 1.0, 2.0, 4.0))
        for each in fields(costs)
        if each.name not in ("most_parts", "shortest_part", "split_results", "held_stages")
    }
    return replace(costs, **numbers)


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_tiles_with_parts_of_k(kind: int) -> None:
    rng = random.Random(600 + kind)
    for _ in range(40):
        problem = drawn(rng, KINDS[kind])
        costs = changed(costs_of(problem), rng)
        table = table_for(problem.kind(), CARD, costs_of(problem))
        bounds = tile_bounds.bounds_of(table, problem.by_k)
        sizes = sizes_of(problem, costs)
        tiles = bounds.tiles(problem, sizes)
        parts = parts_of(table, tiles, 4)
        cut = replace(table, split=np.maximum(parts, 1))
        took = predicted_tiles(cut, problem, CARD, costs)
        working = tile_bounds.least_working(bounds, problem, CARD, costs, sizes.missed, tiles, cut.split)
        asked = np.isfinite(took) & (parts >= 2)
        for time, least in zip(took[asked], working[asked]):
            assert least <= tile_bounds.working_below(bounds, sizes, costs, float(time)), problem


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_tiles_of_all_of_k(kind: int) -> None:
    rng = random.Random(700 + kind)
    for _ in range(40):
        problem = drawn(rng, KINDS[kind])
        problems = [replace(problem, m=8 * rows) for rows in sorted(rng.sample(range(1, 1000), 3))]
        costs, table = changed(costs_of(problem), rng), table_for(problem.kind(), CARD, costs_of(problem))
        sizes = sizes_of_all(problems, costs).columns
        took = predicted_tiles(table, problem, CARD, costs, sizes=sizes)
        least = tile_bounds.least_times(tile_bounds.bounds_of(table, problem.by_k), problem, CARD, costs, sizes)
        assert (least <= took).all(), problems
        assert (np.isinf(least) == np.isinf(took)).all(), "those without work for every CTA are known"
