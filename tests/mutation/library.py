"""Small launches of the library's kernels, for their mutants.

The row-wise ones exchange once or twice for each row; `exchanges` takes enough turns for the inboxes to be used again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import phalanx as px
from mutation.launches import Case
from phalanx.kernels import gather, kv_cache, moe
from phalanx.kernels.cross_entropy import cross_entropy_rows
from phalanx.kernels.norms import layer_norm_rows, rms_norm_rows
from phalanx.kernels.rows import RowConfig
from phalanx.kernels.softmax import softmax_rows

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


ROWS = RowConfig(cluster=2, warps=4, rows=1, width=128, parts=2)


def rows(kernel: Any, *others: Any, **constants: Any) -> Callable[[], Case]:
    """Two rows of 500 columns, each on a cluster of two CTAs; `others` are further arguments, or how to make them."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((2, 500)).astype(np.float32)
        made = [other(x) if callable(other) else other for other in others]
        return Case(kernel.name, kernel[ROWS.grid(2)], [x, *made], {**ROWS.constants(), **constants})

    return make


def weights(x: np.ndarray) -> np.ndarray:
    return np.linspace(-1, 1, x.shape[1], dtype=np.float32)


@px.kernel(warps=2, cluster=2)
def exchanges(X, Y, *, N=64):
    """Four turns of gathers and of reductions to all CTAs and to one: every inbox is used again."""
    rank = px.cluster.rank()
    for turn in range(4):
        x = px.load(X[rank, turn, 0:N])
        if turn % 2 == 0:
            parts = px.cluster.gather(px.sum(x.reshape(2, N // 2), axis=1))
            x = x * px.sum(parts) + px.cluster.reduce(px.max(x), "max", cta=1)
        else:
            x = x + px.cluster.reduce(x, "sum")
        px.store(Y[rank, turn, 0:N], x)


def exchanging() -> Case:
    x = np.random.default_rng(0).integers(0, 9, (2, 4, 64)).astype(np.float32)
    return Case("exchanges", exchanges[2], [x, np.zeros_like(x)], {})


LIBRARY: dict[str, Callable[[], Case]] = {
    "gather_ring": moving("gather_ring"),
    "scatter_ring": moving("scatter_ring"),
    "scatter_ring, adding": moving("scatter_ring", ADD=True),
    "compact_ring": compacting,
    "exchanges": exchanging,
    "softmax_rows": rows(softmax_rows, np.zeros_like),
    "softmax_rows, logarithm": rows(softmax_rows, np.zeros_like, LOG=True),
    "rms_norm_rows": rows(rms_norm_rows, weights, np.zeros_like, 1e-6),
    "layer_norm_rows": rows(layer_norm_rows, weights, weights, np.zeros_like, 1e-6, MASKED=True),
    "cross_entropy_rows": rows(cross_entropy_rows, lambda x: np.array([3, 401]), lambda x: np.zeros(2, np.float32), -100),
    "expert_ring, gathering": experts(gathers=True, scatters=False),
    "expert_ring, scattering": experts(gathers=False, scatters=True),
}
