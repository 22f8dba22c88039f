"""CUDA text that was written by hand, in the place of a module that the compiler made: what `launch` must know of it.

Example::

    text = HandWritten(Path("tests/host/blackwell_bf16.cu").read_text(), "gemm", threads=256, shared=65536)
    launch(text, 1, [TensorMap(a, (128, 64), 128), TensorMap(b, (256, 64), 128), c, 64, 256], seed=1)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

MASKS = {"none": 0, "32B": 0x10, "64B": 0x30, "128B": 0x70, "128B atoms of 32B": 0x60}
"""Which bits of an address a swizzle changes."""
STATIC = 1024
"""Bytes of shared memory for the variables that a text declares by itself."""


@dataclass(frozen=True)
class TensorMap:
    """An argument: a descriptor for copies of boxes of `array`. `box` is given like the shape, the innermost axis last.

    With `bits` of 4 or 6 the array's bytes hold packed elements, padded in shared memory: 16 elements to 16 bytes.
    """

    array: np.ndarray
    box: tuple[int, ...]
    swizzle: str = "none"
    bits: int = 0

    def __post_init__(self) -> None:
        if len(self.box) != self.array.ndim:
            raise ValueError(f"a box {self.box} of an array of {self.array.ndim} axes")
        units = self.bits in (0, 4, 6) and self.array.shape[-1] % (2 * self.bits or 1) == 0
        if not units or (self.bits and (self.array.itemsize != 1 or self.box[-1] % 16)):
            raise ValueError(f"a box {self.box} of elements of {self.bits} bits")

    def packed(self) -> bytes:
        """`px_map` of the machine."""
        array, rank = self.array, self.array.ndim
        strides, shape, box, item = array.strides, array.shape, self.box, array.itemsize
        if self.bits:  # in units of sixteen elements
            unit, item = 2 * self.bits, 16
            strides, shape, box = (*strides[:-1], unit), (*shape[:-1], shape[-1] // unit), (*box[:-1], box[-1] // 16)

        def five(values: tuple[int, ...]) -> list[int]:
            return [*values[::-1], *[0] * (5 - rank)]

        words = struct.pack(
            "<Q5q5i9h8sh", array.ctypes.data, *five(strides), *five(shape), *five(box), rank, item,
            MASKS[self.swizzle], 0, b"", 2 * self.bits,
        )  # fmt: skip
        return words.ljust(128, b"\0")


@dataclass(frozen=True)
class HandWritten:
    """A text, its kernel and its launch. Arguments are TensorMaps, arrays (of which the address is passed), and numbers."""

    source: str
    entry: str
    threads: int
    shared: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def shared_bytes(self) -> int:
        return self.shared + STATIC

    def packed(self, args: list[Any]) -> list[tuple[bytes, int]]:
        """The kernel's parameters, each with the argument whose address it begins with, or -1."""
        return [_packed(n, value) for n, value in enumerate(args)]


def _packed(n: int, value: Any) -> tuple[bytes, int]:
    if isinstance(value, TensorMap):
        return value.packed(), n
    if isinstance(value, np.ndarray):
        return struct.pack("<Q", value.ctypes.data), n
    return struct.pack("<f" if isinstance(value, float) else "<i", value), -1


def arrays_of(args: list[Any]) -> list[Any]:
    """The arguments, with arrays in the place of their descriptors."""
    return [value.array if isinstance(value, TensorMap) else value for value in args]
