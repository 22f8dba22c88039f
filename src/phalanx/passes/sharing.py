"""Buffers whose lives are apart share memory, where the kernel needs it to fit.

Sharing is not free: threads must meet between the last use of one buffer and the first of the next, and a proxy fence
may be due. So a kernel that fits as it is keeps a place for each buffer, and its code stays as it was written; one that
does not fit into a CTA's share of an SM (all of it, or an equal part with `ctas_per_sm=`) has all buffers share that
can. What fits is measured with the layouts that the target will choose, by a function that the caller brings. The choice is
part of the prepared kernel: the simulator and the checks run with the same overlaps as the GPU, `passes.role_sync` puts
the barriers of threads that program order needs between two owners of the same bytes, and each fence put in here says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

from phalanx.analysis.lifetimes import Lifetimes, Precedence
from phalanx.ir.archs import Arch
from phalanx.ir.core import Block, Function, Note, Op, map_blocks, rewrite, substitute
from phalanx.ir.memory import Storage, unit_of
from phalanx.ir.ops.control import Roles
from phalanx.ir.ops.memory import FenceAsyncProxy
from phalanx.ir.types import TileType
from phalanx.ir.views import SharedBuffer

RESERVED = 1024
"""Bytes of an SM's shared memory that every CTA on it takes beyond those that it uses. One CTA may use all the others."""
GRAIN = 128
"""Bytes of shared memory that are handed out at a time."""
WIDEST_ROW = 128
"""Rows of a buffer are padded to a multiple of at most so many bytes."""


Fits = Callable[[Function, int], bool]
"""Whether a prepared kernel, with the layouts that a target gives its buffers, uses at most so many bytes."""


def budget(function: Function, arch: Arch) -> int:
    """Bytes of shared memory that a CTA may use on a target, so that as many as were asked for are on an SM."""
    share = (arch.shared_limit + RESERVED) // function.ctas_per_sm // GRAIN * GRAIN
    return min(arch.shared_limit, share - RESERVED)


def needs_sharing(function: Function, arch: Arch, fits: Fits) -> bool:
    """Whether a kernel, prepared without sharing, uses more than its budget on the target."""
    limit = budget(function, arch)
    if sum(buffer.nbytes for buffer in function.shared_buffers if buffer.reuse is None) > limit:
        return True
    return _at_most(function) > limit and not fits(function, limit)


