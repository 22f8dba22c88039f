"""`a * b + c` with one rounding, exactly: by arithmetic that loses nothing before that rounding."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

from phalanx.ir.types import DType

Fused = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def fused(dtype: DType) -> Fused:
    """The function for tiles of a float type."""
    return {"f64": _double, "f32": _single, "f16": _half, "bf16": _brain}[dtype.name]


def _odd_sum(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`a * b + c` in f64, rounded to odd: where it is not exact, to the neighbour whose last bit is 1.

    The product of two elements of 24 bits or fewer is exact in f64. A number that was rounded to odd with two bits
    more than a type has can be rounded to that type as if it were exact.
    """
    x, y = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = x + y
    part = total - x  # Knuth's sum: `lost` is what the rounding of `total` took away, exactly
    lost = (x - (total - part)) + (y - part)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (lost != 0) & (bits & 1 == 0)
    away = np.where(np.signbit(total), lost < 0, lost > 0)  # from zero: the next larger magnitude
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(np.float64)


def _single(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return _odd_sum(a, b, c).astype(np.float32)


def _half(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return _odd_sum(a, b, c).astype(np.float16)


def _brain(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Through f32, rounded to odd once more, since that is where conversions to bf16 begin."""
    exact = _odd_sum(a, b, c)
    near = exact.astype(np.float32)
    bits = near.view(np.int32)
    inexact = ~np.isnan(exact) & (near != exact)
    cut = np.where(np.abs(near) > np.abs(exact), bits - 1, bits)  # toward zero
    return np.where(inexact, cut | 1, bits).view(np.float32).astype(ml_dtypes.bfloat16)


def _double(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.asarray(_double_of_one(a, b, c)).astype(np.float64)


def _one(a: float, b: float, c: float) -> float:
    """By integers: Python divides them with one correct rounding."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    (p, q), (r, s), (t, u) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    above = p * r * u + t * q * s
    if above == 0:
        return a * b + c  # the sign of a zero follows from its terms
    try:
        return above / (q * s * u)
    except OverflowError:
        return math.inf if above > 0 else -math.inf


_double_of_one = np.frompyfunc(lambda a, b, c: _one(float(a), float(b), float(c)), 3, 1)
