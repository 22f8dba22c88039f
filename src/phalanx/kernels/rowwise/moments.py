"""The mean of a row and its squared distances from it, by one exchange over the cluster.

Each warp adds up its own columns, then their squared distances from its own mean, so that a large mean costs no digits;
both travel together, and every warp folds what all of them sent (Chan's formula).
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.rowwise.rows import alone, by_warp, fold, row_gather, run_of_warp


@px.struct
class WarpColumns:
    """The places of a row that the warps of a cluster have: SPAN of each CTA, WIDTH at a time.

    The row's `columns` are the places from `shift` to `length` (see `rows.Row`). X says how warps take turns.
    """

    X: Any
    columns: Any
    shift: Any
    length: Any
    SPAN: int
    ROWS: int
    WIDTH: int
    WARPS: int

    def counts(self, ranks, MASKED):
        """How many columns of a row each warp of the CTAs of these ranks has (see `by_warp`), or its part of a shared CTA.

        A constant where the rows of X fill the cluster; else a warp may have none.
        """
        if not MASKED:
            return self.SPAN // self.WARPS if self.ROWS == 1 else self.SPAN
        count = self.before(self.length, ranks)
        if len(self.X.shape) == 1:
            count = count - self.before(self.shift, ranks)
        return count.to(px.f32)

    def before(self, place, ranks):
        """How many places before this one each warp of the CTAs of these ranks has."""
        count = px.minimum(px.maximum(place - ranks * self.SPAN, 0), self.SPAN)
        if self.ROWS == 1:
            run = run_of_warp(self.X, self.WIDTH, self.WARPS)
            WARPS = self.WARPS
            turns = count // (WARPS * run)
            rest = count - turns * (WARPS * run) - px.arange(WARPS).reshape(WARPS, 1) * run
            count = turns * run + px.minimum(px.maximum(rest, 0), run)
        return count


@px.func
def means_of_warps(places, tile, MASKED):
    """Each warp's mean of its own columns, from the sums in a tile; of no columns, 0."""
    sums = total_of_warp(by_warp(places.X, tile, places.ROWS, places.WARPS))
    count = places.counts(px.cluster.rank(), MASKED)
    if MASKED:
        return sums / px.maximum(count, 1.0)
    return sums * (1.0 / count)


@px.func
def total_of_warp(tile):
    """The sum over what each warp has of a tile, which is as `by_warp` gives it."""
    return px.sum(px.sum(tile, axis=0), axis=1, keepdims=True)


@px.func
def squared_distance(places, tile, own, at, MASKED):
    """(x - own)^2 of the places from `at` on, as `by_warp` gives them, for the means of warps `own`.

    WarpColumns that are not the row's, which are as far from the mean as 0 is, count nothing.
    """
    apart = by_warp(places.X, tile, places.ROWS, places.WARPS) - own
    if MASKED:
        place = px.arange(places.WIDTH)
        if places.ROWS == 1:
            place = place.reshape(*apart.shape)
        apart = px.where(place < places.length - at, apart, 0.0)
        if len(places.X.shape) == 1:
            apart = px.where(place >= places.shift - at, apart, 0.0)
    return apart * apart


@px.func
def gather_moments(places, own, squares, MASKED):
    """The mean of each row and the sum of (x - mean)^2, from the warps' own means and the squares around them."""
    mean = own
    ROWS = places.ROWS
    if alone(own, ROWS):
        mean = px.max(own)
        squares = px.max(squares)
    elif ROWS == 1 or px.cluster.size() > 1:
        means, squares = row_gather((own, squares), ROWS)
        ranks = px.arange(px.cluster.size()).reshape(px.cluster.size(), 1, 1)
        counts = places.counts(ranks, MASKED)
        mean = fold(px.sum, means * counts, ROWS) / places.columns
        apart = means - mean
        squares = fold(px.sum, squares + apart * apart * counts, ROWS)
    return mean, squares
