"""Shadow state of global memory: for every element of an array that the kernel writes, who touched it last.

Arrays that the kernel only reads need no shadow: nothing can race there. Arrays that overlap in memory share theirs,
at the granularity of what they have in common. The shadow holds numbers of records; number 0 is the host, which is
before everything. Where clusters are never ordered with each other (by ordered atomics), two records of different clusters
stand for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import gcd
from operator import mod
from typing import Any

import numpy as np

from phalanx.ir.core import Function
from phalanx.ir.effects import Mode
from phalanx.sanitizer.records import Record
from phalanx.sim.places import GlobalPlace, PartPlace, RowsPlace, array_of


class Tile:
    """The history of one tile of an array: the last write, the reads and the atomics since."""

    __slots__ = ("atomics", "copied", "loaded", "reads", "write")

    def __init__(self) -> None:
        self.write: Record | None = None
        self.reads: list[Record] = []
        self.atomics: list[Record] = []
        self.copied: dict[tuple[int, int], int] | None = None
        """As of a `Cell`."""
        self.loaded: dict[tuple[int, int], int] | None = None


class ArrayShadow:
    """The shadow of one array argument.

    As long as all accesses are tiles of one grid (same extents, starts that differ by multiples of them), each tile has
    its history in `tiles`; the first access that is not makes numbers per element of them: the last writes, the reads
    and the atomics since (None: the kernel has none).
    """

    __slots__ = ("atomics", "extents", "origin", "reads", "spread", "tiles", "writes")

    def __init__(self, spread: Callable[[], None]) -> None:
        self.spread = spread
        """Makes `writes`, `reads` and `atomics`."""
        self.tiles: dict[tuple[int, ...], Tile] | None = {}
        self.extents: tuple[int, ...] = ()
        self.origin: tuple[int, ...] = ()
        self.writes: np.ndarray = None  # type: ignore[assignment]
        self.reads: np.ndarray | None = None
        self.atomics: np.ndarray | None = None

    def tile(self, place: GlobalPlace | RowsPlace) -> Tile | None:
        """The tile that `place` is, None if the grid is not (or no longer) one."""
        tiles = self.tiles
        if tiles is None:
            return None
        if type(place) is GlobalPlace:
            starts, extents = place.starts, place.window.extents
            if extents == self.extents:
                tile = tiles.get(starts)
                if tile is not None:
                    return tile
            elif not tiles:
                self.extents = extents
                self.origin = tuple(map(mod, starts, extents))
            if extents == self.extents and tuple(map(mod, starts, extents)) == self.origin:
                tile = tiles[starts] = Tile()
                return tile
        self.spread()
        return None


class GlobalShadow:
    """All arrays of a launch."""

    def __init__(self, function: Function, args: Sequence[Any]) -> None:
        self.records: list[tuple[Record, ...]] = [()]
        self.merged: dict[tuple[int, int], int] = {}
        self.arrays: dict[int, ArrayShadow] = {}
        modes: dict[int, set[Mode]] = {}
        for op in function.walk():
            for access in op.effects().accesses:
                if access.region.space.is_common:
                    modes.setdefault(array_of(access.region).index, set()).add(access.mode)
        arrays = {index: args[index] for index in modes if args[index].size}
        for group in overlapping(arrays):
            used = set().union(*(modes[index] for index in group))
            if used != {Mode.READ}:
                self._shadow({index: arrays[index] for index in group}, used)

    def _shadow(self, group: dict[int, np.ndarray], used: set[Mode]) -> None:
        done = False

        def spread() -> None:
            nonlocal done
            if not done:
                done = True
                self._spread(group, used)

        for index in group:
            self.arrays[index] = ArrayShadow(spread)
        if len(group) > 1 or any(map(folds, group.values())):
            spread()

    def _spread(self, group: dict[int, np.ndarray], used: set[Mode]) -> None:
        """Numbers per element, for arrays that share memory or are not accessed in tiles of one grid."""
        bounds = {index: np.lib.array_utils.byte_bounds(array) for index, array in group.items()}
        low, high = min(b[0] for b in bounds.values()), max(b[1] for b in bounds.values())
        addresses = {index: array.__array_interface__["data"][0] for index, array in group.items()}
        grain = 0
        for index, array in group.items():
            grain = gcd(grain, array.itemsize, addresses[index] - low, *array.strides)
        size = (high - low) // grain

        def views(wanted: bool) -> dict[int, Any]:
            if not wanted:
                return dict.fromkeys(group)
            numbers = np.zeros(size, np.int32)
            found = {}
            for index, array in group.items():
                shape, strides = array.shape, tuple(stride // grain * 4 for stride in array.strides)
                if array.itemsize > grain:
                    shape, strides = (*shape, array.itemsize // grain), (*strides, 4)
                start = (addresses[index] - low) // grain
                found[index] = np.lib.stride_tricks.as_strided(numbers[start:], shape, strides)
            return found

        writes = views(True)
        reads, atomics = views(Mode.READ in used), views(Mode.ATOMIC in used)
        for index in group:
            shadow = self.arrays[index]
            shadow.writes, shadow.reads, shadow.atomics = writes[index], reads[index], atomics[index]
            tiles, shadow.tiles = shadow.tiles, None
            for starts, tile in (tiles or {}).items():
                key = clipped(starts, shadow.extents, group[index].shape)
                if key is None:
                    continue
                if tile.write is not None:
                    shadow.writes[key] = self.number(tile.write)
                if tile.reads and shadow.reads is not None:
                    shadow.reads[key] = self.numbers(tile.reads)
                if tile.atomics and shadow.atomics is not None:
                    shadow.atomics[key] = self.numbers(tile.atomics)

    # --- numbers ----------------------------------------------------------------------------------------------------

    def number(self, record: Record) -> int:
        self.records.append((record,))
        return len(self.records) - 1

    def numbers(self, records: list[Record]) -> int:
        self.records.append(tuple(records))
        return len(self.records) - 1

    def merge(self, old: int, new: int) -> int:
        """A number for the records of both."""
        key = (old, new)
        number = self.merged.get(key)
        if number is None:
            added = self.records[new]
            kept = [r for r in self.records[old] if not any(later.stands_for(r) for later in added)]
            together = (*kept, *added)
            across = together[0].clock.layout.across
            other = None if across else next((r for r in together if r.cluster != together[0].cluster), None)
            self.records.append(together if other is None else (together[0], other))
            number = self.merged[key] = len(self.records) - 1
        return number


def folds(array: np.ndarray) -> bool:
    """Whether different elements may have the same address."""
    reach = array.itemsize
    for stride, size in sorted((abs(stride), size) for stride, size in zip(array.strides, array.shape) if size > 1):
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


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
        if isinstance(place, PartPlace):
            return place.key
        return clipped(starts, extents, place.window.array.shape)
    axis = place.window.row_axis
    sizes = place.window.array.shape
    key = clipped((*starts[:axis], 0, *starts[axis + 1 :]), (*extents[:axis], 1, *extents[axis + 1 :]), sizes)
    return None if key is None else (*key[:axis], place.rows, *key[axis + 1 :])


def touches(place: GlobalPlace | RowsPlace) -> bool:
    """Whether any of the place lies in its array."""
    return key_of(place) is not None and not (isinstance(place, RowsPlace) and not len(place.rows))


def repeats_rows(place: GlobalPlace | RowsPlace) -> bool:
    """Whether an index tile names a row of the array twice."""
    return isinstance(place, RowsPlace) and len(np.unique(place.rows)) < len(place.rows)


def clipped(starts: tuple[int, ...], extents: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...] | None:
    """The part of a box that lies inside an array; None if nothing does."""
    key = []
    for start, extent, size in zip(starts, extents, shape):
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
