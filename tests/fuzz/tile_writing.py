"""The text of a random tile kernel as it grows: names, lines, what is known of each name, and the arguments."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from fuzz.tile_arrays import ArrayPlan
from fuzz.tile_values import ANYTHING, Facts, Grid, Value, bytes_of, is_float
from phalanx.ir import types
from phalanx.language.operators import promote

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 31, 32, 33, 40, 48, 62, 64, 96, 100, 128, 130, 160, 256)
LONG = (*SIZES, 300, 512, 1000, 1024, 2048, 4096, 5000, 8192)
MOST_BYTES = 64 * 1024
"""Of a tile: two rounds through the scratch memory of a conversion."""
WORK = 150_000
"""Elements that the statements of a kernel compute, all blocks and iterations together; twice as many with large tiles."""
LARGE = (
    (64, 128), (128, 64), (64, 256), (256, 64), (128, 128), (96, 100), (130, 100), (8192,), (12, 16, 64), (4, 40, 62),
    (2, 4, 20, 62), (512, 32), (16, 512), (33, 256),
)  # fmt: skip
"""Shapes of tiles that do not fit into one round through scratch memory, in types of 32 or 64 bits."""
NOTED = ((8, 62), (40, 64), (2, 4, 20))
"""Shapes that were once seen to differ."""

DTYPES = {name: getattr(types, name if name != "bool" else "bool_") for name in (
    "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "f6e2m3", "f6e3m2", "i64",
    "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool")}


def promoted(a: str, b: str) -> str | None:
    """The element type of an operation on two; None where there is none."""
    found = promote(DTYPES[a], DTYPES[b])
    return None if found is None else found.name


def number_facts(number: float) -> Facts:
    """What is known of a constant."""
    if isinstance(number, float) and not math.isfinite(number):
        return ANYTHING
    if number == 0:
        return Facts(Grid(0, 0))
    numerator, denominator = float(number).as_integer_ratio() if abs(number) < 2**53 else (int(number), 1)
    low = (numerator & -numerator).bit_length() - denominator.bit_length()
    return Facts(Grid(low, math.ceil(math.log2(abs(number)))))


@dataclass(frozen=True)
class Scalar:
    """An argument that is no array; None included."""

    value: Any


@dataclass
class Buffer:
    """A shared buffer; `facts` of what was stored into all of it, None before."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    facts: Facts | None = None


@dataclass
class Output:
    """An array that this block alone writes, and the region of it that was stored."""

    plan: int
    region: str
    shape: tuple[int, ...]
    own: bool
    """Whether no other block comes near the region."""


