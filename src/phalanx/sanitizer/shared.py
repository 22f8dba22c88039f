"""Shadow state of a CTA's shared and tensor memory: exact bytes, kept as few pieces as the kernel's own regions need.

The memory is cut into cells: sets of bytes that every region seen so far covers wholly or not at all. A region is a
list of cells, found once and kept; a new region that covers a part of a cell splits it, in all lists. So disjoint
slices never meet and overlapping views always do, whatever their shapes and types, and a region that was seen before
costs one check per cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phalanx.sim.barriers import MBarrier
from phalanx.sim.places import BufferPlace, BufferRows
from phalanx.sim.scattered import cells_of, region_key

if TYPE_CHECKING:
    from phalanx.sanitizer.records import Record
    from phalanx.sim.machine import Cta

Cells = list["Cell"]


class Cell:
    """Bytes with one history: the last write, and the reads and atomics since that it does not dominate."""

    __slots__ = ("atomics", "barrier", "copied", "index", "lists", "loaded", "reads", "size", "unwritten", "write")

    def __init__(self, index: int, size: int, barrier: MBarrier | None = None) -> None:
        self.index = index
        self.size = size
        self.barrier = barrier
        """The mbarrier whose bytes these also are."""
        self.lists: list[Cells] = []
        self.reads: list[Record] = []
        self.atomics: list[Record] = []
        self.reset()

    def reset(self) -> None:
        """The CTA begins: nothing has touched the cell."""
        self.write: Record | None = None
        self.unwritten: list[Record] | None = None
        """Reads that came before any write."""
        self.copied: dict[tuple[int, int], int] | None = None
        """Ends (cluster and number, epoch) of copies that have read what is there: who knows one of them knows the writes
        too, and that they were fenced."""
        self.loaded: dict[tuple[int, int], int] | None = None
        """Ends of copies through the generic proxy that have read what was not fenced: they tell that writes are over."""
        self.reads.clear()
        self.atomics.clear()

    def split(self, index: int, size: int) -> Cell:
        """`size` of the bytes become a cell of their own with the same history, in every region that had them."""
        part = Cell(index, size, self.barrier)
        part.write, part.unwritten = self.write, self.unwritten and list(self.unwritten)
        part.reads, part.atomics = list(self.reads), list(self.atomics)
        part.copied = self.copied and dict(self.copied)
        part.loaded = self.loaded and dict(self.loaded)
        self.size -= size
        part.lists = list(self.lists)
        for cells in part.lists:
            cells.append(part)
        return part


class SharedShadow:
    """The cells of one CTA."""

    def __init__(self, cta: Cta) -> None:
        self.cta = cta
        machine = cta.cluster.machine
        size = machine.local_bytes + machine.scattered_bytes
        self.owner = np.zeros(size, np.int32)
        self.cells = [Cell(0, size)]
        self.regions: dict[Any, Cells] = {}
        self.exited = False
        self.visitors: dict[tuple[int, str], Record] = {}
        """The last access, by number and mode, of each peer (agent or engine) to this memory."""
        self.overlaid: dict[MBarrier, Cells] = {}
        """Barriers that share their memory with something else."""
        function = machine.function
        shared = {b.reuse for b in function.buffers} | {b.reuse for b in function.barriers}
        for array, barriers in cta.barriers.items():
            if array in shared or array.reuse is not None:
                for barrier in barriers:
                    start = machine.offsets[array] + 8 * barrier.index
                    cells = self._find(self.owner[start : start + 8])
                    for cell in cells:
                        cell.barrier = barrier
                    self.overlaid[barrier] = cells

    def reset(self) -> None:
        """The CTA begins."""
        self.exited = False
        if self.visitors:
            self.visitors.clear()
        for cell in self.cells:
            if cell.write is not None or cell.reads or cell.atomics or cell.unwritten is not None:
                cell.reset()

    def of(self, place: BufferPlace) -> Cells:
        """The cells of a region; `place` may be of a peer, the same bytes here are meant."""
        if isinstance(place, BufferRows):  # exactly the rows that are touched
            return [cell for part in place.parts() for cell in self.of(part)]
        key = region_key(place)
        cells = self.regions.get(key)
        if cells is None:
            machine, buffer = self.cta.cluster.machine, place.buffer
            if buffer.space.scattered:
                covered = np.zeros(machine.scattered_bytes, np.bool_)  # elements may share bytes: each is taken once
                covered[cells_of(buffer)[place.key]] = True
                numbers = machine.local_bytes + np.flatnonzero(covered)
                region = self.owner[numbers]
                cells = self._find(region)
                self.owner[numbers] = region
            else:
                start = machine.offsets[buffer]
                box = self.owner[start : start + buffer.host_bytes].reshape(*buffer.shape, buffer.dtype.itemsize)
                cells = self._find(box[place.key])
            self.regions[key] = cells
        return cells

    def _find(self, region: np.ndarray) -> Cells:
        """The cells that make up `region`, a part of `owner`; cells that it splits get their numbers there."""
        counts = np.bincount(region.reshape(-1), minlength=len(self.cells))
        numbers = np.flatnonzero(counts)
        found: Cells = []
        for number, count in zip(numbers.tolist(), counts[numbers].tolist()):
            cell = self.cells[number]
            if count != cell.size:
                cell = cell.split(len(self.cells), count)
                self.cells.append(cell)
                region[region == number] = cell.index
            found.append(cell)
            cell.lists.append(found)
        return found
