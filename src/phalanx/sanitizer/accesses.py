"""Accesses that conflict: every access is compared with those of the same bytes before it.

An access is over for whoever knows its epoch; two accesses of the same bytes of which one writes must be so ordered.
The checks of one byte stop at the last write: whoever comes after it, by the same rule, comes after all that it came
after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from phalanx.ir.effects import Mode, Use, When
from phalanx.ir.memory import Storage
from phalanx.ir.spaces import Space
from phalanx.ir.views import Buffer
from phalanx.sanitizer.clocks import AgentClock
from phalanx.sanitizer.globals import GlobalShadow, Tile, distinct, key_of, repeats_rows
from phalanx.sanitizer.records import Record
from phalanx.sanitizer.shared import Cell, Cells

READ, WRITE, ATOMIC = Mode.READ, Mode.WRITE, Mode.ATOMIC


class Copied(Enum):
    """What an agent knows by way of a copy of the writes that the copy has read."""

    UNKNOWN = "unknown"
    LOADED = "loaded"
    """That they are over."""
    FENCED = "fenced"
    """That they are over, and fenced for engines."""


UNKNOWN, FENCED = Copied.UNKNOWN, Copied.FENCED

class Conflicts:
    """Compares accesses and reports what is not ordered: `race`, `proxy`, `unhanded`, `unwritten` and `over_barrier` are
    told; `either`, of two atomics that could as well have come the other way round, with another outcome."""

    def __init__(
        self, *, strict: bool, race: Callable[[Record, Record], None], proxy: Callable[[Record, Record], None],
        unhanded: Callable[[Record, Record], None], unwritten: Callable[[Record, Record | None], None],
        over_barrier: Callable[[Record, Cell], None], either: Callable[[Record, Record], None],
        units: Mapping[Buffer, Storage] | None = None, mixed: bool = False,
    ) -> None:
        self.strict = strict
        self.mixed = mixed
        """Whether the kernel has atomics on elements of different sizes."""
        self.units = units
        """Where buffers share memory and do not mean the same bytes by it: what each belongs to as the user wrote it."""
        self.race = race
        self.proxy = proxy
        self.unhanded = unhanded
        self.unwritten = unwritten
        self.over_barrier = over_barrier
        self.either = either

    # --- shared memory ----------------------------------------------------------------------------------------------

    def shared(self, record: Record, cells: Cells) -> None:
        """An access of shared memory."""
        mode = record.mode
        if record.clock.layout.handed and record.access is not None and record.access.region.space.handover is not None:
            self._take_over(record, cells)
        if mode is READ:
            self._read(record, cells)
        elif mode is WRITE:
            self._write(record, cells)
        else:
            self._atomic(record, cells)

    def _read(self, record: Record, cells: Cells) -> None:
        clock = record.clock
        now, engine, peers = clock.now, record.engine, clock.layout.seen
        for cell in cells:
            write = cell.write
            copied = UNKNOWN if cell.copied is None and cell.loaded is None else how_copied(cell, clock)
            if copied is not FENCED:
                if write is None:
                    if not cell.atomics:
                        self._unwritten(record, cell)
                elif copied is UNKNOWN and (now[write.dim] < write.epoch or (peers and not is_seen(write, clock))):
                    self.race(write, record)
                elif engine and not write.engine and not is_fenced(clock, write, record, cell):
                    self.proxy(write, record)
                elif self.units is not None and self._is_left_over(write, record):
                    self._unwritten(record, cell, write)
                if cell.atomics:
                    self._after(cell.atomics, record, cell, copied, fenced=True, seen=True)
            if record.is_published and not record.raced:
                note_copy(cell, record)
            reads = cell.reads
            if not reads:
                reads.append(record)
            elif record.work is not None:  # what its issuer knew is not known to whoever learns of its end
                supersede(reads, record)
            elif len(reads) == 1 and now[reads[0].dim] >= reads[0].epoch:
                reads[0] = record
            else:
                reads[:] = [read for read in reads if now[read.dim] < read.epoch]
                reads.append(record)

    def _write(self, record: Record, cells: Cells) -> None:
        clock = record.clock
        now, engine, strict = clock.now, record.engine, self.strict
        for cell in cells:
            if cell.unwritten is not None:
                self._first_write(record, cell)
            reads = cell.reads
            if reads:
                if len(reads) > 1 or strict or now[reads[0].dim] < reads[0].epoch:
                    self._after(reads, record, cell, fenced=strict)
            write = cell.write
            copied = UNKNOWN if cell.copied is None and cell.loaded is None else how_copied(cell, clock)
            if cell.atomics:
                if copied is not FENCED:
                    self._after(cell.atomics, record, cell, copied, fenced=True)
                cell.atomics.clear()
            if write is not None and copied is not FENCED:
                unseen = write.clock.rank != record.rank and not is_seen(write, clock)
                if copied is UNKNOWN and (now[write.dim] < write.epoch or unseen):
                    if not any(self._in_order(write, read) and self._in_order(read, record) for read in reads):
                        self.race(write, record)
                elif engine and not write.engine and not is_fenced(clock, write, record, cell):
                    self.proxy(write, record)
            cell.copied = cell.loaded = None
            if reads:
                reads.clear()
            if cell.barrier is not None:
                self.over_barrier(record, cell)
            cell.write = record

    def _atomic(self, record: Record, cells: Cells) -> None:
        clock = record.clock
        now, engine, peers = clock.now, record.engine, clock.layout.seen
        for cell in cells:
            if cell.reads:  # they stay: an atomic that comes later may be in no order with them
                self._after(cell.reads, record, cell, fenced=self.strict)
            if cell.atomics and self.mixed:
                self._after(cell.atomics, record, cell, fenced=False)
            write = cell.write
            copied = UNKNOWN if cell.copied is None and cell.loaded is None else how_copied(cell, clock)
            if write is None:
                if not cell.atomics:
                    self._unwritten(record, cell)
            elif copied is FENCED:
                pass
            elif copied is UNKNOWN and (now[write.dim] < write.epoch or (peers and not is_seen(write, clock))):
                self.race(write, record)
            elif engine and not write.engine and not is_fenced(clock, write, record, cell):
                self.proxy(write, record)
            cell.copied = cell.loaded = None
            if cell.atomics and not record.access.folds:  # type: ignore[union-attr]
                self._either(cell.atomics, record)
            if cell.barrier is not None:
                self.over_barrier(record, cell)
            cell.atomics[:] = [other for other in cell.atomics if now[other.dim] < other.epoch]
            cell.atomics.append(record)

    def _after(
        self, before: list[Record], record: Record, cell: Cell, copied: Copied = Copied.UNKNOWN, *, fenced: bool,
        seen: bool = False,
    ) -> None:
        """All of `before` must be over (with `seen`, have reached its CTA); with `fenced`, generic ones need a proxy
        fence if an engine follows. Two that are atomic alike need neither. `copied`: what is known of all of them."""
        clock = record.clock
        now, engine, strong = clock.now, record.engine, record.strong
        for other in before:
            if strong and other.stands_beside(record):
                continue
            if copied is UNKNOWN and (now[other.dim] < other.epoch or (seen and not is_seen(other, clock))):
                self.race(other, record)
            elif fenced and engine and not other.engine and not is_fenced(clock, other, record, cell):
                self.proxy(other, record)

    def _either(self, before: Iterable[Record], record: Record) -> None:
        """Atomics that are in no order, and whose outcome depends on which comes first."""
        assert record.access is not None
        for other in before:
            assert other.access is not None
            if other.strong and not is_known(other, record.clock) and not record.access.commutes(other.access):
                self.either(other, record)

    def _in_order(self, before: Record, after: Record) -> bool:
        return in_order(before, after, strict=self.strict)

    def _take_over(self, record: Record, cells: Cells) -> None:
        """What is known to be over must also have been handed over, where the memory asks for that."""
        now = record.clock.now
        for cell in cells:
            before = [] if cell.write is None else [cell.write]
            if record.mode is not READ:
                before += cell.reads
            for other in before:
                if now[other.dim] >= other.epoch and not is_handed_over(other, record):
                    self.unhanded(other, record)

    def _is_left_over(self, write: Record, record: Record) -> bool:
        """Another buffer's bytes are there, which the compiler put there or which lie otherwise: nobody wrote these."""
        assert self.units is not None
        return write.access is not None and self.units[write.place.buffer] is not self.units[record.place.buffer]

    def _unwritten(self, record: Record, cell: Cell, other: Record | None = None) -> None:
        if cell.unwritten is None:
            cell.unwritten = []
        cell.unwritten.append(record)
        self.unwritten(record, other)

    def _first_write(self, record: Record, cell: Cell) -> None:
        """Reads that came before any write, but in no order with this one, are races, not reads of nothing."""
        now = record.clock.now
        for read in cell.unwritten or ():
            if now[read.dim] < read.epoch:
                self.race(record, read)  # not where one engine does both in order: then nothing was there to read
        cell.unwritten = None

    # --- global memory ----------------------------------------------------------------------------------------------

    def global_(self, record: Record, shadow: GlobalShadow) -> None:
        """An access of global memory."""
        arrays = shadow.arrays.get(record.place.window.index)
        if arrays is None or getattr(record.place, "view", record) is None:  # nothing of it lies inside the array
            return
        tile = arrays.tile(record.place)
        if tile is not None:
            self._tile(record, tile)
            return
        key = key_of(record.place)
        if key is None:
            return
        mode = record.mode
        if mode is WRITE and record.work is not None and repeats_rows(record.place):
            self.race(record, record)
        writes = arrays.writes[key]
        self._after_numbers(writes, record, shadow, fenced=True)
        if mode is not READ and arrays.reads is not None:
            self._after_numbers(arrays.reads[key], record, shadow, fenced=self.strict)
        if arrays.atomics is not None:
            if mode is not ATOMIC or self.mixed:
                self._after_numbers(arrays.atomics[key], record, shadow, fenced=mode is not ATOMIC)
            if record.strong and not record.access.folds:  # type: ignore[union-attr]
                for met in distinct(arrays.atomics[key]):
                    self._either(shadow.records[met], record)
        number = shadow.number(record)
        if mode is WRITE:
            arrays.writes[key] = number
            if arrays.reads is not None:
                arrays.reads[key] = 0
            if arrays.atomics is not None:
                arrays.atomics[key] = 0
            return
        numbers = arrays.reads if mode is READ else arrays.atomics
        assert numbers is not None
        self._add(numbers, key, number, record, shadow)

    def _tile(self, record: Record, tile: Tile) -> None:
        """An access of a tile that is only ever accessed as a whole."""
        mode = record.mode
        write = tile.write
        copied = UNKNOWN
        if write is not None:
            if tile.copied is not None or tile.loaded is not None:
                copied = how_copied(tile, record.clock)
            if copied is not FENCED:
                self._after_global((write,), record, tile, copied, fenced=True)
        if mode is READ:
            if tile.atomics:
                self._after_global(tile.atomics, record, fenced=True)
                if record.strong:
                    self._either(tile.atomics, record)
            elif write is not None and not record.raced and record.is_published:
                note_copy(tile, record)
            tile.reads = few(tile.reads, record)
            return
        if tile.reads:
            self._after_global(tile.reads, record, fenced=self.strict)
            if mode is ATOMIC:
                self._either(tile.reads, record)
        if mode is ATOMIC:
            if tile.atomics and not record.access.folds:  # type: ignore[union-attr]
                self._either(tile.atomics, record)
            tile.atomics = few(tile.atomics, record)
            return
        tile.copied = tile.loaded = None
        if tile.atomics:
            self._after_global(tile.atomics, record, fenced=True)
            tile.atomics = []
        if tile.reads:
            tile.reads = []
        tile.write = record

    def _add(self, numbers: np.ndarray, key: Any, number: int, record: Record, shadow: GlobalShadow) -> None:
        """Adds a record to those of each element; the ones it is ordered after are forgotten."""
        region = numbers[key]
        present = distinct(region)
        if not present:
            numbers[key] = number
            return
        region = region.copy()
        result = np.full(region.shape, number, np.int32)
        for old in present:
            if record.work is not None or not all(is_known(r, record.clock) for r in shadow.records[old]):
                result[region == old] = shadow.merge(old, number)
        numbers[key] = result

    def _after_numbers(self, numbers: np.ndarray, record: Record, shadow: GlobalShadow, *, fenced: bool) -> None:
        if numbers.any():
            for number in distinct(numbers):
                self._after_global(shadow.records[number], record, fenced=fenced)

    def _after_global(
        self, before: Iterable[Record], record: Record, tile: Tile | None = None, copied: Copied = Copied.UNKNOWN, *,
        fenced: bool,
    ) -> None:
        clock, engine, strong = record.clock, record.engine, record.strong
        reads = record.mode is not WRITE
        for other in before:
            if strong and other.stands_beside(record):
                continue
            if copied is UNKNOWN and (
                not is_known(other, clock) or (reads and other.mode is not READ and not is_seen(other, clock))
            ):
                self.race(other, record)
            elif fenced and engine and not other.engine and not is_fenced(clock, other, record, tile):
                self.proxy(other, record)


