"""Small launches of the library's kernels that move rows, for their mutants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mutation.launches import Case
from phalanx.kernels import gather, kv_cache

RING = {"WIDTH": 32, "ROWS": 2, "STAGES": 3, "LAG": 1}


def moving(name: str, **constants: Any) -> Callable[[], Case]:
    """14 rows by index, on one CTA: the ring wraps twice."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        few, many = rng.standard_normal((14, 32), np.float32), rng.standard_normal((20, 32), np.float32)
        rows = rng.permutation(20)[:14]
        kernel = getattr(gather, name)
        arrays = [many, rows, few] if name == "gather_ring" else [few, rows, many]
        return Case(name, kernel[1], arrays, {**RING, "PARTS": 1, **constants})

    return make


def compacting() -> Case:
    rng = np.random.default_rng(0)
    cache = rng.standard_normal((20, 32), np.float32)
    keep = np.sort(rng.permutation(20)[:14])[None].astype(np.int64)
    return Case("compact_ring", kv_cache.compact_ring[1], [cache, keep, keep, 20], {**RING, "SLICES": 1})


MOVES: dict[str, Callable[[], Case]] = {
    "gather_ring": moving("gather_ring"),
    "scatter_ring": moving("scatter_ring"),
    "scatter_ring, adding": moving("scatter_ring", ADD=True),
    "compact_ring": compacting,
}
