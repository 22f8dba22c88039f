"""Instructions, blocks and functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from phalanx.frozen import fields_alone, frozen, once
from phalanx.ir.archs import Feature
from phalanx.ir.effects import PURE, Effects
from phalanx.ir.holders import collect, mapped_fields, operand_fields, storage_of, values_in
from phalanx.ir.spaces import SHARED
from phalanx.ir.traits import Traits
from phalanx.ir.values import Param, Value, Var
from phalanx.ir.views import BarrierArray, Buffer, SharedBuffer
from phalanx.location import NOWHERE, Location
from phalanx.markers import Kind, fields_of, once_per_class, source

Instruction = TypeVar("Instruction", bound="Op")

INSTRUCTIONS: list[type[Op]] = []
"""Every instruction class, in order of definition: what the floors are checked against."""


@frozen(eq=False, repr=False)
class Op(Traits):
    """An instruction: a frozen dataclass whose fields say by a marker what they are (`phalanx.markers`).

    `mnemonic` is its name in listings, `family` the file that holds it on every floor. `computes`: what it defines is made
    by it, as against the value of a cell, which was made elsewhere, and a tile with nothing in it yet.
    """

    loc: Location = source(default=NOWHERE, kw_only=True)

    mnemonic: ClassVar[str] = ""
    family: ClassVar[str] = ""
    computes: ClassVar[bool] = True
    __getstate__ = fields_alone

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "effects" in cls.__dict__:
            cls.effects = once(cls.effects)  # type: ignore[method-assign, assignment]  # dozens of passes ask
        if cls.mnemonic and "mnemonic" in cls.__dict__:
            cls.family = cls.__module__.rsplit(".", 1)[-1]
            INSTRUCTIONS.append(cls)

    def effects(self) -> Effects:
        """What it does besides computing its result."""
        return PURE

    @property
    def written(self) -> str:
        """What users call it: its name after `px.`."""
        return self.mnemonic

    @property
    def call(self) -> str:
        """What users write to call it: `px.tma.load`, or `.arrive` for what is a method of a barrier."""
        return f".{self.method}" if self.method else f"px.{self.written}"

    def __repr__(self) -> str:
        return f"<{self.mnemonic} at {self.loc.short}>"  # `ir.printer` shows the operands

    @property
    def defines(self) -> Value | None:
        """The value it defines, where it is one."""
        return getattr(self, "result", None)

    def without_result(self) -> Op:
        """What takes its place where nobody reads what it defines: itself, unless that makes a difference."""
        return self

    def defined_values(self) -> tuple[Value, ...]:
        """Every value it defines: `result`, or the `results` of an instruction with several."""
        result = self.defines
        return getattr(self, "results", ()) if result is None else (result,)

    def updates(self) -> tuple[tuple[Value, Value], ...]:
        """(old, new) for every tile of which it makes a new version, in the same registers if nothing else reads the old."""
        return tuple((item.acc, item.result) for item in self.effects().accumulations)

    @property
    def can_fail(self) -> bool:
        """Whether it may end the run although it has no effects: it then runs only where it is asked for."""
        return False

    @property
    def replaceable(self) -> bool:
        """Whether the compiler may put another instruction in its place: on a target that lacks it, or can't lay it out."""
        return False

    @once
    def operands(self) -> tuple[Value, ...]:
        """Every value it reads, those inside views included, in field order."""
        found: list[Value] = []
        for name in operand_fields(type(self)):
            item = getattr(self, name)
            if isinstance(item, Value):
                found.append(item)
            elif item is not None:
                collect(item, found)
        return tuple(found)

    def blocks(self) -> Iterator[Block]:
        """Nested blocks, in field order."""
        for name in block_fields(type(self)):
            item = getattr(self, name)
            if isinstance(item, Block):
                yield item
            else:
                for part in item:
                    yield from part.blocks()


@frozen(eq=False, repr=False)
class Block:
    """Instructions in order."""

    ops: tuple[Op, ...] = ()
    __getstate__ = fields_alone

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def walk(self) -> Iterator[Op]:
        """Every instruction below this block, outer before inner."""
        return iter(self._below())

    @once
    def _below(self) -> tuple[Op, ...]:
        found: list[Op] = []
        for op in self.ops:
            found.append(op)
            if block_fields(type(op)):
                for block in op.blocks():
                    found += block.walk()
        return tuple(found)


@frozen
class Faster:
    """What the user can do about speed that a choice of the compiler lost, on targets that have these features."""

    remedy: str
    needs: tuple[Feature, ...] = ()