def in_order(before: Record, after: Record, *, strict: bool) -> bool:
    """Whether one engine does both, one after the other, for the same agent.

    An engine that keeps the order of certain accesses alone says of which; what all rely on and no document promises counts,
    unless the checks are strict. Two products are in order if their accumulator is one and the same, with one shape.
    """
    engine = before.worker
    if engine is None or engine is not after.worker or not engine.in_order:
        return False
    if before.clock is not after.clock or before.cluster != after.cluster:
        return False
    if engine.keeps is None:
        return True
    first, second = before.access, after.access
    assert first is not None and second is not None
    uses = first.use, second.use
    if uses == (Use.ACCUMULATOR, Use.ACCUMULATOR):
        return uses in engine.keeps and first.region.shape == second.region.shape and same_place(before, after)
    return uses in engine.keeps or (not strict and uses in engine.usually_keeps)


def same_place(before: Record, after: Record) -> bool:
    """Whether two accesses of a CTA's memory are of the very same bytes."""
    first, second = before.place.cells[before.rank], after.place.cells[after.rank]
    return before.rank == after.rank and set(map(id, first)) == set(map(id, second))


def note_copy(memory: Cell | Tile, record: Record) -> None:
    """A copy has read what is there, ordered after the writes: it is known to have, when its phase is.

    That they were fenced, too: for an engine's copy they had to be, for one of threads they may have been.
    """
    before = [*memory.atomics] if memory.write is None else [memory.write, *memory.atomics]
    if record.engine or all(write.engine or is_fenced(record.clock, write, record, memory) for write in before):
        phases = memory.copied = {} if memory.copied is None else memory.copied
    else:
        phases = memory.loaded = {} if memory.loaded is None else memory.loaded
    key = record.cluster, record.dim
    phases[key] = min(record.epoch, phases.get(key, record.epoch))


