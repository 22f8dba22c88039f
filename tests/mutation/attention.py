"""Small launches of attention, for their mutants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from mutation.launches import Case
from phalanx.kernels.attention.arguments import Heads
from phalanx.kernels.attention.config import AttentionConfig
from phalanx.kernels.attention.forward_tiles import attention_tiles
from phalanx.kernels.attention.heights import heights_for


def attending(length: tuple[int, int], right: int | None, **settings: Any) -> Callable[[], Case]:
    """Two heads on one CTA: the second tile begins beside the end of the first."""

    def make() -> Case:
        rng, (queries, keys) = np.random.default_rng(0), length
        q, k, v = (rng.standard_normal((1, 2, n, 16)).astype(ml_dtypes.bfloat16) for n in (queries, keys, keys))
        config = AttentionConfig(**{"groups": 1, "keys": 16, "slack": 0.0, **settings})
        heads = Heads(1, 2, 2, queries, keys, 16, 16, "bf16")
        rows = -(-queries // 64)
        heights = heights_for(2, rows, config.groups, 2 * (rows // config.groups), 1)
        plan = (None,) * 5 if right is not None else (heights.whole, heights.more, 1, heights.first, heights.second)
        constants = {
            "config": replace(config, producer_regs=None, regs=None),
            "form": replace(config.form(heads, sure=True), dim=16, wide=16, whole=True),
        }  # fmt: skip
        args = [q, k, v, np.zeros_like(q), *[None] * 7, 0.36, None, None, None, None, right, 1, 2, *plan]
        return Case("attention_tiles", attention_tiles[1], args, constants)

    return make


ATTENTION: dict[str, Callable[[], Case]] = {
    "attention": attending((64, 80), None, query_stages=1),
    "attention low": attending((192, 32), None, groups=2),
    "attention causal": attending((128, 128), 0, groups=2, keys=32),
}