@frozen
class Note:
    """A choice of the compiler that the user may want to know of.

    A note that says `faster` names lost speed: an error in a kernel that is strict.
    """

    message: str
    loc: Location = NOWHERE
    faster: Faster | None = None
    decision: object = None
    """What it tells of, where a later pass may decide otherwise: see `ir/dots.py`."""
    may_surprise: bool = False
    """Whether `px.check` tells it too: it is about what the kernel does, not about how it does it."""

    def __str__(self) -> str:
        return f"{self.loc.short}: {self.message}" if self.loc is not NOWHERE else self.message


MOST_COUNTERS = 480
"""Words of the runtime's that a kernel may ask for by `px.counters`."""
MOST_DRAWN = 16
"""Words of the runtime's that the compiler may ask for besides, for loops that draw their tiles."""


@frozen(eq=False, repr=False)
class Function:
    """A kernel, specialised to its argument types and constants."""

    name: str
    params: tuple[Param, ...]
    constants: tuple[tuple[str, object], ...]
    warps: int
    cluster: tuple[int, int, int]
    exit_sync: bool
    buffers: tuple[Buffer, ...]
    barriers: tuple[BarrierArray, ...]
    body: Block
    loc: Location = NOWHERE
    notes: tuple[Note, ...] = ()
    ctas_per_sm: int = 1  # that registers must leave room for
    pdl: bool = False  # may begin before its predecessor on the stream has ended
    cooperative: bool = False  # all CTAs of a launch run at the same time
    counters: int = 0
    """The elements of the last parameter where that is the runtime's: 0 before a launch, and 0 again at its end."""
    strict: bool = False
    """Whether a note about lost speed is an error."""
    on_loss: str = "error"
    """What the assembler's word that products wait for each other becomes: "error" or "note"."""

    @property
    def cluster_size(self) -> int:
        """The number of CTAs of a cluster."""
        x, y, z = self.cluster
        return x * y * z

    def walk(self) -> Iterator[Op]:
        """Every instruction, outer before inner."""
        return self.body.walk()

    @property
    def given(self) -> tuple[Param, ...]:
        """The parameters that users give; the runtime has one of its own behind them where there are counters."""
        return self.params[:-1] if self.counters else self.params

    @property
    def shared_buffers(self) -> tuple[SharedBuffer, ...]:
        """Its buffers in shared memory, in the order of their declaration."""
        return tuple(buffer for buffer in self.buffers if buffer.space is SHARED)  # type: ignore[misc]


@once_per_class
def block_fields(cls: type) -> tuple[str, ...]:
    """Names of the fields that hold a block, or regions with blocks of their own."""
    return fields_of(cls, Kind.BLOCK)


@once_per_class
def content_fields(cls: type) -> tuple[str, ...]:
    """Names of the fields that say what an instruction does: all but what it defines, its cell and its place."""
    return fields_of(cls, Kind.OPERAND, Kind.BLOCK, Kind.STORAGE, Kind.ATTRIBUTE)


def map_blocks(op: Op, change: Callable[[Block], Block]) -> Op:
    """`op` with `change` applied to each block it holds (the regions of `Roles` included); itself if none changed."""
    changes: dict[str, Any] = {}
    for name in block_fields(type(op)):
        item = getattr(op, name)
        if isinstance(item, Block):
            new: Any = change(item)
        else:
            new = tuple(map_blocks(part, change) for part in item)
            if all(a is b for a, b in zip(new, item, strict=True)):
                new = item
        if new is not item:
            changes[name] = new
    return dataclasses.replace(op, **changes) if changes else op


def rewrite(block: Block, visit: Callable[[Op], list[Op] | None]) -> Block:
    """A copy of `block` in which `visit` replaced instructions, innermost first; None keeps one as it is."""
    out: list[Op] = []
    for op in block.ops:
        changes: dict[str, Any] = {}
        for name in block_fields(type(op)):
            item = getattr(op, name)
            if isinstance(item, Block):
                new: Any = rewrite(item, visit)
            else:  # regions are instructions too: `visit` sees them
                new = tuple(rewrite(Block((part,)), visit).ops[0] for part in item)
                new = item if all(a is b for a, b in zip(new, item, strict=True)) else new
            if new is not item:
                changes[name] = new
        current = dataclasses.replace(op, **changes) if changes else op
        replaced = visit(current)
        out += [current] if replaced is None else replaced
    same = len(out) == len(block.ops) and all(a is b for a, b in zip(out, block.ops, strict=True))
    return block if same else Block(tuple(out))


def substitute(op: Instruction, mapping: Mapping[Any, Any]) -> Instruction:
    """`op` with its operands, values or storage (not its results, not nested blocks), replaced by `mapping`."""
    return mapped_fields(op, lambda item: mapping.get(item, item))


__all__ = [
    "INSTRUCTIONS", "Block", "Faster", "Function", "Note", "Op", "Value", "Var", "block_fields", "content_fields",
    "map_blocks", "operand_fields", "rewrite", "storage_of", "substitute", "values_in",
]
