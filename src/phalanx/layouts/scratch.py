"""Conversions through a scratch tile in shared memory: its layout, its vectors, and rounds that limit its
size."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from phalanx.frozen import frozen
from phalanx.layouts.banks import best_vector, warp_wavefronts
from phalanx.layouts.bits import next_power_of_two
from phalanx.layouts.registers import RegisterLayout
from phalanx.layouts.shared import CHUNK, SharedLayout

_SAMPLE = 8  # accesses of a warp that are looked at to compare scratch layouts


@frozen
class Round:
    """One pass: the part of the tile that starts at `origin`, and the slots that take part.

    Where `masked`, some threads of these slots hold elements of other rounds and have to compare coordinates
    along the plan's `round_axis`.
    """

    origin: tuple[int, ...]
    write_slots: tuple[int, ...]
    read_slots: tuple[int, ...]
    masked: bool


@frozen
class ThroughShared:
    """Write the tile to shared memory in the source layout, synchronise, read it in the destination layout.

    Dimension d of the tile runs along dimension `axes[d]` of the scratch tile. `write` and `read` are the
    same bytes seen in the shapes of source and destination (equal unless this is a reshape). Vectors are in
    elements; slots [k * vector, (k + 1) * vector) are one access. There is a barrier between the write and
    the read of a round, and one between a round and the next use of the scratch memory. Along `round_axis`
    each round covers `round_extent` elements.
    """

    write: SharedLayout
    read: SharedLayout
    axes: tuple[int, ...]
    write_vector: int
    read_vector: int
    rounds: tuple[Round, ...]
    round_axis: int
    round_extent: int
    wavefronts: int
    conflicts: int
    reason: str

    @property
    def nbytes(self) -> int:
        """Bytes of scratch memory."""
        return max(self.write.nbytes, self.read.nbytes)

    @property
    def alignment(self) -> int:
        """Bytes on a multiple of which the scratch memory begins."""
        return max(CHUNK, self.write.alignment)

    def __str__(self) -> str:
        count = f" in {len(self.rounds)} rounds" if len(self.rounds) > 1 else ""
        return (
            f"through {self.nbytes} bytes of shared memory{count}, vectors of {self.write_vector} and "
            f"{self.read_vector}, {self.conflicts} bank conflicts: {self.reason}"
        )


@frozen
class _Scratch:
    layout: SharedLayout
    axes: tuple[int, ...]
    write_vector: int
    read_vector: int
    wavefronts: int
    conflicts: int
    cost: float


def plan_through_shared(
    source: RegisterLayout,
    destination: RegisterLayout,
    itemsize: int,
    reason: str,
    max_bytes: int | None = None,
) -> ThroughShared:
    """The move through shared memory with the fewest wavefronts among some paddings and orders."""
    if source.shape != destination.shape:
        return _reshaping(source, destination, itemsize, reason)
    plan = _same_shape(source, destination, itemsize, max_bytes)
    return replace(plan, reason=reason)


def _reshaping(
    source: RegisterLayout, destination: RegisterLayout, itemsize: int, reason: str
) -> ThroughShared:
    """A row-major scratch tile, written in one shape and read in another."""
    write = SharedLayout(source.shape or (1,), itemsize)
    read = SharedLayout(destination.shape or (1,), itemsize)
    widths = (best_vector(source, write), best_vector(destination, read))
    costs = (
        warp_wavefronts(source, write, widths[0] * itemsize),
        warp_wavefronts(destination, read, widths[1] * itemsize),
    )
    everything = Round(
        (0,) * source.rank, tuple(range(source.num_registers)), tuple(range(destination.num_registers)), False
    )
    return ThroughShared(
        write,
        read,
        tuple(range(source.rank)),
        *widths,
        (everything,),
        0,
        source.shape[0] if source.shape else 1,
        sum(cost.total for cost in costs),
        sum(cost.conflicts for cost in costs),
        reason,
    )


@lru_cache(maxsize=512)
def _same_shape(
    source: RegisterLayout, destination: RegisterLayout, itemsize: int, max_bytes: int | None
) -> ThroughShared:
    axis = _round_axis(source, destination)
    extent = source.shape[axis] if source.shape else 1
    while (
        max_bytes is not None
        and extent > 1
        and source.size // source.shape[axis] * extent * itemsize > max_bytes
    ):
        extent = next_power_of_two(extent) // 2  # no padding makes it fit: don't try any
    while True:
        shape = tuple(extent if d == axis else n for d, n in enumerate(source.shape))
        best = _best_scratch(source, destination, shape, itemsize, axis, extent)
        if max_bytes is None or best.layout.nbytes <= max_bytes:
            break
        if extent == 1:
            raise ValueError(f"a scratch tile of {shape} does not fit {max_bytes} bytes of shared memory")
        extent = next_power_of_two(extent) // 2
    return ThroughShared(
        best.layout,
        best.layout,
        best.axes,
        best.write_vector,
        best.read_vector,
        _rounds(source, destination, axis, extent),
        axis,
        extent,
        best.wavefronts,
        best.conflicts,
        "",
    )


def _round_axis(source: RegisterLayout, destination: RegisterLayout) -> int:
    """The axis to cut into rounds: one whose high bits are register bits in both layouts needs no masks."""

    def static_bits(layout: RegisterLayout, axis: int) -> int:
        threads = [*layout.linear.basis("lane"), *layout.linear.basis("warp")]
        reached = max((image[axis].bit_length() for image in threads), default=0)
        return (layout.linear.shape[axis] - 1).bit_length() - reached

    return max(
        range(source.rank),
        key=lambda axis: (min(static_bits(source, axis), static_bits(destination, axis)), -axis),
        default=0,
    )


def _rounds(source: RegisterLayout, destination: RegisterLayout, axis: int, extent: int) -> tuple[Round, ...]:
    total = source.shape[axis] if source.shape else 1
    if extent >= total:
        everything = (tuple(range(source.num_registers)), tuple(range(destination.num_registers)))
        return (Round((0,) * source.rank, *everything, False),)
    lists: list[list[tuple[int, ...]]] = []
    masked = False
    for layout in (source, destination):
        # Which round each element belongs to; -1 where dead.
        part = np.where(layout.alive, layout.coordinates[axis] // extent, -1)
        last = part.max(axis=(1, 2))
        first = np.where(part < 0, last[:, None, None], part).min(axis=(1, 2))
        masked |= bool((first != last).any())
        if (first == last).all():
            lists.append([_positions(last == k) for k in range(-(-total // extent))])
        else:
            lists.append([_positions((part == k).any(axis=(1, 2))) for k in range(-(-total // extent))])
    origins = [
        tuple(start if d == axis else 0 for d in range(source.rank)) for start in range(0, total, extent)
    ]
    return tuple(Round(o, w, r, masked) for o, w, r in zip(origins, lists[0], lists[1], strict=True))


def _positions(present: np.ndarray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(present).tolist())


def _best_scratch(
    source: RegisterLayout,
    destination: RegisterLayout,
    shape: tuple[int, ...],
    itemsize: int,
    axis: int,
    extent: int,
) -> _Scratch:
    rank = len(shape)
    orders = [tuple(range(rank))]
    if rank > 1:  # the last two dimensions swapped: for tiles whose registers run along columns
        orders.append((*range(rank - 2), rank - 1, rank - 2))
    # No scratch layout allows wider vectors than these: without conflicts, that is as good as it gets.
    widest = [
        max((reg.vector_width(dim, CHUNK // itemsize) for dim in range(rank)), default=1)
        for reg in (source, destination)
    ]
    best: _Scratch | None = None
    for axes in orders:
        physical = [1] * max(1, rank)
        for dim, place in enumerate(axes):
            physical[place] = shape[dim]
        row = physical[-1] * itemsize
        for padding in (0, 16, 32, 4, 8):
            if padding % itemsize or (padding and len(physical) < 2):
                continue
            layout = SharedLayout(tuple(physical), itemsize, pitch=row + padding if padding else None)
            scratch = _evaluate(source, destination, layout, axes, axis, extent)
            if best is None or scratch.cost < best.cost:
                best = scratch
            if scratch.conflicts == 0 and [scratch.write_vector, scratch.read_vector] == widest:
                return scratch
    assert best is not None
    return best


def _evaluate(
    source: RegisterLayout,
    destination: RegisterLayout,
    layout: SharedLayout,
    axes: tuple[int, ...],
    round_axis: int,
    round_extent: int,
) -> _Scratch:
    """What writing and reading a scratch layout costs, in wavefronts, from a sample of the accesses."""
    widths, total, conflicts, cost = [], 0.0, 0.0, 0.0
    for reg in (source, destination):
        # Not wider than a round, where rounds cut the vectors' own dimension.
        inner = bool(axes) and axes[round_axis] == layout.rank - 1
        most = round_extent * layout.itemsize if inner else CHUNK
        width = best_vector(reg, layout, axes=axes, max_bytes=min(CHUNK, most))
        accesses = -(-reg.num_registers // width)
        seen = warp_wavefronts(reg, layout, width * layout.itemsize, axes=axes, limit=_SAMPLE)
        scale = accesses / min(accesses, _SAMPLE)
        widths.append(width)
        total += seen.total * scale
        conflicts += seen.conflicts * scale
        cost += seen.total * scale + accesses / 2
    return _Scratch(layout, axes, widths[0], widths[1], round(total), round(conflicts), cost)
