"""Products of any kind and size, for tests of how they are cut."""

from __future__ import annotations

import random
from typing import Any

from phalanx.kernels.products.matmul_cuts import Problem

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
