"""What the rungs share: random operands, the product in f32, and the tolerance of the output's type."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import Case, checked, main

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


__all__ = ["checked", "gemm_case", "main"]
