"""The arrays that a random tile kernel is launched with: their memory, their strides, and what lies in them.

An array is a view into a block of memory of its own, which is compared as a whole after the launch: what lies between
the elements of the view, before and behind them must not change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fuzz.tile_values import ANYTHING, FLOATS, NUMPY, SIX_BITS, Facts, Grid, bits_of, bytes_of, integer_limits, is_float

ALIGNMENT = 256

SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5, 3.5, 0.1, -0.7, 1e-3, 7.0, -8.0, 100.0, 448.0, 449.0, 464.0, 480.0, -500.0,
    57344.0, 60000.0, 65504.0, 65519.0, 65520.0, 1e5, -3e4, 127.0, 128.0, 255.5, 256.0, -129.0, 32767.5, 2.0**31, -(2.0**31),
    2.0**31 - 128, 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, 1.0004882821813226, 2.0**-9, 1.5 * 2.0**-10,
    2.0**-17, 2.0**-24, 6e-8, 1e-40, -1e-45, 2.0**-126, 3.4e38, math.inf, -math.inf, math.nan,
]  # fmt: skip
"""Numbers at the edges of types, of conversions and of rounding."""


@dataclass(frozen=True)
class ArrayPlan:
    """One array argument. Strides and offset count elements; `size` is that of the memory around it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    size: int
    content: str
    written: bool = False
    facts: Facts = ANYTHING
    """Of what is read from it; of an array that is written, how exactly it is compared."""

    def describe(self) -> str:
        place = f"strides {self.strides} from {self.offset} of {self.size}"
        return f"{self.name}: {self.dtype} {self.shape} {place}, {self.content}"


def facts_of(content: str, dtype: str) -> Facts:
    """What is known of the elements before they are drawn."""
    if content == "wild":
        return Facts()
    if dtype == "bool":
        return Facts(Grid(0, 0))
    if content.startswith("grid"):
        return Facts(Grid(-int(content[4:]), 3 - int(content[4:])))
    return Facts(Grid(0, 4) if content in ("small", "indices") else None)


def contents(plan: ArrayPlan, rng: np.random.Generator) -> np.ndarray:
    """The elements of the whole memory of an array."""
    kind, size = np.dtype(NUMPY[plan.dtype]), plan.size
    if plan.dtype == "bool":
        return rng.integers(0, 2, size).astype(np.bool_)
    if plan.content.startswith("rows"):  # each row of a matrix once, and some that do not exist
        count = int(plan.content[4:])
        return rng.permutation(np.arange(-2, max(count + 3, size - 2)))[:size].astype(kind)
    if plan.content == "indices":
        return rng.integers(-2, 15, size).astype(kind)
    if is_float(plan.dtype):
        if plan.content == "wild":
            with np.errstate(over="ignore", invalid="ignore"):
                drawn = rng.standard_normal(size) * 10.0 ** rng.integers(-3, 6, size)
                some = rng.random(size) < 0.4
                drawn[some] = rng.choice(SPECIAL, int(some.sum()))
                return drawn.astype(kind)
        step = int(plan.content[4:])
        return (rng.integers(-8, 9, size) * 2.0**-step).astype(kind)
    if plan.content == "small":
        return rng.integers(0 if plan.dtype[0] == "u" else -9, 10, size).astype(kind)
    low, high = integer_limits(plan.dtype)
    bits = bits_of(plan.dtype)
    edges = [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, bits - 1, min(bits, high), min(bits + 1, high), high // 2]
    edges += [-1, -2, -7, -bits] if low < 0 else []
    drawn = rng.integers(low, high, size, dtype=kind, endpoint=True)
    some = rng.random(size) < 0.4
    drawn[some] = np.array(edges, kind)[rng.integers(0, len(edges), int(some.sum()))]
    return drawn


def memory_of(plan: ArrayPlan, rng: np.random.Generator) -> np.ndarray:
    """The whole memory of an array, beginning at a multiple of 256 bytes."""
    drawn = contents(plan, rng)
    raw = np.zeros(drawn.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    memory = raw[start : start + drawn.nbytes].view(drawn.dtype)
    memory[:] = drawn
    return memory


def view_of(plan: ArrayPlan, memory: np.ndarray) -> np.ndarray:
    """The array in its memory."""
    item = bytes_of(plan.dtype)
    plain = memory.view(f"u{item}")[plan.offset :]  # NumPy strides none but its own types
    return as_strided(plain, plan.shape, tuple(s * item for s in plan.strides)).view(memory.dtype)


def content_for(dtype: str, wild: bool) -> str:
    """A kind of content that the type can hold."""
    if dtype == "bool":
        return "small"
    if wild:
        return "wild"
    if not is_float(dtype):
        return "small"
    return "grid1" if dtype in FLOATS or dtype in SIX_BITS else "grid0"
