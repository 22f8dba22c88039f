"""The tiles of queries of attention: from a tile's number to its sequence, head and rows, in the order of a launch."""

from __future__ import annotations

from typing import Any

import phalanx as px


@px.func
def in_bands(t, blocks, heads, band):
    """Number `t` of `blocks` blocks of each of `heads` heads, as (head, block): `band` heads take turns, block by block."""
    first = t // (blocks * band) * band
    wide = px.minimum(band, heads - first)
    place = t - first * blocks
    return first + place % wide, place // wide


@px.struct
class Tiles:
    """The tiles of all sequences and heads, `ROWS` queries each, numbered in the order in which they are taken.

    Without a bound to the right all tiles of a head are equally long, and its K and V stay in L2 while they are worked
    on: head after head; with `plan` (`heights.py`) low tiles follow, which fewer warpgroups attend to. With a bound
    (causal), later rows have more keys: the longest go first, so that none of them begins when the others are done; in
    bands of heads (`bands.choose_band`). The tiles of a sequence then end where it ends: the one that is not full is its
    first, the shortest, and begins before row 0.

    Of packed sequences (CUQ and CUK, where each begins) nobody but the device knows how many tiles they have. Whoever
    asks for tiles asks in ascending order, so that `sequence` and `before`, the rows of tiles before it, only go ahead.

    `seek` goes to a tile: `live` says whether there is one of that number, `batch` and `head` where it is in Q, `row`
    which query of its sequence is its first, `groups` how many warpgroups of 64 queries attend, `first_query` and
    `first_key` where the sequence begins in Q and K, `reach` who attends to whom in it.
    """

    CUQ: Any
    CUK: Any
    queries: Any
    keys: Any
    heads: Any
    batches: Any
    band: Any
    reach: Any
    plan: Any
    GROUPS: int
    ROWS: int
    sequence: Any = 0
    before: Any = 0
    live: Any = True
    groups: Any = None
    batch: Any = 0
    head: Any = 0
    row: Any = 0
    first_query: Any = 0
    first_key: Any = 0

    def count(self):
        """How many tiles there are; of packed sequences not less than that."""
        heads = self.heads * self.batches
        if self.plan is not None:
            whole, more, _, first, second = self.plan
            count = heads * whole + more + (heads - more) * first + more * second
        elif self.CUQ is None:
            count = px.cdiv(self.queries, self.ROWS) * heads
        else:
            count = (self.queries // self.ROWS + self.batches) * self.heads
        return count

    def seek(self, t):
        """Goes to tile `t`; of packed sequences they come in ascending order."""
        if self.plan is not None:
            self.batch, self.head, self.row = self.by_plan(t)
            self.groups = self.groups_of(t)
            self.sequence = self.batch
        elif self.CUQ is None:
            self.batch, self.head, self.row = self.by_head(t)
            self.sequence = self.batch
        else:
            self.seek_packed(t)

    def low_first(self, t):
        """Decodes tile t of a `Heights` plan: (low, of an early head, tiles per head of its kind, index among them)."""
        whole, more, _, first, second = self.plan
        heads = self.heads * self.batches
        full = heads * whole + more
        low = t >= full
        k = t - px.where(low, full, 0)
        before = px.where(low, (heads - more) * first, more * (whole + 1))
        behind = k >= before
        k = k - px.where(behind, before, 0)
        early = behind == low
        each = px.where(low, px.where(early, second, first), px.where(early, whole + 1, whole))
        return low, early, px.maximum(each, 1), k

    def by_plan(self, t):
        """Batch, head and first row of tile `t` of a plan."""
        whole, more, height, _, _ = self.plan
        low, early, each, k = self.low_first(t)
        which = px.where(early, 0, more) + k // each
        m = k % each
        above = px.where(low, whole + px.where(early, 1, 0), 0) * self.GROUPS
        row = above + m * px.where(low, height, self.GROUPS)
        return which // self.heads, which % self.heads, row * (self.ROWS // self.GROUPS)

    def groups_of(self, t):
        """How many warpgroups attend to tile `t` of a plan; the last low one of a head has what is left."""
        whole, _, height, _, _ = self.plan
        low, early, each, k = self.low_first(t)
        rest = px.cdiv(self.queries, self.ROWS // self.GROUPS) - (whole + px.where(early, 1, 0)) * self.GROUPS
        return px.where(low, px.minimum(height, rest - k % each * height), self.GROUPS)

    def first_row(self, m, rows, queries):
        """The first query of row `m` of tiles of a sequence."""
        row = m * self.ROWS
        if self.reach.right is not None:
            row = row + queries - rows * self.ROWS
        return row

    def by_head(self, t):
        """Batch, head and first row of tile `t` where all sequences have the same lengths.

        Divisors are kept from being prepared once for all tiles: the producer has few registers.
        """
        rows = px.cdiv(px.keep(self.queries), self.ROWS)
        heads = px.keep(self.heads)
        if self.reach.right is None:
            m = t % rows
            which = t // rows
        else:
            band = px.keep(self.band)
            first = t // (rows * band) * band
            wide = px.maximum(px.minimum(band, heads * self.batches - first), 1)
            place = t - first * rows
            m = rows - 1 - place // wide
            which = first + place % wide
        return px.maximum(which // heads, 0), which % heads, self.first_row(m, rows, self.queries)

    def seek_packed(self, t):
        """Tile `t` of packed sequences: row after row of tiles, all heads of each."""
        place = t // self.heads
        rows = self.rows_of(self.sequence)
        while self.sequence < self.batches and place >= self.before + rows:
            self.before += rows
            self.sequence += 1
            rows = self.rows_of(self.sequence)
        self.live = self.sequence < self.batches
        self.head = t % self.heads
        self.first_query, self.first_key = px.load(self.CUQ[self.sequence]), px.load(self.CUK[self.sequence])
        self.reach.queries = px.load(self.CUQ[self.sequence + 1]) - self.first_query
        self.reach.keys = px.load(self.CUK[self.sequence + 1]) - self.first_key
        m = place - self.before
        if self.reach.right is not None:
            m = rows - 1 - m
        self.row = self.first_row(m, rows, self.reach.queries)

    def rows_of(self, sequence):
        """Rows of tiles of a packed sequence; 0 of one that there is not."""
        length = px.load(self.CUQ[sequence + 1]) - px.load(self.CUQ[sequence])
        return px.where(sequence < self.batches, px.cdiv(length, self.ROWS), 0)
