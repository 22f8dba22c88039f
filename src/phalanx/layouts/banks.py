"""Shared-memory banks: how many wavefronts a warp's accesses take, and how wide they can be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from phalanx.frozen import frozen
from phalanx.layouts.bits import is_power_of_two, power_of_two_divisor
from phalanx.layouts.registers import LANES, RegisterLayout
from phalanx.layouts.shared import CHUNK, SharedLayout

BANKS = 32
WORD = 4  # bytes of a bank per wavefront


@frozen
class Wavefronts:
    """What all accesses of one warp to a tile cost, and what they would cost without conflicts."""

    total: int
    ideal: int

    @property
    def conflicts(self) -> int:
        """Wavefronts beyond the ideal."""
        return self.total - self.ideal


def _axes(reg: RegisterLayout, shared: SharedLayout, axes: Sequence[int] | None) -> tuple[int, ...]:
    """The shared dimension along which each register dimension runs; by default the last ones."""
    result = tuple(range(shared.rank - reg.rank, shared.rank)) if axes is None else tuple(axes)
    if (
        len(result) != reg.rank
        or len(set(result)) != reg.rank
        or any(not 0 <= a < shared.rank for a in result)
    ):
        raise ValueError(f"axes {result} do not place a tile of rank {reg.rank} in one of rank {shared.rank}")
    return result


def shared_offsets(
    reg: RegisterLayout,
    shared: SharedLayout,
    view_offset: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> np.ndarray:
    """[slot, lane, warp]: the byte offset in shared memory of each register's element (junk where dead)."""
    index: list[object] = list(view_offset) if view_offset is not None else [0] * shared.rank
    for dim, axis in enumerate(_axes(reg, shared, axes)):
        index[axis] = index[axis] + np.where(reg.alive, reg.coordinates[dim], 0)  # type: ignore[operator]
    offsets = np.asarray(shared.offset(index))
    return np.broadcast_to(offsets, reg.alive.shape)


def warp_wavefronts(
    reg: RegisterLayout,
    shared: SharedLayout,
    vector_bytes: int,
    view_offset: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    warp: int = 0,
    limit: int | None = None,
) -> Wavefronts:
    """The wavefronts of one warp that reads or writes the whole tile in accesses of `vector_bytes`.

    A wavefront serves 32 banks of 4 bytes. A 16-byte access is served a quarter-warp at a time, an 8-byte one
    half a warp at a time; lanes that touch the same word share it. `vector_bytes / itemsize` slots in a row
    must be one vector (see `best_vector`). `limit` looks at the first accesses only: the others of a tile
    mostly repeat their pattern at another address.
    """
    return _wavefronts(
        reg,
        shared,
        vector_bytes,
        None if view_offset is None else tuple(view_offset),
        None if axes is None else tuple(axes),
        warp,
        limit,
    )


@lru_cache(maxsize=512)
def _wavefronts(
    reg: RegisterLayout,
    shared: SharedLayout,
    vector_bytes: int,
    view_offset: tuple[int, ...] | None,
    axes: tuple[int, ...] | None,
    warp: int,
    limit: int | None,
) -> Wavefronts:
    if not is_power_of_two(vector_bytes) or not shared.itemsize <= vector_bytes <= CHUNK:
        raise ValueError(f"an access has 1 to 16 bytes and at least one element, not {vector_bytes} bytes")
    width = vector_bytes // shared.itemsize
    # A vector is known by its first slot. Look at [vector, lane].
    first = reg.live_registers()[::width][:limit]
    coordinates = reg.linear.apply(
        register=np.array(first)[:, None], lane=np.arange(LANES)[None, :], warp=warp
    )
    index: list[object] = list(view_offset) if view_offset is not None else [0] * shared.rank
    alive = np.ones((len(first), LANES), dtype=bool)
    for dim, axis in enumerate(_axes(reg, shared, axes)):
        alive &= coordinates[dim] < reg.shape[dim]
        index[axis] = index[axis] + coordinates[dim]  # type: ignore[operator]
    offsets = np.broadcast_to(np.asarray(shared.offset(index)), alive.shape)
    vectors, lanes = np.nonzero(alive)
    if not len(vectors):
        return Wavefronts(0, 0)
    lanes_at_once = LANES * WORD // max(WORD, vector_bytes)
    group = vectors * (LANES // lanes_at_once) + lanes // lanes_at_once
    per_access = max(1, vector_bytes // WORD)
    words = (offsets[vectors, lanes][:, None] // WORD + np.arange(per_access)).reshape(-1)
    group = np.repeat(group, per_access)
    # Distinct (group, word) pairs: a word is served once however many lanes want it.
    span = int(words.max()) + 1
    distinct = np.unique(group * span + words)
    group, words = distinct // span, distinct % span
    counts = np.bincount(group * BANKS + words % BANKS)
    counts = np.pad(counts, (0, -len(counts) % BANKS)).reshape(-1, BANKS)
    ideal = -(-counts.sum(axis=1) // BANKS)
    return Wavefronts(int(counts.max(axis=1).sum()), int(ideal.sum()))


def access_conflicts(
    reg: RegisterLayout,
    shared: SharedLayout,
    vector_bytes: int,
    view_offset: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> int:
    """Wavefronts beyond the ideal when one warp reads or writes the whole tile: 0 means no bank conflicts.

    `view_offset` is where the register tile starts in the shared tile, `axes` the shared dimension of each of
    its dimensions (for views that drop or swap dimensions; default: the last ones, in order).
    """
    return warp_wavefronts(reg, shared, vector_bytes, view_offset, axes).conflicts


def best_vector(
    reg: RegisterLayout,
    shared: SharedLayout,
    column_multiple: int = 0,
    axes: Sequence[int] | None = None,
    max_bytes: int = CHUNK,
) -> int:
    """The widest vector, in elements, that is contiguous and aligned both in registers and in shared memory.

    `column_multiple`: the view's start along the last shared dimension is known to be a multiple of this (0:
    it is 0; 1: nothing is known). Slots [k * width, (k + 1) * width) form vector k.
    """
    places = _axes(reg, shared, axes)
    if shared.rank - 1 not in places:
        return 1
    dim = places.index(shared.rank - 1)
    limit = max(1, min(max_bytes, CHUNK) // shared.itemsize)
    # Everything that is added to a column's address has to be a multiple of the vector.
    steps = [shared.row_pitch if shared.rows > 1 else 0, shared.matrix_bytes if shared.leading else 0]
    if shared.panels > 1:
        steps += [shared.panel_columns * shared.itemsize, shared.panel_bytes]
    for step in (*(s // shared.itemsize if s % shared.itemsize == 0 else 1 for s in steps), column_multiple):
        if step:
            limit = min(limit, power_of_two_divisor(step))
    return reg.vector_width(dim, limit)
