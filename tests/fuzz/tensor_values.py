"""What random products of Blackwell's tensor cores multiply: types, scales in their order, and the product in NumPy.

Numbers are small integers, or halves and eighths of them, so that sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

NUMPY = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "i8": np.int8, "u8": np.uint8, "i32": np.int32,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "f4e2m1": ml_dtypes.float4_e2m1fn,
    "f6e2m3": ml_dtypes.float6_e2m3fn, "f6e3m2": ml_dtypes.float6_e3m2fn, "f8e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
NARROW = {"f4e2m1": 4, "f6e2m3": 6, "f6e3m2": 6}
BITS = {name: NARROW.get(name, np.dtype(numpy).itemsize * 8) for name, numpy in NUMPY.items()}
PADDED_COLUMNS = 128
"""A padded buffer has a multiple of as many columns."""
SCALE_ROWS = 128
"""Rows of a block of scales; it has four scales of each."""


@dataclass(frozen=True)
class Types:
    """The types of both operands and of the accumulator; with `scale`, one for every `block` elements of K. `padded`: those
    of 4 and 6 bits have the room of 8."""

    a: str
    b: str
    acc: str
    scale: str | None = None
    block: int = 0
    padded: bool = False

    @property
    def bits(self) -> int:
        """Of an element's container."""
        return 8 if self.padded else BITS[self.a]

    def has_room(self, name: str) -> bool:
        """Whether buffers of that type are padded."""
        return self.padded and name in NARROW

    def declared(self, name: str) -> str:
        """The end of a buffer's declaration."""
        return f"px.{name}" + ", padded=True" * self.has_room(name)

    @property
    def k(self) -> int:
        """K of one instruction: 32 bytes."""
        return 256 // self.bits

    @property
    def integer(self) -> bool:
        return self.acc == "i32"

    @property
    def text(self) -> str:
        return f"{self.a} x {self.b} + {self.acc}" + (f" with {self.scale} for {self.block}" if self.scale else "") + (
            ", padded" * self.padded
        )


_F8 = ("f8e4m3", "f8e5m2")
_I8 = ("i8", "u8")
_MIXED = [(a, b) for a in (*_F8, *NARROW) for b in (*_F8, *NARROW) if a in NARROW or b in NARROW]
ALL = (
    *(Types("bf16", "bf16", "f32"),) * 4, Types("f16", "f16", "f32"), Types("f16", "f16", "f16"), Types("f32", "f32", "f32"),
    *(Types(a, b, "f32") for a in _F8 for b in _F8), Types("f8e4m3", "f8e5m2", "f16"), Types("f8e5m2", "f8e5m2", "f16"),
    *(Types(a, b, "i32") for a in _I8 for b in _I8),
    *(Types(a, b, "f32", "f8e8m0", 32) for a in _F8 for b in _F8),
    *(Types("f4e2m1", "f4e2m1", "f32", scale, block) for scale, block in (("f8e8m0", 32), ("f8e8m0", 16), ("f8e4m3", 16))),
    *(Types("f4e2m1", "f4e2m1", "f32", scale, block) for scale, block in (("f8e8m0", 32), ("f8e4m3", 16))),
)  # fmt: skip
PLAIN = tuple(types for types in ALL if types.scale is None)
SCALED = tuple(types for types in ALL if types.scale is not None)
PADDED = (
    *(Types(a, b, "f32", padded=True) for a, b in _MIXED), Types("f4e2m1", "f6e3m2", "f16", padded=True),
    *(Types(a, b, "f32", "f8e8m0", 32, padded=True) for a, b in _MIXED),
)  # fmt: skip


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, most: int = 3) -> np.ndarray:
    """Small integers of a type."""
    low = 0 if dtype == "u8" else -most
    return rng.integers(low, most + 1, shape).astype(NUMPY[dtype])


def scales(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Scales that keep sums exact."""
    among = (0.5, 1.0, 2.0, 4.0) if dtype == "f8e8m0" else (0.5, 1.0, 1.5, 3.0)
    return rng.choice(np.array(among, np.float32), shape).astype(NUMPY[dtype])


def blocked(plain: np.ndarray, tile: int, count: int) -> np.ndarray:
    """Scales (rows, scales) in the order of blocks. Each tile of so many rows, and each step of `count` scales, begins a
    block: (blocks of 128 rows, blocks of 4 scales, 32, 16)."""
    high, wide = -(-tile // SCALE_ROWS) * SCALE_ROWS, -(-count // 4) * 4
    tiles, steps = plain.shape[0] // tile, plain.shape[1] // count
    padded = np.zeros((tiles, high, steps, wide), np.uint8)
    padded[:, :tile, :, :count] = plain.view(np.uint8).reshape(tiles, tile, steps, count)
    rows, columns = tiles * high // SCALE_ROWS, steps * wide // 4
    ordered = padded.reshape(rows, 4, 32, columns, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(ordered).reshape(rows, columns, 32, 16).view(plain.dtype)


def wide(values: np.ndarray, scale: np.ndarray | None, block: int) -> np.ndarray:
    """An operand (rows, K) in f64, multiplied by its scales."""
    exact = values.astype(np.float32).astype(np.float64)
    return exact if scale is None else exact * np.repeat(scale.astype(np.float32).astype(np.float64), block, axis=1)


def rounded(values: np.ndarray, *types: str) -> np.ndarray:
    """Exact numbers as one type after the other has them."""
    result: Any = values
    for name in types:
        result = result.astype(np.int32 if name == "i32" else np.float32).astype(NUMPY[name])
    return np.asarray(result)
