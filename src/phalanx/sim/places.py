"""Regions at run time: a view with its offsets filled in, as a NumPy view of the memory it names.

`buffer_place` and `global_place` are called once per instruction and agent; what they return is called (or
looked up) at every execution, so it does as little as possible while the region lies inside its memory.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from phalanx.errors import Error
from phalanx.ir.archs import COPY_CHUNK, EXPANDED_ALIGNMENT, EXPANDED_BOX, MAX_STRIDE
from phalanx.ir.values import Param
from phalanx.ir.views import BarrierArray, Buffer, GlobalView, Patches, View
from phalanx.location import Location
from phalanx.sim.numerics import scalar_of

if TYPE_CHECKING:
    from phalanx.sim.machine import Cta

Key = tuple[Any, ...]


class BufferPlace:
    """A box of a buffer in the memory of one CTA. `array` is the memory itself, `key` the index that selects it."""

    __slots__ = ("array", "axes", "buffer", "cells", "cta", "key")

    is_common: ClassVar[bool] = False
    """Whether all CTAs reach the same memory, as its space says."""
    cells: list[Any]
    """What a monitor keeps of it; not set before."""

    def __init__(self, cta: Cta, buffer: Buffer, key: Key, axes: tuple[int, ...] | None) -> None:
        self.cta = cta
        self.buffer = buffer
        self.key = key
        self.axes = axes
        self.array = self.of(cta)

    def of(self, cta: Cta) -> np.ndarray:
        """The box in the memory of `cta`."""
        box = cta.buffers[self.buffer][self.key]
        return box if self.axes is None else box.transpose(self.axes)

    def peer(self, rank: int) -> np.ndarray:
        """The box in another CTA of the cluster."""
        return self.of(self.cta.cluster.ctas[rank])

    def read(self, fill: Any = None) -> Any:
        """A copy of the box."""
        return self.array.copy()

    def write(self, value: Any) -> None:
        """Puts a value, or one for every element, into the box."""
        self.array[...] = value

    def fold(self, function: Callable[..., Any], *values: Any) -> np.ndarray:
        """Replaces every element by `function(old, *new)`, returns the old ones."""
        old = self.array.copy()
        self.array[...] = function(old, *values)
        return old


class BufferRows(BufferPlace):
    """Rows of a buffer named by an index tile. Rows that are not there load as fill and are not stored.

    `array` and `key` are all the rows that there are; `valid` says which of the tile's are among them, `rows` which.
    """

    __slots__ = ("axis", "position", "rows", "shape", "valid")

    def __init__(
        self, cta: Cta, buffer: Buffer, key: Key, axes: tuple[int, ...] | None, view: View, index: np.ndarray
    ) -> None:
        super().__init__(cta, buffer, key, axes)
        assert view.index_axis is not None
        self.axis = view.index_axis
        self.position = view.kept.index(self.axis)
        self.shape = view.shape
        self.valid = np.flatnonzero((index >= 0) & (index < buffer.shape[self.axis]))
        self.rows = index[self.valid]

    def _at(self, rows: Any) -> Key:
        return (*(slice(None),) * self.position, rows)

    def read(self, fill: Any = None) -> np.ndarray:
        """The rows as a tile; those that the buffer does not have are `fill`."""
        tile = np.full(self.shape, fill, self.array.dtype)
        tile[self._at(self.valid)] = self.array[self._at(self.rows)]
        return tile

    def write(self, value: Any) -> None:
        """Puts the rows of a tile where they belong; those that the buffer does not have are dropped."""
        self.array[self._at(self.rows)] = np.broadcast_to(value, self.shape)[self._at(self.valid)]

    def fold(self, function: Callable[..., Any], *values: Any) -> np.ndarray:
        """Row by row, so that a row named twice is folded twice; 0 for rows that are not there."""
        tiles = [np.broadcast_to(value, self.shape) for value in values]
        old = np.zeros(self.shape, self.array.dtype)
        for position, row in zip(self.valid.tolist(), self.rows.tolist()):
            here, there = self._at(position), self._at(row)
            old[here] = self.array[there]
            self.array[there] = function(old[here], *[tile[here] for tile in tiles])
        return old

    def parts(self) -> list[BufferPlace]:
        """A place for each row that is touched."""
        keys = [(*self.key[: self.axis], row, *self.key[self.axis + 1 :]) for row in np.unique(self.rows).tolist()]
        return [BufferPlace(self.cta, self.buffer, key, None) for key in keys]


class GlobalPlace:
    """A box of a global array.

    `view` is its part inside the array (None: nothing), `inside` where that lies in the box (None: it is all of it).
    """

    __slots__ = ("inside", "starts", "view", "window")

    is_common: ClassVar[bool] = True

    def __init__(self, window: Window, view: np.ndarray | None, inside: Key | None, starts: tuple[Any, ...]) -> None:
        self.window = window
        self.view = view
        self.inside = inside
        self.starts = starts

    def read(self, fill: Any) -> np.ndarray:
        """The box as a tile; what lies outside the array is `fill`."""
        if self.inside is None:
            return self.view.copy()  # type: ignore[union-attr]
        tile = np.full(self.window.shape, fill, self.window.dtype)
        if self.view is not None:
            tile[self.inside] = self.view
        return tile

    def copy_to(self, destination: np.ndarray) -> None:
        """Into shared memory; what lies outside the array becomes 0."""
        if self.inside is None:
            destination[...] = self.view
            return
        destination[...] = self.window.zero
        if self.view is not None:
            destination[self.inside] = self.view

    def write(self, value: Any) -> None:
        """Puts a value into the part of the box that the array has."""
        if self.inside is None:
            self.view[...] = value  # type: ignore[index]
        elif self.view is not None:
            self.view[...] = value[self.inside] if isinstance(value, np.ndarray) else value

    def fold(self, function: Callable[..., Any], *values: Any) -> np.ndarray:
        """Replaces every element by `function(old, *new)`, returns the old ones (0 outside the array)."""
        old = self.read(self.window.zero)
        if self.view is not None:
            new = function(old, *values)
            self.view[...] = new if self.inside is None else new[self.inside]
        return old


class PartPlace(GlobalPlace):
    """A box of a global array of which only a part is there; `key` is the index of that part in the array."""

    __slots__ = ("key",)

    def __init__(
        self, window: Window, view: np.ndarray | None, inside: Key, starts: tuple[Any, ...], key: Key | None
    ) -> None:
        super().__init__(window, view, inside, starts)
        self.key = key


class PatchPlace(PartPlace):
    """Rows of a convolution's patches: a pixel of each, or zeros where the image has none there.

    `rows` says which of the tile are there, `key` which elements of the array they are.
    """

    __slots__ = ("rows",)

    def __init__(self, window: Window, patches: Patches, starts: tuple[int, ...], taps: tuple[int, ...]) -> None:
        array, axes = window.array, len(taps)
        for axis, (tap, reach) in enumerate(zip(taps, patches.reach)):
            if not 0 <= tap <= reach:
                raise Error(
                    f"a tap {tap} pixels into a patch that reaches {reach} further, along axis {axis} of the pixels",
                    kind="out-of-bounds", remedy="taps count from 0, and are less than the kernel's size",
                )
        image, *first, channel = starts
        rest = np.arange(window.extents[0])
        places: list[np.ndarray] = []
        for axis in reversed(range(axes)):
            low, stride = patches.lower[axis], patches.stride[axis]
            count = max(1, (array.shape[axis + 1] - 1 + patches.upper[axis] - low) // stride + 1)
            rest = rest + (first[axis] - low) // stride
            places.insert(0, low + rest % count * stride + taps[axis])
            rest = rest // count
        images = image + rest
        there = (images >= 0) & (images < array.shape[0])
        for place, size in zip(places, array.shape[1:]):
            there &= (place >= 0) & (place < size)
        low, high = max(channel, 0), min(channel + window.extents[-1], array.shape[-1])
        self.rows = np.flatnonzero(there)
        inside = (slice(None), slice(low - channel, high - channel))
        key: Any = None
        if low < high and self.rows.size:
            key = (images[self.rows], *(place[self.rows] for place in places), slice(low, high))
        super().__init__(window, None if key is None else array[key], inside, (*starts, *taps), key)

    def copy_to(self, destination: np.ndarray) -> None:
        """Into shared memory, as the array is now; what the images do not have becomes 0."""
        destination[...] = self.window.zero
        if self.key is not None:
            destination[self.rows, self.inside[1]] = self.window.array[self.key]  # type: ignore[index]


class RowsPlace:
    """Rows of a global array named by an index tile. Rows outside the array load as fill and are not stored."""

    __slots__ = ("rest", "rows", "starts", "valid", "window")

    is_common: ClassVar[bool] = True

    def __init__(self, window: Window, starts: tuple[Any, ...]) -> None:
        self.window = window
        self.starts = starts
        axis = window.row_axis
        rows = starts[axis]
        self.valid = np.flatnonzero((rows >= 0) & (rows < window.array.shape[axis]))
        self.rows = rows[self.valid]
        self.rest = window.all_rows.clip((*starts[:axis], 0, *starts[axis + 1 :]))

    def _keys(self, valid: Any, rows: Any) -> tuple[Key, Key]:
        """Where the rows lie in the tile, and in the part of the array that the other axes select."""
        position = self.window.kept.index(self.window.row_axis)
        inside = self.rest.inside or (slice(None),) * len(self.window.kept)
        everything = (slice(None),) * position
        return (*inside[:position], valid, *inside[position + 1 :]), (*everything, rows)

    def read(self, fill: Any) -> np.ndarray:
        """The rows as a tile; those that the array does not have are `fill`."""
        tile = np.full(self.window.shape, fill, self.window.dtype)
        if self.rest.view is not None:
            in_tile, in_array = self._keys(self.valid, self.rows)
            tile[in_tile] = self.rest.view[in_array]
        return tile

    def copy_to(self, destination: np.ndarray) -> None:
        """Puts the rows into shared memory; those that the array does not have become 0."""
        destination[...] = self.read(self.window.zero)

    def write(self, value: Any) -> None:
        """Puts the rows of a tile where they belong; those that the array does not have are dropped."""
        if self.rest.view is not None:
            in_tile, in_array = self._keys(self.valid, self.rows)
            self.rest.view[in_array] = np.broadcast_to(value, self.window.shape)[in_tile]

    def fold(self, function: Callable[..., Any], *values: Any) -> np.ndarray:
        """Row by row, so that a row named twice is folded twice."""
        tiles = [np.broadcast_to(value, self.window.shape) for value in values]
        old = np.zeros(self.window.shape, self.window.dtype)
        if self.rest.view is not None:
            for position, row in zip(self.valid.tolist(), self.rows.tolist()):
                in_tile, in_array = self._keys(position, row)
                old[in_tile] = self.rest.view[in_array]
                self.rest.view[in_array] = function(old[in_tile], *[tile[in_tile] for tile in tiles])
        return old


class Window:
    """What is known of a global view before it runs: the array, the extents, the axes that form its shape.

    `index` is the number of the array among the arguments.
    """

    def __init__(
        self, index: int, array: np.ndarray, extents: tuple[int, ...], kept: tuple[int, ...], row_axis: int = -1
    ) -> None:
        self.index = index
        self.array = array
        self.extents = extents
        self.kept = kept
        self.row_axis = row_axis
        self.shape = tuple(extents[axis] for axis in kept)
        self.dtype = array.dtype
        self.zero = np.zeros((), array.dtype)[()]  # all bits, also where a type has no number 0
        self.axes = transposition(kept)
        self.limits = tuple(size - extent for size, extent in zip(array.shape, extents))
        if row_axis >= 0:
            self.all_rows = Window(
                index, array, (*extents[:row_axis], array.shape[row_axis], *extents[row_axis + 1 :]), kept
            )

    def clip(self, starts: tuple[int, ...], within: tuple[int, ...] = ()) -> GlobalPlace:
        """The place at `starts`, cut to the array, and along the last axis to what is there of it."""
        key: list[Any] = []
        inside: list[slice] = []
        whole, cut = True, False
        last = len(starts) - 1
        for axis, (start, extent, size) in enumerate(zip(starts, self.extents, self.array.shape)):
            low, high = max(start, 0), min(start + extent, size)
            if within and axis == last:
                cut = low < within[0] or high > within[1]
                low, high = max(low, within[0]), min(high, within[1])
            if low >= high:
                return GlobalPlace(self, None, (), starts) if not cut else PartPlace(self, None, (), starts, None)
            whole = whole and high - low == extent
            if axis in self.kept:
                key.append(slice(low, high))
                inside.append(slice(low - start, high - start))
            else:
                key.append(low)
        view = self.array[(*key, ...)]
        if self.axes is not None:
            view = view.transpose(self.axes)
            inside = [inside[axis] for axis in self.axes]
        if cut:
            boxes = (part if isinstance(part, slice) else slice(part, part + 1) for part in key)
            return PartPlace(self, view, tuple(inside), starts, tuple(boxes))
        return GlobalPlace(self, view, None if whole else tuple(inside), starts)


def buffer_of(view: View) -> Buffer:
    """The buffer that a view of a CTA's memory is a box of."""
    assert isinstance(view.memory, Buffer), f"{view.space.name} memory of a CTA is in buffers"
    return view.memory


