"""Operands and results for tests of the library's matmul, against NumPy in f32."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
TOLERANCE = {"bfloat16": 2**-7, "float16": 2**-9, "float32": 2**-16}
"""Of the largest result: one rounding to its type, and sums in another order."""


def numbers(*shape: int, dtype: Any = BF16, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32).astype(dtype)


def by_columns(x: np.ndarray) -> np.ndarray:
    """The same matrices, stored column after column."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def as_is(x: np.ndarray) -> np.ndarray:
    return x


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.matmul(a.astype(np.float32), b.astype(np.float32))


def close(got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape
    if want.size:
        worst = np.abs(got.astype(np.float32) - want).max() / np.abs(want).max()
        assert worst <= TOLERANCE[got.dtype.name]


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}
