"""Element types, and the types of values: scalars, register tiles, global arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from types import FunctionType
from typing import Any

import ml_dtypes
import numpy as np

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK, MAX_STRIDE


@frozen
class DType:
    """An element type, e.g. ``px.bf16``. `kind` is one of "float", "int", "uint", "bool"."""

    name: str
    kind: str
    bits: int

    @cached_property
    def numpy(self) -> np.dtype:
        """The NumPy (or ml_dtypes) type that holds it on the host."""
        return np.dtype(_NUMPY[self.name])

    @property
    def itemsize(self) -> int:
        """The bytes of one element that stands alone, in a register or a NumPy array: at least one.

        What a region of memory takes is `nbytes(count)`: there 4-bit elements lie two to a byte.
        """
        return max(1, self.bits // 8)

    @property
    def per_byte(self) -> int:
        """How many elements share a byte of memory: 2 for 4 bits; 6 bits take a whole one, as wider types do or more."""
        return 2 if self.bits == 4 else 1

    def nbytes(self, count: int) -> int:
        """The bytes that so many elements in a row take in memory."""
        return -(-count * self.itemsize // self.per_byte)

    def dense_bytes(self, count: int) -> int:
        """The bytes that so many take with no bit between them: those of 6 bits lie four to three bytes in dense arrays."""
        return -(-count * self.bits // 8)

    def elements(self, nbytes: int) -> int:
        """How many elements so many bytes of memory hold; `nbytes` are whole elements."""
        return nbytes * self.per_byte // self.itemsize

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type, those of 8 bits and less included."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer type; a bool is none."""
        return self.kind in ("int", "uint")

    @property
    def is_storage(self) -> bool:
        """Whether it is a float of at most 8 bits or an integer of 4: those are kept and converted, never computed with."""
        return self.bits < 8 or (self.kind == "float" and self.bits == 8)

    def __call__(self, value: float) -> float | int | bool:
        """A number rounded or wrapped to this type, on the host as in kernels: ``px.u32(-1)``, ``px.bf16(0.1)``."""
        if isinstance(value, FunctionType):
            raise Error(
                f"px.{self.name} is a type, which no function is decorated with", location=caller_location(),
                remedy=f"write @px.kernel or @px.func above {value.__name__}",
            )
        return as_elements(value, self).astype(_HOST[self.kind]).item()

    def __repr__(self) -> str:
        return self.name


_HOST = {"float": np.float64, "int": np.int64, "uint": np.uint64, "bool": np.bool_}

f64 = DType("f64", "float", 64)
f32 = DType("f32", "float", 32)
f16 = DType("f16", "float", 16)
bf16 = DType("bf16", "float", 16)
f8e4m3 = DType("f8e4m3", "float", 8)
f8e5m2 = DType("f8e5m2", "float", 8)
f8e8m0 = DType("f8e8m0", "float", 8)
"""A power of two from 2**-127 to 2**127, or NaN: the scale of a block. It has no sign and no zero."""
f6e2m3 = DType("f6e2m3", "float", 6)
f6e3m2 = DType("f6e3m2", "float", 6)
f4e2m1 = DType("f4e2m1", "float", 4)
i64 = DType("i64", "int", 64)
i32 = DType("i32", "int", 32)
i16 = DType("i16", "int", 16)
i8 = DType("i8", "int", 8)
u64 = DType("u64", "uint", 64)
u32 = DType("u32", "uint", 32)
u16 = DType("u16", "uint", 16)
u8 = DType("u8", "uint", 8)
i4 = DType("i4", "int", 4)
u4 = DType("u4", "uint", 4)
bool_ = DType("bool", "bool", 8)

_ALL = (
    f64, f32, f16, bf16, f8e4m3, f8e5m2, f8e8m0, f6e2m3, f6e3m2, f4e2m1, i64, i32, i16, i8, i4, u64, u32, u16, u8, u4,
    bool_,
)
DTYPES = {t.name: t for t in _ALL}

