"""Small launches of the library's row-wise kernels, for their mutants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mutation.launches import Case
from phalanx.kernels.norms_ring import norm_ring
from phalanx.kernels.rows_ring import RingConfig
from phalanx.kernels.softmax_ring import softmax_ring


def norms(cluster: int, **variant: Any) -> Callable[[], Case]:
    """Five rows on one cluster, of two tiles a CTA: the ring wraps."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        config = RingConfig(cluster, 1, 128, 2, **variant)
        x, vectors = rng.standard_normal((5, config.columns), np.float32), np.ones((2, config.columns), np.float32)
        return Case("norm_ring", norm_ring[cluster], [x, *vectors, np.zeros_like(x), 1e-6], config.constants())

    return make


def softmax_stream() -> Case:
    rng = np.random.default_rng(0)
    config = RingConfig(2, 1, 128, 2, 3)
    x = rng.standard_normal((5, config.columns), np.float32)
    return Case("softmax_ring", softmax_ring[2], [x, np.zeros_like(x)], config.constants())


ROWWISE: dict[str, Callable[[], Case]] = {
    "norm_ring": norms(2, stages=3),
    "norm_ring, early": norms(1, stages=3, early=True),
    "norm_ring, without a producer": norms(2, stages=4, producer=False),
    "norm_ring, in the ring": norms(2, stages=2, step=2, held=False),
    "softmax_ring": softmax_stream,
}
