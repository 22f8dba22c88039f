"""TMA boxes: cutting a tile into the copies that the hardware can do, and the rules of a tensor descriptor.

Extents, boxes and strides are in the order of the array's axes, outermost first (the descriptor itself wants
them the other way round).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK, MAX_BOX, MAX_DIM, MAX_STRIDE
from phalanx.layouts.shared import TMA_ALIGNMENT, SharedLayout

MAX_RANK = 5


class Misplaced(ValueError):
    """Where the region lies in shared memory is what the copy engine can't do."""


@frozen
class BoxPiece:
    """One copy: where its box starts in the tile (per array axis) and in shared memory (bytes)."""

    offset: tuple[int, ...]
    shared_offset: int


@frozen
class BoxPlan:
    """The box of the descriptor (elements per array axis), and the copies that make up the tile."""

    box: tuple[int, ...]
    itemsize: int
    pieces: tuple[BoxPiece, ...]

    @property
    def box_bytes(self) -> int:
        """What one copy completes on its barrier."""
        return math.prod(self.box) * self.itemsize

    @property
    def nbytes(self) -> int:
        """What all copies together complete on the barrier."""
        return len(self.pieces) * self.box_bytes


def boxes(
    extents: Sequence[int],
    layout: SharedLayout,
    axes: Sequence[int] | None = None,
    origin: Sequence[int] | None = None,
) -> BoxPlan:
    """Cut a tile into TMA boxes that each land contiguously in a shared layout.

    `extents` has the tile's extent along every axis of the array, 1 where an integer index drops the axis;
    `axes[i]` is the array axis along which dimension i of the shared tile runs (by default all axes, or those
    with an extent above 1 where that is unambiguous); `origin` is where in the shared tile the box region
    starts. ValueError with the reason if the hardware can't do it.

    Example: `boxes((128, 128), SharedLayout((128, 128), 2, swizzle=128, panel=64))` has the box (128, 64),
    twice.
    """
    sizes = tuple(extents)
    places = _place(sizes, layout, axes)
    start = (0,) * layout.rank if origin is None else tuple(origin)
    return _boxes(sizes, layout, places, start)


