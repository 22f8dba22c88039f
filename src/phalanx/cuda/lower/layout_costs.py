"""What a register layout costs, in about the time of one memory sector or wavefront of one warp."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from phalanx.cuda.tiles.convert import conversion
from phalanx.cuda.tiles.global_access import vector_elements
from phalanx.cuda.tiles.reduce import is_separable
from phalanx.ir.views import GlobalView, View, in_global, in_shared
from phalanx.layouts.axes import exchanged, is_ordered
from phalanx.layouts.banks import best_vector, warp_wavefronts
from phalanx.layouts.bits import log2, next_power_of_two, previous_power_of_two
from phalanx.layouts.blocked import blocked, vector_for
from phalanx.layouts.convert import Identity, RegisterPermute, Shuffle
from phalanx.layouts.linear import LinearLayout
from phalanx.layouts.registers import LANES, RegisterLayout, padded, unit
from phalanx.layouts.shared import SWIZZLE_MASKS, SharedLayout

SECTOR = 32  # bytes that global memory moves at least
BARRIERS = 60.0  # two barriers and the latency between them
IMPOSSIBLE = 1e12
_SAMPLE = 8


def view_order(view: View, rank: int) -> tuple[int, ...]:
    """The view's dimensions from the one whose neighbours lie closest in memory to the farthest."""
    return tuple(sorted(range(rank), key=lambda dim: -view.kept[dim]))


def preferred(
    view: View, shape: tuple[int, ...], warps: int, reduce_axis: int | None, ordered: bool = False
) -> RegisterLayout:
    """The layout in which a view is best read or written: vectors and then lanes along contiguous memory."""
    order = view_order(view, len(shape))
    vector = 1
    if in_shared(view):
        if view.kept and order and view.kept[order[0]] == len(view.extents) - 1:
            vector = vector_for(shape, warps, view.dtype.itemsize, order)
    elif in_global(view) and _runs_along_rows(view) and view.array_type.aligned:
        vector = vector_for(shape, warps, view.dtype.itemsize, order)
    return blocked(shape, warps, vector, order, reduce_axis, ordered)


