"""The default register layouts: vectors, then lanes, then warps, then the remaining registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from phalanx.layouts.bits import log2, next_power_of_two, power_of_two_divisor, previous_power_of_two
from phalanx.layouts.linear import Coordinates, LinearLayout, normalise_axis
from phalanx.layouts.registers import LANES, RegisterLayout, padded, unit

# Lanes keep at least this many bits of the fastest dimension when warps are moved there off a reduced axis,
# so that a warp's accesses still fill 32-byte sectors of 4-byte elements.
_COALESCED_LANE_BITS = 3


def blocked(
    shape: Sequence[int],
    warps: int,
    vector: int = 1,
    order: Sequence[int] | None = None,
    reduce_axis: int | None = None,
    ordered: bool = False,
) -> RegisterLayout:
    """The default layout of a tile over `warps` warps.

    `vector` consecutive elements along the fastest dimension (`order[0]`, by default the last one) lie in
    consecutive registers; lanes follow along the fastest dimension, then along the others; warps take the
    slower dimensions first, and stay off `reduce_axis` where that is possible; the rest goes to registers.
    Warps that do split that axis take neighbouring pieces of it, each warp one as long as it can be, if `ordered`; so do
    lanes, if it is not the fastest dimension.
    Threads that a small tile has no use for replicate. If `warps` is not a power of two, the excess warps
    replicate too. The vector is shortened to a power of two that divides the extent, so that none straddles
    the tile's edge.

    Example: `blocked((64, 64), warps=4, vector=4)`: a warp reads two rows of 64 at once.
    """
    shape = tuple(shape)
    axes = tuple(reversed(range(len(shape)))) if order is None else tuple(order)
    if sorted(axes) != list(range(len(shape))):
        raise ValueError(f"the order {axes} is no permutation of {len(shape)} dimensions")
    axis = None if reduce_axis is None else normalise_axis(reduce_axis, len(shape))
    return _blocked(shape, warps, vector, axes, axis, ordered)


@lru_cache(maxsize=1024)
def _blocked(
    shape: tuple[int, ...], warps: int, vector: int, order: tuple[int, ...], reduce_axis: int | None, ordered: bool
) -> RegisterLayout:
    left = [log2(extent) for extent in padded(shape)]  # bits of each dimension that nobody has yet
    used = [0] * len(shape)

    def take(dim: int) -> Coordinates:
        image = unit(len(shape), dim, 1 << used[dim])
        used[dim] += 1
        left[dim] -= 1
        return image

    def take_upto(count: int, dim: int) -> list[Coordinates]:
        return [take(dim) for _ in range(min(count, left[dim]))]

    registers: list[Coordinates] = []
    if order:
        width = min(previous_power_of_two(max(1, vector)), power_of_two_divisor(shape[order[0]]))
        registers += take_upto(log2(width), order[0])

    warp_bits = log2(previous_power_of_two(warps))
    reserved = _reserve(left, order, reduce_axis, warp_bits)
    lanes: list[Coordinates] = []
    for dim in order:
        if ordered and dim == reduce_axis and dim != order[0]:
            warps_here = max(0, warp_bits - sum(left) + left[dim])
            registers += take_upto(max(0, left[dim] - (5 - len(lanes)) - warps_here), dim)
        lanes += take_upto(min(5 - len(lanes), left[dim] - reserved[dim]), dim)

    warp_images: list[Coordinates] = []
    slow_first = sorted(reversed(order), key=lambda dim: dim == reduce_axis)
    for dim in slow_first:
        if ordered and dim == reduce_axis:
            registers += take_upto(max(0, left[dim] - (warp_bits - len(warp_images))), dim)
        warp_images += take_upto(warp_bits - len(warp_images), dim)

    for dim in order:  # warps may have left some of what was reserved for them
        lanes += take_upto(5 - len(lanes), dim)
    for dim in order:
        registers += take_upto(left[dim], dim)

    nothing = (0,) * len(shape)
    lanes += [nothing] * (log2(LANES) - len(lanes))
    warp_images += [nothing] * (log2(next_power_of_two(warps)) - len(warp_images))
    linear = LinearLayout.make({"register": registers, "lane": lanes, "warp": warp_images}, padded(shape))
    return RegisterLayout(linear, shape, warps)


def _reserve(left: list[int], order: tuple[int, ...], reduce_axis: int | None, warp_bits: int) -> list[int]:
    """Bits per dimension that lanes must leave to warps, so that warps need not split the reduced axis."""
    reserved = [0] * len(left)
    if reduce_axis is None:
        return reserved
    for dim in reversed(order):
        if dim == reduce_axis:
            continue
        keep = _COALESCED_LANE_BITS if dim == order[0] else 0
        reserved[dim] = max(0, min(warp_bits - sum(reserved), left[dim] - keep))
    return reserved


@lru_cache(maxsize=256)
def whole_in_every_warp(shape: tuple[int, ...], warps: int, vector: int = 1) -> RegisterLayout:
    """Every warp holds the whole tile, spread over its lanes, then registers: what is folded needs no other warp.

    Up to `vector` neighbours along the last dimension lie in consecutive registers, where lanes leave some over.
    Example: `whole_in_every_warp((4, 16), warps=16, vector=2)`: lane l of each warp holds elements 2 l and 2 l + 1.
    """
    images = [
        unit(len(shape), dim, 1 << bit)
        for dim in reversed(range(len(shape)))
        for bit in range(log2(padded(shape)[dim]))
    ]
    left = max(0, len(images) - log2(LANES))
    near = min(left, log2(min(previous_power_of_two(vector), power_of_two_divisor(shape[-1])))) if shape else 0
    lanes = images[near : near + log2(LANES)]
    nothing = (0,) * len(shape)
    bases = {
        "register": images[:near] + images[near + log2(LANES) :],
        "lane": lanes + [nothing] * (log2(LANES) - len(lanes)),
        "warp": [nothing] * log2(next_power_of_two(warps)),
    }
    return RegisterLayout(LinearLayout.make(bases, padded(shape)), shape, warps)


def vector_for(
    shape: Sequence[int], warps: int, itemsize: int, order: Sequence[int] | None = None, max_bytes: int = 16
) -> int:
    """The widest vector (in elements) for `blocked` that leaves no thread without elements.

    Example: `vector_for((128, 64), warps=4, itemsize=2)` is 8, `vector_for((8, 16), 4, 4)` is 1.
    """
    shape = tuple(shape)
    if not shape:
        return 1
    fastest = shape[-1 if order is None else order[0]]
    per_thread = max(1, math.prod(padded(shape)) // (LANES * next_power_of_two(warps)))
    return min(max(1, max_bytes // itemsize), per_thread, power_of_two_divisor(fastest))
