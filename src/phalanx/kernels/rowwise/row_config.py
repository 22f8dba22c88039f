"""How a row is spread over CTAs, threads and registers (`RowConfig`), and who decides: `choose`.

`rows.py` has what kernels do with a row that is spread so.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.machines.h200 import H200
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.symbolic.choices import chosen_by_sizes

VECTOR_BYTES = 16
MAX_CLUSTER = 16
LARGEST = (1 << 31) - (1 << 25)
"""Elements of a run of memory whose places, and those of chunks that begin before its end, fit 32 bits."""
LIMITS = H200.rows


@frozen
class RowConfig:
    """How a row is spread. `columns` that `cluster` CTAs hold may be more than the row has: the rest is masked.

    `again`: so many tiles more are not held, but read again in each pass; of few kernels. `once`: the row passes the SM's
    cache by, on its way in and out. `ahead`: weights are in registers, too, before the row's sum is known, for the kernels
    that have any.
    """

    cluster: int
    warps: int
    rows: int
    width: int
    parts: int
    shared: int = 0
    per_sm: int = 1
    once: bool = False
    ahead: bool = False
    again: int = 0

    @property
    def columns(self) -> int:
        """Columns that a cluster holds, or reads again."""
        return self.cluster * (self.parts + self.shared + self.again) * self.width

    def constants(self) -> dict[str, RowConfig]:
        """The kernels' constant `config`. Weighted kernels are told `ahead` by itself; others are the same with it.

        All callers get the same dict, and must not change it.
        """
        return _constants(self)

    def grid(self, rows: int) -> int:
        """CTAs for so many rows: whole clusters."""
        return self.cluster * px.cdiv(rows, self.rows)


@cache
def _constants(config: RowConfig) -> dict[str, RowConfig]:
    return {"config": replace(config, ahead=False)}


@chosen_by_sizes
@cache
def choose(
    columns: int, itemsize: int, held: int = LIMITS.held, *, weighted: bool = False, centered: bool = False,
    aligned: bool = True, reads: bool = False, apart: bool = False, single: bool = False, bare: bool = False,
    again: bool = False,
) -> RowConfig:
    """The configuration for a row of `columns` elements: about the smallest cluster that holds it, 1,024 threads an SM.

    - Up to `LIMITS.warp_vectors` vectors a lane: a warp holds a row, and there is no barrier at all (layer_norm of 1,536
      columns: 0.97 of the device copy, against 0.64 for four warps); shorter rows share a warp, and a thread has
      vectors of several, so that enough are on their way (softmax of 128 columns: 1.00, against 0.81 for one vector).
      `apart`: a warp for each row. `single`: one row's vectors alone, for kernels that hold two arrays. `centered` rows of
      16-bit elements that leave a CTA of whole vectors partly empty have a warp up to 14 vectors a lane, two up to 10
      (layer_norm of 3,200 columns: 0.92, against 0.73 for four; of 4,720: 0.90, against 0.82), and so have four and eight,
      where otherwise twice as many would have 5 (of 9,320: 0.97, against 0.94; of 17,216: 0.99, against 0.89).
    - Up to 512 threads of `held` vectors: one CTA of the fewest threads, so that many rows are on their way.
    - Longer: the smallest cluster of such CTAs, two on each SM, so that one loads while the other reduces. In place of
      4 of them 8 of half the threads, of which four share an SM (softmax of 131,072 columns: 0.95 of the device copy,
      against 0.93); likewise `weighted`, 4 in place of 2, with room for the weights ahead (rms_norm of 65,536: 0.98,
      against 0.94), unless one CTA has room for the row (`_beside_weights`). `centered`, for a kernel that subtracts the
      mean, 4 in place of 2 without: there is no such room.
      `reads`, for a kernel that writes no rows, likewise (cross entropy of 65,536 columns: 3,195 GB/s, against 2,962), and
      two or four warps that hold more of a short row (of 2,560: 0.94, against 0.74; of 11,264: 0.96, against 0.87), and
      eight or sixteen of 16-bit elements (of 21,336: 0.91, against 0.80).
      `bare`, for a kernel that keeps nothing beside a row of 16-bit elements, but for weights if it is `weighted`, which has
      a rule of its own: `LIMITS.bare_held` vectors a thread before a cluster is twice as large (softmax of 38,640 columns:
      0.97, against 0.87; log_softmax of 158,904: 0.94, against 0.80). Of f32 it does not pay (softmax of 18,252: 0.96,
      against 0.98), but `LIMITS.bare_spread` has more and smaller CTAs for some (of 66,001: 0.99, against 0.78).
    - Beyond 16 of them: 10 vectors a thread, one CTA on each SM; what is left of the row lies in shared memory, and what
      is left of that is read `again` where a kernel can do so; else the row is refused.

    Rows of 8 large CTAs and more pass the SM's cache by; up to `LIMITS.ahead` vectors a thread have their weights ahead.
    Rows that are not `aligned` to 16 bytes come element by element, each in a register of its own until all are here:
    of narrow ones a thread holds fewer, and no CTAs are halved for weights ahead. `centered` rows that leave
    a large cluster partly empty lie in shared memory in part, since the warps' moments need registers besides.
    Anyone may call it; no hardware is involved. Example: ``choose(65536, 2).cluster == 2``.
    """
    if not aligned and itemsize < 4:
        held, weighted = min(held, LIMITS.fewer_held), False
    config = _spread(columns, itemsize, held, again)
    vectors = px.cdiv(columns * itemsize, 32 * VECTOR_BYTES)
    if reads and aligned and not single and held >= LIMITS.held and vectors > LIMITS.read_vectors:
        several = (2, 4) if itemsize == 4 else (2, 4, 8, 16)
        warps = next((count for count in several if vectors <= count * LIMITS.most_read), None)
        if warps is not None:
            return _read_by_few(columns, itemsize, warps)
    fuller = _fuller(columns, held, LIMITS.bare_held[apart]) if bare and not weighted and aligned and itemsize == 2 else None
    if fuller is not None:
        return fuller
    spread = _by_table(LIMITS.bare_spread, columns, itemsize) if bare and not weighted and itemsize == 4 else None
    if spread is not None:
        return spread
    narrow = centered and itemsize == 2 and aligned and not single and columns != config.columns
    alone = vectors <= (LIMITS.read_vectors if reads else LIMITS.centered_warp_vectors if narrow else LIMITS.warp_vectors)
    if (config.rows > 1 or alone) and aligned and not single:
        return _apart(columns, itemsize) if apart else _shared_by_rows(columns, itemsize, centered)
    for warps, more, most, per_sm in LIMITS.centered_warps if narrow else ():
        if warps * more < vectors <= warps * most:
            return _by_warps(columns, itemsize, 1, warps, per_sm)
    if config.cluster in (2, 4) and weighted and aligned and not centered and not apart:
        return _beside_weights(config, columns, itemsize, bare)
    if config.cluster == 2 and weighted and not centered:
        return replace(_halved(config, columns), per_sm=3, ahead=True)
    if config.cluster == 4 or (config.cluster == 2 and (centered or reads)):
        return _halved(config, columns)
    if config.shared and centered:  # fewer tiles that are written out one by one: the text compiles in under a second
        fewer = replace(config, parts=LIMITS.held, shared=config.shared + config.parts - LIMITS.held)
        config = fewer if fewer.shared * fewer.width * itemsize <= LIMITS.shared_bytes else config
    elif centered and columns != config.columns and config.per_sm == 2:
        if config.parts > LIMITS.centered_held.get(config.cluster, LIMITS.most_held):
            parts = LIMITS.centered_parts
            config = replace(config, parts=parts, shared=config.parts - parts)
    return replace(config, once=config.cluster >= LIMITS.streamed_from, ahead=config.parts <= LIMITS.ahead)


def choose_for(
    rows: Any, held: int = LIMITS.held, *, weighted: bool = False, centered: bool = False, reads: bool = False,
    bare: bool = False, again: bool = False, itemsize: int | None = None,
) -> RowConfig:
    """`choose` for a matrix: by its columns and element type, and by where its rows begin.

    `itemsize`: of what is held of an element, if not the element itself. Anyone may call it; no hardware is involved.
    Example: ``choose_for(np.zeros((8, 65001), np.float16)).cluster == 8``.
    """
    info = describe(rows)
    assert info is not None
    return choose(
        info.shape[1], itemsize or rows.dtype.itemsize, held, weighted=weighted, centered=centered, aligned=info.aligned16,
        reads=reads, bare=bare, again=again,
    )


def run_of(rows: Any) -> Any | None:
    """A matrix as one run of memory, from a multiple of 16 bytes on, or None where its rows do not lie side by side.

    Anyone may call it; no hardware is involved. Example: ``run_of(np.zeros((8, 65001), np.float16)).shape == (520008,)``.
    """
    info = describe(rows)
    assert info is not None
    count, columns = info.shape
    packed = info.contiguous_inner and (count == 1 or info.strides[0] == columns)
    return rows.reshape(-1) if packed and info.pointer % VECTOR_BYTES == 0 and count * columns <= LARGEST else None


def types_of(vectors: tuple[Any, ...]) -> list[str]:
    """The types of those weights and biases that there are: None stands for one that there is not."""
    return [info.dtype_name for vector in vectors if vector is not None and (info := describe(vector)) is not None]


def places(
    rows: Any, config: RowConfig | None, *, shortest: int = LIMITS.run_vectors, itemsize: int | None = None, **options: Any
) -> tuple[Any, int | None, RowConfig]:
    """What the kernels of rows in registers take: the matrix, or its run and the columns of a row; and the configuration.

    Rows that begin anywhere are read in aligned vectors, as parts of a run, from `shortest` vectors on. On an H200, of the
    device copy, against reading them element by element: softmax of 1,001 bf16 0.85 against 0.82, of 50,257 0.86 against
    0.60, rms_norm of these 0.69 against 0.60, cross_entropy 0.75 against 0.37; but softmax of 257 0.44 against 0.48.
    `itemsize`: of what is held of an element, if not the element itself; `options` are `choose`'s. Anyone may call it; no
    hardware is involved.
    """
    info = describe(rows)
    assert info is not None
    columns, vector = info.shape[1], VECTOR_BYTES // rows.dtype.itemsize
    run = None if info.aligned16 or columns < shortest * vector else run_of(rows)
    if run is not None:
        most = columns + vector - 1
        chosen = config or choose(most, itemsize or rows.dtype.itemsize, **options, apart=True)
        if chosen.columns >= most and (chosen.rows == 1 or chosen.rows % chosen.warps == 0):
            return run, columns, chosen
    return rows, None, with_room(config, columns) or choose_for(rows, itemsize=itemsize, **options)


def with_room(config: RowConfig | None, columns: int) -> RowConfig | None:
    """The configuration that a caller gave, or None; it is refused where it does not hold a row of so many columns."""
    if config is not None and config.columns < columns:
        raise Error(
            f"{config.cluster} CTAs with {config.parts + config.shared} tiles of {config.width} columns have no room for "
            f"rows of {columns} elements",
            location=caller_location(),
            remedy="let parts be more, or cluster, or leave config out",
        )
    return config


def flat_like(x: Any, rows: Any) -> Any:
    """A contiguous matrix as `rows` is: itself beside a matrix, its run beside a run."""
    return x.reshape(-1) if len(rows.shape) == 1 else x


def _halved(config: RowConfig, columns: int) -> RowConfig:
    """The configuration with twice the CTAs, of half the threads each."""
    cluster, width = 2 * config.cluster, config.width // 2
    parts = px.cdiv(columns, cluster * width)
    return RowConfig(cluster, config.warps // 2, config.rows, width, parts, per_sm=2 * config.per_sm)


def _beside_weights(config: RowConfig, columns: int, itemsize: int, bare: bool) -> RowConfig:
    """The configuration for rows that begin at vectors and have weights, for which `config` has 2 or 4 CTAs.

    What counts is how many bytes are on their way on an SM: rows that fill the registers of few CTAs are ahead of those that
    leave a part of many empty, and weights ahead, for which fewer threads have room, pay where these have 7 or 8 vectors
    each. `bare`: nothing else is kept, as a residual would be, and weights are as wide as the row. Measured on an H200, of
    the device copy: rms_norm of 33,312 bf16 0.97 in one CTA, against 0.76 in four, of 16,552 f32 0.98 against 0.91; of
    44,608 bf16 0.92 in two, against 0.88; of 70,440 0.92 in four, against 0.88 in eight; weights ahead in eight 0.94 against
    0.84 for 129,576 bf16 and 0.98 against 0.91 for 58,688 f32, but 0.84 against 0.91 for 90,864 bf16.
    """
    if bare and columns <= LIMITS.weighted_held[itemsize] * config.width:
        return _by_warps(columns, itemsize, 1, config.warps, 2)
    spread = _by_table(LIMITS.weighted_spread, columns, itemsize) if bare and itemsize == 2 else None
    if spread is not None:
        return spread
    halved = _halved(config, columns)
    if config.cluster == 2:
        return replace(halved, per_sm=3, ahead=True)
    per_sm = LIMITS.more_ahead[itemsize].get(halved.parts) if bare else None
    return halved if per_sm is None else replace(halved, per_sm=per_sm, ahead=True)


def _by_table(table: tuple[tuple[int, int, int, int, int], ...], columns: int, itemsize: int) -> RowConfig | None:
    """The configuration that a table such as `LIMITS.bare_spread` has for rows of so many elements, or None."""
    for more, most, cluster, warps, per_sm in table:
        if more < columns <= most:
            return _by_warps(columns, itemsize, cluster, warps, per_sm)
    return None


def _by_warps(columns: int, itemsize: int, cluster: int, warps: int, per_sm: int) -> RowConfig:
    """The configuration for rows of a cluster of so many CTAs, of so many warps each."""
    width = 32 * warps * VECTOR_BYTES // itemsize
    return RowConfig(cluster, warps, 1, width, px.cdiv(columns, cluster * width), per_sm=per_sm)


def _apart(columns: int, itemsize: int) -> RowConfig:
    """The configuration for short rows of which each has a warp of its own."""
    width = 32 * VECTOR_BYTES // itemsize
    parts = px.cdiv(columns, width)
    return RowConfig(1, 4, 4 * max(1, LIMITS.ahead // parts), width, parts)


def _read_by_few(columns: int, itemsize: int, warps: int) -> RowConfig:
    """The configuration for rows that are only read, of which a few warps hold more than those do that also write."""
    width = 32 * warps * VECTOR_BYTES // itemsize
    parts = px.cdiv(columns, width)
    threads = 1024 if parts <= LIMITS.held or (itemsize == 2 and warps > 2) else 768
    return RowConfig(1, warps, 1, width, parts, per_sm=threads // (32 * warps))


def _fuller(columns: int, held: int, most: int) -> RowConfig | None:
    """The configuration whose threads hold more than `held` vectors of 16-bit elements, at most `most`, where that saves
    CTAs; else None."""
    width = 512 * VECTOR_BYTES // 2
    for cluster in (1, 2, 4, 8):
        parts = px.cdiv(columns, cluster * width)
        if held < parts <= most:
            return RowConfig(cluster, 16, 1, width, parts, per_sm=2, once=cluster >= LIMITS.streamed_from)
    return None


def _shared_by_rows(columns: int, itemsize: int, centered: bool) -> RowConfig:
    """The configuration for short rows that begin at vectors: the lanes for a row that leave the fewest idle."""
    vector = VECTOR_BYTES // itemsize
    longest = LIMITS.centered_warp_vectors if centered and itemsize == 2 else LIMITS.warp_vectors
    most = {32: longest, 16: LIMITS.warp_vectors, 8: LIMITS.warp_vectors}
    lanes = [
        count for count in (32, 16, 8, 4, 2, 1) if px.cdiv(columns, count * vector) <= most.get(count, LIMITS.ahead)
    ]
    best = min(lanes, key=lambda count: px.cdiv(columns, count * vector) * count)
    width = best * vector
    parts = px.cdiv(columns, width)
    several = max(2 if centered and parts <= LIMITS.ahead else 1, LIMITS.ahead // parts)
    ahead = parts <= (LIMITS.warp_vectors if best < 32 else LIMITS.ahead)
    return RowConfig(1, 4, 4 * (32 // best) * several, width, parts, ahead=ahead)


def _spread(columns: int, itemsize: int, held: int, again: bool) -> RowConfig:
    vector = VECTOR_BYTES // itemsize
    warp = 32 * vector
    if columns <= 4 * warp:
        width = max(vector, min(warp, 1 << (columns - 1).bit_length()))
        return RowConfig(1, 4, 4 * (warp // width), width, px.cdiv(columns, width))
    for threads in (128, 256, 512):
        if columns <= threads * vector * held:
            parts = px.cdiv(columns, threads * vector)
            return RowConfig(1, threads // 32, 1, threads * vector, parts, per_sm=1024 // threads)
    width = 512 * vector
    for cluster in (2, 4, 8, MAX_CLUSTER):
        if columns <= cluster * width * held:
            return RowConfig(cluster, 16, 1, width, px.cdiv(columns, cluster * width), per_sm=2)
    parts = px.cdiv(columns, MAX_CLUSTER * width)
    if parts <= LIMITS.most_held:
        return RowConfig(MAX_CLUSTER, 16, 1, width, parts)
    shared, room = parts - LIMITS.most_held, LIMITS.shared_bytes // (width * itemsize)
    if shared > room and again:
        return RowConfig(MAX_CLUSTER, 16, 1, width, LIMITS.most_held, room, again=shared - room)
    if shared > room:
        most = MAX_CLUSTER * (width * LIMITS.most_held + LIMITS.shared_bytes // itemsize)
        raise Error(
            f"a row of {columns} elements of {itemsize} bytes does not fit a cluster",
            location=caller_location(),
            remedy=f"at most {most} elements of that size do",
        )
    return RowConfig(MAX_CLUSTER, 16, 1, width, LIMITS.most_held, shared)