@lru_cache(maxsize=512)
def _boxes(
    extents: tuple[int, ...], layout: SharedLayout, axes: tuple[int, ...], origin: tuple[int, ...]
) -> BoxPlan:
    if not 1 <= len(extents) <= MAX_RANK:
        raise ValueError(f"TMA copies tiles of rank 1 to {MAX_RANK}, not {len(extents)}")
    region = tuple(extents[axis] for axis in axes)
    for start, extent, size in zip(origin, region, layout.shape, strict=True):
        if start < 0 or start + extent > size:
            raise ValueError(
                f"a tile of {region} at {origin} does not fit a shared tile of shape {layout.shape}"
            )
    shape = _box_shape(region, origin, layout)
    box = [1] * len(extents)
    for axis, extent in zip(axes, shape, strict=True):
        box[axis] = extent
    problems = check_descriptor(itemsize=layout.itemsize, box=box, swizzle=layout.swizzle)
    if problems:
        raise ValueError("; ".join(problems))
    pieces = []
    for flat in range(math.prod(e // b for e, b in zip(region, shape, strict=True))):
        offset = [0] * len(extents)
        for dim in reversed(range(len(region))):
            count = region[dim] // shape[dim]
            offset[axes[dim]] = flat % count * shape[dim]
            flat //= count
        where = tuple(origin[dim] + offset[axis] for dim, axis in enumerate(axes))
        # The copy engine applies the swizzle to addresses itself: give it the address before the swizzle.
        address = _plain_offset(layout, where)
        if address % TMA_ALIGNMENT:
            raise Misplaced(
                f"a box of {shape} lands at byte {address} of the shared tile; "
                f"TMA needs a multiple of {TMA_ALIGNMENT}"
            )
        pieces.append(BoxPiece(tuple(offset), address))
    return BoxPlan(tuple(box), layout.itemsize, tuple(pieces))


def _place(extents: tuple[int, ...], layout: SharedLayout, axes: Sequence[int] | None) -> tuple[int, ...]:
    """The array axis of each shared dimension, checked."""
    if axes is None:
        places = tuple(range(len(extents)))
        if len(places) > layout.rank:
            places = tuple(axis for axis, extent in enumerate(extents) if extent > 1)
    else:
        places = tuple(axes)
    if len(places) != layout.rank:
        raise ValueError(f"say which axes of a tile of {extents} a shared tile of shape {layout.shape} has")
    if any(not 0 <= axis < len(extents) for axis in places) or list(places) != sorted(set(places)):
        raise ValueError(f"the axes {places} are not in the order of the array: TMA can't transpose")
    if any(extent != 1 for axis, extent in enumerate(extents) if axis not in places):
        raise ValueError(
            f"an axis of {extents} with more than one element is not in the shared tile (axes {places})"
        )
    return places


def _box_shape(
    region: tuple[int, ...], origin: tuple[int, ...], layout: SharedLayout, narrow: bool = True
) -> tuple[int, ...]:
    """The largest box, per shared dimension, that divides the region and lands contiguously.

    `narrow`: it may have fewer columns than a swizzle spans, the first ones.
    """
    columns, start = region[-1], origin[-1]
    width = layout.panel_columns
    whole_panels = start % width == 0 and columns % width == 0
    if not whole_panels and start // width != (start + columns - 1) // width:
        raise Misplaced(
            f"columns {start}..{start + columns - 1} are neither whole panels of {width} columns of the "
            "shared tile nor within one"
        )
    if layout.swizzle and (not (whole_panels or narrow) or layout.row_pitch != layout.swizzle):
        raise ValueError(
            f"a {layout.swizzle}-byte swizzle needs boxes of {layout.swizzle} bytes along the inner axis, in "
            f"rows of as many; here are {min(columns, width) * layout.itemsize} in rows of {layout.row_pitch}"
        )
    if layout.swizzle and start % width:
        raise Misplaced(
            f"columns {start}..{start + columns - 1} begin within {layout.swizzle} bytes that are swizzled together: "
            "boxes of fewer columns have the first ones"
        )
    inner = _part(width if whole_panels else columns, layout.itemsize, COPY_CHUNK)
    box = [inner]
    # The rows of a box follow each other without gaps: it has several only if it spans the whole pitch.
    # Under a swizzle it does: the rows of a narrower box are as far apart as the swizzle spans.
    full = inner * layout.itemsize == layout.row_pitch or layout.swizzle > 0
    if layout.rank > 1:
        rows = _part(region[-2], layout.row_pitch) if full else 1
        box.insert(0, rows)
        full = full and rows == layout.rows == region[-2]
        full = full and layout.panels == 1 and layout.matrix_bytes == layout.panel_bytes
    step = layout.matrix_bytes
    for extent, size in zip(reversed(region[:-2]), reversed(layout.leading), strict=True):
        count = _part(extent, step) if full else 1
        box.insert(0, count)
        full = full and count == size == extent
        step *= size
    return tuple(box)


def _part(extent: int, step: int, multiple: int = 1) -> int:
    """The largest part of an extent that a box may have: a divisor, in multiples of some bytes, such that the
    boxes, each `part * step` bytes after the one before, all start where TMA can write."""
    for count in range(min(extent, MAX_BOX), 0, -1):
        if extent % count == 0 and count * step % multiple == 0:
            if count == extent or count * step % TMA_ALIGNMENT == 0:
                return count
    raise ValueError(
        f"{extent} parts of {step} bytes can't be cut into equal boxes of at most {MAX_BOX} that are "
        f"multiples of {multiple} bytes and start on multiples of {TMA_ALIGNMENT}"
    )


def _plain_offset(layout: SharedLayout, index: tuple[int, ...]) -> int:
    return int(layout.swizzled(layout.offset(index)))


def merge_axes(layout: SharedLayout, count: int) -> SharedLayout:
    """A tile without gaps with its last `count` axes taken for one; ValueError where there are gaps.

    Example: `merge_axes(SharedLayout((2, 32, 4, 4), 1), 2).shape == (2, 32, 16)`.
    """
    if not layout.is_row_major:
        raise ValueError(f"the last {count} axes of a shared tile of shape {layout.shape} are not one run of bytes")
    shape = (*layout.shape[:-count], math.prod(layout.shape[-count:]))
    return SharedLayout(shape, layout.itemsize, start=layout.start)


def choose_swizzle(columns: int, itemsize: int) -> int:
    """The widest swizzle whose span divides a row: 128, 64, 32, or 0 if none does."""
    return next((span for span in (128, 64, 32) if columns * itemsize % span == 0), 0)


def choose_panel(columns: int, itemsize: int, swizzle: int = 0, step: int = COPY_CHUNK) -> int | None:
    """The panel width a shared tile needs so that TMA boxes fill it; None if one panel will do.

    A swizzled tile has panels of exactly the swizzle's span; otherwise a box holds at most 256 elements a
    row, a multiple of `step` bytes. ValueError if no panel divides the row.

    Example: `choose_panel(256, 2, swizzle=128)` is 64.
    """
    if swizzle:
        if columns * itemsize % swizzle:
            raise ValueError(
                f"rows of {columns * itemsize} bytes are no multiple of the {swizzle}-byte swizzle"
            )
        panel = swizzle // itemsize
    else:
        parts = (n for n in range(min(columns, MAX_BOX), 0, -1) if columns % n == 0 and n * itemsize % step == 0)
        panel = next(parts, 0)
        if not panel:
            raise ValueError(
                f"rows of {columns} elements of {itemsize} bytes have no part of a multiple of {step} bytes"
            )
    return None if panel == columns else panel


def check_descriptor(
    *,
    itemsize: int,
    box: Sequence[int],
    dims: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    address: int | None = None,
    swizzle: int = 0,
    shared_offset: int | None = None,
) -> list[str]:
    """The rules of a tiled tensor descriptor that these values break, as sentences; empty if it is valid.

    `dims` are the array's extents and `strides` its byte strides, per axis, outermost first, the inner one
    included; leave out what is not known yet.
    """
    problems: list[str] = []
    rank = len(box)
    if not 1 <= rank <= MAX_RANK:
        problems.append(f"a descriptor has rank 1 to {MAX_RANK}, not {rank}")
    for axis, count in enumerate(box):
        if not 1 <= count <= MAX_BOX:
            problems.append(f"the box has {count} elements along axis {axis}; 1 to {MAX_BOX} are allowed")
    inner = box[-1] * itemsize if rank else 0
    if inner % COPY_CHUNK:
        problems.append(f"the box has {inner} bytes along the inner axis; it must be a multiple of {COPY_CHUNK}")
    if swizzle and inner > swizzle:
        problems.append(
            f"the box has {inner} bytes along the inner axis; a {swizzle}-byte swizzle allows {swizzle}"
        )
    if address is not None and address % COPY_CHUNK:
        problems.append(f"the array starts at an address that is no multiple of {COPY_CHUNK} bytes")
    for axis, extent in enumerate(dims or ()):
        if not 1 <= extent <= MAX_DIM:
            problems.append(f"the array has {extent} elements along axis {axis}; 1 to 2**32 are allowed")
    if strides:
        if strides[-1] != itemsize:
            problems.append(
                f"the inner stride is {strides[-1]} bytes; elements of {itemsize} bytes must be adjacent"
            )
        for axis, stride in enumerate(strides[:-1]):
            if stride % COPY_CHUNK or not 0 <= stride < MAX_STRIDE:
                problems.append(
                    f"the stride of axis {axis} is {stride} bytes; it must be a multiple of {COPY_CHUNK}, "
                    "from 0 to below 2**40"
                )
    if shared_offset is not None and shared_offset % TMA_ALIGNMENT:
        problems.append(f"byte {shared_offset} of shared memory is no multiple of {TMA_ALIGNMENT}")
    return problems
