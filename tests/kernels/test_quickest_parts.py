"""The quickest configurations with parts of K are those of asking the model for all of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from phalanx.kernels.products import quickest_parts as quickest
from phalanx.kernels.products.tile_model import config_at, costs_of, predicted_parted, predicted_with_fitted, sizes_of
from phalanx.runtime.device.devices import device
from support.product_draws import KINDS, drawn

CARD = device()


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_the_quickest_of_all(kind: int) -> None:
    rng = random.Random(500 + kind)
    for _ in range(40):
        problem = drawn(rng, KINDS[kind])
        _, times, count = predicted_with_fitted(problem, CARD)
        time, sizes = float(times[:count].min()), sizes_of(problem, costs_of(problem))
        parted = predicted_parted(problem, CARD)
        for factor in (0.9, 0.99, 1.5):
            found = quickest.quickest_parted_of([problem], sizes, CARD, [factor * time])[0]
            wanted = None
            if parted is not None and parted[1].min() < factor * time:
                row = int(np.argmin(parted[1]))
                wanted = config_at(parted[0], row), parted[1][row]
            assert found == wanted, problem
