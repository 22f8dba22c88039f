"""Where instructions are put while a function is read: blocks, positions, entry values, static resources."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Block, Note, Op, map_blocks
from phalanx.ir.effects import Mode
from phalanx.ir.ops.cluster import ClusterCount, ClusterId, ClusterRank
from phalanx.ir.ops.control import BlockId, NumBlocks
from phalanx.ir.ops.memory import Extent
from phalanx.ir.types import I32, ScalarType
from phalanx.ir.values import Const, Param, Value
from phalanx.ir.views import BarrierArray, Buffer
from phalanx.language.affine import Affine, atom, constant
from phalanx.language.limits import MAX_WORK, check_tiles
from phalanx.location import NOWHERE, Location
from phalanx.markers import block


@frozen(eq=False)
class Landing(Op):
    """A place where assignments can still be put while the kernel is read; `seal` leaves only them."""

    body: Block = block()


@dataclass
class ReadAgent:
    """Who runs the code being read: all warps of the CTA, or `warps` of a role, in each of its copies."""

    first: int
    warps: int
    is_role: bool = False
    copies: int = 1
    sides: dict[BarrierArray, set[str]] = field(default_factory=dict)
    """What these warps do with each pipe, by its full barriers: fill its stages, take them, or both."""

    @property
    def firsts(self) -> range:
        """The first warp of each copy."""
        return range(self.first, self.first + self.warps * self.copies, self.warps)


@dataclass
class Builder:
    """Collects the instructions of one kernel. `loc` is the place of the expression being read."""

    warps: int
    cluster: tuple[int, int, int]
    loc: Location = NOWHERE
    ops: list[Op] = field(default_factory=list)
    entry: list[Op] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    barriers: list[BarrierArray] = field(default_factory=list)
    owned: Param | None = None
    """The runtime's counters, behind the kernel's own parameters, where it asks for some."""
    counters: int = 0
    loop_depth: int = 0
    name_hint: str = ""
    agent: ReadAgent = field(default_factory=lambda: ReadAgent(0, 0))
    affine: dict[Value, Affine] = field(default_factory=dict)
    accumulators: dict[tuple[Hashable, str], None] = field(default_factory=dict)
    """The variables (as the reader's keys) that were ever the accumulator of an asynchronous product, in order."""
    products: set[Value] = field(default_factory=set)
    """What asynchronous products leave: a variable that such a tile is assigned to is an accumulator, too."""
    notes: list[Note] = field(default_factory=list)
    """Choices that the user may want to know of."""
    variables: Callable[[], dict[tuple[Hashable, str], object]] = dict
    """All variables at this place, by the reader's keys."""
    inline: Callable[[Callable[..., Any], tuple[object, ...], dict[str, object]], object] = lambda fn, args, kwargs: None
    """Reads the body of a Python function in the place of a call of it: the reader's."""
    _reads: dict[Hashable, tuple[Value, list[Op], int]] | None = None
    """Elements read since `reading_once` began: their values, and where the read stands."""
    _entry_values: dict[Hashable, Value] = field(default_factory=dict)
    _idents: int = 0
    _work: int = 0

    def __post_init__(self) -> None:
        self.agent = ReadAgent(0, self.warps)

    @property
    def cluster_size(self) -> int:
        """The number of CTAs of the cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    def emit(self, op: Op) -> None:
        """Puts an instruction at the end of the current block; tiles that no CTA can hold are refused."""
        check_tiles(self, op)
        self.work()
        self.ops.append(op)

    def work(self) -> None:
        """Counts a statement or an instruction: functions that call functions, and loops in loops, multiply."""
        self._work += 1
        if self._work > MAX_WORK:
            self.fail(
                f"the kernel has more than {MAX_WORK:,} statements and instructions",
                "functions are inlined and px.static_range is unrolled, each time anew: use run-time loops, and call "
                "fewer functions from functions",
            )

    def fresh_ident(self) -> int:
        """A new number: the identity of an inlined function or of a struct."""
        self._idents += 1
        return self._idents

    @contextmanager
    def block(self) -> Iterator[list[Op]]:
        """Collects what is emitted inside into a list of its own."""
        outer = self.ops
        inner: list[Op] = []
        self.ops = inner
        try:
            yield inner
        finally:
            self.ops = outer

    @contextmanager
    def at(self, loc: Location) -> Iterator[None]:
        """What is read inside stands at `loc` for errors and instructions."""
        before = self.loc
        self.loc = loc
        try:
            yield
        finally:
            self.loc = before

    @contextmanager
    def reading_once(self) -> Iterator[None]:
        """An element of memory that is named several times inside is read once: `I[k]` to `I[k] + 8` are 8 elements."""
        outer = self._reads
        self._reads = {}
        try:
            yield
        finally:
            self._reads = outer

    def remember_read(self, element: Hashable, value: Value) -> None:
        """Notes that an element of memory was just read, for `already_read`."""
        if self._reads is not None:
            self._reads[element] = value, self.ops, len(self.ops)

    def already_read(self, element: Hashable) -> Value | None:
        """The value of an element that was just read, if nothing after it in this block does more than read."""
        value, block, position = (self._reads or {}).get(element, (None, None, 0))
        if block is not self.ops:
            return None
        return value if all(map(_only_reads, self.ops[position:])) else None

    def fail(self, message: str, remedy: str | None = None, *, loc: Location | None = None, **kwargs: Any) -> NoReturn:
        """Raises an error at the current place of the kernel, or at `loc`."""
        raise Error(message, location=loc or self.loc, remedy=remedy, **kwargs)

    # Values that are the same wherever they are asked for live in the entry block, once.

    def block_id(self, dim: int) -> Value:
        """This CTA's index in the grid along `dim`."""
        return self._entry(("block_id", dim), "xyz"[dim], lambda v: BlockId(dim, v, loc=self.loc), "block_")

    def num_blocks(self, dim: int) -> Value:
        """The number of CTAs of the grid along `dim`."""
        return self._entry(("num_blocks", dim), "xyz"[dim], lambda v: NumBlocks(dim, v, loc=self.loc), "blocks_")

    def cluster_rank(self, dim: int | None) -> Value:
        """This CTA's rank in its cluster, or its coordinate along `dim`."""
        suffix = "" if dim is None else "_" + "xyz"[dim]
        return self._entry(("cluster_rank", dim), "rank" + suffix, lambda v: ClusterRank(dim, v, loc=self.loc))

    def cluster_id(self, dim: int | None) -> Value:
        """The index of this cluster in the grid, linear or along `dim`."""
        suffix = "" if dim is None else "_" + "xyz"[dim]
        return self._entry(("cluster_id", dim), "cluster" + suffix, lambda v: ClusterId(dim, v, loc=self.loc))

    def cluster_count(self) -> Value:
        """The number of clusters of the grid."""
        return self._entry(("cluster_count",), "clusters", lambda v: ClusterCount(v, loc=self.loc))

    def extent(self, array: Param, axis: int) -> Value:
        """The run-time size of an axis of a global array."""
        name = f"{array.name}_size{axis}"
        return self._entry(("extent", array.index, axis), name, lambda v: Extent(array, axis, v, loc=self.loc))

    def _entry(self, key: Hashable, name: str, make: Callable[[Value], Op], prefix: str = "") -> Value:
        value = self._entry_values.get(key)
        if value is None:
            value = Value(I32, prefix + name)
            self._entry_values[key] = value
            self.entry.append(make(value))
        return value

    # Affine forms.

    def affine_of(self, value: int | float | Value) -> Affine:
        """The affine form of an integer front-end value (a number or an IR scalar)."""
        if isinstance(value, int):
            return constant(int(value))
        if isinstance(value, Const):
            return constant(int(value.value))
        return (self.affine.get(value) if isinstance(value, Value) else None) or atom(value)


def _only_reads(op: Op) -> bool:
    effects = op.effects()
    reads = all(access.mode is Mode.READ for access in effects.accesses)
    return reads and dataclasses.replace(effects, accesses=()).is_pure and not any(True for _ in op.blocks())


def operand(value: int | float | bool | Value, type: ScalarType | None = None) -> Value:
    """An IR operand for a front-end scalar: numbers become constants."""
    if isinstance(value, Value):
        return value
    return Const(value, type)


def seal(block: Block) -> Block:
    """Tuples instead of the lists that were growing while the function was read, and no landings any more."""
    out: list[Op] = []
    for op in block.ops:
        out += seal(op.body).ops if isinstance(op, Landing) else (map_blocks(op, seal),)
    return Block(tuple(out))


def freeze(ops: list[Op]) -> Block:
    """A block around a list that may still grow; `seal` makes tuples of all of them at the end."""
    return Block(ops)  # type: ignore[arg-type]
