"""What random choreographies are drawn from: element types, clusters with their groups and routes, loops over tiles.

Numbers are small integers in every type, with the interval they lie in, so that sums are exact in any order and NumPy
knows the result bit by bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Type:
    """An element type: its name in `px`, NumPy's, and the integers that it holds exactly."""

    name: str
    numpy: Any
    low: int
    high: int
    floating: bool

    @property
    def nbytes(self) -> int:
        return np.dtype(self.numpy).itemsize

    @property
    def px(self) -> str:
        return f"px.{self.name}"

    @property
    def computed(self) -> Type:
        """The type that arithmetic on tiles of this one is done in."""
        return TYPES["f32"] if self.floating else TYPES["i32"]

    def holds(self, low: int, high: int) -> bool:
        return self.low <= low and high <= self.high


def _float(name: str, numpy: Any, exact: int) -> Type:
    return Type(name, numpy, -exact, exact, True)


def _integer(name: str, numpy: Any) -> Type:
    limits = np.iinfo(numpy)
    return Type(name, numpy, max(int(limits.min), -(1 << 24)), min(int(limits.max), 1 << 24), False)


TYPES = {
    kind.name: kind
    for kind in (
        _float("f32", np.float32, 1 << 24), _float("f16", np.float16, 2048), _float("bf16", ml_dtypes.bfloat16, 256),
        _float("f8e4m3", ml_dtypes.float8_e4m3fn, 16), _float("f8e5m2", ml_dtypes.float8_e5m2, 8),
        _float("f64", np.float64, 1 << 24),
        _integer("i64", np.int64), _integer("i32", np.int32), _integer("u32", np.uint32),
        _integer("i16", np.int16), _integer("i8", np.int8),
        _integer("u8", np.uint8),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Group:
    """A partition of the ranks: those that share a copy. Texts are of the own rank's group."""

    name: str
    mask: str
    member: str
    index: str
    count: int
    size: int
    of: Callable[[int], int]
    """The number of a rank's group."""

    def ranks(self, rank: int, size: int) -> list[int]:
        return [r for r in range(size) if self.of(r) == self.of(rank)]

    @property
    def crosses(self) -> bool:
        """Whether another partition of the cluster may lie across: it is neither of all ranks nor of single ones."""
        return self.count > 1 and self.size > 1


@dataclass(frozen=True)
class Route:
    """A permutation of the ranks: whom each sends to, and whom it hears from."""

    to: str
    before: str
    target: Callable[[int], int]


@dataclass(frozen=True)
class Cluster:
    """The shape of the cluster. Rank r has the coordinates (r % x, r // x)."""

    x: int
    y: int = 1

    @property
    def size(self) -> int:
        return self.x * self.y

    @property
    def option(self) -> str:
        return f"cluster=({self.x}, {self.y})" if self.y > 1 else f"cluster={self.x}"

    def groups(self) -> list[Group]:
        """All partitions that a copy may be shared in."""
        x, y, size = self.x, self.y, self.size
        found = [Group("all", str((1 << size) - 1), "rank", "0", 1, size, lambda r: 0)]
        if size > 1:
            found.append(Group("own", "(1 << rank)", "0", "rank", size, 1, lambda r: r))
        if y > 1 and x > 1:
            row = f"({(1 << x) - 1} << (px.cluster.rank(1) * {x}))"
            found.append(Group("rows", row, "px.cluster.rank(0)", "px.cluster.rank(1)", y, x, lambda r: r // x))
            column = f"({sum(1 << x * i for i in range(y))} << px.cluster.rank(0))"
            found.append(Group("columns", column, "px.cluster.rank(1)", "px.cluster.rank(0)", x, y, lambda r: r % x))
        elif size > 2:
            pair = "(3 << (rank // 2 * 2))"
            found.append(Group("pairs", pair, "(rank % 2)", "(rank // 2)", size // 2, 2, lambda r: r // 2))
            every = f"({sum(1 << i for i in range(0, size, 2))} << (rank % 2))"
            found.append(Group("every second", every, "(rank // 2)", "(rank % 2)", 2, size // 2, lambda r: r % 2))
        return found

    def routes(self) -> list[Route]:
        """All permutations that tiles are sent along."""
        size = self.size
        found = [Route("rank", "rank", lambda r: r)]
        if size > 1:
            found = [
                Route(f"(rank + 1) % {size}", f"(rank + {size - 1}) % {size}", lambda r: (r + 1) % size),
                Route(f"({size - 1} - rank)", f"({size - 1} - rank)", lambda r: size - 1 - r),
            ]
            found += [Route(f"(rank ^ {m})", f"(rank ^ {m})", lambda r, m=m: r ^ m) for m in (1, 2, 4) if m < size]
        return found


@dataclass(frozen=True)
class Loop:
    """The tiles that a cluster takes, one after the other: its own run of them, or every so many."""

    tiles: int
    clusters: int
    persistent: bool
    last: str
    """The text of the number of tiles."""

    def turns(self, cluster: int) -> list[int]:
        if self.persistent:
            return list(range(cluster, self.tiles, self.clusters))
        each = self.tiles // self.clusters
        return list(range(cluster * each, cluster * each + each))

    @property
    def most(self) -> int:
        """The most tiles that a cluster takes."""
        return max(len(self.turns(cluster)) for cluster in range(self.clusters))

    @property
    def first(self) -> str:
        return "px.cluster.id()" if self.persistent else f"px.cluster.id() * {self.tiles // self.clusters}"

    @property
    def end(self) -> str:
        each = self.tiles // self.clusters
        return self.last if self.persistent else f"px.cluster.id() * {each} + {each}"

    @property
    def step(self) -> int:
        return self.clusters if self.persistent else 1

    def bounds(self, part: int = 0, parts: int = 1) -> str:
        """What `range` takes for the `part`-th of agents that take turns."""
        first = f"{self.first} + {part * self.step}" if part else self.first
        return f"{first}, {self.end}, {parts * self.step}"


@dataclass
class Flow:
    """What travels: tiles of one shape and type, with all numbers in an interval; `at(step)` has one for each rank."""

    shape: tuple[int, ...]
    kind: Type
    low: int
    high: int
    at: Callable[[int], list[np.ndarray]]

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * self.kind.nbytes


@dataclass
class Draft:
    """A kernel that is being written: its parameters, what they hold and shall hold, and its lines."""

    rng: random.Random
    data: np.random.Generator
    cluster: Cluster
    clusters: int
    names: list[str] = field(default_factory=list)
    arguments: list[Any] = field(default_factory=list)
    expected: dict[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    shared_bytes: int = 0
    warps: int = 0
    features: list[str] = field(default_factory=list)
    buffers: list[tuple[str, int]] = field(default_factory=list)
    over: list[tuple[str, int]] = field(default_factory=list)
    """Buffers of sections that are over, which others may take over."""
    extra: list[str] = field(default_factory=list)
    """Declarations that belong to steps of the work on tiles."""
    count: int = 0
    started: list[str] = field(default_factory=list)
    """Lines of barriers that the kernel initialises itself, for the place behind their declarations."""

    def argument(self, letter: str, value: Any) -> str:
        name = f"{letter}{len(self.names)}"
        self.names.append(name)
        self.arguments.append(value)
        return name

    def output(self, initial: np.ndarray, expected: Callable[[], np.ndarray]) -> str:
        """An array that the kernel writes, and a function that computes what it holds afterwards."""
        name = self.argument("Y", initial)
        self.expected[name] = expected
        return name

    def numbers(self, shape: tuple[int, ...], kind: Type, low: int, high: int) -> np.ndarray:
        return self.data.integers(low, high + 1, shape).astype(np.float32).astype(kind.numpy)

    def buffer(self, name: str, shape: tuple[int, ...], kind: Type) -> str:
        """The declaration of a shared buffer."""
        nbytes = int(np.prod(shape)) * kind.nbytes
        large = [old for old in self.over if old[1] >= nbytes]
        if large and self.chance(0.6):
            self.note("reuse=")
            old = self.rng.choice(large)
            self.over.remove(old)
            return f"{name} = px.shared({shape!r}, {kind.px}, reuse={old[0]})"
        self.shared_bytes += nbytes + 1024
        self.buffers.append((name, nbytes))
        return f"{name} = px.shared({shape!r}, {kind.px})"

    def fresh(self, word: str) -> str:
        """A name that no other has."""
        self.count += 1
        return f"{word}{self.count}"

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def note(self, feature: str) -> None:
        """What the kernel has in it, for statistics."""
        if feature not in self.features:
            self.features.append(feature)


def indented(lines: list[str], by: int = 1) -> list[str]:
    return ["    " * by + line for line in lines]
