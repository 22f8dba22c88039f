"""Instructions, blocks and functions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from phalanx.frozen import frozen
from phalanx.ir.effects import PURE, Effects
from phalanx.ir.location import NOWHERE, Location
from phalanx.ir.values import Param, Value, Var
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedBuffer, SharedView

INSTRUCTIONS: list[type[Op]] = []
"""Every instruction class, in order of definition: what the floors are checked against."""


@frozen(eq=False, repr=False)
class Op:
    """An instruction: a frozen dataclass whose fields are its operands and attributes; `result` is what it defines.

    `mnemonic` is its name in listings, `family` the file that holds it on every floor. `computes`: what it defines is made
    by it, as against the value of a cell, which was made elsewhere, and a tile with nothing in it yet.
    """

    loc: Location = dataclasses.field(default=NOWHERE, kw_only=True)

    mnemonic: ClassVar[str] = ""
    family: ClassVar[str] = ""
    computes: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
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

    def __repr__(self) -> str:
        return f"<{self.mnemonic} at {self.loc.short}>"  # `ir.printer` shows the operands

    @property
    def defines(self) -> Value | None:
        """The value it defines, where it is one."""
        return getattr(self, "result", None)

    def without_result(self) -> Op:
        """The same instruction where nobody reads what it defines: itself, unless that makes a difference."""
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

    def operands(self) -> Iterator[Value]:
        """Every value it reads, those inside views included, in field order."""
        for name in value_fields(type(self)):
            item = getattr(self, name)
            if isinstance(item, Value):
                yield item
            elif item is not None:
                yield from values_in(item)

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

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def walk(self) -> Iterator[Op]:
        """Every instruction below this block, outer before inner."""
        for op in self.ops:
            yield op
            if block_fields(type(op)):
                for block in op.blocks():
                    yield from block.walk()


@frozen
class Note:
    """A choice of the compiler that the user may want to know of."""

    message: str
    loc: Location = NOWHERE

    def __str__(self) -> str:
        return f"{self.loc.short}: {self.message}" if self.loc is not NOWHERE else self.message


@frozen(eq=False, repr=False)
class Function:
    """A kernel, specialised to its argument types and constants."""

    name: str
    params: tuple[Param, ...]
    constants: tuple[tuple[str, object], ...]
    warps: int
    cluster: tuple[int, int, int]
    exit_sync: bool
    buffers: tuple[SharedBuffer, ...]
    barriers: tuple[BarrierArray, ...]
    body: Block
    loc: Location = NOWHERE
    notes: tuple[Note, ...] = ()
    ctas_per_sm: int = 1  # that registers must leave room for
    pdl: bool = False  # may begin before its predecessor on the stream has ended

    @property
    def cluster_size(self) -> int:
        x, y, z = self.cluster
        return x * y * z

    def walk(self) -> Iterator[Op]:
        return self.body.walk()


_BLOCK_FIELDS: dict[type, tuple[str, ...]] = {}


def block_fields(cls: type[Op]) -> tuple[str, ...]:
    """Names of the fields that hold a block, or regions with blocks of their own; found by how they are annotated."""
    names = _BLOCK_FIELDS.get(cls)
    if names is None:
        names = tuple(f.name for f in dataclasses.fields(cls) if str(f.type) in ("Block", "tuple[Role, ...]"))
        _BLOCK_FIELDS[cls] = names
    return names


_OPERAND_FIELDS: dict[type, tuple[str, ...]] = {}
_NOT_OPERANDS = {"loc", "result", "results", "var"}


def operand_fields(cls: type[Op]) -> tuple[str, ...]:
    """Names of the fields that hold operands and attributes."""
    names = _OPERAND_FIELDS.get(cls)
    if names is None:
        names = tuple(f.name for f in dataclasses.fields(cls) if f.name not in _NOT_OPERANDS)
        _OPERAND_FIELDS[cls] = names
    return names


_VALUE_FIELDS: dict[type, tuple[str, ...]] = {}
_WITHOUT_VALUES = {"int", "bool", "str", "None", "tuple", "Label", "Block", "Role"}


def value_fields(cls: type[Op]) -> tuple[str, ...]:
    """Names of those among them that may hold values; by how they are annotated, numbers and labels do not."""
    names = _VALUE_FIELDS.get(cls)
    if names is None:
        types = {f.name: set(re.findall(r"\w+", str(f.type))) for f in dataclasses.fields(cls)}
        names = tuple(name for name in operand_fields(cls) if not types[name] <= _WITHOUT_VALUES)
        _VALUE_FIELDS[cls] = names
    return names


def values_in(item: object) -> Iterator[Value]:
    """The values inside a field: a value, a view, a barrier, a tuple of them."""
    if isinstance(item, Value):
        yield item
    elif isinstance(item, GlobalView):
        yield item.array
        yield from item.offsets
    elif isinstance(item, SharedView):
        yield from item.offsets
        if item.cta is not None:
            yield item.cta
        if item.length is not None:
            yield item.length
    elif isinstance(item, BarrierRef):
        yield item.index
    elif isinstance(item, tuple):
        for part in item:
            if not isinstance(part, Op):
                yield from values_in(part)


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


def substitute(op: Op, mapping: Mapping[Any, Any]) -> Op:
    """`op` with its operands, values or shared buffers (not its results, not nested blocks), replaced by `mapping`."""
    changes = {}
    for name in operand_fields(type(op)):
        item = getattr(op, name)
        new = _substituted(item, mapping)
        if new is not item:
            changes[name] = new
    return dataclasses.replace(op, **changes) if changes else op


def _substituted(item: Any, mapping: Mapping[Any, Any]) -> Any:
    if isinstance(item, Value):
        return mapping.get(item, item)
    if isinstance(item, GlobalView):
        offsets = _substituted(item.offsets, mapping)
        return item if offsets is item.offsets else dataclasses.replace(item, offsets=offsets)
    if isinstance(item, SharedView):
        offsets = _substituted(item.offsets, mapping)
        cta, length = _substituted(item.cta, mapping), _substituted(item.length, mapping)
        buffer = mapping.get(item.buffer, item.buffer)
        if offsets is item.offsets and cta is item.cta and length is item.length and buffer is item.buffer:
            return item
        return dataclasses.replace(item, buffer=buffer, offsets=offsets, cta=cta, length=length)
    if isinstance(item, SharedBuffer):
        return mapping.get(item, item)
    if isinstance(item, BarrierRef):
        index = _substituted(item.index, mapping)
        return item if index is item.index else dataclasses.replace(item, index=index)
    if isinstance(item, tuple):
        parts = tuple(part if isinstance(part, Op) else _substituted(part, mapping) for part in item)
        return item if all(a is b for a, b in zip(parts, item, strict=True)) else parts
    return item


__all__ = [
    "INSTRUCTIONS", "Block", "Function", "Note", "Op", "Value", "Var", "map_blocks", "operand_fields", "rewrite",
    "substitute", "values_in",
]
