"""The CUDA text of the row-wise kernels, run on the CPU over whole clusters, against NumPy and the simulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from phalanx.kernels.rowwise.cross_entropy import SUM_CTAS, cross_entropy_rows, sum_losses
from phalanx.kernels.rowwise.losses import LossConfig, join_pieces, loss_rows
from phalanx.kernels.rowwise.norms import layer_norm_rows, rms_norm_rows
from phalanx.kernels.rowwise.row_config import RowConfig
from phalanx.kernels.rowwise.softmax import softmax_rows
from phalanx.kernels.rowwise.spans import SpanConfig, norm_spans, softmax_spans
from phalanx.kernels.rowwise.stream_config import StreamConfig
from phalanx.kernels.rowwise.stream_norms import norm_stream
from phalanx.kernels.rowwise.stream_softmax import softmax_stream
from support import host_cuda
from support.host_cluster import run_cluster

pytestmark = pytest.mark.skipif(host_cuda.COMPILER is None, reason=host_cuda.MISSING)

ROWS = 4
TYPES = {"bf16": ml_dtypes.bfloat16, "f32": np.float32}
CASES = [("bf16", 2, 4, 2, 0, 0), ("bf16", 4, 2, 3, 0, 37), ("f32", 2, 2, 2, 2, 5), ("f32", 1, 4, 2, 0, 9)]
"""Element type, cluster, warps, tiles in registers and in shared memory, columns that the row falls short by."""


def config(name: str, cluster: int, warps: int, parts: int, shared: int) -> RowConfig:
    return RowConfig(cluster, warps, 1, 32 * warps * 16 // np.dtype(TYPES[name]).itemsize, parts, shared)


def run(kernel: Any, chosen: RowConfig | StreamConfig, args: list[Any], out: int, **constants: Any) -> np.ndarray:
    """What the text gives on the CPU; the simulator must give nearly the same."""
    simulated = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    grid = chosen.grid(ROWS) if isinstance(chosen, RowConfig) else 2 * chosen.cluster
    kernel[grid](*simulated, config=chosen, **constants)
    run_cluster(kernel, grid, *args, config=chosen, **constants)
    got, want = (np.asarray(arrays[out]).astype(np.float64) for arrays in (args, simulated))
    tolerance = 2**-7 if args[out].dtype.itemsize == 2 else 1e-5
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return got


@pytest.mark.share(9)
@pytest.mark.parametrize("name, cluster, warps, parts, shared, missing", CASES)
@pytest.mark.parametrize("kind", ("softmax", "log_softmax", "rms_norm", "layer_norm", "cross_entropy"))
def test_text_gives_what_numpy_gives(
    kind: str, name: str, cluster: int, warps: int, parts: int, shared: int, missing: int
) -> None:
    rng = np.random.default_rng(0)
    chosen = config(name, cluster, warps, parts, shared)
    columns = chosen.columns - missing
    x = (rng.standard_normal((ROWS, columns)) + 20).astype(TYPES[name])
    w, b = rng.standard_normal((2, columns)).astype(TYPES[name])
    exact = x.astype(np.float64)
    shifted = exact - exact.max(1, keepdims=True)
    logarithm = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    y = np.zeros_like(x)
    if kind in ("softmax", "log_softmax"):
        got = run(softmax_rows, chosen, [x, None, y, None, None, None, None], 2, LOG=kind == "log_softmax")
        want = logarithm if kind == "log_softmax" else np.exp(logarithm)
    elif kind == "rms_norm":
        got = run(rms_norm_rows, chosen, [x, None, w, y, 1e-6, None], 3, AHEAD=True)
        want = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-6) * w.astype(np.float64)
    elif kind == "layer_norm":
        got = run(layer_norm_rows, chosen, [x, w, b, y, 1e-5, None], 3, AHEAD=missing == 0, MASKED=missing > 0)
        apart = exact - exact.mean(1, keepdims=True)
        scale = 1 / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5)
        want = apart * scale * w.astype(np.float64) + b.astype(np.float64)
    else:
        targets = rng.integers(0, columns, ROWS)
        got = run(cross_entropy_rows, chosen, [x, targets, np.zeros(ROWS, np.float32), None, None, -100, None], 2)
        want = -logarithm[np.arange(ROWS), targets]
    tolerance = 2**-6 if name == "bf16" else 2e-5
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


RUNS = [
    ("bf16", RowConfig(1, 2, 4, 256, 2), 301), ("f32", RowConfig(2, 2, 1, 256, 2), 801),
    ("bf16", RowConfig(2, 2, 1, 512, 2), 1203),
]  # fmt: skip
STREAMS = [
    ("bf16", StreamConfig(2, 2, 1, 5, 2), 2803), ("f32", StreamConfig(1, 2, 2, 5, 3, parts=2), 1101),
    ("bf16", StreamConfig(2, 2, 1, 4, 2, parts=1, group=2, hold=True), 1203),
]  # fmt: skip
"""Rows that begin anywhere, of one run of memory: in registers, and chunk by chunk."""
NAMES = ["warps", "f32", "cluster", "stream", "weights", "held"]


@pytest.mark.share(13)
@pytest.mark.parametrize("kind", ("softmax", "rms_norm", "layer_norm", "gradient", "add"))
@pytest.mark.parametrize("name, chosen, columns", [*RUNS, *STREAMS], ids=NAMES)
def test_text_of_rows_that_begin_anywhere(kind: str, name: str, chosen: RowConfig | StreamConfig, columns: int) -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((ROWS, columns)) + 20).astype(TYPES[name])
    w, b = rng.standard_normal((2, columns)).astype(TYPES[name])
    exact, flat, y = x.astype(np.float64), x.reshape(-1), np.zeros(x.size, x.dtype)
    weights, biases = w.astype(np.float64), b.astype(np.float64)
    streams, period = isinstance(chosen, StreamConfig), 8 if name == "bf16" else 4
    shifted = exact - exact.max(1, keepdims=True)
    probability = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    if kind == "softmax":
        if streams:
            got = run(softmax_stream, chosen, [flat, y, columns, ROWS], 1, PERIOD=period)
        else:
            got = run(softmax_rows, chosen, [flat, None, y, None, None, None, columns], 2)
        want = probability
    elif kind == "rms_norm":
        if streams:
            got = run(norm_stream, chosen, [flat, w, None, y, 1e-6, columns, ROWS], 3, PERIOD=period)
        else:
            got = run(rms_norm_rows, chosen, [flat, None, w, y, 1e-6, columns], 3)
        want = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-6) * weights
    elif kind == "layer_norm":
        if streams:
            got = run(norm_stream, chosen, [flat, w, b, y, 1e-5, columns, ROWS], 3, CENTERED=True, PERIOD=period)
        else:
            got = run(layer_norm_rows, chosen, [flat, w, b, y, 1e-5, columns], 3)
        apart = exact - exact.mean(1, keepdims=True)
        want = apart / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5) * weights + biases
    elif streams:
        return  # gradients, and sums of two arrays, are computed in registers alone
    elif kind == "gradient":
        targets, losses, two = rng.integers(0, columns, ROWS), np.zeros(ROWS, np.float32), np.array([2.0], np.float32)
        got = run(cross_entropy_rows, chosen, [flat, targets, losses, flat, two, -100, columns], 3)
        want = probability
        want[np.arange(ROWS), targets] -= 1
        want /= 2
    else:
        other = rng.standard_normal(x.size).astype(x.dtype)
        total = (exact.reshape(-1) + other.astype(np.float64)).astype(x.dtype).astype(np.float64).reshape(x.shape)
        got = run(rms_norm_rows, chosen, [flat, other, w, y, 1e-6, columns], 3)
        want = total / np.sqrt((total**2).mean(1, keepdims=True) + 1e-6) * weights
    tolerance = 2**-6 if name == "bf16" else 2e-5
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=tolerance, atol=tolerance)


SPANS = [
    ("bf16", SpanConfig(4, 10, 8, 2, warps=1), 39), ("f32", SpanConfig(32, 3, 4, 3), 67),
    ("bf16", SpanConfig(32, 2, 8, 3, pairs=True), 70),
]  # fmt: skip


@pytest.mark.share(2)
@pytest.mark.parametrize("name, chosen, columns", SPANS)
def test_text_of_spans(name: str, chosen: SpanConfig, columns: int) -> None:
    """Of short rows that begin anywhere, of which the last span is not full."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((13, columns)) + 20).astype(TYPES[name])
    w, b = rng.standard_normal((2, columns)).astype(TYPES[name])
    exact, flat, y = x.astype(np.float64), x.reshape(-1), np.zeros(x.size, x.dtype)
    tolerance = 2**-6 if name == "bf16" else 2e-5
    run_cluster(softmax_spans, 2, flat, y, columns, **chosen.constants())
    want = np.exp(exact - exact.max(1, keepdims=True))
    want /= want.sum(1, keepdims=True)
    np.testing.assert_allclose(y.reshape(x.shape).astype(np.float64), want, rtol=tolerance, atol=tolerance)
    run_cluster(norm_spans, 2, flat, w, b, y, 1e-5, columns, **chosen.constants(), CENTERED=True)
    apart = exact - exact.mean(1, keepdims=True)
    want = apart / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5) * w.astype(np.float64) + b.astype(np.float64)
    np.testing.assert_allclose(y.reshape(x.shape).astype(np.float64), want, rtol=tolerance, atol=4 * tolerance)


