"""The CUDA text of the row-wise kernels, run on the CPU over whole clusters, against NumPy and the simulator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import host_cuda
from host_cluster import run_cluster
from phalanx.kernels.rowwise.cross_entropy import cross_entropy_rows
from phalanx.kernels.rowwise.norms import layer_norm_rows, rms_norm_rows
from phalanx.kernels.rowwise.rows import RowConfig
from phalanx.kernels.rowwise.softmax import softmax_rows

pytestmark = pytest.mark.skipif(host_cuda.COMPILER is None, reason=host_cuda.MISSING)

ROWS = 4
TYPES = {"bf16": ml_dtypes.bfloat16, "f32": np.float32}
CASES = [("bf16", 2, 4, 2, 0, 0), ("bf16", 4, 2, 3, 0, 37), ("f32", 2, 2, 2, 2, 5), ("f32", 1, 4, 2, 0, 9)]
"""Element type, cluster, warps, tiles in registers and in shared memory, columns that the row falls short by."""


def config(name: str, cluster: int, warps: int, parts: int, shared: int) -> RowConfig:
    return RowConfig(cluster, warps, 1, 32 * warps * 16 // np.dtype(TYPES[name]).itemsize, parts, shared)


def run(kernel: Any, chosen: RowConfig, args: list[Any], out: int, **constants: Any) -> np.ndarray:
    """What the text gives on the CPU; the simulator must give nearly the same."""
    simulated = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    kernel[chosen.grid(ROWS)](*simulated, **chosen.constants(), **constants)
    run_cluster(kernel, chosen.grid(ROWS), *args, **chosen.constants(), **constants)
    got, want = (np.asarray(arrays[out]).astype(np.float64) for arrays in (args, simulated))
    tolerance = 2**-7 if args[out].dtype.itemsize == 2 else 1e-5
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return got


@pytest.mark.share(4)
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
        got = run(softmax_rows, chosen, [x, y], 1, LOG=kind == "log_softmax")
        want = logarithm if kind == "log_softmax" else np.exp(logarithm)
    elif kind == "rms_norm":
        got = run(rms_norm_rows, chosen, [x, w, y, 1e-6], 2, AHEAD=True)
        want = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-6) * w.astype(np.float64)
    elif kind == "layer_norm":
        got = run(layer_norm_rows, chosen, [x, w, b, y, 1e-5], 3, AHEAD=missing == 0, MASKED=missing > 0)
        apart = exact - exact.mean(1, keepdims=True)
        scale = 1 / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5)
        want = apart * scale * w.astype(np.float64) + b.astype(np.float64)
    else:
        targets = rng.integers(0, columns, ROWS)
        got = run(cross_entropy_rows, chosen, [x, targets, np.zeros(ROWS, np.float32), -100], 2)
        want = -logarithm[np.arange(ROWS), targets]
    tolerance = 2**-6 if name == "bf16" else 2e-5
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
