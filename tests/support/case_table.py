"""Launches that run in the simulator, on the CPU from their CUDA text and on a GPU: the table, and how results compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
KINDS = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": BF16,
    "f8e4m3": E4M3,
    "f8e5m2": E5M2,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u8": np.uint8,
    "u32": np.uint32,
    "bool": np.bool_,
}
"""Element types by the names that cases have."""


@dataclass(frozen=True)
class Case:
    """A launch; all arrays are compared afterwards with the simulator's, within `tolerance` of the largest number."""

    name: str
    kernel: Any
    grid: Any
    args: Callable[[np.random.Generator], list[Any]]
    constants: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0


CASES: dict[str, Case] = {}


def case(
    name: str, kernel: Any, grid: Any, args: Callable[..., list[Any]], tolerance: float = 0.0, **constants: Any
) -> None:
    assert name not in CASES, name
    CASES[name] = Case(name, kernel, grid, args, constants, tolerance)


def numbers(rng: np.random.Generator, shape: Any, dtype: Any, scale: float = 2.0) -> np.ndarray:
    """Random elements of a type; small integers, so that sums do not overflow."""
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if kind.kind in "iu":
        return rng.integers(0 if kind.kind == "u" else -9, 10, shape).astype(kind)
    return (rng.standard_normal(shape) * scale).astype(kind)


def zeros(shape: Any, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts on 256 bytes."""
    raw = np.zeros(array.nbytes + 256, np.uint8)
    start = -raw.ctypes.data % 256
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def with_nans(rng: np.random.Generator, rows: int, columns: int, dtype: Any = np.float32) -> np.ndarray:
    """Rows with some NaNs, with nothing else, with none, with few; of both signs, and infinities beside them."""
    x = numbers(rng, (rows, columns), np.float32)
    x[rng.random(x.shape) < 0.1] = -np.inf
    share = np.resize([0.3, 1, 0, 0.02], rows)[:, None]
    nan = np.where(rng.random(x.shape) < 0.5, np.float32(np.nan), -np.float32(np.nan))
    return np.where(rng.random(x.shape) < share, nan, x).astype(dtype)


def difference(got: np.ndarray, want: np.ndarray) -> tuple[float, int, tuple[int, ...]]:
    """The largest error, as a part of the largest number expected; how many elements differ; where the largest is.

    Integers are compared as such, and zeros with their signs: a difference that f64 does not show is a very small one.
    """
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (got == want if got.dtype.kind in "iu" else a == b) & ((a != 0) | (np.signbit(a) == np.signbit(b)))
    same |= np.isnan(a) & np.isnan(b)
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.maximum(np.abs(a - b) / scale, 2.0**-100))
    error = np.where(np.isnan(error), np.inf, error)
    if not error.size:
        return 0.0, 0, ()
    place = np.unravel_index(int(error.argmax()), error.shape)
    return float(error.max()), int((~same).sum()), tuple(int(i) for i in place)


def mismatch(case: Case, got: list[Any], want: list[Any]) -> str | None:
    """One line about the worst array of a case, None if all are right."""
    worst = None
    for position, (g, w) in enumerate(zip(got, want, strict=True)):
        if not isinstance(w, np.ndarray):
            continue
        error, count, place = difference(g, w)
        if error > case.tolerance and (worst is None or error > worst[0]):
            worst = (
                error,
                f"{case.name}: argument {position}: {count} of {w.size} differ, by up to {error:.2e} at {place}: "
                f"{g[place]!s} instead of {w[place]!s}",
            )
    return None if worst is None else worst[1]


def simulated(case: Case) -> list[Any]:
    """The arguments of a case after a run in the simulator."""
    args = case.args(np.random.default_rng(0))
    case.kernel[case.grid](*args, **case.constants)
    return args


def family(name: str) -> str:
    return name.split("-")[0]


def every_nth(n: int, wholly: tuple[str, ...] = ()) -> list[str]:
    """Every n-th case of each family, and all of some families."""
    chosen: list[str] = []
    seen: dict[str, int] = {}
    for name in CASES:
        number = seen[family(name)] = seen.get(family(name), -1) + 1
        if family(name) in wholly or number % n == 0:
            chosen.append(name)
    return chosen
