"""Arithmetic in the precision of the hardware.

f16 and bf16 are computed in f32 and rounded after each instruction. Integers wrap. Conversions to floats of 8 bits
and less and from floats to integers saturate, NaN becomes the integer 0. Scalars are Python ints and bools, and NumPy
scalars for floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.ir.types import DType, as_elements, f32, i8, rounded

Function = Callable[..., Any]

_erf = np.frompyfunc(math.erf, 1, 1)


def _erf_tile(x: Any) -> Any:
    return np.asarray(_erf(x)).astype(np.asarray(x).dtype)


def _rsqrt(x: Any) -> Any:
    return np.reciprocal(np.sqrt(x))


def _sigmoid(x: Any) -> Any:
    return np.reciprocal(np.exp(-x) + np.ones((), np.asarray(x).dtype)[()])


def _not(x: Any) -> Any:
    return np.logical_not(x) if np.asarray(x).dtype == np.bool_ else np.invert(x)


def _shift_left(a: Any, b: Any) -> Any:
    """Counts outside 0 .. bits-1 shift everything out."""
    a = np.asarray(a)
    outside = (np.asarray(b) < 0) | (np.asarray(b) >= 8 * a.dtype.itemsize)
    return np.where(outside, a.dtype.type(0), np.left_shift(a, np.where(outside, 0, b).astype(a.dtype)))


def _shift_right(a: Any, b: Any) -> Any:
    """Counts outside 0 .. bits-1 leave only copies of the sign."""
    a = np.asarray(a)
    last = 8 * a.dtype.itemsize - 1
    outside = (np.asarray(b) < 0) | (np.asarray(b) > last)
    gone = np.right_shift(np.right_shift(a, a.dtype.type(last)), a.dtype.type(1))
    return np.where(outside, gone, np.right_shift(a, np.where(outside, 0, b).astype(a.dtype)))


UNARY: dict[str, Function] = {
    "neg": np.negative, "not": _not, "abs": np.abs, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2,
    "sqrt": np.sqrt, "rsqrt": _rsqrt, "reciprocal": np.reciprocal, "tanh": np.tanh,
    "tanh_approx": np.tanh, "erf": _erf_tile, "sigmoid": _sigmoid, "sin": np.sin,
    "cos": np.cos, "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
}
BINARY: dict[str, Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide, "mod": np.mod,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": _shift_left, "shr": _shift_right,
    "max": np.maximum, "min": np.minimum,
}
IN_MEMORY: dict[str, Function] = {**BINARY, "max": np.fmax, "min": np.fmin}
"""As `BINARY`, where memory computes: between a number and a NaN it keeps the number."""
COMPARE: dict[str, Function] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}


def is_narrow(dtype: DType) -> bool:
    """Floats that are computed in f32."""
    return dtype.is_float and dtype.bits < 32


def unary(fn: str, dtype: DType) -> Function:
    """`fn` of one operand of `dtype`, rounded to it."""
    function = UNARY[fn]
    if not is_narrow(dtype):
        return function
    widen, narrow = cast(dtype, f32), cast(f32, dtype)
    return lambda x: narrow(function(widen(x)))


def binary(fn: str, dtype: DType, functions: dict[str, Function] = BINARY) -> Function:
    """`fn` of two operands of `dtype`, rounded to it."""
    function = functions[fn]
    if not is_narrow(dtype):
        return function
    widen, narrow = cast(dtype, f32), cast(f32, dtype)
    return lambda a, b: narrow(function(widen(a), widen(b)))


def compare(fn: str, dtype: DType) -> Function:
    """A bool per element."""
    function = COMPARE[fn]
    if not is_narrow(dtype):
        return function
    widen = cast(dtype, f32)
    return lambda a, b: function(widen(a), widen(b))


def cast(source: DType, target: DType) -> Function:
    """Conversion of tiles and scalars: floats round to nearest even, to small ones as `rounded` says, to integers they
    truncate."""
    to = target.numpy
    if source == target:
        return lambda x: x
    if source.is_storage and source.is_integer:
        from_i8 = cast(i8, target)
        return lambda x: from_i8(np.asarray(x).astype(np.int8))
    if target.is_storage and target.is_integer:
        return lambda x: rounded(x, target)
    if target.is_storage:
        return lambda x: rounded(np.asarray(x).astype(np.float32), target)
    if source.is_float and target.is_integer:
        return lambda x: truncate(x, target)
    if target.kind == "bool":
        widen = cast(source, f32) if is_narrow(source) else np.asarray
        return lambda x: widen(x) != 0
    if is_narrow(target):
        return lambda x: rounded(np.asarray(x), target)
    return lambda x: np.asarray(x).astype(to)


def truncate(x: Any, target: DType) -> np.ndarray:
    """Toward zero, saturating; NaN becomes 0."""
    info = np.iinfo(target.numpy)
    wide = np.trunc(np.asarray(x).astype(np.float64))
    low, high = wide <= float(info.min), wide >= float(info.max)
    middle = np.where(low | high | np.isnan(wide), 0.0, wide).astype(target.numpy)
    return np.where(low, target.numpy.type(info.min), np.where(high, target.numpy.type(info.max), middle))


def scalar_of(x: Any, dtype: DType) -> Any:
    """The form in which scalars of `dtype` travel: Python ints and bools, NumPy floats."""
    if dtype.is_float:
        return x if type(x) is dtype.numpy.type else as_elements(x, dtype)[()]
    value = x.item() if isinstance(x, np.generic | np.ndarray) else x
    return bool(value) if dtype.kind == "bool" else wrap(int(value), dtype)


def wrap(value: int, dtype: DType) -> int:
    """An integer modulo the range of its type."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def integer_range(dtype: DType) -> tuple[int, int]:
    """The smallest and largest integer of a type."""
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def accumulator(dtype: DType) -> np.dtype:
    """In which type sums of `dtype` are added up."""
    return np.dtype(np.float32) if is_narrow(dtype) else dtype.numpy
