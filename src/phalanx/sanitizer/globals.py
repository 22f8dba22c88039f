"""Shadow state of global memory: for every element of an array that the kernel writes, who touched it last.

Arrays that the kernel only reads need no shadow: nothing can race there. Arrays that overlap in memory share theirs, at the
granularity of what they have in common. The shadow holds numbers of records; number 0 is the host, which is before
everything. Clusters are never ordered with each other, so two records of different clusters stand for any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

import numpy as np

from phalanx.ir.core import Function
from phalanx.ir.effects import Mode
from phalanx.ir.views import GlobalView
from phalanx.sanitizer.records import Record
from phalanx.sim.places import GlobalPlace, RowsPlace


class ArrayShadow:
    """The shadow of one array argument: the last writes, the reads and the atomics since. None: the kernel has none."""

    __slots__ = ("atomics", "reads", "writes")

    def __init__(self, writes: np.ndarray, reads: np.ndarray | None, atomics: np.ndarray | None) -> None:
        self.writes = writes
        self.reads = reads
        self.atomics = atomics


class GlobalShadow:
    """All arrays of a launch."""

    def __init__(self, function: Function, args: Sequence[Any]) -> None:
        self.records: list[tuple[Record, ...]] = [()]
        self.merged: dict[tuple[int, int], int] = {}
        self.arrays: dict[int, ArrayShadow] = {}
        modes: dict[int, set[Mode]] = {}
        for op in function.walk():
            for access in op.effects().accesses:
                if isinstance(access.region, GlobalView):
                    modes.setdefault(access.region.array.index, set()).add(access.mode)
        arrays = {index: args[index] for index in modes if args[index].size}
        for group in overlapping(arrays):
            used = set().union(*(modes[index] for index in group))
            if used != {Mode.READ}:
                self._shadow({index: arrays[index] for index in group}, used)

    def _shadow(self, group: dict[int, np.ndarray], used: set[Mode]) -> None:
        bounds = {index: np.lib.array_utils.byte_bounds(array) for index, array in group.items()}
        low, high = min(b[0] for b in bounds.values()), max(b[1] for b in bounds.values())
        addresses = {index: array.__array_interface__["data"][0] for index, array in group.items()}
        grain = 0
        for index, array in group.items():
            grain = gcd(grain, array.itemsize, addresses[index] - low, *array.strides)
        size = (high - low) // grain

        def views(wanted: bool) -> dict[int, np.ndarray | None]:
            if not wanted:
                return dict.fromkeys(group)
            numbers = np.zeros(size, np.int32)
            return {
                index: np.lib.stride_tricks.as_strided(
                    numbers[(addresses[index] - low) // grain :],
                    (*array.shape, array.itemsize // grain),
                    (*(stride // grain * 4 for stride in array.strides), 4),
                )
                for index, array in group.items()
            }

        writes = views(True)
        reads, atomics = views(Mode.READ in used), views(Mode.ATOMIC in used)
        for index in group:
            shadow = writes[index]
            assert shadow is not None
            self.arrays[index] = ArrayShadow(shadow, reads[index], atomics[index])

    # --- numbers ----------------------------------------------------------------------------------------------------

    def number(self, record: Record) -> int:
        self.records.append((record,))
        return len(self.records) - 1

    def merge(self, old: int, new: int) -> int:
        """A number for the records of both."""
        key = (old, new)
        number = self.merged.get(key)
        if number is None:
            together = self.records[old] + self.records[new]
            other = next((r for r in together if r.cluster != together[0].cluster), None)
            self.records.append(together if other is None else (together[0], other))
            number = self.merged[key] = len(self.records) - 1
        return number


def overlapping(arrays: dict[int, np.ndarray]) -> Iterator[list[int]]:
    """Groups of arrays whose memory may overlap."""
    bounds = {index: np.lib.array_utils.byte_bounds(array) for index, array in arrays.items()}
    end, group = 0, list[int]()
    for index in sorted(bounds, key=lambda index: bounds[index]):
        low, high = bounds[index]
        if group and low >= end:
            yield group
            group = []
        group.append(index)
        end = max(end, high)
    if group:
        yield group


def key_of(place: GlobalPlace | RowsPlace) -> tuple[Any, ...] | None:
    """The index of the place in its array, or in its shadow; None if it lies outside."""
    starts, extents = place.starts, place.window.extents
    if isinstance(place, GlobalPlace):
        if place.inside is None:
            return tuple([slice(start, start + extent) for start, extent in zip(starts, extents)])
        if place.view is None:
            return None
    shape = place.window.array.shape
    key: list[Any] = []
    for axis, (start, extent, size) in enumerate(zip(starts, extents, shape)):
        if axis == place.window.row_axis:
            assert isinstance(place, RowsPlace)
            key.append(place.rows)
        else:
            low, high = max(start, 0), min(start + extent, size)
            if low >= high:
                return None
            key.append(slice(low, high))
    return tuple(key)


def distinct(numbers: np.ndarray) -> list[int]:
    """The numbers that occur, without 0."""
    if not numbers.size:
        return []
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return [low] if low else []
    return [number for number in np.unique(numbers).tolist() if number]