def between(views: Sequence[View], shape: tuple[int, ...], warps: int) -> Iterator[RegisterLayout]:
    """Layouts for a tile that is read along one dimension and written along another, as in a transpose.

    Vectors, and as many lanes as fill memory sectors, run along the one; the other lanes along the other, where they
    meet different banks.
    """
    fastest = list(dict.fromkeys(view_order(view, len(shape))[0] for view in views if view.kept))
    for first in fastest:
        itemsize = max(view.dtype.itemsize for view in views)
        widest = log2(max(1, 16 // itemsize))
        for second in fastest:
            if first == second:
                continue
            for vector in sorted({0, widest}):
                for lanes in range(4):
                    yield _crossed(shape, warps, first, second, vector, lanes)


@lru_cache(maxsize=1024)
def _crossed(
    shape: tuple[int, ...], warps: int, first: int, second: int, vector: int, lanes: int
) -> RegisterLayout:
    """`vector` register and `lanes` lane bits along `first`, the other lanes along `second`, then warps, registers."""
    left = [log2(extent) for extent in padded(shape)]
    used = [0] * len(shape)

    def take(count: int, dim: int) -> list[tuple[int, ...]]:
        images = []
        for _ in range(max(0, min(count, left[dim]))):
            images.append(unit(len(shape), dim, 1 << used[dim]))
            used[dim] += 1
            left[dim] -= 1
        return images

    order = [second, first, *(dim for dim in reversed(range(len(shape))) if dim not in (first, second))]
    registers = take(vector, first)
    lane_images = take(lanes, first)
    for dim in order:
        lane_images += take(5 - len(lane_images), dim)
    warp_images: list[tuple[int, ...]] = []
    for dim in reversed(order):
        warp_images += take(log2(previous_power_of_two(warps)) - len(warp_images), dim)
    for dim in order:
        registers += take(left[dim], dim)
    nothing = (0,) * len(shape)
    lane_images += [nothing] * (5 - len(lane_images))
    warp_images += [nothing] * (log2(next_power_of_two(warps)) - len(warp_images))
    bases = {"register": registers, "lane": lane_images, "warp": warp_images}
    return RegisterLayout(LinearLayout.make(bases, padded(shape)), shape, warps)


def _runs_along_rows(view: GlobalView) -> bool:
    """Whether neighbours along the view's last dimension are neighbours in memory."""
    last = view.array_type.rank - 1
    return bool(view.kept) and view.kept[-1] == last and view.index_axis != last and view.array_type.unit_inner


def in_order(shape: tuple[int, ...], warps: int, axis: int) -> RegisterLayout:
    """The layout in which the elements along an axis are combined in order with the fewest exchanges.

    Each thread holds neighbours, as many as it can, then come lanes, then warps.
    """
    order = (axis, *(dim for dim in reversed(range(len(shape))) if dim != axis))
    each = max(1, math.prod(padded(shape)) // (LANES * next_power_of_two(warps)))
    return blocked(shape, warps, each, order, axis, True)


def spread(narrow: RegisterLayout, shape: tuple[int, ...]) -> RegisterLayout | None:
    """The layout of a tile to which a tile of `narrow` layout broadcasts where it is: the extents that are 1 there go over
    lanes that hold the same, then over registers. None where tiles have other ranks."""
    if len(shape) != narrow.rank or any(a not in (1, b) for a, b in zip(narrow.shape, shape)):
        return None
    bases = {name: list(images) for name, images in narrow.linear.bases}
    nothing = (0,) * len(shape)
    free = [bit for bit, image in enumerate(bases["lane"]) if image == nothing]
    for dim in reversed(range(len(shape))):
        for bit in range(log2(padded(shape)[dim]) if narrow.shape[dim] < shape[dim] else 0):
            image = unit(len(shape), dim, 1 << bit)
            if free:
                bases["lane"][free.pop(0)] = image
            else:
                bases["register"].append(image)
    return RegisterLayout(LinearLayout.make(bases, padded(shape)), shape, narrow.warps)


def default_layout(shape: tuple[int, ...], warps: int, itemsize: int, reduce_axis: int | None) -> RegisterLayout:
    """The layout of a tile that touches no memory."""
    return blocked(shape, warps, vector_for(shape, warps, itemsize), None, reduce_axis)


def touch_cost(view: View, layout: RegisterLayout, writes: bool) -> float:
    """What loading or storing a view in a layout costs; elements that several threads hold are stored by one."""
    if in_global(view):
        width = vector_elements(view, layout)
        return _global_cost(layout, width, view.dtype.itemsize, _runs_along_rows(view), writes)
    if not in_shared(view):
        return 0.0  # who moves it there and back has no layout to choose
    if view.index_axis is not None:
        last = len(view.buffer.shape) - 1
        plain = SharedLayout(view.buffer.shape, view.dtype.itemsize)
        width = 1 if view.index_axis == last else best_vector(layout, plain, 0, view.kept)
        return 2.0 * -(-layout.num_registers // width) * _warps(layout, writes)
    return _shared_cost(layout, view.buffer.shape, view.dtype.itemsize, view.kept, writes)


@lru_cache(maxsize=4096)
def _global_cost(layout: RegisterLayout, width: int, itemsize: int, contiguous: bool, writes: bool) -> float:
    """Sectors and accesses of all warps, from a sample of one warp's accesses."""
    accesses = -(-layout.num_registers // width)
    chosen = list(range(0, layout.num_registers, width))[:_SAMPLE]
    alive = layout.alive[chosen, :, 0]
    if writes:
        alive = alive & ((np.arange(LANES) & layout.replication.lane_mask) == 0)
    rows = np.zeros((len(chosen), LANES), dtype=np.int64)
    for dim in range(layout.rank - (1 if contiguous else 0)):
        rows = rows * layout.linear.shape[dim] + layout.coordinates[dim][chosen, :, 0]
    columns = layout.coordinates[-1][chosen, :, 0] * itemsize if contiguous and layout.rank else np.zeros_like(rows)
    sectors = 0
    for access in range(len(chosen)):
        first = columns[access] // SECTOR
        last = (columns[access] + width * itemsize - 1) // SECTOR
        touched = {
            (int(row), int(s))
            for row, low, high, live in zip(rows[access], first, last, alive[access], strict=True)
            if live
            for s in range(low, high + 1)
        }
        sectors += len(touched)
    return (sectors / len(chosen) + 1) * accesses * _warps(layout, writes)


@lru_cache(maxsize=4096)
def _shared_cost(
    layout: RegisterLayout, shape: tuple[int, ...], itemsize: int, axes: tuple[int, ...], writes: bool
) -> float:
    """Wavefronts and accesses of all warps, in the best of the ways in which the buffer may be arranged."""
    best = math.inf
    for swizzle in SWIZZLE_MASKS:
        if swizzle and (len(shape) < 2 or shape[-1] * itemsize % swizzle):
            continue
        shared = SharedLayout(shape, itemsize, swizzle, swizzle // itemsize if swizzle else None)
        width = best_vector(layout, shared, 0, axes)
        accesses = -(-layout.num_registers // width)
        seen = warp_wavefronts(layout, shared, width * itemsize, axes=axes, limit=_SAMPLE)
        scale = accesses / min(accesses, _SAMPLE)
        best = min(best, (seen.total * scale + accesses) * _warps(layout, writes))
        if not seen.conflicts:
            break
    return best


def _warps(layout: RegisterLayout, writes: bool) -> int:
    """The warps that take part."""
    if not writes:
        return layout.warps
    return sum(not warp & layout.replication.warp_mask for warp in range(layout.warps))


@lru_cache(maxsize=4096)
def conversion_cost(have: RegisterLayout, want: RegisterLayout, itemsize: int) -> float:
    """What moving a tile from one layout to another costs."""
    plan = conversion(have, want, itemsize)
    if isinstance(plan, Identity | RegisterPermute):
        return 0.0
    if isinstance(plan, Shuffle):
        return float(plan.shuffles * max(1, itemsize // 4) * have.warps)
    return plan.wavefronts * have.warps + BARRIERS * len(plan.rounds)


def least_move(layout: RegisterLayout, itemsize: int) -> float:
    """What a tile's way through shared memory costs at least: it is written and read at 128 bytes a wavefront."""
    return BARRIERS + 2 * layout.size * itemsize / 128


@lru_cache(maxsize=4096)
def along_cost(layout: RegisterLayout, axis: int, ordered: bool) -> float:
    """What combining the elements along an axis costs beyond the arithmetic."""
    if ordered:
        return _ordered_cost(layout, axis) if is_ordered(layout, axis) else IMPOSSIBLE
    if not is_separable(layout, axis):
        return IMPOSSIBLE
    bits = layout.bits_along(axis)
    kept = layout.slice(axis).layout.num_registers
    cost = float(len(bits.lane) * kept * layout.warps)
    if bits.warp:
        cost += BARRIERS + kept * layout.warps * (1 << len(bits.warp)) / 2
    return cost


def _ordered_cost(layout: RegisterLayout, axis: int) -> float:
    """Shuffles of lanes, and what warps write and read, for each of a thread's blocks that are separate by then."""
    cost = 0.0
    for run, blocks in exchanged(layout, axis):
        if run.kind == "lane":
            cost += len(run.bits) * blocks * layout.warps
        else:
            cost += BARRIERS + blocks * layout.warps * run.count / 2
    return cost


def register_pressure(layout: RegisterLayout) -> float:
    """A small cost of replication: the same work in several threads."""
    return layout.num_registers * LANES * layout.warps / max(1, math.prod(layout.shape)) - 1
