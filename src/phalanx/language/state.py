"""What the reader knows at one point of the program: names and struct fields, and how paths that meet are merged.

A key is ``(frame, name)`` for a variable of an inlined function or ``(struct, field)`` for a field. Straight-line code only
rebinds keys; where run-time paths meet, keys that differ become mutable IR cells.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from phalanx.ir.core import Op
from phalanx.ir.ops.control import Assign, ReadVar
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Const, Param, Value, Var, constant_type
from phalanx.language.builder import Builder
from phalanx.language.operators import Number, cast, promote
from phalanx.language.values import StructValue, Unavailable

Key = tuple[Any, str]
State = dict[Key, Any]


def same(a: Any, b: Any) -> bool:
    """Whether two front-end values are the same value (not: equal at run time)."""
    if a is b:
        return True
    if isinstance(a, Value) or isinstance(b, Value):
        return isinstance(a, Const) and isinstance(b, Const) and a.value == b.value and a.type == b.type
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    try:
        return bool(a == b)
    except Exception:
        return False


def is_carriable(value: Any) -> bool:
    """Whether a run-time cell can hold it."""
    return isinstance(value, Number) or (isinstance(value, Value) and not (isinstance(value, Param) and value.is_array))


def common_type(values: list[Any]) -> Any:
    """The type of a cell that is to hold all of `values`; None if there is none. Bare numbers adapt."""
    typed = [v for v in values if isinstance(v, Value)]
    if not typed:
        types = {constant_type(v) for v in values}
        if len(types) == 1:
            return types.pop()
        out = None
        for t in types:
            dtype = promote(out.dtype, t.dtype) if out is not None else t.dtype
            if dtype is None:
                return None
            out = ScalarType(dtype)
        return out
    first = typed[0].type
    for value in typed[1:]:
        if value.type != first:
            return None
    for value in values:
        if isinstance(value, Number):
            if not isinstance(first, ScalarType):
                return None
            number = constant_type(value).dtype
            if number.is_float and not first.dtype.is_float:
                return None
    return first


@dataclass
class Path:
    """One way into a meeting point: where its assignments go, and the state it brings."""

    ops: list[Op]
    position: int
    state: State

    def insert(self, op: Op) -> None:
        self.ops.insert(self.position, op)
        self.position += 1


@dataclass
class Exits:
    """Paths that leave a loop or scope early."""

    paths: list[Path] = field(default_factory=list)

    def record(self, ctx: Builder, state: State) -> None:
        self.paths.append(Path(ctx.ops, len(ctx.ops), dict(state)))


def to_cell(ctx: Builder, path: Path, var: Var, value: Any) -> None:
    """Puts an assignment at the end of a path, converting bare numbers."""
    outer = ctx.ops
    ctx.ops = []
    value = cast(ctx, value, var.type.dtype) if isinstance(value, Number) else value  # type: ignore[union-attr]
    ctx.ops.append(Assign(var, value, loc=ctx.loc))
    for op in ctx.ops:
        path.insert(op)
    ctx.ops = outer


def key_name(key: Key) -> str:
    return key[1]


def merge(ctx: Builder, paths: list[Path], what: str) -> State:
    """The state after run-time paths meet. Emits the reads of the cells at the current place."""
    states = [p.state for p in paths]
    if not states:
        return {}
    out: State = {}
    keys = dict.fromkeys(k for s in states for k in s)
    for key in keys:
        values = [s.get(key) for s in states]
        if any(key not in s for s in states):
            out[key] = Unavailable(
                f"'{key_name(key)}' is assigned in only one branch of {what}",
                "assign it before, or in every branch",
            )
            continue
        if all(same(values[0], v) for v in values[1:]):
            out[key] = values[0]
            continue
        out[key] = _merged(ctx, paths, key, values, what)
    return out


def _merged(ctx: Builder, paths: list[Path], key: Key, values: list[Any], what: str) -> Any:
    gone = next((v for v in values if isinstance(v, Unavailable)), None)
    if gone is not None:
        return gone
    if all(isinstance(v, tuple) for v in values) and len({len(v) for v in values}) == 1:
        parts = []
        for position in range(len(values[0])):
            column = [v[position] for v in values]
            if all(same(column[0], c) for c in column[1:]):
                parts.append(column[0])
            else:
                parts.append(_merged(ctx, paths, key, column, what))
        return tuple(parts)
    if any(isinstance(v, StructValue) for v in values):
        return Unavailable(f"'{key_name(key)}' is a different struct on each path through {what}", "assign its fields instead")
    if not all(is_carriable(v) for v in values):
        return Unavailable(
            f"'{key_name(key)}' has different values on the paths through {what}, and they are not scalars or tiles",
            "views, buffers, barriers and dtypes are compile-time values: choose them with constants",
        )
    type_ = common_type(values)
    if type_ is None:
        shown = " and ".join(dict.fromkeys(str(v.type if isinstance(v, Value) else constant_type(v)) for v in values))
        return Unavailable(
            f"'{key_name(key)}' has different types on the paths through {what}: {shown}",
            "give it the same type everywhere, e.g. with .to(...)",
        )
    var = Var(type_, key_name(key))
    for path, value in zip(paths, values, strict=True):
        to_cell(ctx, path, var, value)
    result = Value(type_, key_name(key))
    ctx.emit(ReadVar(var, result, loc=ctx.loc))
    return result
