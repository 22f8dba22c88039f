"""What a program of products in flight is put together from: its types, its arrays, and lines that come before the rest."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

NUMPY = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2, "i8": np.int8, "u8": np.uint8, "u16": np.uint16, "i32": np.int32,
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """The types of a product: of both operands, and of its sums."""

    left: str
    right: str
    sums: str

    @property
    def whole(self) -> bool:
        return self.left in ("i8", "u8")

    @property
    def narrow(self) -> bool:
        """Whether nothing is computed in the type of the operands."""
        return self.left in ("f8e4m3", "f8e5m2")

    @property
    def work(self) -> str:
        """The type in which operands are computed."""
        return "i32" if self.whole else "f32"

    @property
    def px(self) -> str:
        return f"px.{self.left}"

    @property
    def low(self) -> int:
        """The least number that an operand holds."""
        return 0 if self.left == "u8" else -3

    @property
    def depth(self) -> int:
        """Elements along K of one instruction."""
        return 32 // np.dtype(NUMPY[self.left]).itemsize

    def number(self, value: int) -> str:
        """A constant of the type in which operands are computed."""
        return str(value) if self.whole else f"{value}.0"


KINDS = (
    *(Kind("bf16", "bf16", "f32"),) * 5, *(Kind("f16", "f16", "f32"),) * 2, Kind("f16", "f16", "f16"),
    Kind("f32", "f32", "f32"), Kind("f8e4m3", "f8e4m3", "f32"), Kind("f8e5m2", "f8e4m3", "f32"),
    Kind("f8e4m3", "f8e5m2", "f16"), Kind("i8", "i8", "i32"), Kind("u8", "i8", "i32"),
)  # fmt: skip


@dataclass
class Draft:
    """Collects arrays, what is in shared memory, functions and features while a program is drawn."""

    rng: random.Random
    numbers: np.random.Generator
    names: list[str] = field(default_factory=list)
    arguments: list[Any] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    shared_bytes: int = 0
    functions: dict[str, list[str]] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    _used: dict[str, int] = field(default_factory=dict)

    def chance(self, part: float) -> bool:
        return self.rng.random() < part

    def note(self, feature: str) -> None:
        if feature not in self.features:
            self.features.append(feature)

    def unique(self, name: str) -> str:
        self._used[name] = self._used.get(name, 0) + 1
        return name if self._used[name] == 1 else f"{name}{self._used[name]}"

    def argument(self, name: str, value: Any) -> str:
        name = self.unique(name)
        self.names.append(name)
        self.arguments.append(value)
        return name

    def array(self, name: str, dtype: str, shape: tuple[int, ...], low: int, high: int, *, nibbles: bool = False) -> str:
        """A new argument of whole numbers; with `nibbles` of bytes whose halves are at most 7."""
        values = self.numbers.integers(low, high + 1, shape)
        if nibbles:
            values &= 0x77
        return self.argument(name, values.astype(NUMPY[dtype]))

    def output(self, dtype: str, shape: tuple[int, ...]) -> str:
        """A new argument that the kernel fills; it begins as numbers that no product has."""
        name = self.argument("C", np.full(shape, -777, NUMPY[dtype]))
        self.outputs.append(name)
        return name

    def in_shared(self, name: str, array: str, dtype: str, shape: tuple[int, ...], low: int, high: int) -> str:
        """A buffer that a copy fills before everything else, from an array of the same shape."""
        source, buffer = self.array(array, dtype, shape, low, high), self.unique(name)
        self.reserve(buffer, dtype, shape)
        if len(shape) == 3:
            places = [(f"{source}[{n}, 0:{shape[1]}, 0:{shape[2]}]", f"{buffer}[{n}]") for n in range(shape[0])]
        else:
            places = [(f"{source}[{', '.join(f'0:{size}' for size in shape)}]", buffer)]
        self.copies += [f"px.tma.load({where}, {to}, ready)" for where, to in places]
        return buffer

    def reserve(self, buffer: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Shared memory."""
        self.shared.append(f"{buffer} = px.shared({shape}, px.{dtype})")
        self.shared_bytes += int(np.prod(shape)) * np.dtype(NUMPY[dtype]).itemsize

    def function(self, name: str, *lines: str) -> None:
        self.functions[name] = list(lines)


def indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
