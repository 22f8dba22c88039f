"""Small launches of the library's kernels, for their mutants.

Row-wise ones without a ring are not here: all their synchronisation is inside `cluster.reduce`, which the model takes
as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mutation.launches import Case
from phalanx.kernels import gather, kv_cache, moe
from phalanx.kernels.matmul_config import MatmulConfig
from phalanx.kernels.matmul_tiles import matmul_tiles
from phalanx.kernels.norms_ring import norm_ring
from phalanx.kernels.rows_ring import RingConfig
from phalanx.kernels.softmax_ring import softmax_ring

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


def experts(*, gathers: bool, scatters: bool) -> Callable[[], Case]:
    """Two experts on one cluster, 3 steps along K through a ring of 2."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        x, w = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((150, 192), (2, 128, 192)))
        sizes, table = np.array([100, 50], np.int32), np.zeros((3, 32), np.int32)
        moe.plan_tiles[1](sizes, table[0], table[1], table[2], EXPERTS=2, BM=128)
        rows = rng.permutation(150).astype(np.int32)
        y = np.zeros((150, 128), np.float32 if scatters else x.dtype)
        args = [x, rows, w, y, table[0, :3].copy(), table[1, :3].copy(), table[2, :3].copy(), np.ones(150, np.float32)]
        constants = {"BM": 128, "BN": 64, "STAGES": 2, "GATHER": gathers, "SCATTER": scatters}
        return Case("expert_ring", moe.expert_ring[2], args, constants)

    return make


def norms(cluster: int, **variant: Any) -> Callable[[], Case]:
    """Five rows on one cluster, of two tiles a CTA: the ring wraps."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        config = RingConfig(cluster, 1, 128, 2, **variant)
        x, vectors = rng.standard_normal((5, config.columns), np.float32), np.ones((2, config.columns), np.float32)
        return Case("norm_ring", norm_ring[cluster], [x, *vectors, np.zeros_like(x), 1e-6], config.constants())

    return make


def multiplying(by_k: bool, **constants: Any) -> Callable[[], Case]:
    """Two tiles on one cluster of two, 3 steps along K through a ring of 2."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        shapes = ((128, 192), (128, 192)) if by_k else ((192, 128), (192, 128))
        a, b = (rng.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16) for shape in shapes)
        c = np.zeros((128, 128), ml_dtypes.bfloat16)
        config = MatmulConfig(64, 64 if by_k else 128, stages=2, cluster=(2, 1), group=1, parts=2, groups=1)
        settings = {**config.constants(), "A_BY_K": by_k, "B_BY_K": by_k, **constants}
        return Case("matmul_tiles", matmul_tiles[2, 1], [a, b, c, None, None, None, None], settings)

    return make


def softmax_stream() -> Case:
    rng = np.random.default_rng(0)
    config = RingConfig(2, 1, 128, 2, 3)
    x = rng.standard_normal((5, config.columns), np.float32)
    return Case("softmax_ring", softmax_ring[2], [x, np.zeros_like(x)], config.constants())


LIBRARY: dict[str, Callable[[], Case]] = {
    "gather_ring": moving("gather_ring"),
    "scatter_ring": moving("scatter_ring"),
    "scatter_ring, adding": moving("scatter_ring", ADD=True),
    "compact_ring": compacting,
    "expert_ring, gathering": experts(gathers=True, scatters=False),
    "expert_ring, scattering": experts(gathers=False, scatters=True),
    "norm_ring": norms(2, stages=3),
    "norm_ring, early": norms(1, stages=3, early=True),
    "norm_ring, without a producer": norms(2, stages=4, producer=False),
    "norm_ring, in the ring": norms(2, stages=2, step=2, held=False),
    "softmax_ring": softmax_stream,
    "matmul_tiles": multiplying(by_k=True),
    "matmul_tiles, transposed": multiplying(by_k=False, TMA_STORE=False),
}
