"""Element types, and the types of values: scalars, register tiles, global arrays."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK


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
        """Its size in bytes."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type, the 8-bit ones included."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer type; a bool is none."""
        return self.kind in ("int", "uint")

    @property
    def is_fp8(self) -> bool:
        """Whether it is a floating-point type of 8 bits."""
        return self.kind == "float" and self.bits == 8

    def __call__(self, value: float) -> float | int | bool:
        """A number rounded or wrapped to this type, on the host as in kernels: ``px.u32(-1)``, ``px.bf16(0.1)``."""
        return np.asarray(value).astype(self.numpy).astype(_HOST[self.kind]).item()

    def __repr__(self) -> str:
        return self.name


_HOST = {"float": np.float64, "int": np.int64, "uint": np.uint64, "bool": np.bool_}

f64 = DType("f64", "float", 64)
f32 = DType("f32", "float", 32)
f16 = DType("f16", "float", 16)
bf16 = DType("bf16", "float", 16)
f8e4m3 = DType("f8e4m3", "float", 8)
f8e5m2 = DType("f8e5m2", "float", 8)
i64 = DType("i64", "int", 64)
i32 = DType("i32", "int", 32)
i16 = DType("i16", "int", 16)
i8 = DType("i8", "int", 8)
u64 = DType("u64", "uint", 64)
u32 = DType("u32", "uint", 32)
u16 = DType("u16", "uint", 16)
u8 = DType("u8", "uint", 8)
bool_ = DType("bool", "bool", 8)

DTYPES = {t.name: t for t in (f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u64, u32, u16, u8, bool_)}

_NUMPY: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u64": np.uint64,
    "u32": np.uint32,
    "u16": np.uint16,
    "u8": np.uint8,
    "bool": np.bool_,
}
FROM_NUMPY = {dtype.numpy: dtype for dtype in DTYPES.values()}


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
    `whole`: besides both, the last axis is a multiple of 16 bytes long, so that no vector is cut at its end.
    """

    rank: int
    dtype: DType
    unit_inner: bool = True
    aligned: bool = True
    whole: bool = False

    def __str__(self) -> str:
        axes = ", ".join(["?"] * self.rank)
        if self.whole:
            axes += f"*{COPY_CHUNK // self.dtype.itemsize}"
        facts = ("" if self.unit_inner else " strided") + ("" if self.aligned else " unaligned")
        return f"global {self.dtype.name}[{axes}]{facts}"


Type = ScalarType | TileType | ArrayType

BOOL = ScalarType(bool_)
I32 = ScalarType(i32)
I64 = ScalarType(i64)
F32 = ScalarType(f32)
