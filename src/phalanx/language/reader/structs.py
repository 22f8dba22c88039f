"""`@px.struct` classes and `px.ring`."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, NoReturn, dataclass_transform

from phalanx.errors import Error, caller_location
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.operators import binary, cast, compare, describe, select
from phalanx.language.reader.capture import CAPTURES, constant, kind_of
from phalanx.language.reader.source import keep_source
from phalanx.language.values import StructClass


@dataclass_transform()
def struct(cls: type) -> StructClass:
    """A class of values usable in kernels: annotated fields, defaults, methods (inlined like `@px.func`).

    Decorates a class at module or function level; outside kernels it is a dataclass. Any agent; any GPU; no PTX.
    Example::

        @px.struct
        class Tile:
            m: int
            n: int
            def offset(self, BN):
                return self.m * BN + self.n
    """
    if not inspect.isclass(cls):
        refuse("@px.struct decorates a class", "write it directly above 'class Name:' with annotated fields")
    if "__init__" in cls.__dict__:
        refuse(f"@px.struct class '{cls.__name__}' has an __init__", "fields are given in order or by name: remove it")
    try:
        host: Any = dataclasses.dataclass(cls)
    except (TypeError, ValueError) as problem:
        refuse(
            f"@px.struct class '{cls.__name__}': {problem}",
            "fields are constants or values; those with defaults come last",
        )
    fields = tuple(field.name for field in dataclasses.fields(host))
    if not fields:
        refuse(f"@px.struct class '{cls.__name__}' has no fields", "annotate them, e.g. 'stage: int'")
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(host):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = constant(field.default)
            if defaults[field.name] is None and field.default is not None:
                shown = kind_of(field.default)
                refuse(f"the default of '{cls.__name__}.{field.name}' is {shown}", f"defaults are {CAPTURES}")
    methods: dict[str, Any] = {
        name: fn
        for base in reversed(host.__mro__)
        for name, fn in base.__dict__.items()
        if inspect.isfunction(fn) and not name.startswith("__")
    }
    for method in methods.values():
        keep_source(method)
    return StructClass(cls.__name__, fields, defaults, methods, host)


def refuse(message: str, remedy: str) -> NoReturn:
    raise Error(message, location=caller_location(), remedy=remedy)


RING = StructClass("ring", ("n", "stage", "parity"), {}, {})
"""Rings are structs whose one method is built in."""


@builtin("ring")
def ring(ctx: Builder, n: Any) -> Any:
    """A position in a ring of `n` stages: `.stage` is 0 to n-1, `.parity` flips at every wrap, `.advance()` moves on.

    Any agent; any GPU; no PTX. A consumer waits for ``ring.parity`` on `full`, a producer for ``ring.parity ^ 1`` on
    `empty`. Example: ``r = px.ring(4); full[r.stage].wait(r.parity); r.advance()``.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        ctx.fail(f"px.ring needs a positive constant number of stages, not {describe(n)}", "e.g. px.ring(4)")
    return NewStruct(RING, {"n": n, "stage": 0, "parity": 0})


class NewStruct:
    """An instance that the reader is to put on its heap."""

    def __init__(self, cls: StructClass, fields: dict[str, Any]) -> None:
        self.cls = cls
        self.fields = fields


def advanced(ctx: Builder, n: int, stage: Any, parity: Any) -> tuple[Any, Any]:
    """The next stage and parity, without a branch."""
    if n == 1:
        return 0, binary(ctx, "xor", parity, 1)
    following = binary(ctx, "add", stage, 1)
    wraps = compare(ctx, "eq", following, n)
    if isinstance(wraps, bool):
        return (0, binary(ctx, "xor", parity, 1)) if wraps else (following, parity)
    from phalanx.ir.types import i32

    return select(ctx, wraps, 0, following), binary(ctx, "xor", parity, cast(ctx, wraps, i32))
