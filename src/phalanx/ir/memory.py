"""Buffers and barriers that share memory, and where each lies in what they share: one rule for every floor.

What takes over another's memory (`reuse=`) begins where that begins, and forms a unit with it. Units that the compiler
brought together (`SharedBuffer.why`) lie in lanes: those of one lane behind each other, each lane from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.frozen import frozen
from phalanx.ir.values import Param
from phalanx.ir.views import BarrierArray, Buffer, View

Storage = Buffer | BarrierArray
Region = View | BarrierArray
"""A view, or the memory of an array of barriers."""


def memory_owner(item: Storage) -> Storage:
    """The buffer or barrier array whose memory this one finally took over, or itself."""
    while item.reuse is not None:
        item = item.reuse
    return item


def unit_of(item: Storage) -> Storage:
    """The buffer or barrier array whose memory this one took over because the user asked for that, or itself."""
    while item.reuse is not None and not _is_chosen(item):
        item = item.reuse
    return item


def lane_of(item: Storage) -> Storage:
    """The first unit of the lane in which a buffer or barrier array lies."""
    unit = unit_of(item)
    while isinstance(unit, Buffer) and unit.after is not None:
        unit = unit_of(unit.after)
    return unit


def may_share_bytes(a: Storage, b: Storage) -> bool:
    """Whether the memory of the two may overlap."""
    if memory_owner(a) is not memory_owner(b):
        return False
    return unit_of(a) is unit_of(b) or lane_of(a) is not lane_of(b)


def unit_of_region(region: Region) -> Param | Storage:
    """The memory of a region as the user sees it: an array, or the unit that a buffer belongs to."""
    memory = region.memory
    return memory if isinstance(memory, Param) else unit_of(memory)


def may_be_in_one_memory(a: Region, b: Region) -> bool:
    """Whether the memories of two regions may have bytes in common; different arrays are taken to have none."""
    if a.space is not b.space:
        return False
    first, second = a.memory, b.memory
    if isinstance(first, Param) or isinstance(second, Param):
        return first is second
    return may_share_bytes(first, second)


@frozen
class Piece:
    """Memory of its own: everything that lies in it, at which offset, and what it asks for as a whole."""

    offsets: Mapping[Storage, int]
    nbytes: int
    alignment: int


def pieces(items: Iterable[Storage], sizes: Mapping[Storage, int], alignments: Mapping[Storage, int]) -> list[Piece]:
    """The memory that `items` need, in the order of the first of each piece."""
    members: dict[Storage, list[Storage]] = {}
    units: dict[Storage, list[Storage]] = {}
    for item in items:
        members.setdefault(memory_owner(item), []).append(item)
        units.setdefault(unit_of(item), []).append(item)

    def start(item: Storage) -> int:
        unit = unit_of(item)
        if not isinstance(unit, Buffer) or unit.after is None:
            return 0
        before = unit_of(unit.after)
        end = start(before) + max(sizes[part] for part in units[before])
        alignment = max(alignments[part] for part in units[unit])
        return -(-end // alignment) * alignment

    found = []
    for group in members.values():
        offsets = {item: start(item) for item in group}
        nbytes = max(offset + sizes[item] for item, offset in offsets.items())
        found.append(Piece(offsets, nbytes, max(alignments[item] for item in group)))
    return found


def _is_chosen(item: Storage) -> bool:
    return isinstance(item, Buffer) and bool(item.why)
