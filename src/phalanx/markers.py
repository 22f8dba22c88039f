"""What a field of an instruction or of a view is, said where the field is declared.

`x: Value = operand()`, `result: Value = defined()`, `axis: int = attribute(default=0)`: whoever needs the operands of an
instruction asks `fields_of`, and nobody looks at annotations. A field without a marker is an error as soon as anyone
asks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING
from enum import Enum
from functools import cache
from typing import Any


class Kind(Enum):
    """The kinds of fields.

    An operand is a value that is read, or something that holds such values: a view, a barrier, a tuple of them. A result
    is a value (or a tuple of values) that the instruction defines, a cell the variable that it reads or writes, a block
    code inside it. Storage is memory that is named as a whole: a buffer, an array of barriers. An attribute is all that
    is known before the kernel runs; the source is where the user wrote it. A model is what stands for the instruction in
    the simulator alone: no listing shows it, and nothing that is compiled depends on it.
    """

    OPERAND = "operand"
    RESULT = "result"
    CELL = "cell"
    BLOCK = "block"
    STORAGE = "storage"
    ATTRIBUTE = "attribute"
    SOURCE = "source"
    MODEL = "model"


_METADATA = {kind: {"kind": kind} for kind in Kind}


def operand(*, default: Any = MISSING) -> Any:
    """A field that holds a value which is read at run time, or a view, a barrier or a tuple with such values."""
    return dataclasses.field(default=default, metadata=_METADATA[Kind.OPERAND])


def defined(*, default: Any = MISSING) -> Any:
    """A field that holds the value, or the values, that the instruction defines."""
    return dataclasses.field(default=default, metadata=_METADATA[Kind.RESULT])


def cell() -> Any:
    """A field that holds the mutable cell which the instruction reads or writes."""
    return dataclasses.field(metadata=_METADATA[Kind.CELL])


def block(*, default: Any = MISSING) -> Any:
    """A field that holds a block, or a tuple of instructions that have blocks of their own."""
    return dataclasses.field(default=default, metadata=_METADATA[Kind.BLOCK])


def storage(*, default: Any = MISSING) -> Any:
    """A field that holds a whole buffer or a whole array of barriers."""
    return dataclasses.field(default=default, metadata=_METADATA[Kind.STORAGE])


def attribute(*, default: Any = MISSING) -> Any:
    """A field that holds what is known before the kernel runs: a number, a name, a label, a function of elements."""
    return dataclasses.field(default=default, metadata=_METADATA[Kind.ATTRIBUTE])


def source(*, default: Any, kw_only: bool) -> Any:
    """The field that holds the place in the user's text."""
    return dataclasses.field(default=default, kw_only=kw_only, metadata=_METADATA[Kind.SOURCE])


def model() -> Any:
    """A field that holds what stands for the instruction in the simulator; None where nothing does."""
    return dataclasses.field(default=None, kw_only=True, metadata=_METADATA[Kind.MODEL])


def once_per_class(find: Callable[[type], tuple[str, ...]]) -> Callable[[type], tuple[str, ...]]:
    """Decorates a function that finds fields of a class: each class is asked once."""
    return cache(find)


def fields_of(cls: type, *kinds: Kind) -> tuple[str, ...]:
    """Names of the fields of those kinds, in the order of their declaration.

    Anyone may call it. Example: ``fields_of(TmaStore, Kind.OPERAND) == ("src", "dst")``.
    """
    return tuple(field.name for field in dataclasses.fields(cls) if kind_of(cls, field) in kinds)


def kind_of(cls: type, field: dataclasses.Field[Any]) -> Kind:
    """The kind of a field of `cls`; a `TypeError` if its declaration does not say."""
    kind = field.metadata.get("kind")
    if kind is None:
        raise TypeError(
            f"field '{field.name}' of {cls.__qualname__} does not say what it is: "
            "give it operand(), defined(), cell(), block(), storage() or attribute()"
        )
    assert isinstance(kind, Kind)
    return kind
