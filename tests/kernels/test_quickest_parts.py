"""The quickest configurations with parts of K are those of asking the model for all of them; bounds are bounds."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from phalanx.kernels.products import quickest_parts as quickest
from phalanx.kernels.products.matmul_cuts import Problem
from phalanx.kernels.products.tile_model import (
    config_at,
    costs_of,
    parts_of,
    predicted_all,
    predicted_parted,
    predicted_tiles,
)
from phalanx.machines.model import TileCosts
from phalanx.runtime.device.devices import device

CARD = device()
KINDS: tuple[dict[str, Any], ...] = (
    {}, {"fused": True}, {"by_k": (True, False)}, {"by_k": (False, True)}, {"by_k": (False, False)},
    {"itemsize": 1, "out_itemsize": 2, "vectors": True}, {"itemsize": 4, "out_itemsize": 4},
    {"out_itemsize": 4, "matrix": 4}, {"batch": 7},
)  # fmt: skip


def drawn(rng: random.Random, kind: dict[str, Any]) -> Problem:
    """A product of any size: from a tile to many waves, of K from a step to many."""
    step = rng.choice((1, 8, 64))
    m, n, k = (max(1, round(2 ** rng.uniform(low, 14.5)) // step) * step for low in (3, 3, 5))
    return Problem(m, n, k, **kind).in_eights()


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_the_quickest_of_all(kind: int) -> None:
    rng = random.Random(500 + kind)
    for _ in range(40):
        problem = drawn(rng, KINDS[kind])
        time = float(predicted_all(problem, CARD)[1].min())
        parted = predicted_parted(problem, CARD)
        for factor in (0.9, 0.99, 1.5):
            found = quickest.quickest_parted(problem, CARD, factor * time)
            wanted = None
            if parted is not None and parted[1].min() < factor * time:
                row = int(np.argmin(parted[1]))
                wanted = config_at(parted[0], row), parted[1][row]
            assert found == wanted, problem


def changed(costs: TileCosts, rng: random.Random) -> TileCosts:
    """Costs that nobody measured: bounds hold for any."""
    numbers = {
        each.name: float(getattr(costs, each.name)) * rng.choice((0.25, 0.5, 1.0, 2.0, 4.0))
        for each in fields(costs)
        if each.name not in ("sharpness", "most_parts", "shortest_part", "split_results", "endings_after", "held_stages")
    }
    return replace(costs, **numbers, sharpness=rng.choice((4, 8)), endings_after=rng.random())


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_bounds_are_below_the_model(kind: int) -> None:
    rng = random.Random(600 + kind)
    for _ in range(40):
        problem = drawn(rng, KINDS[kind])
        costs = changed(costs_of(problem), rng)
        table = predicted_all(problem, CARD)[0]
        bounds = quickest.bounds_of(table, problem.by_k)
        tiles = bounds.tiles(problem)
        parts = parts_of(table, tiles, 4)
        cut = replace(table, split=np.maximum(parts, 1))
        took = predicted_tiles(cut, problem, CARD, costs)
        working = quickest.least_working(bounds, problem, CARD, costs, tiles, cut.split)
        asked = np.isfinite(took) & (parts >= 2)
        for time, least in zip(took[asked], working[asked]):
            assert least <= quickest.working_below(bounds, problem, costs, float(time)), problem
