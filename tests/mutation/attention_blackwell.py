"""Small launches of attention in tensor memory, for their mutants."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from mutation.launches import Case
from phalanx.kernels.attention.forward_blackwell import attention_blackwell


def attending_in_tensor_memory() -> Case:
    """Two pairs of tiles on one CTA, up to 3 blocks of 16 keys through a ring of 3; scores that grow, so that results are
    corrected, and a causal bound."""
    rng = np.random.default_rng(0)
    shapes = (2, 200), (1, 40), (1, 40)
    q, k, v = ((rng.standard_normal((1, *shape, 16)) * 3).astype(ml_dtypes.bfloat16) for shape in shapes)
    o, logs = np.zeros(q.shape, q.dtype), np.zeros(q.shape[:3], np.float32)
    settings = {"DIM": 16, "KEYS": 16, "STAGES": 3, "PART": 16}
    return Case("attention_blackwell", attention_blackwell[1], [q, k, v, o, logs, 1.0, None, None, None, 0, 2], settings)


ATTENTION_BLACKWELL: dict[str, Callable[[], Case]] = {"attention_blackwell": attending_in_tensor_memory}
