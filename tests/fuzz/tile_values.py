"""What a generator of tile kernels knows of a value: its type, its shape, and how exactly every floor computes it.

Integers agree bit for bit. Floats agree bit for bit as long as every operation on them rounds once and alone: a GPU joins
a multiplication and the addition behind it into one rounding, and sums in an order of its own. `Facts` follows that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

NUMPY = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2, "f6e2m3": ml_dtypes.float6_e2m3fn, "f6e3m2": ml_dtypes.float6_e3m2fn,
    "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "u64": np.uint64,
    "u32": np.uint32, "u16": np.uint16, "u8": np.uint8, "bool": np.bool_,
}  # fmt: skip
SIGNED, UNSIGNED = ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64")
INTEGERS = (*SIGNED, *UNSIGNED)
SIX_BITS = ("f6e2m3", "f6e3m2")
"""They have no NaN and no infinity, and no integer of their size."""
FP8 = ("f8e4m3", "f8e5m2", *SIX_BITS)
FLOATS = ("f64", "f32", "f16", "bf16")
"""Those that compute; 8-bit floats only move and convert."""
ATOMIC = ("f32", "f64", "f16", "bf16", "i32", "u32", "i64", "u64")

MANTISSA = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8e4m3": 4, "f8e5m2": 3, "f6e2m3": 4, "f6e3m2": 3}
SMALLEST = {
    "f64": -1074, "f32": -149, "f16": -24, "bf16": -133, "f8e4m3": -9, "f8e5m2": -16, "f6e2m3": -3, "f6e3m2": -4,
}  # fmt: skip
"""The exponent of the smallest number of each type."""
LARGEST = {"f64": 1023, "f32": 127, "f16": 15, "bf16": 127, "f8e4m3": 8, "f8e5m2": 15, "f6e2m3": 2, "f6e3m2": 4}
TOLERANCE = {"f64": 1e-11, "f32": 2e-5, "f16": 2e-3, "bf16": 1.6e-2, "f8e4m3": 0.13, "f8e5m2": 0.26,
             "f6e2m3": 0.13, "f6e3m2": 0.26}  # fmt: skip
"""Of functions that are approximated, as a part of the number expected, or of 1 where that is less."""
APPROXIMATE_TANH = 2**-10.4


def bytes_of(dtype: str) -> int:
    return np.dtype(NUMPY[dtype]).itemsize


def bits_of(dtype: str) -> int:
    return 1 if dtype == "bool" else 8 * bytes_of(dtype)


def is_float(dtype: str) -> bool:
    return dtype in MANTISSA


def integer_limits(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(NUMPY[dtype])
    return int(info.min), int(info.max)


@dataclass(frozen=True)
class Grid:
    """All elements are multiples of 2**low and at most 2**high in size."""

    low: int
    high: int

    def fits(self, dtype: str) -> bool:
        """Whether the type holds all such numbers."""
        if dtype == "bool":
            return False
        if not is_float(dtype):
            return self.low >= 0 and self.high < bits_of(dtype) - (dtype in SIGNED)
        spread = self.high - self.low <= MANTISSA[dtype]
        return spread and self.low >= SMALLEST[dtype] and self.high <= LARGEST[dtype]


@dataclass(frozen=True)
class Facts:
    """How far the floors may differ about a value.

    `grid`: where its elements lie, None if anywhere, NaN and infinities included. `product`: a rounded product, so that an
    addition may be joined with it. `zeros`: the sign of a zero is certain. `tolerance`: 0 where all bits are certain.
    """

    grid: Grid | None = None
    product: bool = False
    zeros: bool = True
    tolerance: float = 0.0

    @property
    def exact(self) -> bool:
        return self.tolerance == 0

    def meet(self, other: Facts) -> Facts:
        """What is known of a value that is one or the other."""
        grid = None
        if self.grid is not None and other.grid is not None:
            grid = Grid(min(self.grid.low, other.grid.low), max(self.grid.high, other.grid.high))
        return Facts(
            grid, self.product or other.product, self.zeros and other.zeros, max(self.tolerance, other.tolerance)
        )


ANYTHING = Facts()


@dataclass(frozen=True)
class Value:
    """A name of the kernel (or an expression) that holds a tile, or a scalar where the shape is ()."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    facts: Facts = ANYTHING

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * bytes_of(self.dtype)

    def called(self, name: str) -> Value:
        return replace(self, name=name)


def rounded(grid: Grid | None, dtype: str, facts: Facts) -> Facts:
    """The facts of a result on a grid, if the type holds it; else it was rounded somewhere."""
    return replace(facts, grid=grid if grid is not None and grid.fits(dtype) else None)


def plus(a: Facts, b: Facts, dtype: str) -> Facts | None:
    """A sum or a difference; None where the floors may round differently."""
    zeros = a.zeros and b.zeros
    grid = None
    if a.grid is not None and b.grid is not None:
        grid = Grid(min(a.grid.low, b.grid.low), max(a.grid.high, b.grid.high) + 1)
        if grid.fits(dtype):
            return Facts(grid, zeros=zeros)
    joined = dtype in ("f32", "f64") and (a.product or b.product)
    return None if joined else Facts(None, zeros=zeros)


def times(a: Facts, b: Facts, dtype: str) -> Facts:
    """A product."""
    zeros = a.zeros and b.zeros
    if a.grid is not None and b.grid is not None:
        grid = Grid(a.grid.low + b.grid.low, a.grid.high + b.grid.high)
        if grid.fits(dtype):
            return Facts(grid, zeros=zeros)
    return Facts(None, product=is_float(dtype), zeros=zeros)


def summed(x: Facts, dtype: str, count: int) -> Facts | None:
    """A sum of `count` elements, in any order; None where the order shows."""
    if not is_float(dtype):
        grid = None if x.grid is None else Grid(x.grid.low, x.grid.high + math.ceil(math.log2(max(count, 1))))
        return rounded(grid, dtype, Facts())
    if x.grid is None:
        return None
    grid = Grid(x.grid.low, x.grid.high + math.ceil(math.log2(max(count, 1))))
    if not grid.fits("f64" if dtype == "f64" else "f32"):
        return None
    return rounded(grid, dtype, Facts(zeros=False))


def converted(x: Facts, source: str, target: str) -> Facts:
    """The same value in another type. It was rounded on its own, so that nothing joins with it any more."""
    if not x.exact:
        return replace(x, tolerance=max(x.tolerance, TOLERANCE[target]), grid=None, product=False)
    if is_float(source) and not is_float(target):
        return Facts()
    product = x.product and source == target
    return rounded(x.grid, target, replace(x, product=product))
