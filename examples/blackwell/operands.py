"""What the rungs share: random operands, the product in f32, and the tolerance of the output's type."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import Case, checked, main

import phalanx as px

TOLERANCE = {"bfloat16": 2**-7, "float16": 2**-9, "float32": 2**-16}
"""Of the largest result: one rounding to the output's type, and sums in another order."""


def gemm_case(
    launch: Callable[..., Any], rng: np.random.Generator, m: int, n: int, k: int, constants: dict[str, Any],
    dtype: Any = ml_dtypes.bfloat16,
) -> Case:
    """C = A @ B.T for random A (m, k) and B (n, k)."""
    a = rng.standard_normal((m, k), np.float32).astype(dtype)
    b = rng.standard_normal((n, k), np.float32).astype(dtype)
    c = np.zeros((m, n), dtype)
    want = (a.astype(np.float32) @ b.astype(np.float32).T).astype(dtype)
    return Case(launch(m, n, k, **constants), [a, b, c], {2: want}, constants, TOLERANCE[np.dtype(dtype).name])


def scaled_case(
    launch: Callable[..., Any], rng: np.random.Generator, m: int, n: int, k: int, constants: dict[str, Any], codes: Any,
    scales: Any, block: int,
) -> Case:
    """C = (A * scales of A) @ (B * scales of B).T, with a scale per `block` elements of a row, in the order of blocks."""
    a, b = (rng.standard_normal((rows, k), np.float32).astype(codes) for rows in (m, n))
    plain = [np.exp2(rng.integers(-3, 4, (rows, px.cdiv(k, block)))).astype(scales) for rows in (m, n)]
    wide = [
        x.astype(np.float32) * np.repeat(scale.astype(np.float32), block, axis=1)[:, :k]
        for x, scale in zip((a, b), plain, strict=True)
    ]
    c = np.zeros((m, n), ml_dtypes.bfloat16)
    want = (wide[0] @ wide[1].T).astype(c.dtype)
    args = [a, b, *map(blocked, plain), c]
    return Case(launch(m, n, k, **constants), args, {4: want}, constants, TOLERANCE["bfloat16"])


def blocked(scales: np.ndarray) -> np.ndarray:
    """Scales (rows, scales) in the order of blocks, zeros where there are none: (rows / 128, scales / 4, 32, 4, 4). Each
    16 bytes have the 4 scales of 4 rows, which are 32 apart."""
    rows, columns = px.cdiv(scales.shape[0], 128), px.cdiv(scales.shape[1], 4)
    padded = np.zeros((rows * 128, columns * 4), np.uint8)
    padded[: scales.shape[0], : scales.shape[1]] = scales.view(np.uint8)
    ordered = padded.reshape(rows, 4, 32, columns, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(ordered).view(scales.dtype)


__all__ = ["checked", "gemm_case", "main", "scaled_case"]
