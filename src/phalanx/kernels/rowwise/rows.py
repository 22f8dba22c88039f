"""How the row-wise kernels hold a row: which CTA, thread and register has which columns, and who decides.

A row lies in the registers of a cluster, from its one read to its one write. A CTA holds `parts` tiles of `width`
columns of it, one 16-byte vector per thread and tile, in the array's own element type; columns that do not fit lie in
`shared` more tiles in shared memory, and of the longest rows the rest is read from memory `again` when it is needed. Short
rows share a CTA: `rows` of them, a warp or less for each.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.kernels.launches import wait_for_prior_launch
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

    def constants(self) -> dict[str, int]:
        """The kernels' constants of the same names, in capitals, but for AHEAD, which only weighted kernels have, and AGAIN
        where nothing is read again.

        All callers get the same dict, and must not change it.
        """
        return _constants(self)

    def grid(self, rows: int) -> int:
        """CTAs for so many rows: whole clusters."""
        return self.cluster * px.cdiv(rows, self.rows)


@cache
def _constants(config: RowConfig) -> dict[str, int]:
    left_out = ("ahead",) if config.again else ("ahead", "again")
    return {name.upper(): value for name, value in asdict(config).items() if name not in left_out}


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


def row_kernel(fn: Any) -> Any:
    """`px.kernel` with what it asks of the GPU taken from the configuration."""
    make = px.kernel(
        warps=lambda WARPS: WARPS, cluster=lambda CLUSTER: CLUSTER, ctas_per_sm=lambda PER_SM: PER_SM, exit_sync=False,
        pdl=True,
    )
    return make(fn)


@px.func
def piece(A, row, at, ROWS, WIDTH):
    """The view of `WIDTH` columns from `at` on: of one row, or of several that share the CTA."""
    if ROWS == 1:
        view = A[row, at : at + WIDTH]
    else:
        view = A[row : row + ROWS, at : at + WIDTH]
    return view


@px.func
def zeros(ROWS, WIDTH):
    """Zeros in f32, in the shape of a `piece`."""
    return px.zeros((WIDTH,) if ROWS == 1 else (ROWS, WIDTH), px.f32)


@px.func
def pin_row(parts, PARTS):
    """The tiles of a row, pinned in registers in their own type: the compiler keeps nothing that it computed from them."""
    same: tuple[Any, ...] = ()
    for part in px.static_range(PARTS):
        same = (*same, px.keep(parts[part]))
    return same


@px.func
def rematerialise(X, first):
    """A CTA's first column, to be computed with again after the exchange.

    In rows that begin anywhere each element has a column to compare with the row's end: without this the compiler
    holds on to all these columns from the loads to the stores, in as many registers.
    """
    return first if X.aligned else px.keep(first)


@px.struct
class Row:
    """A CTA's places of a row of X, from `first` on; or of all the ROWS rows, from `row` on, that share the CTA.

    Places are columns where X is a matrix. Where it is one run of memory, of rows of `columns` elements that begin
    anywhere, place 0 is the last multiple of 16 bytes at or before the row's `begin`: the row has the places from `shift` to
    `length`. PARTS tiles of WIDTH places lie in registers, SHARED more in the buffer `kept`, which is None where there are
    none, and AGAIN more are read again. ONCE: they pass the SM's cache by. What is no place of the row has `fill`.
    """

    X: Any
    row: Any
    first: Any
    kept: Any
    columns: Any
    begin: Any
    shift: Any
    length: Any
    ROWS: int
    WIDTH: int
    PARTS: int
    SHARED: int
    WARPS: int
    ONCE: bool
    R: Any
    """What is added to each row, and replaced by the sum; or None."""
    scale: Any
    """What each row is multiplied with; or None."""
    M: Any
    """A mask that says which elements of a row count, or what is added to them; or None."""
    masks: Any
    """The row of M for each row."""
    AGAIN: int
    fill: Any

    def piece(self, A, at):
        """The view of WIDTH places from `at` on: of one row, or of several that share the CTA."""
        if len(A.shape) == 1:
            place = self.begin - self.shift + at
            view = A[place : place + self.WIDTH].within(self.begin, self.begin + self.columns)
        else:
            view = piece(A, self.row, at, self.ROWS, self.WIDTH)
        return view

    def load(self, fill):
        """The columns as a tuple of tiles; those beyond PARTS go to the buffer `kept`.

        All loads are on their way before the first tile is used.
        """
        self.fill = fill
        parts: tuple[Any, ...] = ()
        for part in px.static_range(self.PARTS):
            view = self.piece(self.X, self.first + part * self.WIDTH)
            parts = (*parts, px.load(view, fill=fill, once=self.ONCE))
        parts = pin_row(self.changed(parts, self.first), self.PARTS)
        for group in px.static_range(0, self.SHARED, 4):
            if self.first + (self.PARTS + group) * self.WIDTH < self.length:
                self.load_kept(fill, group, min(group + 4, self.SHARED))
            else:
                for part in px.static_range(group, min(group + 4, self.SHARED)):
                    px.store(self.kept[part], fill)
        if self.AGAIN > 0 and self.R is not None:  # the sums are there when they are read again
            for part in range(self.AGAIN):
                at = self.first + (self.PARTS + self.SHARED + part) * self.WIDTH
                self.changed((px.load(self.piece(self.X, at), fill=fill, once=self.ONCE),), at)
        return parts

    def beyond(self, part):
        """A tile behind those in registers: of the buffer `kept`, or read again."""
        if self.AGAIN == 0:
            tile = px.load(self.kept[part])
        elif self.SHARED == 0:
            tile = self.again(part)
        elif part < self.SHARED:
            tile = px.load(self.kept[part])
        else:
            tile = self.again(part)
        return tile

    def again(self, part):
        """A tile that is read again, as the kernel goes on with it."""
        at = self.first + (self.PARTS + part) * self.WIDTH
        if self.R is not None:
            tile = px.load(self.piece(self.R, at), fill=self.fill)
        else:
            tile = self.changed((px.load(self.piece(self.X, at), fill=self.fill),), at)[0]
        return tile

    def load_kept(self, fill, begin, end):
        """Tiles `begin` to `end` of the buffer `kept`, all on their way together."""
        parts: tuple[Any, ...] = ()
        for part in px.static_range(begin, end):
            at = self.first + (self.PARTS + part) * self.WIDTH
            parts = (*parts, px.load(self.piece(self.X, at), fill=fill, once=self.ONCE))
        parts = self.changed(parts, self.first + (self.PARTS + begin) * self.WIDTH)
        for part in px.static_range(begin, end):
            px.store(self.kept[part], parts[part - begin])

    def changed(self, parts, first):
        """Tiles of the row, from place `first` on, as the kernel goes on with them: with R, or scaled and masked in f32."""
        same: tuple[Any, ...] = ()
        for part in px.static_range(len(parts)):
            at = first + part * self.WIDTH
            x = parts[part]
            if self.R is not None:
                x = (x.to(px.f32) + px.load(self.piece(self.R, at), once=self.ONCE).to(px.f32)).to(self.X.dtype)
                px.store(self.piece(self.R, at), x, once=self.ONCE)
            if self.scale is not None or self.M is not None:
                x = x.to(px.f32)
            if self.scale is not None:
                x = x * self.scale
            if self.M is not None:
                x = self.masked(x, at - self.shift)
            same = (*same, x)
        return same

    def masked(self, x, column):
        """A tile in f32, of which what the mask says counts, or with the mask added; it begins at this column.

        Where masks are one run of memory, places that are none of the row meet other rows' masks there.
        """
        if len(self.M.shape) == 1:
            at = self.masks * self.columns + column
            mask = px.load(self.M[at : at + self.WIDTH], shifted=True)
        else:
            mask = px.load(self.M[self.masks, column : column + self.WIDTH])
        if self.M.dtype == px.bool:
            x = px.where(mask, x, -float("inf"))
        elif len(self.M.shape) == 1:
            place = column + px.arange(self.WIDTH)
            x = px.where((place >= 0) & (place < self.columns), x + mask.to(px.f32), x)
        else:
            x = x + mask.to(px.f32)
        return x

    def start_again(self, FULL=False):
        """What follows computes with `first` again; see `rematerialise`. FULL: registers have room for one tile at a time,
        which the compiler then finds beyond the row's end or not as it comes to it: it interleaves none."""
        first = px.keep(self.first) if FULL else rematerialise(self.X, self.first)
        self.first = first

    def store(self, Y, at, y):
        """One tile of the result, the places from `at` on, in the type of Y."""
        px.store(self.piece(Y, at), y.to(Y.dtype), once=self.ONCE)