@dataclass
class Writing:
    """What all parts of the generator share."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    names: int = 0
    values: list[Value] = field(default_factory=list)
    scalars: list[Value] = field(default_factory=list)
    arrays: list[ArrayPlan] = field(default_factory=list)
    arguments: list[tuple[str, int | Scalar]] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)
    needs: set[str] = field(default_factory=set)
    warps: int = 4
    grid: tuple[int, ...] = (1,)
    shape: tuple[int, ...] = (8,)
    repeats: int = 1
    """How often the current line runs in a block, at most."""
    work: float = 0.0
    loops: list[tuple[str, int]] = field(default_factory=list)
    """The run-time loops around: index and number of iterations."""
    in_role: bool = False
    large: bool = False
    """Whether the kernel is about tiles of more than 32 KB."""

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def assign(self, expression: str, shape: tuple[int, ...], dtype: str, facts: Facts, letter: str = "t") -> Value:
        """A new name for a value."""
        value = Value(self.fresh(letter), shape, dtype, facts)
        self.line(f"{value.name} = {expression}")
        self.keep(value)
        return value

    def keep(self, value: Value) -> None:
        """The value can be used from here on."""
        self.work += (math.prod(value.shape) + 8) * self.repeats * self.blocks
        (self.values if value.shape else self.scalars).append(value)

    def replace(self, old: Value, new: Value) -> None:
        """The name stands for something else now."""
        for held in (self.values, self.scalars):
            for n, value in enumerate(held):
                if value.name == old.name:
                    held[n] = new.called(old.name)

    def affordable(self, shape: tuple[int, ...], dtype: str) -> bool:
        """Whether a tile is not too large, nor too much work."""
        elements = math.prod(shape)
        most = MOST_BYTES if self.repeats == 1 else MOST_BYTES // 4
        work = self.work + elements * self.repeats * self.blocks
        return elements * bytes_of(dtype) <= most and work <= WORK * (2 if self.large else 1)

    def some(self, wanted: Callable[[Value], bool] = lambda v: True, scalars: float = 0.0) -> Value | None:
        """One of the values at hand, the newer the likelier."""
        pool = self.scalars if scalars and self.chance(scalars) else self.values
        found = [v for v in pool if wanted(v)]
        if not found:
            return None
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    @contextmanager
    def block(self, header: str, repeats: int = 1) -> Iterator[list[Value]]:
        """An indented block. Names made in it are gone afterwards; yields the values that were there before."""
        self.line(header)
        before = list(self.values), list(self.scalars)
        buffers = [(s, s.facts) for s in self.buffers]
        outputs = len(self.outputs)
        self.depth += 1
        self.repeats *= repeats
        start = len(self.lines)
        try:
            yield before[0]
        finally:
            if len(self.lines) == start:
                self.line("pass")
            self.repeats //= repeats
            self.depth -= 1
            known = {v.name for v in before[0]} | {v.name for v in before[1]}
            self.values = [v for v in self.values if v.name in known]
            self.scalars = [v for v in self.scalars if v.name in known]
            self.outputs[outputs:] = [o for o in self.outputs[outputs:] if not re.search(r"\br\d", o.region)]
            self.buffers = [s for s, _ in buffers]
            for buffer, facts in buffers:
                both = facts is not None and buffer.facts is not None
                buffer.facts = facts.meet(buffer.facts) if both else None  # type: ignore[union-attr,arg-type]

    def merge(self, before: list[Value]) -> None:
        """After a block that may not have run: each value is the old or the new one."""
        old = {v.name: v for v in before}
        self.values = [
            replace(v, facts=v.facts.meet(old[v.name].facts)) if v.name in old else v for v in self.values
        ]

    def integer_argument(self, value: int) -> Value:
        """A scalar argument; arguments of the same value are shared now and then."""
        name = self.fresh("i")
        self.arguments.append((name, Scalar(value)))
        dtype = "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
        facts = Facts(Grid(0, max(1, abs(value).bit_length()))) if dtype == "i32" else ANYTHING
        found = Value(name, (), dtype, facts)
        self.scalars.append(found)
        return found

    def a_shape(self, most: int | None = None) -> tuple[int, ...]:
        """A shape of one to four axes; most are small, some as large as a tile may be."""
        rng = self.rng
        rank = rng.choices((1, 2, 3, 4), (20, 50, 20, 10))[0]
        limit = most or rng.choices((64, 512, 4096, 16384), (20, 35, 35, 10))[0]
        while True:
            shape = tuple(rng.choice(SIZES if rank > 1 else LONG) for _ in range(rank))
            if math.prod(shape) <= limit and (math.prod(shape) * 40 >= limit or rng.random() < 0.1):
                return shape

    def dtype(self, weights: dict[str, float] | None = None) -> str:
        names = list(DTYPES)
        return self.rng.choices(names, [(weights or {}).get(n, 0 if weights else 1) for n in names])[0]


def as_literal(number: float) -> str:
    """A number as kernels write it."""
    if isinstance(number, float) and not math.isfinite(number):
        text = "nan" if number != number else "inf" if number > 0 else "-inf"
        return f'float("{text}")'
    return f"({number!r})" if number < 0 else repr(number)


def float_or_integer(dtype: str) -> str:
    return "float" if is_float(dtype) else "integer"
