"""Small launches of the library's row-wise kernels, for their mutants.

They exchange once for each row; `exchanges` takes enough turns for the inboxes to be used again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import phalanx as px
from mutation.launches import Case
from phalanx.kernels.rowwise.cross_entropy import cross_entropy_rows
from phalanx.kernels.rowwise.cross_entropy_backward import cross_entropy_backward_rows
from phalanx.kernels.rowwise.norms import layer_norm_rows, rms_norm_rows
from phalanx.kernels.rowwise.norms_backward import norm_backward_rows
from phalanx.kernels.rowwise.row_config import RowConfig
from phalanx.kernels.rowwise.softmax import softmax_rows
from phalanx.kernels.rowwise.softmax_backward import softmax_backward_rows
from phalanx.kernels.rowwise.stream_config import StreamConfig
from phalanx.kernels.rowwise.stream_norms import norm_stream
from phalanx.kernels.rowwise.stream_softmax import softmax_stream

ROWS = RowConfig(cluster=2, warps=4, rows=1, width=128, parts=2)


def rows(kernel: Any, *others: Any, **constants: Any) -> Callable[[], Case]:
    """Two rows of 500 columns, each on a cluster of two CTAs; `others` are further arguments, or how to make them."""

    def make() -> Case:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((2, 500)).astype(np.float32)
        made = [other(x) if callable(other) else other for other in others]
        return Case(kernel.name, kernel[ROWS.grid(2)], [x, *made], {**ROWS.constants(), **constants})

    return make


CHUNKS = StreamConfig(cluster=2, warps=1, step=1, stages=3, kept=1)


def chunks(kernel: Any, *others: Any, rows: int = 3, **constants: Any) -> Callable[[], Case]:
    """Rows of 501 columns, in one run of memory, on one cluster of two CTAs; `others` are further arguments, or made."""

    def make() -> Case:
        x = np.random.default_rng(0).standard_normal((rows, 501)).astype(np.float32)
        made = [other(x) if callable(other) else other for other in others]
        args = [x.reshape(-1), *made, 501, rows]
        return Case(kernel.name, kernel[2], args, {"config": CHUNKS, "PERIOD": 4, **constants})

    return make


def flat(x: np.ndarray) -> np.ndarray:
    return np.zeros(x.size, x.dtype)


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


def norm_gradients() -> Case:
    """Three rows on one cluster, which adds up what they give to weights and biases."""
    x = np.random.default_rng(0).standard_normal((3, 500)).astype(np.float32)
    sums = [np.zeros((1, 500), np.float32) for _ in range(2)]
    args = [x, weights(x), np.cos(x), np.zeros_like(x), *sums, 1e-6]
    return Case("norm_backward_rows", norm_backward_rows[2], args, {**ROWS.constants(), "CENTERED": True})


ROWWISE: dict[str, Callable[[], Case]] = {
    "exchanges": exchanging,
    "softmax_rows": rows(softmax_rows, None, np.zeros_like, None, None, None, None),
    "softmax_rows, logarithm": rows(softmax_rows, None, np.zeros_like, None, None, None, None, LOG=True),
    "rms_norm_rows": rows(rms_norm_rows, None, weights, np.zeros_like, 1e-6, None),
    "layer_norm_rows": rows(layer_norm_rows, weights, weights, np.zeros_like, 1e-6, None, MASKED=True),
    "cross_entropy_rows": rows(
        cross_entropy_rows, lambda x: np.array([3, 401]), lambda x: np.zeros(2, np.float32), None, None, -100, None
    ),
    "softmax_backward_rows": rows(softmax_backward_rows, np.cos, np.zeros_like),
    "cross_entropy_backward_rows": rows(
        cross_entropy_backward_rows, lambda x: np.array([3, 401]), lambda x: np.ones(2, np.float32), np.zeros_like, -100
    ),
    "norm_backward_rows": norm_gradients,
    "softmax_stream": chunks(softmax_stream, flat),
    "norm_stream": chunks(norm_stream, weights, None, flat, 1e-6),
    "norm_stream, centered": chunks(norm_stream, weights, weights, flat, 1e-6, CENTERED=True),
}
