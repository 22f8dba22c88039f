"""Structs in kernels: their classes, their instances on the reader's heap, and methods that the compiler writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias

from phalanx.frozen import frozen
from phalanx.language.builder import Builder
from phalanx.language.inlined import by_name
from phalanx.language.objects import (
    Arguments,
    KernelObject,
    Keywords,
    Unavailable,
    check_arguments,
    load_scalar,
    signature_after,
)

Variables: TypeAlias = dict[tuple[Hashable, str], object]
"""The reader's state: what each variable, and each field of a struct, stands for."""


@frozen(eq=False)
class StructClass(KernelObject):
    """A class of values usable in kernels, made by `@px.struct`. Instances live on the reader's heap."""

    name: str
    fields: tuple[str, ...]
    defaults: dict[str, object]
    methods: dict[str, Callable[..., Any]]
    host: type | None = None
    natives: dict[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    """Methods of a built-in struct: functions of the builder, its `Fields` and the arguments."""
    at_role_end: Callable[[Builder, Fields, Fields, str], None] | None = None
    """What a built-in struct checks where a role ends: it gets the fields before and after, and the role's name."""
    is_constant = True

    @property
    def kind_name(self) -> str:
        """The struct's name in messages."""
        return f"the struct {self.name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Outside kernels: an instance of the plain Python class."""
        if self.host is None:
            raise TypeError(f"{self.name} is made inside kernels")
        return self.host(*args, **kwargs)

    def __reduce__(self) -> Any:
        if self.host is None:
            raise TypeError(f"{self.name} is made inside kernels")
        return by_name(self, self.host)

    def __mro_entries__(self, bases: tuple[type, ...]) -> tuple[type, ...]:
        """Lets another struct be derived from this one."""
        return (self.host,) if self.host is not None else ()

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> StructValue:
        """A new instance, its fields given in order or by name."""
        listed = f"its fields are {', '.join(self.fields)}"
        if len(args) > len(self.fields):
            ctx.fail(f"{self.name} has {len(self.fields)} fields, {len(args)} values were given", listed)
        values = dict(zip(self.fields, args, strict=False))
        for name, item in kwargs.items():
            if name not in self.fields:
                ctx.fail(f"{self.name} has no field '{name}'", listed)
            if name in values:
                ctx.fail(f"{self.name}: the field '{name}' is given twice", listed)
            values[name] = item
        for name in self.fields:
            if name not in values:
                if name not in self.defaults:
                    ctx.fail(f"{self.name}: the field '{name}' is missing", f"{listed}; it has no default")
                values[name] = self.defaults[name]
        return new_struct(ctx, self, {name: load_scalar(ctx, item) for name, item in values.items()})


class Fields:
    """The fields of one struct in the reader's state, for its native methods."""

    def __init__(self, owner: StructValue, state: Variables) -> None:
        self.owner = owner
        self._state = state

    def __getitem__(self, name: str) -> Any:
        return self._state[(self.owner.ident, name)]

    def __setitem__(self, name: str, value: object) -> None:
        self._state[(self.owner.ident, name)] = value


@frozen
class StructValue(KernelObject):
    """An instance of a struct: identity and class; its fields are part of the reader's state."""

    cls: StructClass
    ident: int

    @property
    def kind_name(self) -> str:
        """What it is an instance of."""
        return f"a {self.cls.name}"

    def member(self, ctx: Builder, name: str) -> object:
        """A field's value, or a method ready to be called."""
        cls, state = self.cls, ctx.variables()
        if (self.ident, name) in state:
            value = state[(self.ident, name)]
            if isinstance(value, Unavailable):
                ctx.fail(value.reason, value.remedy or None)
            return value
        if name in cls.methods:
            return StructMethod(self, cls.methods[name])
        if name in cls.natives:
            return NativeMethod(self, name)
        known = [*cls.fields, *(m + "()" for m in (*cls.methods, *cls.natives))]
        ctx.fail(f"{cls.name} has no attribute '{name}'", f"it has {', '.join(known)}")

    def member_key(self, ctx: Builder, name: str) -> tuple[int, str]:
        """Where the reader keeps the field `name`."""
        if name not in self.cls.fields:
            ctx.fail(f"{self.cls.name} has no field '{name}'", f"its fields are {', '.join(self.cls.fields)}")
        return (self.ident, name)


@frozen
class StructMethod(KernelObject):
    """A method that the user wrote, of a struct's instance."""

    owner: StructValue
    fn: Callable[..., Any]
    kind_name = "a method"

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> object:
        """Reads the method's body in the place of the call."""
        return ctx.inline(self.fn, (self.owner, *args), kwargs)


@frozen
class NativeMethod(KernelObject):
    """A method of a built-in struct's instance, which the compiler writes."""

    owner: StructValue
    name: str
    kind_name = "a method"

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> object:
        """Runs the method on the instance's fields."""
        function = self.owner.cls.natives[self.name]
        check_arguments(ctx, f".{self.name}", signature_after(2, function), args, kwargs)
        return function(ctx, Fields(self.owner, ctx.variables()), *args, **kwargs)


def new_struct(ctx: Builder, cls: StructClass, fields: Mapping[str, object]) -> StructValue:
    """An instance on the reader's heap, with these fields."""
    made = StructValue(cls, ctx.fresh_ident())
    contents = Fields(made, ctx.variables())
    for name, item in fields.items():
        contents[name] = item
    return made
