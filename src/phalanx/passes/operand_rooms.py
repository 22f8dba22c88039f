"""Shared memory of operands that are stored one after the other: those of one shape take turns in a few buffers.

A tile may go where an older one was if threads have met since that one was read: they do between the store of any third
tile and the product that reads it. So no barrier comes of it, and rings of loops have the room.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op, rewrite, substitute
from phalanx.ir.views import SharedBuffer, in_shared


@frozen
class _Life:
    """Where in its block the tile of a buffer is stored, read for the first time, and for the last time."""

    buffer: SharedBuffer
    store: int
    first: int
    last: int


def share_rooms(function: Function, rooms: Collection[SharedBuffer]) -> Function:
    """The kernel with fewer buffers for operands; it is `function` itself where none of the `rooms` gives way.

    For `operand_staging`, which made the rooms.
    """
    wanted = set(rooms)
    lives: dict[Block, list[_Life]] = {}
    _find_lives(function.body, wanted, _counts(function.body.walk(), wanted), lives)
    taken: dict[SharedBuffer, SharedBuffer] = {}
    for found in lives.values():
        taken |= _turns(sorted(found, key=lambda life: life.store))
    if not taken:
        return function
    body = rewrite(function.body, lambda op: [substitute(op, taken)])
    buffers = tuple(buffer for buffer in function.buffers if buffer not in taken)
    return dataclasses.replace(function, body=body, buffers=buffers)


def _counts(ops: Iterable[Op], wanted: set[SharedBuffer]) -> dict[SharedBuffer, int]:
    """How many accesses there are to each buffer."""
    found: dict[SharedBuffer, int] = {}
    for op in ops:
        for access in op.effects().accesses:
            if in_shared(access.region) and access.region.buffer in wanted:
                found[access.region.buffer] = found.get(access.region.buffer, 0) + 1
    return found


def _find_lives(
    block: Block, wanted: set[SharedBuffer], everywhere: Mapping[SharedBuffer, int], lives: dict[Block, list[_Life]]
) -> None:
    """Fills `lives` with the buffers whose accesses are all in one block, which begins with a store of threads there."""
    places: dict[SharedBuffer, list[int]] = {}
    inside: dict[SharedBuffer, int] = {}
    for index, op in enumerate(block.ops):
        for buffer, count in _counts(Block((op,)).walk(), wanted).items():
            places.setdefault(buffer, []).append(index)
            inside[buffer] = inside.get(buffer, 0) + count
        for inner in op.blocks():
            _find_lives(inner, wanted, everywhere, lives)
    known = {life.buffer for found in lives.values() for life in found}
    for buffer, found in places.items():
        if buffer in known or inside[buffer] != everywhere[buffer] or len(found) < 2:
            continue
        if block.ops[found[0]].tile_store is not None:
            lives.setdefault(block, []).append(_Life(buffer, found[0], found[1], found[-1]))


def _turns(lives: list[_Life]) -> dict[SharedBuffer, SharedBuffer]:
    """The buffers that give way to older ones of their shape, by their stores in order."""
    taken: dict[SharedBuffer, SharedBuffer] = {}
    free: list[tuple[SharedBuffer, int]] = []
    """Buffers that stay, each with the place where what is in it is read last."""
    for life in lives:
        met = [other.store for other in lives if other.first < life.store]
        for place, (buffer, last) in enumerate(free):
            alike = (buffer.shape, buffer.dtype) == (life.buffer.shape, life.buffer.dtype)
            if alike and any(last < store for store in met):
                taken[life.buffer] = buffer
                free[place] = (buffer, life.last)
                break
        else:
            free.append((life.buffer, life.last))
    return taken
