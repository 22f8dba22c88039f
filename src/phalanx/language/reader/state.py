"""What the reader knows at one point of the program: names and struct fields, and how paths that meet are merged.

A key is ``(frame, name)`` for a variable of an inlined function or ``(struct, field)`` for a field. Straight-line code
only rebinds keys; where run-time paths meet, keys that differ become mutable IR cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from phalanx.ir.core import Block, Op
from phalanx.ir.ops.control import Assign, ReadVar
from phalanx.ir.types import DType, ScalarType, Type
from phalanx.ir.values import Const, Param, Value, Var, constant_type
from phalanx.language.builder import Builder, Landing, freeze
from phalanx.language.objects import KernelObject, Number, Numeric, Unavailable, describe
from phalanx.language.operators import cast, fits, promote, shape_of
from phalanx.language.structs import StructValue

Key = tuple[Hashable, str]
State = dict[Key, object]


class Slot(NamedTuple):
    """What one cell of a loop holds: a variable, or an element of a tuple, by the way to it."""

    key: Key
    path: tuple[int, ...] = ()


def slot_name(slot: Slot) -> str:
    """A slot as messages name it: `x`, or `x[1]` for an element of a tuple."""
    return slot.key[1] + "".join(f"[{i}]" for i in slot.path)


def value_at(state: State, slot: Slot) -> object:
    """What the state has there."""
    value = state[slot.key]
    for i in slot.path:
        assert isinstance(value, tuple)
        value = value[i]
    return value


def with_slots(state: State, values: Mapping[Slot, object]) -> State:
    """The variables of these slots, with their new values in place."""
    out: State = {}
    for slot, value in values.items():
        out[slot.key] = _replaced(out.get(slot.key, state[slot.key]), slot.path, value)
    return out


def _replaced(whole: object, path: tuple[int, ...], value: object) -> object:
    if not path:
        return value
    assert isinstance(whole, tuple)
    i, *rest = path
    return (*whole[:i], _replaced(whole[i], tuple(rest), value), *whole[i + 1 :])


def same(a: object, b: object) -> bool:
    """Whether two front-end values are the same value (not: equal at run time)."""
    if a is b:
        return True
    if isinstance(a, Value) or isinstance(b, Value):
        return isinstance(a, Const) and isinstance(b, Const) and a.value == b.value and a.type == b.type
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    try:
        return bool(a == b)
    except Exception:
        return False


def is_carriable(value: object) -> TypeGuard[Numeric]:
    """Whether a run-time cell can hold it."""
    return isinstance(value, Number) or (isinstance(value, Value) and not (isinstance(value, Param) and value.is_array))


def common_type(values: Sequence[Numeric]) -> Type | None:
    """The type of a cell that is to hold all of `values`; None if there is none. Bare numbers adapt if they fit."""
    typed = [v for v in values if isinstance(v, Value)]
    numbers = [v for v in values if isinstance(v, Number)]
    if not typed:
        out: DType | None = constant_type(numbers[0]).dtype
        for number in numbers[1:]:
            out = None if out is None else promote(out, constant_type(number).dtype)
        return None if out is None else ScalarType(out)
    first = typed[0].type
    if any(value.type != first for value in typed[1:]):
        return None
    if numbers and not isinstance(first, ScalarType):
        return None
    return first if all(adapts(number, first.dtype) for number in numbers) else None


def adapts(number: int | float | bool, dtype: DType) -> bool:
    """Whether a bare number can share a cell of `dtype`: it must stay the number that it is."""
    if dtype.is_float:
        return True
    return not isinstance(number, float) and fits(number, dtype)


def fits_cell(state: State, entry: State, slot: Slot, cell: Var) -> bool:
    """Whether the state's value, of the same form as at the loop's entry, can go to the cell."""
    value, form = state[slot.key], entry[slot.key]
    for i in slot.path:
        if not isinstance(value, tuple) or not isinstance(form, tuple) or len(value) != len(form):
            return False
        value, form = value[i], form[i]
    return is_carriable(value) and common_type([cell, value]) == cell.type


@dataclass
class WayIn:
    """One way into a meeting point: where its assignments go, and the state it brings."""

    landing: Landing
    state: State

    @staticmethod
    def at_end(ops: list[Op], state: State) -> WayIn:
        """The path that has come to the end of `ops`."""
        landing = Landing(freeze([]))
        ops.append(landing)
        return WayIn(landing, state)

    def insert(self, ops: list[Op]) -> None:
        """Puts instructions at the end of the path."""
        self.landing.body.ops.extend(ops)  # type: ignore[attr-defined]


@dataclass
class Exits:
    """Paths that leave a loop or scope early."""

    paths: list[WayIn] = field(default_factory=list)

    def record(self, ctx: Builder, state: State) -> None:
        """Notes that the path being read leaves here."""
        self.paths.append(WayIn.at_end(ctx.ops, dict(state)))


def to_cell(ctx: Builder, path: WayIn, var: Var, value: object) -> None:
    """Puts an assignment at the end of a path, converting bare numbers."""
    assert is_carriable(value)
    with ctx.block() as ops:
        held = value if isinstance(value, Value) else cast(ctx, value, var.type.dtype)
        ctx.emit(Assign(var, held, loc=ctx.loc))
    path.insert(ops)


def key_name(key: Key) -> str:
    """The name of a variable or field."""
    return key[1]


def quoted(name: str) -> str:
    """A variable in quotes; a description ("the result of f") as it is."""
    return name if " " in name else f"'{name}'"


def defined_in(*blocks: list[Op]) -> set[Value]:
    """The values that instructions of these blocks define: they are not visible after the block."""
    return {value for ops in blocks for op in Block(tuple(ops)).walk() for value in op.defined_values()}


def merge(ctx: Builder, paths: list[WayIn], what: str, base: State, inside: set[Value]) -> State:
    """The state after run-time paths meet. Emits the reads of the cells at the current place.

    `base` is the state before the paths parted, `inside` what the blocks that end here define: a value that leaves its
    block travels in a cell even if all paths agree on it.
    """
    return Meeting(ctx, paths, what, {key[0] for key in base}, inside).state() if paths else {}


@dataclass
class Meeting:
    """One place where run-time paths meet."""

    ctx: Builder
    paths: list[WayIn]
    what: str
    known: set[Hashable]
    inside: set[Value]
    made: State = field(default_factory=dict)
    structs: dict[tuple[int, ...], StructValue] = field(default_factory=dict)

    def state(self) -> State:
        """The state after the meeting."""
        states = [path.state for path in self.paths]
        first, *others = states
        out: State = {}
        for key in dict.fromkeys(itertools.chain(*states)):
            value = first.get(key)
            if value is not None and all([state.get(key) is value for state in others]) and not self.hidden(value):
                out[key] = value  # as most are
            elif all(key in state for state in states):
                out[key] = self.value(key_name(key), [state[key] for state in states])
            else:
                out[key] = Unavailable(
                    f"'{key_name(key)}' is assigned on only some of the paths through {self.what}",
                    "assign it before, or on every path",
                )
        return {**out, **self.made}

    def value(self, name: str, values: list[object]) -> object:
        """What a name stands for after the meeting, given its value on each path."""
        first = values[0]
        if all(same(first, other) for other in values[1:]) and not self.hidden(first):
            return first
        gone = next((v for v in values if isinstance(v, Unavailable)), None)
        if gone is not None:
            return gone
        tuples = [v for v in values if isinstance(v, tuple)]
        if len(tuples) == len(values) and all(len(v) == len(tuples[0]) for v in tuples):
            return tuple(self.value(name, list(column)) for column in zip(*tuples, strict=True))
        structs = [v for v in values if isinstance(v, StructValue)]
        if len(structs) == len(values):
            return self.struct(name, structs)
        objects = [v for v in values if isinstance(v, KernelObject)]
        if len(objects) == len(values) and self.have_one_form(objects):
            return self.of_one_form(name, objects)
        cells = [v for v in values if is_carriable(v)]
        if len(cells) < len(values):
            return Unavailable(
                f"{quoted(name)} is not the same on all paths through {self.what}: {self.listed(values)}",
                "only scalars, tiles and where a view begins can differ; everything else is chosen by constants",
            )
        return self.cell(name, cells)

    def hidden(self, value: object) -> bool:
        """Whether a value, or a part of it, is defined inside what ends here."""
        return bool(self.inside) and not self.inside.isdisjoint(parts_of(value))

    def listed(self, values: Sequence[object]) -> str:
        """The kinds of these values, for messages."""
        kinds = list(dict.fromkeys(describe(v) for v in values))
        return " and ".join(kinds) if len(kinds) > 1 else f"{kinds[0]} and another one"

    def cell(self, name: str, values: Sequence[Numeric]) -> Value | Unavailable:
        """A cell that every path assigns to, read where they meet."""
        type_ = common_type(values)
        if type_ is None:
            shown = " and ".join(
                dict.fromkeys(str(v.type if isinstance(v, Value) else constant_type(v)) for v in values)
            )
            if "and" not in shown:  # a number that its neighbour's type can't hold
                shown = f"{self.listed(values)}"
            where = "" if self.what in name else f" on the paths through {self.what}"
            shapes = {shape_of(v) for v in values}
            remedy = "with .to(...)" if len(shapes) == 1 else "a tile of one shape, by slices or .reshape"
            return Unavailable(
                f"{quoted(name)} has different types{where}: {shown}", f"give it the same type on every path, e.g. {remedy}"
            )
        var = Var(type_, name)
        for path, value in zip(self.paths, values, strict=True):
            to_cell(self.ctx, path, var, value)
        result = Value(type_, name)
        self.ctx.emit(ReadVar(var, result, loc=self.ctx.loc))
        if any(isinstance(value, Value) and value in self.ctx.products for value in values):
            self.ctx.products.add(result)
        return result

    def have_one_form(self, values: list[KernelObject]) -> bool:
        """Whether these are values of one kind that differ in numbers and scalars alone, e.g. in where a view begins."""
        kind, form = type(values[0]), values[0].form()
        return form is not None and all(type(v) is kind and v.form() == form for v in values)

    def of_one_form(self, name: str, values: list[KernelObject]) -> KernelObject | Unavailable:
        """The value whose parts are what the parts of all of them become."""
        parts = tuple(self.value(name, list(column)) for column in zip(*(v.parts() for v in values), strict=True))
        gone = next((part for part in parts if isinstance(part, Unavailable)), None)
        return gone or values[0].with_parts(parts)

    def struct(self, name: str, values: list[StructValue]) -> StructValue | Unavailable:
        """Structs made on the way, of one class: a new one takes their place. Nobody else may hold one of them."""
        first = values[0]
        idents = tuple(v.ident for v in values)
        if idents in self.structs:
            return self.structs[idents]
        taken = {ident for group in self.structs for ident in group}
        if any(v.cls is not first.cls or v.ident in self.known or v.ident in taken for v in values):
            return Unavailable(
                f"{quoted(name)} is a different struct on each path through {self.what}", "assign its fields instead"
            )
        merged = self.structs[idents] = StructValue(first.cls, self.ctx.fresh_ident())
        for item in first.cls.fields:
            columns = [path.state[(v.ident, item)] for path, v in zip(self.paths, values, strict=True)]
            self.made[(merged.ident, item)] = self.value(item, columns)
        return merged


def parts_of(value: object) -> Iterable[Value]:
    """The IR values that a front-end value is made of."""
    if isinstance(value, Value):
        return (value,)
    if isinstance(value, tuple):
        return [part for item in value for part in parts_of(item)]
    return value.held() if isinstance(value, KernelObject) else ()