def how_copied(memory: Cell | Tile, clock: AgentClock) -> Copied:
    """Whether the agent knows that a copy has read what is there: then it knows the writes too, and their fence if
    there was one."""
    if memory.copied is not None and any(knows(clock, *end, epoch) for end, epoch in memory.copied.items()):
        return FENCED
    if memory.loaded is not None and any(knows(clock, *end, epoch) for end, epoch in memory.loaded.items()):
        return Copied.LOADED
    return UNKNOWN


def knows(clock: AgentClock, cluster: int, dim: int, epoch: int) -> bool:
    """Whether that is over for the agent, be it of another cluster."""
    now: Any = clock.now if cluster == clock.cluster else clock.abroad.known.get(cluster)
    return now is not None and bool(now[dim] >= epoch)


def supersede(records: list[Record], new: Record) -> None:
    """Adds an access by an engine to `records`, in the place of the one that it stands for."""
    for position, record in enumerate(records):
        if new.stands_for(record):
            if new.epoch > record.epoch:
                records[position] = new
            return
    records.append(new)


def few(records: list[Record], new: Record) -> list[Record]:
    """`records` with `new`, without those that it is ordered after; two of different clusters stand for all.

    Not where clusters may be ordered with each other: who comes later may know of two of them, and not of a third.
    """
    if new.work is None:
        records = [record for record in records if not is_known(record, new.clock)]
        records.append(new)
    else:
        records = [*records]
        supersede(records, new)
    if new.access is not None and new.clock.layout.across:
        return records
    other = next((record for record in records if record.cluster != new.cluster), None)
    return records if other is None else [other, new]


