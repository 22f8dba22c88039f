"""`@px.struct`: classes of values for kernels."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, NoReturn, dataclass_transform

from phalanx.errors import Error, caller_location
from phalanx.language.reader.capture import CAPTURES, constant, kind_of
from phalanx.language.reader.source import keep_source
from phalanx.language.structs import StructClass


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
    defaults: dict[str, object] = {}
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
    """Raises an error at the user's line outside kernels."""
    raise Error(message, location=caller_location(), remedy=remedy)
