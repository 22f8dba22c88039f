"""The launches of a plan as Python text: all of them are one piece of memory, written by one call of the `struct` module.

A launch has up to two hundred numbers (its configuration, pointers, strides and sizes of arrays, the words of descriptors),
and to convert them takes longer than all comparisons of a call. But most are constants, or those of another array: what
several arrays or descriptors have in common is packed once, before all else, and constants are bytes of the text.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from phalanx.cuda.abi import ArraySlot
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device.map_layout import WORD, MapLayout
from phalanx.runtime.launch.launcher import CONFIG_BYTES, Packing
from phalanx.runtime.planning.shared_terms import SharedTerms
from phalanx.runtime.planning.ways import LaunchTerms, MapTerms
from phalanx.runtime.symbolic.expressions import Expression
from phalanx.runtime.symbolic.tracing import Viewed

_TOKEN = re.compile(r"\d*[a-zA-Z]")
_CALL = 5
"""To pack some fields on their own takes as long as so many fields more."""


class Field(NamedTuple):
    """What is packed: its format, and its text, or the bytes that it always is."""

    format: str
    text: str
    always: bytes | None = None


Fields = tuple[Field, ...]


def _constant(form: str, value: Any) -> Field:
    return _bytes(struct.pack(f"<{form}", value))


def _bytes(always: bytes) -> Field:
    return Field(f"{len(always)}s", repr(always), always)


def joined(fields: Sequence[Field]) -> Fields:
    """The same, with what always is the same in one piece where it follows each other."""
    found: list[Field] = []
    for each in fields:
        if each.always is not None and found and found[-1].always is not None:
            found[-1] = _bytes(found[-1].always + each.always)
        elif each.always != b"":
            found.append(each)
    return tuple(found)


class LaunchTexts:
    """The launches of one way, one after the other, written into the bytes of a `Room`.

    `name` gives names to what has no text; `terms` has the texts of numbers. `packed` are the lines that pack what is
    shared, `written` the one that writes all launches: neither is for calls that are `beyond` what we write ourselves.
    """

    def __init__(
        self, name: Callable[[Any], str], value_text: Callable[[Any], str], terms: SharedTerms, room: memoryview
    ) -> None:
        self._name, self._value_text, self._terms, self._room = name, value_text, terms, room
        self._launches: dict[int, tuple[Packing, list[Field | Fields]]] = {}
        self._groups: dict[Fields, int] = {}
        self._named: dict[Fields, str] = {}
        self._words: dict[str, None] = {}

    def add(self, terms: LaunchTerms, packing: Packing) -> None:
        """A launch, whose lines `lines` gives."""
        fields: list[Field | Fields] = []
        config = bytes(packing.image[:CONFIG_BYTES])
        stream = cuda.LaunchConfig.stream.offset
        fields += [self._number("I", count) for count in terms.grid]
        fields += [_bytes(config[cuda.LaunchConfig.grid.size : stream]), Field("Q", "stream")]
        fields.append(_bytes(config[stream + ctypes.sizeof(ctypes.c_void_p) :]))
        signature, end = packing.launcher.signature, 0
        image = bytes(packing.image[CONFIG_BYTES:])
        for slot, offset, value in zip(signature.given, signature.layout.slots, terms.arguments, strict=False):
            fields += [_bytes(image[end:offset]), *self._argument(slot, value)]
            end = offset + slot.nbytes
        if packing.take_counters is not None:
            offset = signature.layout.slots[-1]
            fields += [_bytes(image[end:offset]), Field("Q", f"{self._name(packing.take_counters)}(stream)")]
            end = offset + 8
        for each, layout, offset in zip(terms.maps, packing.layouts, signature.layout.tensor_maps, strict=True):
            fields += [_bytes(image[end:offset]), *self._descriptor(terms, each, layout)]
            end = offset + struct.calcsize(layout.format)
        for part in fields:
            if not isinstance(part, Field):
                self._groups[part] = self._groups.get(part, 0) + 1
        self._launches[id(terms)] = packing, fields

    def _number(self, form: str, number: Expression) -> Field:
        known = number.constant
        return Field(form, self._terms.text(number)) if known is None else _constant(form, known)

    def _argument(self, slot: Any, value: Any) -> list[Field | Fields]:
        if isinstance(value, Viewed):
            assert isinstance(slot, ArraySlot)
            rest = [self._number("q", step) for step in value.strides] + [self._number("i", size) for size in value.shape]
            rest.append(_bytes(bytes(slot.nbytes - 8 - 12 * slot.rank)))
            return [self._number("Q", value.data), joined(rest)]
        form = slot.format[1:]
        if isinstance(value, Expression):
            return [self._number(form, value)]
        return [_constant(form, value) if type(value) in (int, float, bool) else Field(form, self._value_text(value))]

    def _descriptor(self, terms: LaunchTerms, each: MapTerms, layout: MapLayout) -> list[Field | Fields]:
        numbers = each.pointer, *self._terms.numbers(terms, each)
        fields = [
            self._number(form, numbers[part]) if isinstance(part, int) else _bytes(part)
            for form, part in zip(_TOKEN.findall(layout.format[1:]), layout.parts, strict=True)
        ]
        strides = [number for number in numbers[1 + len(each.dims) :] if number.high >= WORD]
        self._words |= dict.fromkeys(map(self._terms.text, strides))
        return [fields[0], joined(fields[1:])]  # all but the address, which arrays that are alike share

    @property
    def beyond(self) -> str | None:
        """The text that says whether a stride is too large for a word of a descriptor; None where there is none to ask."""
        return f"({' | '.join(self._words)}) >= {WORD}" if self._words else None

    @property
    def packed(self) -> list[str]:
        """Lines that pack what several have in common."""
        lines = []
        for group, count in self._groups.items():
            pays = (count - 1) * len(group) > count + _CALL
            if pays and any([each.always is None for each in group]):
                name = self._named[group] = f"g{len(self._named)}"
                lines.append(f"{name} = {self._packer(group, 'pack')}({_texts(group)})")
        return lines

    @property
    def written(self) -> str:
        """The line that writes all launches; `stream` is their stream."""
        fields: list[Field] = []
        end = 0
        for packing, parts in self._launches.values():
            fields.append(_bytes(bytes(self._room[end : packing.place])))
            mine: list[Field] = []
            for part in parts:
                if isinstance(part, Field):
                    mine.append(part)
                elif part in self._named:
                    mine.append(Field(f"{_size(part)}s", self._named[part]))
                else:
                    mine += part
            fields += mine
            end = packing.place + _size(mine)
        whole = joined(fields)
        return f"{self._packer(whole, 'pack_into')}({self._name(self._room)}, 0, {_texts(whole)})"

    def _packer(self, fields: Sequence[Field], how: str) -> str:
        return self._name(getattr(struct.Struct(_format(fields)), how))

    def lines(self, terms: LaunchTerms) -> list[str]:
        """The lines of a launch that is written."""
        packing, name = self._launches[id(terms)][0], self._name
        return [
            f"status = {name(packing.enqueue)}(*{name(packing.given)})",
            f"if status: {name(packing.retry)}(status, stream)",
        ]


def _size(fields: Sequence[Field]) -> int:
    return struct.calcsize(_format(fields))


def _format(fields: Sequence[Field]) -> str:
    """The format of fields without gaps.

    Python converts addresses and strides in a third of the time where they are sizes of the machine's own. Its own formats
    have gaps for alignment, which is told by their length.
    """
    text = "".join([each.format for each in fields])
    native = "@" + text.replace("Q", "N").replace("q", "n")
    return native if struct.calcsize(native) == struct.calcsize(f"<{text}") else f"<{text}"


def _texts(fields: Sequence[Field]) -> str:
    return ", ".join([each.text for each in fields])


__all__ = ["Field", "LaunchTexts", "joined"]