def is_known(record: Record, clock: AgentClock) -> bool:
    """Whether the access is over for the agent."""
    now: Any = clock.now if record.cluster == clock.cluster else clock.abroad.known.get(record.cluster)
    if now is None:
        return False
    return now[record.dim] >= record.epoch or any(now[dim] >= epoch for dim, epoch in record.also)


def is_seen(write: Record, clock: AgentClock) -> bool:
    """Whether a write that is known has reached the agent's CTA: an ordinary store of another needs cluster scope.

    What completes on a barrier, by the engine or `st.async`, is published there to the whole cluster.
    """
    layout = clock.layout
    if not layout.seen or write.engine or write.work is not None or write.clock.rank == clock.rank:
        return True
    if write.cluster != clock.cluster:  # known by a release and an acquire of the whole GPU
        return True
    return bool(clock.now[layout.seen + write.dim] >= write.epoch)


def is_fenced(clock: AgentClock, before: Record, after: Record, memory: Cell | Tile | None = None) -> bool:
    """Whether a proxy fence lies between a generic access and `after`, which `clock`'s agent issues now.

    What lands later than its instruction (`st.async`) can't be fenced by who issued it: somebody has to have learned that
    its phase is complete, and then fenced. `memory`: where it is, if a copy that read it there may be what was fenced.
    """
    if before.access is not None and before.access.fenced:
        return True
    assert after.access is not None
    space = after.access.region.space
    if covers(clock, before.dim, before.epoch, space, after.rank, before.cluster):
        return True
    if memory is None or memory.loaded is None:
        return False
    return any(covers(clock, dim, epoch, space, after.rank, cluster) for (cluster, dim), epoch in memory.loaded.items())