_NUMPY: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
    "f6e2m3": ml_dtypes.float6_e2m3fn,
    "f6e3m2": ml_dtypes.float6_e3m2fn,
    "f4e2m1": ml_dtypes.float4_e2m1fn,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "i4": ml_dtypes.int4,
    "u64": np.uint64,
    "u32": np.uint32,
    "u16": np.uint16,
    "u8": np.uint8,
    "u4": ml_dtypes.uint4,
    "bool": np.bool_,
}
FROM_NUMPY = {dtype.numpy: dtype for dtype in DTYPES.values()}

LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0, "f6e2m3": 7.5, "f6e3m2": 28.0, "f4e2m1": 6.0}
"""The largest number of each small float that has a sign: conversions end there instead of at infinity."""


def as_elements(x: object, dtype: DType) -> np.ndarray:
    """Numbers as elements of a type: floats of 16 bits and fewer and integers of 4 as `rounded` says, others as NumPy
    converts them.

    Example: ``as_elements(1 + 2**-8 + 2**-33, bf16)`` is 1.0078125.
    """
    if dtype.is_storage or (dtype.is_float and dtype.bits <= 16):
        return rounded(np.asarray(x), dtype)
    return np.asarray(x).astype(dtype.numpy)


def rounded(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Numbers as elements of a float of 16 bits or fewer, or an integer of 4, by the rules of the hardware's `cvt`: what all
    floors mean.

    Rounded once, to the nearest, ties to even (`cvt.rn`). Floats of 8 bits and fewer saturate (`cvt.rn.satfinite`), those of
    16 bits become infinite. NaN stays NaN; types of 4 and 6 bits have none: there it becomes their largest number. f8e8m0
    drops the sign and rounds up (`cvt.rp.satfinite.ue8m0x2`), so that a number divided by the result is not larger than
    divided by `x`; 0 becomes 2**-127, the smallest. To integers of 4 bits floats truncate and saturate, NaN becomes 0, and
    integers wrap around.
    Example: ``rounded(np.float32([1.3]), f8e8m0)`` is 2.
    """
    wide = np.asarray(x)
    if dtype.is_integer:
        if wide.dtype.kind in "iub":
            return (wide.astype(np.int64) & 15).astype(np.uint8).view(dtype.numpy)
        low = -8 if dtype.kind == "int" else 0
        whole = np.clip(np.where(np.isnan(wide), 0.0, np.trunc(wide.astype(np.float64))), low, low + 15)
        return whole.astype(np.int8).astype(dtype.numpy)
    if dtype.name == "bf16":  # NumPy goes by way of f32, and would round twice
        held = wide.dtype.itemsize < 4 or wide.dtype == np.float32
        return (wide.astype(np.float32) if held else _to_odd(wide)).astype(dtype.numpy)
    if dtype.name == "f16":
        with np.errstate(over="ignore"):
            return wide.astype(dtype.numpy)
    wide = wide.astype(np.float64 if wide.dtype.kind in "iu" or wide.dtype.itemsize > 4 else np.float32)
    if dtype.name == "f8e8m0":
        return _powers_of_two(wide).view(dtype.numpy)
    limit = LARGEST[dtype.name]
    if dtype.bits < 8:
        wide = np.where(np.isnan(wide), wide.dtype.type(limit), wide)
    return np.clip(wide, -limit, limit).astype(dtype.numpy)


def _to_odd(x: np.ndarray) -> np.ndarray:
    """Numbers as f32: those that lie between two of them become the one whose last bit is 1.

    That bit tells a later rounding to 8 bits that something was dropped, and on which side of the middle a number lies.
    """
    wide = _odd_doubles(x) if x.dtype.kind in "iu" else x.astype(np.float64)
    with np.errstate(over="ignore"):
        near = wide.astype(np.float32)
    bits = np.atleast_1d(near).view(np.uint32)
    size, exact = np.abs(wide), np.abs(near.astype(np.float64))
    odd = np.where(exact > size, bits - np.uint32(1), bits) | np.uint32(1)
    return np.where((exact == size) | np.isnan(wide), bits, odd).view(np.float32).reshape(near.shape)


def _odd_doubles(x: np.ndarray) -> np.ndarray:
    """Integers as f64: of those that f64 does not hold, the last bit that it has is 1."""
    negative = x < 0
    with np.errstate(over="ignore"):
        size = np.where(negative, np.uint64(0) - x.astype(np.uint64), x.astype(np.uint64))
    below = size & np.uint64(2047)
    odd = (size - below) | np.where(below, np.uint64(2048), np.uint64(0))
    held = np.where(size >> np.uint64(53), odd, size).astype(np.float64)
    return np.where(negative, -held, held)


def _powers_of_two(x: np.ndarray) -> np.ndarray:
    """The codes of f8e8m0: the exponent of the smallest power of two that is not less than |x|, from 0 (2**-127) to 254."""
    fraction, exponent = np.frexp(np.abs(x))  # |x| = fraction * 2**exponent, fraction from 1/2 to below 1
    exponent = np.where(fraction == 0.5, exponent - 1, exponent)
    codes = np.where(fraction == 0, 0, np.clip(exponent + 127, 0, 254))
    codes = np.where(np.isinf(x), 254, np.where(np.isnan(x), 255, codes))
    return codes.astype(np.uint8)


@frozen
class ScalarType:
    """One value, the same in all threads of an agent."""

    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """A scalar has no axes."""
        return ()

    def __str__(self) -> str:
        return self.dtype.name


@frozen
class TileType:
    """An array held in the registers of an agent's threads."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


@frozen
class ArrayType:
    """A global array parameter, with the facts that specialise the kernel.

    `unit_inner`: the last axis has stride 1. `aligned`: base address and the other strides are multiples of 16 bytes.
    `whole`: besides both, the last axis is a multiple of 16 bytes long, so that no vector is cut at its end. `chunk`: the
    sizes of the last axes where these together are 16 bytes in a row and only their strides keep it from being `aligned`.
    `dense`: elements of 6 bits lie four to three bytes, instead of one to a byte; only copies into padded buffers read such
    arrays.
    """

    rank: int
    dtype: DType
    unit_inner: bool = True
    aligned: bool = True
    whole: bool = False
    chunk: tuple[int, ...] = ()
    dense: bool = False

    def __str__(self) -> str:
        axes = ", ".join(["?"] * self.rank)
        if self.whole:
            axes += f"*{self.dtype.elements(COPY_CHUNK)}"
        facts = ("" if self.unit_inner else " strided") + ("" if self.aligned else " unaligned") + " dense" * self.dense
        facts += f" in chunks of {' x '.join(map(str, self.chunk))}" if self.chunk else ""
        return f"global {self.dtype.name}[{axes}]{facts}"


def chunk_axes(shape: Sequence[int], byte_strides: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The sizes of the last axes, two or more, that together are 16 bytes in a row, if other strides are multiples of 16.

    The copy engine then takes these axes for one. Example: `chunk_axes((2, 32, 4, 4), (512, 16, 4, 1), 1) == (4, 4)`.
    """
    run = itemsize
    for axis in reversed(range(len(shape))):
        if run >= COPY_CHUNK or (shape[axis] > 1 and byte_strides[axis] != run):
            return ()
        run *= shape[axis]
        if run == COPY_CHUNK:
            outer = [stride for size, stride in zip(shape[:axis], byte_strides[:axis], strict=True) if size > 1]
            fits = all(stride % COPY_CHUNK == 0 and 0 <= stride < MAX_STRIDE for stride in outer)
            return tuple(shape[axis:]) if fits and axis < len(shape) - 1 else ()
    return ()


Type = ScalarType | TileType | ArrayType

BOOL = ScalarType(bool_)
I32 = ScalarType(i32)
I64 = ScalarType(i64)
F32 = ScalarType(f32)
