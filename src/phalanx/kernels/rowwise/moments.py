"""The mean of a row and its squared distances from it, by one exchange over the cluster.

Each warp adds up its own columns, then their squared distances from its own mean, so that a large mean costs no digits;
both travel together, and every warp folds what all of them sent (Chan's formula).
"""

from __future__ import annotations

import phalanx as px
from phalanx.kernels.rowwise.rows import by_warp, fold, row_gather, run_of_warp


@px.func
def counts_of_warps(X, ranks, SPAN, ROWS, WIDTH, WARPS, MASKED):
    """How many columns of a row each warp of the CTAs of these ranks has (see `by_warp`), or its part of a shared CTA.

    A constant where the rows of X fill the cluster; else a warp may have none.
    """
    if not MASKED:
        count = SPAN // WARPS if ROWS == 1 else SPAN
    else:
        count = px.minimum(px.maximum(X.shape[1] - ranks * SPAN, 0), SPAN)
        if ROWS == 1:
            run = run_of_warp(X, WIDTH, WARPS)
            turns = count // (WARPS * run)
            rest = count - turns * (WARPS * run) - px.arange(WARPS).reshape(WARPS, 1) * run
            count = turns * run + px.minimum(px.maximum(rest, 0), run)
        count = count.to(px.f32)
    return count


@px.func
def means_of_warps(X, tile, SPAN, ROWS, WIDTH, WARPS, MASKED):
    """Each warp's mean of its own columns, from the sums in a tile; of no columns, 0."""
    sums = total_of_warp(by_warp(X, tile, ROWS, WARPS))
    count = counts_of_warps(X, px.cluster.rank(), SPAN, ROWS, WIDTH, WARPS, MASKED)
    if MASKED:
        means = sums / px.maximum(count, 1.0)
    else:
        means = sums * (1.0 / count)
    return means


@px.func
def total_of_warp(tile):
    """The sum over what each warp has of a tile, which is as `by_warp` gives it."""
    return px.sum(px.sum(tile, axis=0), axis=1, keepdims=True)


@px.func
def squared_distance(X, tile, own, at, ROWS, WIDTH, WARPS, MASKED):
    """(x - own)^2 of the columns from `at` on, as `by_warp` gives them, for the means of warps `own`.

    Columns past the row's end, which are as far from the mean as 0 is, count nothing.
    """
    apart = by_warp(X, tile, ROWS, WARPS) - own
    if MASKED:
        column = px.arange(WIDTH)
        if ROWS == 1:
            column = column.reshape(*apart.shape)
        apart = px.where(column < X.shape[1] - at, apart, 0.0)
    return apart * apart


@px.func
def gather_moments(X, own, squares, SPAN, ROWS, WIDTH, WARPS, MASKED):
    """The mean of each row and the sum of (x - mean)^2, from the warps' own means and the squares around them."""
    mean = own
    if ROWS == 1 or px.cluster.size() > 1:
        means, squares = row_gather((own, squares), ROWS)
        ranks = px.arange(px.cluster.size()).reshape(px.cluster.size(), 1, 1)
        counts = counts_of_warps(X, ranks, SPAN, ROWS, WIDTH, WARPS, MASKED)
        mean = fold(px.sum, means * counts, ROWS) / X.shape[1]
        apart = means - mean
        squares = fold(px.sum, squares + apart * apart * counts, ROWS)
    return mean, squares