def is_handed_over(before: Record, after: Record) -> bool:
    """Whether fences lie where memory is handed from threads to others, or to an engine: before the signal, behind the wait.

    An engine's commit is as good as the fence before a signal, for the work that it covers. The accesses that threads of one
    agent make themselves are in order.
    """
    assert before.access is not None and after.access is not None
    fences = after.access.region.space.handover
    assert fences is not None
    by_engine = before.access.when is When.COMMIT
    if before.clock is after.clock and not by_engine and after.access.when is not When.COMMIT:
        return True
    taken = after.clock.taken.get(fences[1])
    if taken is None:
        return False
    section = 0 if by_engine else after.clock.layout.handed[fences[0]]
    return bool(taken[section + before.dim] >= before.epoch)


def is_told(before: Record, clock: AgentClock) -> bool:
    """Whether the fence before the signal was there: then it is the one behind the wait that is missing."""
    assert before.access is not None
    fences = before.access.region.space.handover
    assert fences is not None
    section = 0 if before.access.when is When.COMMIT else clock.layout.handed[fences[0]]
    return bool(clock.now[section + before.dim] >= before.epoch)


def covers(clock: AgentClock, dim: int, epoch: int, space: Space, rank: int, cluster: int | None = None) -> bool:
    """Whether a proxy fence lies between an epoch (of an agent, or the end of a phase) and what `clock`'s agent does now.

    Whoever ran it. `rank` is the CTA whose memory is meant, where each has its own: a space's own fence (`shared::cta`) is
    good for the memory of the CTA that runs it, its common one (`shared::cluster`) for all. `cluster`: the epoch is of
    that one.
    """
    own, common = space.own_fence, space.common_fence
    if own is None and common is None:
        return True
    layout = clock.layout
    if cluster is not None and cluster != clock.cluster:
        now: Any = clock.abroad.known.get(cluster)
    else:
        now, cluster = clock.now, clock.cluster
    if now is not None and dim < layout.fenced:
        if common is not None and now[layout.proxy[common][rank] + dim] >= epoch:
            return True
        if own is not None and now[layout.proxy[own][rank] + dim] >= epoch:
            return True
    if common is None or not space.is_common:
        return False
    known = clock.abroad.before_fence.get(cluster)
    return known is not None and bool(known[dim] >= epoch)
