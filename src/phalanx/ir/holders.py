"""What an operand field may hold besides a value: something with values inside, which says which.

A view has offsets, a barrier an index. Their classes derive from `Holder` and mark their fields like an instruction;
`values`, `map` and `text` follow from the markers. So a new kind of view has its operands counted, renamed and printed
without a change elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from phalanx.ir.values import Value
from phalanx.markers import Kind, fields_of, once_per_class

if TYPE_CHECKING:
    from phalanx.ir.views import BarrierArray, Buffer

Item = TypeVar("Item")
Self = TypeVar("Self", bound="Holder")


@once_per_class
def operand_fields(cls: type) -> tuple[str, ...]:
    """Names of the fields that hold operands, in the order of their declaration."""
    return fields_of(cls, Kind.OPERAND)


@once_per_class
def changeable_fields(cls: type) -> tuple[str, ...]:
    """Names of the fields in which values or storage can be replaced by others."""
    return fields_of(cls, Kind.OPERAND, Kind.STORAGE)


class Holder:
    """A part of an instruction that holds values or storage: a view, a barrier. Its class is `@frozen`, with markers."""

    __slots__ = ()

    def values(self) -> list[Value]:
        """The values that it holds, in the order of its fields."""
        found: list[Value] = []
        for name in operand_fields(type(self)):
            collect(getattr(self, name), found)
        return found

    def storage(self) -> Iterator[Buffer | BarrierArray]:
        """The buffers and arrays of barriers that it names."""
        return storage_of(self)

    def map(self: Self, change: Callable[[Any], Any]) -> Self:
        """A copy with `change` applied to every value and all storage that it holds; itself where nothing changes."""
        return mapped_fields(self, change)

    def text(self, show: Callable[[object], str]) -> str:
        """Itself in a listing; `show` gives the text of a part."""
        names = (field.name for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={show(getattr(self, name))}' for name in names)})"


def collect(item: object, found: list[Value]) -> None:
    """Appends the values inside what an operand field holds: a value, a view, a barrier, a tuple of them."""
    if isinstance(item, Value):
        found.append(item)
    elif isinstance(item, Holder):
        found += item.values()
    elif isinstance(item, tuple):
        for part in item:
            collect(part, found)
    elif item is not None and not isinstance(item, str | int | float):
        raise TypeError(f"nobody can say which values {item!r} holds: derive {type(item).__name__} from ir.holders.Holder")


def values_in(item: object) -> list[Value]:
    """The values inside what an operand field holds: a value, a view, a barrier, a tuple of them."""
    found: list[Value] = []
    collect(item, found)
    return found


def storage_of(thing: object) -> Iterator[Any]:
    """The buffers and arrays of barriers that an instruction or a holder names, those inside its operands included."""
    for name in changeable_fields(type(thing)):
        yield from _storage_in(getattr(thing, name))


def _storage_in(item: object) -> Iterator[Any]:
    if isinstance(item, Holder):
        yield from item.storage()
    elif isinstance(item, tuple):
        for part in item:
            yield from _storage_in(part)
    elif item is not None and not isinstance(item, Value | str | int | float):
        yield item


def mapped(item: Any, change: Callable[[Any], Any]) -> Any:
    """What a field holds, with `change` applied to every value and all storage inside."""
    if item is None or isinstance(item, str | int | float):
        return item
    if isinstance(item, Holder):
        return item.map(change)
    if isinstance(item, tuple):
        parts = tuple(mapped(part, change) for part in item)
        return item if all(a is b for a, b in zip(parts, item, strict=True)) else parts
    return change(item)


def mapped_holders(thing: Item, change: Callable[[Any], Any]) -> Item:
    """An instruction with `change` applied to every holder that its fields hold: views, barriers."""
    changes = {}
    for name in changeable_fields(type(thing)):
        item = getattr(thing, name)
        new = _with_holders(item, change)
        if new is not item:
            changes[name] = new
    return dataclasses.replace(thing, **changes) if changes else thing  # type: ignore[type-var]


def _with_holders(item: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(item, tuple):
        parts = tuple(_with_holders(part, change) for part in item)
        return item if all(a is b for a, b in zip(parts, item, strict=True)) else parts
    return change(item) if isinstance(item, Holder) else item


def mapped_fields(thing: Item, change: Callable[[Any], Any]) -> Item:
    """An instruction or a holder with `change` applied to every value and all storage that its fields hold."""
    changes = {}
    for name in changeable_fields(type(thing)):
        item = getattr(thing, name)
        new = mapped(item, change)
        if new is not item:
            changes[name] = new
    return dataclasses.replace(thing, **changes) if changes else thing  # type: ignore[type-var]