LOSSES = [
    ("a thread to a row", "bf16", LossConfig(1, 4), 35), ("four threads", "f32", LossConfig(4, 3), 46),
    ("a warp", "bf16", LossConfig(32, 2), 301), ("two teams", "bf16", LossConfig(64, 2), 1001),
    ("whole vectors", "f16", LossConfig(16, 2), 256),
]  # fmt: skip


@pytest.mark.share(3)
@pytest.mark.parametrize("name, config, columns", [row[1:] for row in LOSSES], ids=[row[0] for row in LOSSES])
def test_text_of_losses(name: str, config: LossConfig, columns: int) -> None:
    """Rows in registers, wherever they begin: their losses, sums of these, and what is known of pieces of them."""
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((9, columns)) * 3).astype({**TYPES, "f16": np.float16}[name])
    targets, vector = rng.integers(0, columns, 9), 16 // x.dtype.itemsize
    targets[4] = -100
    exact = x.astype(np.float64)
    want = np.where(targets < 0, 0, np.log(np.exp(exact).sum(1)) - exact[np.arange(9), np.maximum(targets, 0)])
    flat, constants = x.reshape(-1), {**config.constants(), "EDGES": columns % vector != 0}
    whole, losses = flat[: flat.size // vector * vector].reshape(-1, vector), np.zeros(9, np.float32)
    run_cluster(loss_rows, config.grid(9), flat, whole, targets, losses, None, -100, columns, None, **constants)
    np.testing.assert_allclose(losses, want, rtol=1e-5, atol=1e-5)
    sums = np.zeros((2, config.sums(9)), np.float32)
    run_cluster(loss_rows, config.grid(9), flat, whole, targets, None, sums, -100, columns, None, **constants)
    np.testing.assert_allclose(sums.sum(1), (want.sum(), 8), rtol=1e-5)
    mean = np.zeros(1, np.float32)
    run_cluster(sum_losses, SUM_CTAS, sums, None, mean, -100, MEAN=True)
    np.testing.assert_allclose(mean, want.sum() / 8, rtol=1e-5)
    if config.lanes >= 32:
        constants["config"] = replace(config, parts=1)
        pieces = LossConfig(config.lanes, 1).pieces(columns, x.dtype.itemsize)
        known, losses = np.zeros((2, 9 * pieces), np.float32), np.zeros(9, np.float32)
        run_cluster(loss_rows, config.grid(9 * pieces), flat, whole, None, None, known, -100, columns, pieces, **constants)
        run_cluster(join_pieces, 3, flat, targets, known, losses, -100, columns, pieces)
        np.testing.assert_allclose(losses, want, rtol=1e-5, atol=1e-5)
