"""`@frozen`: a frozen dataclass that is quick to define.

`dataclass(frozen=True)` compiles up to six functions for each class; those of the instructions, effects and views were the
largest part of `import phalanx` but for NumPy. Here `__init__` alone is compiled; the other methods are shared.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

from phalanx.markers import attribute, block, cell, defined, operand, source, storage

Class = TypeVar("Class", bound=type)


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


SPECIAL = ("ClassVar", "InitVar", "KW_ONLY")
"""What makes an annotation more than a field's type."""


def collect_fields(cls: Any) -> None:
    """Makes a dataclass of `cls`, without methods.

    Annotations are strings here, in which `dataclasses` looks for `ClassVar` and its like by three regular expressions
    each, a third of its time. Where a string has none of these words it is spared the search: it sees `object`.
    """
    written = inspect.get_annotations(cls)
    plain = {name: text for name, text in written.items() if type(text) is str and not any(w in text for w in SPECIAL)}
    cls.__annotations__ = {**written, **dict.fromkeys(plain, object)}
    dataclasses.dataclass(init=False, eq=False, repr=False)(cls)
    cls.__annotations__ = written
    for name, text in plain.items():
        cls.__dataclass_fields__[name].type = text


def refuse_to_set(self: Any, name: str, value: Any) -> NoReturn:
    """The `__setattr__` of frozen classes."""
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def refuse_to_delete(self: Any, name: str) -> NoReturn:
    """The `__delattr__` of frozen classes."""
    raise FrozenInstanceError(f"cannot delete field {name!r}")


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
    scope: dict[str, Any] = {"__name__": cls.__module__, "_set": object.__setattr__, "_missing": MISSING}
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
        body.append(f" _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else ())])
    exec(f"def __init__({parameters}):\n" + ("\n".join(body) or " pass"), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return init
