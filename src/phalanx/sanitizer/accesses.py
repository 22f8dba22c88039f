"""Which accesses conflict: every access is compared with those of the same bytes before it.

An access is over for whoever knows its epoch; two accesses of the same bytes of which one writes must be so ordered.
The checks of one byte stop at the last write: whoever comes after it, by the same rule, comes after all that it came
after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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

MANY_READS = 64
READ, WRITE, ATOMIC = Mode.READ, Mode.WRITE, Mode.ATOMIC


class Conflicts:
    """Compares accesses and reports what is not ordered: `race`, `proxy`, `unhanded`, `unwritten` and `over_barrier` are
    told."""

    def __init__(
        self, *, strict: bool, race: Callable[[Record, Record], None], proxy: Callable[[Record, Record], None],
        unhanded: Callable[[Record, Record], None], unwritten: Callable[[Record, Record | None], None],
        over_barrier: Callable[[Record, Cell], None],
        units: Mapping[Buffer, Storage] | None = None,
    ) -> None:
        self.strict = strict
        self.units = units
        """Where buffers share memory and do not mean the same bytes by it: what each belongs to as the user wrote it."""
        self.race = race
        self.proxy = proxy
        self.unhanded = unhanded
        self.unwritten = unwritten
        self.over_barrier = over_barrier

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
            if cell.copied is None or not is_copied(cell, clock):
                if write is None:
                    if not cell.atomics:
                        self._unwritten(record, cell)
                elif now[write.dim] < write.epoch or (peers and not is_seen(write, clock)):
                    self.race(write, record)
                elif engine and not write.engine and not is_fenced(clock, write, record):
                    self.proxy(write, record)
                elif self.units is not None and self._is_left_over(write, record):
                    self._unwritten(record, cell, write)
                if cell.atomics:
                    self._after(cell.atomics, record, fenced=True, seen=True)
            if record.is_published and not record.raced:
                note_copy(cell, record)
            reads = cell.reads
            if not reads:
                reads.append(record)
            elif record.work is not None:  # what its issuer knew is not known to whoever learns of its end
                if len(reads) >= MANY_READS:
                    reads[:] = [read for read in reads if now[read.dim] < read.epoch]
                reads.append(record)
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
                    self._after(reads, record, fenced=strict)
            write = cell.write
            if cell.copied is not None:
                copied, cell.copied = is_copied(cell, clock), None
            else:
                copied = False
            if cell.atomics:
                if not copied:
                    self._after(cell.atomics, record, fenced=True)
                cell.atomics.clear()
            if write is not None and not copied:
                if now[write.dim] < write.epoch or (write.clock.rank != record.rank and not is_seen(write, clock)):
                    if not any(self._in_order(write, read) and self._in_order(read, record) for read in reads):
                        self.race(write, record)
                elif engine and not write.engine and not is_fenced(clock, write, record):
                    self.proxy(write, record)
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
                self._after(cell.reads, record, fenced=self.strict)
            write = cell.write
            if cell.copied is not None:
                copied, cell.copied = is_copied(cell, clock), None
            else:
                copied = False
            if write is None:
                if not cell.atomics:
                    self._unwritten(record, cell)
            elif copied:
                pass
            elif now[write.dim] < write.epoch or (peers and not is_seen(write, clock)):
                self.race(write, record)
            elif engine and not write.engine and not is_fenced(clock, write, record):
                self.proxy(write, record)
            if cell.barrier is not None:
                self.over_barrier(record, cell)
            cell.atomics[:] = [other for other in cell.atomics if now[other.dim] < other.epoch]
            cell.atomics.append(record)

    def _after(self, before: list[Record], record: Record, *, fenced: bool, seen: bool = False) -> None:
        """All of `before` must be over (with `seen`, have reached its CTA); with `fenced`, generic ones need a proxy
        fence if an engine follows."""
        clock = record.clock
        now, engine = clock.now, record.engine
        for other in before:
            if now[other.dim] < other.epoch or (seen and not is_seen(other, clock)):
                self.race(other, record)
            elif fenced and engine and not other.engine and not is_fenced(clock, other, record):
                self.proxy(other, record)

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
        if mode is not ATOMIC and arrays.atomics is not None:
            self._after_numbers(arrays.atomics[key], record, shadow, fenced=True)
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
        copied = tile.copied is not None and write is not None and (
            write.cluster == record.cluster and is_copied(tile, record.clock)
        )
        if write is not None and not copied:
            self._after_global((write,), record, fenced=True)
        if mode is READ:
            if tile.atomics:
                self._after_global(tile.atomics, record, fenced=True)
            elif write is not None and write.cluster == record.cluster and not record.raced:
                if record.is_published:
                    note_copy(tile, record)
            tile.reads = few(tile.reads, record)
            return
        if tile.reads:
            self._after_global(tile.reads, record, fenced=self.strict)
        if mode is ATOMIC:
            tile.atomics = few(tile.atomics, record)
            return
        tile.copied = None
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

    def _after_global(self, before: Iterable[Record], record: Record, *, fenced: bool) -> None:
        clock, engine = record.clock, record.engine
        reads = record.mode is not WRITE
        for other in before:
            if not is_known(other, clock) or (reads and other.mode is not READ and not is_seen(other, clock)):
                self.race(other, record)
            elif fenced and engine and not other.engine and not is_fenced(clock, other, record):
                self.proxy(other, record)


def in_order(before: Record, after: Record, *, strict: bool) -> bool:
    """Whether one engine does both, one after the other, for the same agent.

    An engine that keeps the order of certain accesses alone says of which; what all rely on and no document promises counts,
    unless the checks are strict. Two products on one accumulator are in order if they are of one shape.
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
        return uses in engine.keeps and first.region.shape == second.region.shape
    return uses in engine.keeps or (not strict and uses in engine.usually_keeps)


def note_copy(memory: Cell | Tile, record: Record) -> None:
    """A copy has read what is there, ordered after the writes: it is known to have, when its phase is."""
    copied = memory.copied
    if copied is None:
        copied = memory.copied = {}
    copied[record.dim] = min(record.epoch, copied.get(record.dim, record.epoch))


def is_copied(memory: Cell | Tile, clock: AgentClock) -> bool:
    """Whether the agent knows that a copy has read what is there: then it knows the writes too, and their fence."""
    now = clock.now
    return any(now[dim] >= epoch for dim, epoch in memory.copied.items())  # type: ignore[union-attr]


def few(records: list[Record], new: Record) -> list[Record]:
    """`records` with `new`, without those that it is ordered after; two of different clusters stand for all.

    Not where clusters may be ordered with each other: who comes later may know of two of them, and not of a third.
    """
    if new.work is None:
        records = [record for record in records if not is_known(record, new.clock)]
    records = [*records, new]
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


def is_fenced(clock: AgentClock, before: Record, after: Record) -> bool:
    """Whether a proxy fence lies between a generic access and `after`, which `clock`'s agent issues now, by either of them.

    A store that lands later than its instruction (`st.async`) can't be fenced by who issued it: whoever issues now has to
    have learned that its phase is complete, and then fenced.
    """
    if before.access is not None and before.access.fenced:
        return True
    assert after.access is not None
    return covers(clock, before.dim, before.epoch, after.access.region.space, after.rank, before.cluster)


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