@px.func
def row_of(X, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE, columns=None, DTYPE=None, AGAIN=0):
    """The row, or rows, of this CTA; `columns` is asked for where X is one run of memory.

    DTYPE: what is kept in shared memory, if not as X has it.
    """
    kept = None
    if SHARED > 0:
        kept = px.shared((SHARED, WIDTH) if ROWS == 1 else (SHARED, ROWS, WIDTH), X.dtype if DTYPE is None else DTYPE)
    return row_at(X, columns, px.cluster.id() * ROWS, kept, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE, AGAIN)


@px.func
def row_of_warp(X, columns, warp, turn, ROWS, WIDTH, PARTS, WARPS, ONCE):
    """The row that a warp of its own has: one of ROWS // WARPS, all of which it loads before it goes on with the first."""
    return row_at(X, columns, px.block_id(0) * ROWS + turn * WARPS + warp, None, 1, WIDTH, PARTS, 0, 1, ONCE)


@px.func
def each_row(X, columns, fill, before, after, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE, DTYPE=None, AGAIN=0):
    """Loads the row, or rows, of this CTA and goes on with them; in a run of memory that warps share, with each by itself.

    `before` is a function and more arguments for it, or None: it has the `Row` before anything is loaded, and gives what
    else there is to know of it. `after` has the `Row`, that, and the tiles.
    """
    wait_for_prior_launch()
    if len(X.shape) == 1 and ROWS > 1:
        with px.warps(0, 1, copies=WARPS) as warp:
            several: tuple[Any, ...] = ()
            for turn in px.static_range(ROWS // WARPS):
                rows = row_of_warp(X, columns, warp, turn, ROWS, WIDTH, PARTS, WARPS, ONCE)
                known = None if before is None else before[0](rows, *before[1:])
                several = (*several, (rows, known, rows.load(fill)))
            for rows, known, x in several:
                after[0](rows, known, x, *after[1:])
    else:
        rows = row_of(X, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE, columns, DTYPE, AGAIN)
        known = None if before is None else before[0](rows, *before[1:])
        after[0](rows, known, rows.load(fill), *after[1:])


@px.func
def row_at(X, columns, row, kept, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE, AGAIN=0):
    """The places of this CTA, or warp, in a row, or in ROWS of them."""
    first = px.cluster.rank() * ((PARTS + SHARED + AGAIN) * WIDTH)
    if len(X.shape) == 1:
        begin = row * columns
        shift = begin % (VECTOR_BYTES // X.dtype.itemsize)
        length = shift + columns
    else:
        columns, begin, shift = X.shape[1], None, 0
        length = columns
    return Row(
        X, row, first, kept, columns, begin, shift, length, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE, None, None, None, None,
        AGAIN, None,
    )


@px.func
def row_sum(tile, ROWS):
    """The sum of each row over the whole cluster."""
    if ROWS == 1:
        result = px.cluster.reduce(px.sum(tile, axis=0), "sum")
    else:
        result = px.cluster.reduce(px.sum(tile, axis=1, keepdims=True), "sum")
    return result


@px.func
def run_of_warp(X, WIDTH, WARPS):
    """How many columns next to each other a warp has of a piece of `X`, before the next warp's."""
    width = WIDTH // WARPS
    return min(width, 32 * (VECTOR_BYTES // X.dtype.itemsize)) if X.aligned else min(width, 32)


@px.func
def by_warp(X, tile, ROWS, WARPS):
    """A piece of `X` as (runs, warps, what a warp holds of each run); rows that share a CTA as (1, rows, columns).

    Warps take turns along a row: each the vectors, or elements, of its 32 lanes. So a fold along the first and the last
    axis is inside a warp.
    """
    tile = tile.to(px.f32)
    if ROWS == 1:
        run = run_of_warp(X, tile.shape[0], WARPS)
        tile = tile.reshape(tile.shape[0] // (WARPS * run), WARPS, run)
    else:
        tile = tile.reshape(1, *tile.shape)
    return tile


@px.func
def alone(known, ROWS):
    """Whether one warp has the whole row of which it knows this, (warps, 1)."""
    return ROWS == 1 and known.shape[0] == 1 and px.cluster.size() == 1


@px.func
def row_gather(columns, ROWS):
    """What every warp (or every CTA, where rows share one) knows of its rows, from all of them: one exchange.

    A single warp that has the row knows it all.
    """
    if alone(columns[0], ROWS):
        columns = columns
    elif ROWS == 1 or px.cluster.size() > 1:
        columns = px.cluster.gather(columns)
    return columns


@px.func
def fold(reduce, gathered, ROWS):
    """What `row_gather` brought of each row as one number, by `px.max` or `px.sum`: a scalar for a single row."""
    if ROWS == 1:
        gathered = reduce(gathered)
    elif px.cluster.size() > 1:
        gathered = reduce(gathered, axis=0)
    return gathered
