"""`@frozen`: a frozen dataclass that is quick to define.

`dataclass(frozen=True)` compiles up to six functions for each class; those of the instructions, effects and views were the
largest part of `import phalanx` but for NumPy. Here `__init__` alone is compiled; the other methods are shared.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

from phalanx.markers import attribute, block, cell, defined, operand, source, storage

Class = TypeVar("Class", bound=type)
Found = TypeVar("Found")


@overload
@dataclass_transform(
    frozen_default=True, field_specifiers=(dataclasses.field, operand, defined, cell, block, storage, attribute, source)
)
def frozen(cls: Class, /) -> Class: ...


@overload
@dataclass_transform(
    frozen_default=True, field_specifiers=(dataclasses.field, operand, defined, cell, block, storage, attribute, source)
)
def frozen(*, eq: bool = True, repr: bool = True) -> Callable[[Class], Class]: ...


def frozen(cls: Any = None, /, *, eq: bool = True, repr: bool = True) -> Any:
    """Makes a dataclass of `cls` whose instances never change; `eq` and `repr` mean what they mean to `dataclass`.

    `dataclasses.fields`, `replace` and `asdict` work on it. A class that inherits from one is decorated with `frozen` too.
    """

    def make(cls: Any) -> Any:
        collect_fields(cls)
        fields = dataclasses.fields(cls)
        methods: dict[str, Any] = {"__setattr__": refuse_to_set, "__delattr__": refuse_to_delete}
        if repr:
            methods["__repr__"] = show
        if eq:
            methods["__eq__"], methods["__hash__"] = comparison(fields)
        for name, method in methods.items():
            if cls.__dict__.get(name) is None:  # Python itself writes `__hash__ = None` beside an `__eq__`
                setattr(cls, name, method)
        cls.__init__ = initialiser(cls, fields)
        return cls

    return make if cls is None else make(cls)


def once(find: Callable[[Any], Found]) -> Callable[[Any], Found]:
    """Decorates a method of frozen classes that has no arguments: what it finds is kept beside the fields.

    Fields never change, so that it is found again; a copy by `dataclasses.replace` finds its own. Callers share it: a
    method gives a tuple, not a list.
    """
    name = f"_{find.__qualname__}"

    @functools.wraps(find)
    def known(self: Any) -> Found:
        own = self.__dict__
        found: Found | None = own.get(name)
        if found is None:
            found = own[name] = find(self)
        return found

    return known


def fields_alone(self: Any) -> dict[str, Any]:
    """The `__getstate__` of frozen classes with methods that are called `once`: what these found does not travel."""
    return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}


SPECIAL = ("InitVar", "KW_ONLY")
"""Annotations with these words mean more than a field's type, or than none (`ClassVar`)."""


@dataclasses.dataclass(init=False, eq=False, repr=False)
class _Sample:
    """A class that `dataclasses` made: what it notes in classes and fields is copied from here."""

    field: int


_PARAMETERS: Any = _Sample.__dataclass_params__  # type: ignore[attr-defined]
_FIELD: Any = _Sample.__dataclass_fields__["field"]._field_type  # type: ignore[attr-defined]
"""How `dataclasses` marks a field that is neither a `ClassVar` nor an `InitVar`."""


def collect_fields(cls: Any) -> None:
    """Makes a dataclass of `cls`, without methods.

    Annotations are strings here, in which `dataclasses` looks for `ClassVar` and its like by three regular expressions
    each, and for each class it looks for methods, slots and orders that none of these has: two thirds of its time. So the
    fields are collected here, and `dataclasses` is left the classes with annotations that are special.
    """
    written = inspect.get_annotations(cls)
    if any(type(text) is not str or any(word in text for word in SPECIAL) for text in written.values()):
        dataclasses.dataclass(init=False, eq=False, repr=False)(cls)
        return
    fields: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        fields |= base.__dict__.get("__dataclass_fields__", {})
    for name, text in written.items():
        if "ClassVar" in text:
            continue
        default = cls.__dict__.get(name, MISSING)
        field: Any = default if isinstance(default, Field) else dataclasses.field(default=default)
        if field is default:
            if field.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, field.default)
        field.name, field.type, field._field_type = name, text, _FIELD
        if field.kw_only is MISSING:
            field.kw_only = False
        fields[name] = field
    names = tuple(name for name, field in fields.items() if field.init and not field.kw_only)
    cls.__dataclass_fields__, cls.__dataclass_params__ = fields, _PARAMETERS
    type.__setattr__(cls, "__match_args__", names)


def refuse_to_set(self: Any, name: str, value: Any) -> NoReturn:
    """The `__setattr__` of frozen classes."""
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def refuse_to_delete(self: Any, name: str) -> NoReturn:
    """The `__delattr__` of frozen classes."""
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def is_frozen(cls: type) -> bool:
    """Whether instances of a class never change: of one that `frozen` made, or `dataclass(frozen=True)`."""
    made_by_dataclass = getattr(cls, "__dataclass_params__", None)
    return cls.__setattr__ is refuse_to_set or (made_by_dataclass is not None and made_by_dataclass.frozen)


@recursive_repr()
def show(self: Any) -> str:
    """The `__repr__` of frozen classes: the class's name and its fields."""
    parts = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(parts)})"


def comparison(fields: tuple[Field[Any], ...]) -> tuple[Callable[[Any, Any], Any], Callable[[Any], int]]:
    """`__eq__` and `__hash__` by the fields that compare."""
    names = [field.name for field in fields if field.compare]
    key: Callable[[Any], tuple[Any, ...]]
    if len(names) > 1:
        key = attrgetter(*names)
    else:  # an attrgetter of one name gives no tuple

        def key(item: Any) -> tuple[Any, ...]:
            return tuple(getattr(item, name) for name in names)

    def equal(self: Any, other: object) -> Any:
        if self is other:
            return True
        return key(self) == key(other) if type(self) is type(other) else NotImplemented

    def hashed(self: Any) -> int:
        return hash(key(self))

    return equal, hashed


def initialiser(cls: type, fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    """`__init__`, made from text so that Python binds the arguments."""
    scope: dict[str, Any] = {"__name__": cls.__module__, "_missing": MISSING}
    positional: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for field in fields:
        name, default, value = field.name, "", field.name
        if field.default_factory is not MISSING:
            scope[f"_make_{name}"] = field.default_factory
            default, value = "=_missing", f"_make_{name}() if {name} is _missing else {name}"
        elif field.default is not MISSING:
            scope[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
        if field.init:
            (named if field.kw_only else positional).append(name + default)
        elif field.default_factory is not MISSING:
            value = f"_make_{name}()"
        else:
            continue  # the class has its default, or `__post_init__` sets it
        body.append(f" _own[{name!r}] = {value}")
    if body:
        body.insert(0, " _own = self.__dict__")  # a quarter of the time of object.__setattr__
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else ())])
    exec(f"def __init__({parameters}):\n" + ("\n".join(body) or " pass"), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return init
