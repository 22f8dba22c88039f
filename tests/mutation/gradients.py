"""Small launches of attention's backward kernels, for their mutants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mutation.launches import Case
from phalanx.kernels.attention.backward_keys import backward_keys
from phalanx.kernels.attention.backward_queries import backward_queries
from phalanx.kernels.attention.backward_rows import prepare_rows
from phalanx.kernels.attention.forms import KeyGradients, QueryGradients
from support.attention_cases import BF16, heads
from support.backward_cases import forward


def operands(keys: int) -> tuple[list[Any], np.ndarray]:
    """Queries in three blocks of 64, keys, values, gradients of the result, and what is known of each row."""
    rng = np.random.default_rng(0)
    q, do = heads(rng, 1, 1, 150, 64), heads(rng, 1, 1, 150, 64)
    k, v = heads(rng, 1, 1, keys, 64), heads(rng, 1, 1, keys, 64)
    stats = np.zeros((1, 1, 3, 2, 64), np.float32)
    prepare_rows[3, 1, 1](*(x for x in (forward(q, k, v)[0], do, forward(q, k, v)[1])), None, stats, None, BM=64, D=64)
    return [q, k, v, do, stats, None, None, None], stats


def by_keys() -> Case:
    """One CTA with 128 keys: three blocks of queries through rings of 2."""
    given, _ = operands(128)
    sums, results = np.zeros((3, 2, 32 * 64), np.float32), [np.zeros((1, 1, 128, 64), BF16) for _ in range(2)]
    args = [*given, sums, *results, 0.18, 0.125, None, None, None, 1, 1, None, 1]
    return Case("backward_keys", backward_keys[1], args, {"form": KeyGradients(64, 64)})


def by_queries() -> Case:
    """One CTA with the first 128 queries: three blocks of keys through rings of 2."""
    given, _ = operands(150)
    args = [*given, np.zeros((1, 1, 150, 64), BF16), None, 0.18, 0.125, None, None, None, 1, 1]
    return Case("backward_queries", backward_queries[1], args, {"form": QueryGradients(64, 64, 0, 64)})


GRADIENTS: dict[str, Callable[[], Case]] = {"backward_keys": by_keys, "backward_queries": by_queries}
