"""How the CTAs of a cluster fetch their shares of an operand, for all that need them (`FetchedOperand`).
"""

from __future__ import annotations

from typing import Any

import phalanx as px

PANEL = 64
"""Elements of 16 bits in a row of the widest swizzle."""


@px.func
def peers(x, y, CM, CN):
    """Masks of the CTAs of this one's row and of its column; rank = x + CM * y."""
    row = 0
    column = 0
    for other in px.static_range(CN):
        row = row | (1 << (x + CM * other))
    for other in px.static_range(CM):
        column = column | (1 << (other + CM * y))
    return row, column


@px.func
def block(X, z, i, j, HEIGHT, WIDTH):
    """A block of a matrix, or of matrix `z` of a batch."""
    if z is None:
        return X[i : i + HEIGHT, j : j + WIDTH]
    return X[z, i : i + HEIGHT, j : j + WIDTH]


@px.func
def whole_panels(columns):
    """Columns for which there is room in shared memory, of an operand that lies across K: whole panels."""
    return px.cdiv(columns, PANEL) * PANEL


@px.func
def in_panels(columns, ctas):
    """Whether CTAs share the columns of an operand that lies across K in whole panels: else they share its rows of K."""
    return columns % (ctas * PANEL) == 0


@px.func
def within(start, extent):
    """Where a copy begins: at `start`, or at the array's last panel that is whole if all of it would lie outside.

    What it brings is multiplied into results that nobody stores. Zeros would do as well, but to fill them in takes the
    copy engine longer than to bring what a neighbour has asked for, and the whole wave waits for its last tile.
    """
    return start if start < extent else max(extent // PANEL - 1, 0) * PANEL


@px.struct
class FetchedOperand:
    """A or B as the role that fetches sees it: stages of SPAN rows of A, or columns of B, by BK, shared by CTAS of a row.

    Each of these fetches its share for all that `mask` names, `place` says which. `hint` is what L2 is told of it. BY_K: the
    operand lies along K, so that a share is some of the span. Across K it is so, too, where shares are whole panels of a
    swizzle; else some rows of K, of the whole span. With TRIM, panels beyond the operand's end are not fetched.
    """

    stages: Any
    place: Any
    mask: Any
    hint: Any
    CTAS: int
    SPAN: int
    BK: int
    BY_K: bool
    BATCHED: bool
    TRIM: bool

    def shares_rows_of_k(self):
        """Whether a share is rows of K."""
        return not self.BY_K and not in_panels(self.SPAN, self.CTAS)

    def from_place(self, first):
        """The row or column where this CTA's share begins, of a tile's from `first` on."""
        return first if self.shares_rows_of_k() else first + self.place * (self.SPAN // self.CTAS)

    def fetch(self, X, z, first, k, s, full):
        """This CTA's share of stage `s`, from `first` and `k` on, of matrix `z` of a batch."""
        of = z if self.BATCHED else None
        across = not self.BY_K
        extent = X.shape[(1 if self.BATCHED else 0) + (1 if across else 0)]
        if self.shares_rows_of_k():
            self.fetch_rows_of_k(X, of, extent, first, k, self.stages[s], full)
        else:
            self.fetch_span(X, of, extent, first, k, self.stages[s], full)

    def announce(self, X, first, k):
        """Brings this CTA's share of a stage into L2, of an operand that lies along K, in the boxes of `fetch_span`."""
        share, wide = self.boxes()
        for start in px.static_range(0, share, wide):
            px.tma.prefetch(block(X, None, first + start, k, min(share - start, wide), self.BK), cache=self.hint)

    def fetch_rows_of_k(self, X, z, extent, first, k, stage, full):
        """Fetches some rows of K, of the whole span. What is not multiplied of its last panel is not fetched."""
        depth = self.BK // self.CTAS
        SPAN = self.SPAN
        top = self.place * depth
        wide = PANEL if self.TRIM or SPAN < PANEL else SPAN // PANEL * PANEL
        for start in px.static_range(0, SPAN, wide):
            size = min(SPAN - start, wide)
            here = first + start
            if self.TRIM:
                here = within(here, extent)
            px.tma.load(
                block(X, z, k + top, here, depth, size), stage[top : top + depth, start : start + size], full,
                multicast=self.mask, cache=self.hint,
            )

    def boxes(self):
        """What a CTA fetches of the span, and what one copy brings of that: a panel where the tile is trimmed, else all."""
        share = self.SPAN // self.CTAS
        return share, PANEL if self.TRIM else share

    def fetch_span(self, X, z, extent, first, k, stage, full):
        """Fetches some of the span, along all of the stage's K."""
        BK = self.BK
        share, wide = self.boxes()
        at = self.place * share
        for start in px.static_range(0, share, wide):
            size = min(share - start, wide)
            here = first + start
            there = at + start
            if self.TRIM:
                here = within(here, extent)
            if self.BY_K:
                source = block(X, z, here, k, size, BK)
                target = stage[there : there + size]
            else:
                source = block(X, z, k, here, BK, size)
                target = stage[:, there : there + size]
            px.tma.load(source, target, full, multicast=self.mask, cache=self.hint)
