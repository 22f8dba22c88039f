"""RMSNorm and LayerNorm of rows of any length, chunk by chunk."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.rowwise.rows import VECTOR_BYTES
from phalanx.kernels.rowwise.stream import (
    along_thread,
    counts_inside,
    from_all,
    inside_row,
    of_warp,
    stream,
    stream_kernel,
)


@px.func
def merged(count, mean, squares, more, other, apart):
    """The number, the mean and the squared distances from it of two sets of numbers taken together (Chan's formula)."""
    total = count + more
    share = more * px.reciprocal(px.maximum(total, 1.0))
    distance = other - mean
    return total, mean + distance * share, squares + apart + distance * distance * count * share


@px.func
def more_moments(x, ends, count, mean, squares):
    """What each thread knows of a row (how many elements, their mean, squared distances from it), with a chunk more."""
    lanes, EACH = x.shape[1], x.shape[0] * x.shape[2]
    if ends is None:
        other = along_thread(px.sum, x) * (1.0 / EACH)
        apart = x - other.reshape(1, lanes, 1)
        more = px.full((lanes,), float(EACH), px.f32)
    else:
        inside, more = inside_row(x, ends), counts_inside(x, ends)
        other = along_thread(px.sum, px.where(inside, x, 0.0)) * px.reciprocal(px.maximum(more, 1.0))
        apart = px.where(inside, x - other.reshape(1, lanes, 1), 0.0)
    return merged(count, mean, squares, more, other, along_thread(px.sum, apart * apart))


@px.func
def moments(rows, row, STEP, WARPS):
    """The mean of a row and the sum of (x - mean)^2, in every thread of the cluster."""
    LANES = 32 * WARPS
    known = px.zeros((LANES,), px.f32), px.zeros((LANES,), px.f32), px.zeros((LANES,), px.f32)
    count, mean, squares = rows.walk(row, known, more_moments, STEP, LANES, True)
    every = of_warp(px.sum, count, WARPS)
    middle = of_warp(px.sum, count * mean, WARPS) / px.maximum(every, 1.0)
    apart = mean.reshape(WARPS, 32) - middle
    squares = squares.reshape(WARPS, 32) + count.reshape(WARPS, 32) * apart * apart
    counts, means, squares = from_all((every, middle, px.sum(squares, axis=1, keepdims=True)), WARPS)
    mean = px.sum(counts * means) / rows.columns
    apart = means - mean
    return mean, px.sum(squares + counts * apart * apart)


@px.func
def more_squares(x, ends, squares):
    """The sum of x^2 in each thread, with a chunk more."""
    if ends is not None:
        x = px.where(inside_row(x, ends), x, 0.0)
    return (squares + along_thread(px.sum, x * x),)


@px.func
def squares_of(rows, row, STEP, WARPS):
    """The sum of x^2 of a row, in every thread of the cluster."""
    (squares,) = rows.walk(row, (px.zeros((32 * WARPS,), px.f32),), more_squares, STEP, 32 * WARPS, True)
    return px.sum(from_all(of_warp(px.sum, squares, WARPS), WARPS))


@px.func
def vector_of(rows, V, row, chunk, PERIOD):
    """The weights or biases beside a chunk of a row, where there are any, in their own type."""
    at = rows.place(px.cluster.rank() * rows.SPAN, chunk)
    if V is None:
        tile = None
    elif PERIOD == 1:
        tile = px.load(V[at : at + rows.SPAN])
    else:
        at = at - row * rows.columns % rows.VEC
        tile = px.load(V[at : at + rows.SPAN], shifted=True)
    return tile


@px.func
def vectors_of(rows, V, row, PARTS, PERIOD):
    """Those beside the first PARTS chunks."""
    tiles: tuple[Any, ...] = ()
    for part in px.static_range(PARTS):
        tiles = (*tiles, vector_of(rows, V, row, part, PERIOD))
    return tiles


@px.func
def store_norm(rows, y, w, b, Y, begin, at, mean, scale, ONCE):
    """The result of a chunk, which `y` is in f32, from `at` on, of the row that begins at `begin`."""
    if mean is None:
        y = y * scale
    elif Y.dtype.itemsize < 4:  # one instruction: of 16 bits the mean has fewer digits than the product
        y = px.fma(y, scale, mean * -scale)
    else:
        y = (y - mean) * scale
    if w is not None:
        y = y * w.to(px.f32)
    if b is not None:
        y = y + b.to(px.f32)
    px.store(Y[at : at + rows.SPAN].within(begin, begin + rows.columns), y.to(Y.dtype), once=ONCE)


@px.func
def load_and_store(rows, W, B, Y, row, first, last, mean, scale, ONCE, PERIOD, COME):
    """The result of some chunks, whose weights and biases are loaded for them. They are given back.

    COME: they come again, else they were kept.
    """
    begin, places = row * rows.columns, rows.first(row)
    for some in range(first, last, rows.BATCH):
        count = px.minimum(last - some, rows.BATCH)
        for chunk in range(some, some + count):
            w, b = vector_of(rows, W, row, chunk, PERIOD), vector_of(rows, B, row, chunk, PERIOD)
            store_norm(rows, rows.next_again(COME), w, b, Y, begin, rows.place(places, chunk), mean, scale, ONCE)
        rows.give_back(count)


@px.func
def normalise_row(rows, W, B, w, b, Y, eps, row, STEP, WARPS, PARTS, CENTERED, ONCE, PERIOD):
    """A row, with the weights `w` and biases `b` beside its first PARTS chunks; those of others are loaded."""
    mean = None
    if CENTERED:
        mean, squares = moments(rows, row, STEP, WARPS)
    else:
        squares = squares_of(rows, row, STEP, WARPS)
    scale = px.rsqrt(squares / rows.columns + eps)
    begin, places = row * rows.columns, rows.first(row)
    for some in px.static_range(0, PARTS, rows.BATCH):
        last = min(some + rows.BATCH, PARTS)
        for part in px.static_range(some, last):
            if part < rows.own:
                mine = None if W is None else px.keep(w[part])  # in their own type: widened ones take twice the registers
                bias = None if B is None else px.keep(b[part])
                at = rows.place(places, part)
                store_norm(rows, rows.next_again(False), mine, bias, Y, begin, at, mean, scale, ONCE)
        rows.give_back(px.minimum(rows.own, last) - px.minimum(rows.own, some))
    passed = rows.own - rows.held
    load_and_store(rows, W, B, Y, row, px.maximum(passed, PARTS), rows.own, mean, scale, ONCE, PERIOD, False)
    if PARTS == 0:
        load_and_store(rows, W, B, Y, row, 0, passed, mean, scale, ONCE, PERIOD, True)


@px.func
def normalise(rows, W, B, Y, eps, STEP, WARPS, PARTS, CENTERED, ONCE, PERIOD):
    """The role that computes, row after row of one class after another."""
    first, last = rows.classes()
    for which in range(first, last):
        w, b = vectors_of(rows, W, which, PARTS, PERIOD), vectors_of(rows, B, which, PARTS, PERIOD)
        begin, end, step = rows.rows_of(which)
        for row in range(begin, end, step):
            normalise_row(rows, W, B, w, b, Y, eps, row, STEP, WARPS, PARTS, CENTERED, ONCE, PERIOD)


@stream_kernel
def norm_stream(
    X, W, B, Y, eps, columns, rows, *, CLUSTER, WARPS, PER_SM, STEP, STAGES, KEPT, PARTS=0, ONCE=True, STREAMED=False,
    CENTERED=False, PERIOD=1,
):
    """x / sqrt(mean(x^2) + eps) * W + B of each of `rows` rows; with CENTERED x - mean(x) in the place of x.

    Rows PERIOD apart begin at the same place of a vector. With PARTS, which is for rows that the ring keeps, the weights
    and biases of so many chunks stay in registers.
    """
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = 32 * WARPS * STEP * VEC
    CLASSES = PERIOD if PARTS > 0 else 1
    ring, full, empty = px.shared((STAGES, SPAN), X.dtype), px.barrier(STAGES), px.barrier(STAGES)
    wait_for_prior_launch()
    with px.warps(0, WARPS):
        mine = stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, KEPT, STREAMED, PERIOD, CLASSES)
        normalise(mine, W, B, Y, eps, STEP, WARPS, PARTS, CENTERED, ONCE, PERIOD)
    with px.warps(WARPS, 1):
        stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, KEPT, STREAMED, PERIOD, CLASSES).fetch_all(True)