def array_of(view: View) -> Param:
    """The argument that a view of memory common to all CTAs is a box of."""
    assert isinstance(view.memory, Param), f"{view.space.name} memory of the grid is in arguments"
    return view.memory


def transposition(kept: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of a view in terms of its memory's kept axes; None where it keeps their order."""
    ascending = tuple(sorted(kept))
    return None if ascending == kept else tuple(ascending.index(axis) for axis in kept)


def global_place(view: View, array: np.ndarray, location: Location) -> Callable[..., GlobalPlace | RowsPlace]:
    """A function from the view's offsets to its place in `array`."""
    found = _global_place(view, array)
    if view.dtype.per_byte == 1:
        return found

    def whole_bytes(*starts: Any) -> GlobalPlace | RowsPlace:
        check_whole_bytes(view, starts[-1], location)
        return found(*starts)

    return whole_bytes


def check_whole_bytes(view: View, start: int, location: Location) -> None:
    """Refuses a region that begins within a byte: a GPU has no place for it."""
    share = view.dtype.per_byte
    if start % share:
        raise Error(
            f"this region of {view.memory.name} begins at place {start} of its last axis, within a byte: "
            f"{share} elements of {view.dtype} share one",
            location=location, kind="misaligned", remedy=f"begin at a multiple of {share}",
        )


def _global_place(view: View, array: np.ndarray) -> Callable[..., GlobalPlace | RowsPlace]:
    row_axis = view.index_axis
    window = Window(array_of(view).index, array, view.extents, view.kept, -1 if row_axis is None else row_axis)
    if row_axis is not None:
        return lambda *starts: RowsPlace(window, starts)
    if (patches := view.patches) is not None:
        axes = len(view.offsets)
        return lambda *operands: PatchPlace(window, patches, operands[:axes], operands[axes:])
    if view.limits:
        axes = len(view.offsets)
        return lambda *operands: window.clip(operands[:axes], operands[axes:])
    if view.kept == (0, 1) and len(view.extents) == 2:
        (rows, columns), (row_limit, column_limit) = view.extents, window.limits

        def box(row: int, column: int) -> GlobalPlace:
            if 0 <= row <= row_limit and 0 <= column <= column_limit:
                part = array[row : row + rows, column : column + columns]
                return GlobalPlace(window, part, None, (row, column))
            return window.clip((row, column))

        return box
    if view.kept == (0,) and len(view.extents) == 1:
        (length,), (limit,) = view.extents, window.limits

        def line(start: int) -> GlobalPlace:
            if 0 <= start <= limit:
                return GlobalPlace(window, array[start : start + length], None, (start,))
            return window.clip((start,))

        return line
    return lambda *starts: window.clip(starts)


def buffer_key(
    view: View, shape: tuple[int, ...], starts: tuple[int, ...], location: Location, lengths: tuple[int, ...] = ()
) -> Key:
    """The index of the view's box in its buffer of that shape; an error if it leaves the buffer."""
    key: list[Any] = []
    if view.dtype.per_byte > 1:
        check_whole_bytes(view, starts[-1], location)
    for axis, (start, extent, size) in enumerate(zip(starts, lengths or view.extents, shape)):
        if extent < 0:
            what = "elements" if len(shape) == 1 else f"places along axis {axis}"
            raise Error(
                f"a region of {extent} {what} of {view.memory.name}", location=location, kind="out-of-bounds",
                remedy="stop must not be less than start",
            )
        if isinstance(start, np.ndarray):  # rows by index, of all that there are
            key.append(slice(0, size))
            continue
        if start < 0 or start + extent > size:
            what = f"index {start}" if extent == 1 else f"{start}:{start + extent}"
            raise Error(
                f"{what} is outside axis {axis} of {view.memory.name}, whose size is {size}",
                location=location, kind="out-of-bounds", remedy=f"keep it within 0 to {size - 1 if extent == 1 else size}",
            )
        key.append(slice(start, start + extent) if axis in view.kept else start)
    return (*key, ...)


def buffer_place(view: View, cta: Cta, location: Location) -> Callable[..., BufferPlace]:
    """A function from the view's offsets (and rank, where it names one) to its place."""
    axes = transposition(view.kept)
    buffer = buffer_of(view)
    shape = buffer.shape
    index_axis = view.index_axis

    def place(where: Cta, starts: tuple[Any, ...], lengths: tuple[int, ...] = ()) -> BufferPlace:
        key = buffer_key(view, shape, starts, location, lengths)
        if index_axis is None:
            return BufferPlace(where, buffer, key, axes)
        return BufferRows(where, buffer, key, axes, view, starts[index_axis])

    if view.peer is None and not view.run_time_extents:
        if index_axis is None:
            return lambda *starts: BufferPlace(cta, buffer, buffer_key(view, shape, starts, location), axes)
        return lambda *starts: place(cta, starts)
    axes_of = len(view.offsets)

    def elsewhere(*operands: Any) -> BufferPlace:
        """The starts, then the rank and the lengths, where the view has them."""
        starts, rest = operands[:axes_of], operands[axes_of:]
        if view.peer is None:
            return place(cta, starts, rest)
        return place(cta.cluster.cta_of(rest[0], location), starts, rest[1:])

    return elsewhere


def outside(array: BarrierArray, index: int, location: Location) -> NoReturn:
    """The error for an index that an array of barriers does not have."""
    raise Error(
        f"index {index} is outside {array.title}, which has {array.n} barriers",
        location=location, kind="out-of-bounds", remedy=f"keep it within 0 to {array.n - 1}",
    )


def ranks_of(mask: int, cta: Cta, location: Location) -> list[int]:
    """The ranks that a mask names; an error if one is outside the cluster."""
    size = len(cta.cluster.ctas)
    if mask >> size:
        raise Error(
            f"the mask {mask:#x} names CTAs outside the cluster of {size}", location=location, kind="out-of-bounds",
            remedy=f"use a bit per rank, at most {(1 << size) - 1:#x}",
        )
    return [rank for rank in range(size) if mask >> rank & 1]


def misaligned(view: GlobalView, array: np.ndarray) -> str | None:
    """Why the TMA engine can't read or write this array, None if it can."""
    why = misplaced(view, array) if array.size else None
    inner = view.dtype.nbytes(prod(view.extents[-view.merged :]))
    if why is None and inner % COPY_CHUNK and prod(view.extents) != view.extents[-1]:  # a single row may have any length
        return f"the region of {view.array.name} is {inner} bytes wide, no multiple of {COPY_CHUNK}"
    return why


def misplaced(view: GlobalView, array: np.ndarray) -> str | None:
    """What keeps the TMA engine from this array in where its elements lie; an array without any lies well everywhere."""
    item = array.dtype.itemsize
    if array.ndim and array.shape[-1] > 1 and array.strides[-1] != item:
        return f"the last axis of {view.array.name} has a stride of {array.strides[-1]} bytes instead of {item}"
    address = array.__array_interface__["data"][0]
    if address % COPY_CHUNK:
        return f"{view.array.name} begins at an address that is {address % COPY_CHUNK} bytes past a multiple of {COPY_CHUNK}"
    for axis in range(array.ndim - view.merged):
        stride = array.strides[axis] // view.dtype.per_byte if array.shape[axis] > 1 else 0
        if stride % COPY_CHUNK or not 0 <= stride < MAX_STRIDE:
            why = f"no multiple of {COPY_CHUNK}" if stride % COPY_CHUNK else "backwards" if stride < 0 else "2**40 or more"
            return f"axis {axis} of {view.array.name} has a stride of {stride} bytes, {why}"
    return None


def misspread(view: GlobalView, array: np.ndarray) -> str | None:
    """Why the TMA engine can't put room between the elements of this array, None if it can: its further rules for them."""
    size = array.shape[-1]
    if size % EXPANDED_BOX:
        return f"{view.array.name} has {size} elements along its last axis, no multiple of {EXPANDED_BOX}"
    for axis in range(array.ndim - 1):
        stride = view.dtype.dense_bytes(array.strides[axis])  # elements have a byte each here
        if array.shape[axis] > 1 and stride % EXPANDED_ALIGNMENT:
            return f"axis {axis} of {view.array.name} has a stride of {stride} bytes, no multiple of {EXPANDED_ALIGNMENT}"
    return None


def tile_of(view: View, tile: np.ndarray) -> Any:
    """What a load defines: the tile, or a plain number where the view has no axes."""
    return tile if view.shape else scalar_of(tile, view.dtype)
