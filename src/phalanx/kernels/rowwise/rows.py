"""How the row-wise kernels hold a row: which CTA, thread and register has which columns, and who decides.

A row lies in the registers of a cluster, from its one read to its one write. A CTA holds `parts` tiles of `width`
columns of it, one 16-byte vector per thread and tile, in the array's own element type; columns that do not fit lie in
`shared` more tiles in shared memory, and of the longest rows the rest is read from memory `again` when it is needed. Short
rows share a CTA: `rows` of them, a warp or less for each.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.rowwise.row_config import VECTOR_BYTES


def row_kernel(fn: Any) -> Any:
    """`px.kernel` with what it asks of the GPU taken from the configuration."""
    make = px.kernel(
        warps=lambda config: config.warps, cluster=lambda config: config.cluster,
        ctas_per_sm=lambda config: config.per_sm, exit_sync=False, pdl=True,
    )  # fmt: skip
    return make(fn)


@px.func
def piece(A, row, at, ROWS, WIDTH):
    """The view of `WIDTH` columns from `at` on: of one row, or of several that share the CTA."""
    if ROWS == 1:
        return A[row, at : at + WIDTH]
    return A[row : row + ROWS, at : at + WIDTH]


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
    """The row of M that serves each row."""
    AGAIN: int
    fill: Any

    def piece(self, A, at):
        """The view of WIDTH places from `at` on: of one row, or of several that share the CTA."""
        if len(A.shape) == 1:
            place = self.begin - self.shift + at
            return A[place : place + self.WIDTH].within(self.begin, self.begin + self.columns)
        return piece(A, self.row, at, self.ROWS, self.WIDTH)

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
            return px.load(self.piece(self.R, at), fill=self.fill)
        return self.changed((px.load(self.piece(self.X, at), fill=self.fill),), at)[0]

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
            return px.where(mask, x, -float("inf"))
        if len(self.M.shape) == 1:
            place = column + px.arange(self.WIDTH)
            return px.where((place >= 0) & (place < self.columns), x + mask.to(px.f32), x)
        return x + mask.to(px.f32)

    def start_again(self, FULL=False):
        """What follows computes with `first` again; see `rematerialise`. FULL: registers have room for one tile at a time,
        which the compiler then finds beyond the row's end or not as it comes to it: it interleaves none."""
        first = px.keep(self.first) if FULL else rematerialise(self.X, self.first)
        self.first = first

    def store(self, Y, at, y):
        """One tile of the result, the places from `at` on, in the type of Y."""
        px.store(self.piece(Y, at), y.to(Y.dtype), once=self.ONCE)


@px.func
def row_of(X, config, columns=None, DTYPE=None):
    """The row, or rows, of this CTA; `columns` is asked for where X is one run of memory.

    DTYPE: what is kept in shared memory, if not as X has it.
    """
    kept = None
    if config.shared > 0:
        shape = (config.width,) if config.rows == 1 else (config.rows, config.width)
        kept = px.shared((config.shared, *shape), X.dtype if DTYPE is None else DTYPE)
    return row_at(
        X, columns, px.cluster.id() * config.rows, kept, config.rows, config.width, config.parts, config.shared,
        config.warps, config.once, config.again,
    )  # fmt: skip


@px.func
def row_of_warp(X, columns, warp, turn, config):
    """The row that a warp of its own has: one of several, all of which it loads before it goes on with the first."""
    row = px.block_id(0) * config.rows + turn * config.warps + warp
    return row_at(X, columns, row, None, 1, config.width, config.parts, 0, 1, config.once)


@px.func
def each_row(X, columns, fill, before, after, config, DTYPE=None):
    """Loads the row, or rows, of this CTA and goes on with them; in a run of memory that warps share, with each by itself.

    `before` is a function and more arguments for it, or None: it has the `Row` before anything is loaded, and gives what
    else there is to know of it. `after` has the `Row`, that, and the tiles.
    """
    wait_for_prior_launch()
    if len(X.shape) == 1 and config.rows > 1:
        with px.warps(0, 1, copies=config.warps) as warp:
            several: tuple[Any, ...] = ()
            for turn in px.static_range(config.rows // config.warps):
                rows = row_of_warp(X, columns, warp, turn, config)
                known = None if before is None else before[0](rows, *before[1:])
                several = (*several, (rows, known, rows.load(fill)))
            for rows, known, x in several:
                after[0](rows, known, x, *after[1:])
    else:
        rows = row_of(X, config, columns, DTYPE)
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
        columns = X.shape[1]
        begin = None
        shift = 0
        length = columns
    return Row(
        X, row, first, kept, columns, begin, shift, length, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE, None, None, None, None,
        AGAIN, None,
    )


@px.func
def row_sum(tile, ROWS):
    """The sum of each row over the whole cluster."""
    if ROWS == 1:
        return px.cluster.reduce(px.sum(tile, axis=0), "sum")
    return px.cluster.reduce(px.sum(tile, axis=1, keepdims=True), "sum")


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
        return tile.reshape(tile.shape[0] // (WARPS * run), WARPS, run)
    return tile.reshape(1, *tile.shape)


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