def _at_most(function: Function) -> int:
    """A bound that needs no layouts: rows padded as far as they ever are, and a scratch of the largest tile each."""
    buffers = 0
    for buffer in function.shared_buffers:
        row = buffer.dtype.nbytes(buffer.shape[-1] if buffer.shape else 1)
        rows = prod(buffer.shape[:-1])
        buffers += rows * -(-row // WIDEST_ROW) * WIDEST_ROW + 1024
    largest = max(
        (
            2 * value.type.size * max(4, value.type.dtype.itemsize)
            for op in function.walk() for value in op.defined_values() if isinstance(value.type, TileType)
        ),
        default=0,
    )
    agents = 1 + sum(role.copies for op in function.walk() if isinstance(op, Roles) for role in op.regions)
    return buffers + agents * largest + sum(barrier.nbytes for barrier in function.barriers)


def share_memory(function: Function) -> Function:
    """The kernel in which every buffer lies in memory that another is done with, where there is such.

    For `passes.pipeline`, before threads are kept in order. The kernel itself where nothing can be shared.
    """
    lifetimes = Lifetimes(function)
    orders: dict[tuple[Storage, Storage], Precedence] = {}
    for first in lifetimes.units:
        for second in lifetimes.units:
            order = lifetimes.order(first, second) if first is not second else None
            if order is not None:
                orders[first, second] = order
    slots = plan(lifetimes.units, {frozenset(pair) for pair in orders})
    if all(len(slot.lanes) == 1 for slot in slots):
        return function
    fences: dict[Op, str] = {}
    for slot in slots:
        for first, second in slot.pairs():
            order = orders.get((first, second))
            for block, position in order.fences if order is not None else ():
                reason = f"{second.name} takes over bytes of {first.name}, and copies write it"
                fences.setdefault(block.ops[position], reason)
    return _rewritten(function, slots, fences)


@dataclass
class Slot:
    """One piece of memory: lanes of units, those of one lane behind each other, each lane from its beginning."""

    lanes: list[list[Storage]] = field(default_factory=list)

    def pairs(self) -> list[tuple[Storage, Storage]]:
        """Every two units that may have bytes in common, both ways round."""
        return [
            (a, b)
            for n, lane in enumerate(self.lanes) for m, other in enumerate(self.lanes) if n != m
            for a in lane for b in other
        ]


def plan(sizes: dict[Storage, int], apart: set[frozenset[Storage]]) -> list[Slot]:
    """Puts the units, the largest first, where they add the fewest bytes; `apart` are those that may share bytes."""
    slots: list[Slot] = []

    def length(lane: list[Storage]) -> int:
        return sum(-(-sizes[unit] // 1024) * 1024 for unit in lane)

    def extent(slot: Slot) -> int:
        return max(map(length, slot.lanes))

    for unit in sorted(sizes, key=lambda unit: -sizes[unit]):
        best: tuple[int, Slot, int] | None = None
        for slot in slots:
            strangers = [
                n for n, lane in enumerate(slot.lanes) if any(frozenset((unit, other)) not in apart for other in lane)
            ]
            if len(strangers) > 1:
                continue
            for n in strangers or range(len(slot.lanes) + 1):
                lane = slot.lanes[n] if n < len(slot.lanes) else []
                growth = max(0, length([*lane, unit]) - extent(slot))
                if growth < length([unit]) and (best is None or growth < best[0]):
                    best = growth, slot, n
        if best is None:
            slots.append(Slot([[unit]]))
        elif best[2] == len(best[1].lanes):
            best[1].lanes.append([unit])
        else:
            best[1].lanes[best[2]].append(unit)
    return slots


def _rewritten(function: Function, slots: list[Slot], fences: dict[Op, str]) -> Function:
    """The kernel with the buffers in their slots, and the fences in front of those instructions."""
    new: dict[Storage, SharedBuffer] = {}
    notes: list[Note] = []
    for slot in slots:
        root = slot.lanes[0][0]
        assert isinstance(root, SharedBuffer)
        new[root] = root
        if len(slot.lanes) == 1:
            new.update({unit: unit for unit in slot.lanes[0]})  # type: ignore[misc]
            continue
        for lane in slot.lanes:
            for position, unit in enumerate(lane):
                assert isinstance(unit, SharedBuffer)
                if unit is root:
                    continue
                others = [other.name for rest in slot.lanes if rest is not lane for other in rest]
                why = f"never in use together with {_listed(others)}"
                after = new[lane[position - 1]] if position else None
                new[unit] = dataclasses.replace(unit, reuse=root, why=why, after=after)
                behind = f", behind {after.name}" if after is not None else ""
                notes.append(Note(f"{unit.name} lies in the memory of {root.name}{behind}: {why}", unit.loc))
    for buffer in function.shared_buffers:  # what the user put into the memory of one that moved
        _follow(buffer, new)
    mapping = {old: now for old, now in new.items() if old is not now}

    def insert(block: Block) -> Block:
        out: list[Op] = []
        for op in block.ops:
            if op in fences:
                out.append(FenceAsyncProxy("cta", reason=fences[op], loc=op.loc))
            out.append(map_blocks(op, insert))
        same = len(out) == len(block.ops) and all(a is b for a, b in zip(out, block.ops, strict=True))
        return block if same else Block(tuple(out))

    return dataclasses.replace(
        function,
        buffers=tuple(mapping.get(buffer, buffer) for buffer in function.buffers),
        body=rewrite(insert(function.body), lambda op: [substitute(op, mapping)]),
        notes=(*function.notes, *notes),
    )


def _follow(buffer: SharedBuffer, new: dict[Storage, SharedBuffer]) -> SharedBuffer:
    """`buffer`, in the memory of what became of the one it takes over."""
    if buffer not in new:
        new[buffer] = buffer
        if isinstance(buffer.reuse, SharedBuffer) and unit_of(buffer) is not buffer:
            target = _follow(buffer.reuse, new)
            if target is not buffer.reuse:
                new[buffer] = dataclasses.replace(buffer, reuse=target)
    return new[buffer]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]
