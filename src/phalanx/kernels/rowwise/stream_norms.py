"""RMSNorm and LayerNorm of rows of any length, chunk by chunk."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.rowwise.rows import VECTOR_BYTES
from phalanx.kernels.rowwise.stream import along_thread, by_thread, inside_row, of_warp, stream, stream_kernel


@px.func
def merged(count, mean, squares, more, other, apart):
    """The number, the mean and the squared distances from it of two sets of numbers taken together (Chan's formula)."""
    total = count + more
    share = more / px.maximum(total, 1.0)
    distance = other - mean
    return total, mean + distance * share, squares + apart + distance * distance * count * share


@px.func
def moments_of_chunk(x, inside, EACH):
    """What each thread has of a chunk: how many elements, their mean, their squared distances from it.

    `inside` says which of them are the row's; None: all EACH of them.
    """
    lanes = x.shape[1]
    if inside is None:
        mean = along_thread(px.sum, x) * (1.0 / EACH)
        apart = x - mean.reshape(1, lanes, 1)
        count = px.full((lanes,), float(EACH), px.f32)
    else:
        count = along_thread(px.sum, px.where(inside, 1.0, 0.0))
        mean = along_thread(px.sum, px.where(inside, x, 0.0)) / px.maximum(count, 1.0)
        apart = px.where(inside, x - mean.reshape(1, lanes, 1), 0.0)
    return count, mean, along_thread(px.sum, apart * apart)


@px.func
def moments(rows, group, SPAN, STEP, WARPS):
    """The mean of each row of a group and the sum of (x - mean)^2, in every thread of the cluster."""
    LANES = 32 * WARPS
    EACH = SPAN // LANES
    known: tuple[Any, ...] = ()
    for _ in px.static_range(rows.GROUP):
        known = (*known, (px.zeros((LANES,), px.f32), px.zeros((LANES,), px.f32), px.zeros((LANES,), px.f32)))
    for chunk in range(rows.own):
        for g in px.static_range(rows.GROUP):
            begin, end = rows.ends(group * rows.GROUP + g)
            at = rows.place(begin, chunk)
            x = by_thread(rows.next(), STEP, LANES)
            if (at < begin) | (at + SPAN > end):
                inside = inside_row(at, begin, end, SPAN, STEP, LANES)
                more, other, apart = moments_of_chunk(x, inside, EACH)
            else:
                more, other, apart = moments_of_chunk(x, None, EACH)
            known = (*known[:g], merged(*known[g], more, other, apart), *known[g + 1 :])
            if chunk < rows.own - rows.held:
                rows.give_back()
    sent: tuple[Any, ...] = ()
    for g in px.static_range(rows.GROUP):
        count, mean, squares = known[g]
        every = of_warp(px.sum, count, WARPS)
        middle = of_warp(px.sum, count * mean, WARPS) / px.maximum(every, 1.0)
        apart = mean.reshape(WARPS, 32) - middle
        squares = squares.reshape(WARPS, 32) + count.reshape(WARPS, 32) * apart * apart
        sent = (*sent, every, middle, px.sum(squares, axis=1, keepdims=True))
    gathered = px.cluster.gather(sent)
    found: tuple[Any, ...] = ()
    for g in px.static_range(rows.GROUP):
        counts, means, squares = gathered[3 * g], gathered[3 * g + 1], gathered[3 * g + 2]
        mean = px.sum(counts * means) / rows.columns
        apart = means - mean
        found = (*found, (mean, px.sum(squares + counts * apart * apart)))
    return found


@px.func
def squares_of(rows, group, SPAN, STEP, WARPS):
    """None for the mean of each row of a group, and the sum of x^2, in every thread of the cluster."""
    LANES = 32 * WARPS
    known: tuple[Any, ...] = ()
    for _ in px.static_range(rows.GROUP):
        known = (*known, px.zeros((LANES,), px.f32))
    for chunk in range(rows.own):
        for g in px.static_range(rows.GROUP):
            begin, end = rows.ends(group * rows.GROUP + g)
            at = rows.place(begin, chunk)
            x = by_thread(rows.next(), STEP, LANES)
            if (at < begin) | (at + SPAN > end):
                x = px.where(inside_row(at, begin, end, SPAN, STEP, LANES), x, 0.0)
            known = (*known[:g], known[g] + along_thread(px.sum, x * x), *known[g + 1 :])
            if chunk < rows.own - rows.held:
                rows.give_back()
    sent: tuple[Any, ...] = ()
    for g in px.static_range(rows.GROUP):
        sent = (*sent, of_warp(px.sum, known[g], WARPS))
    gathered = px.cluster.gather(sent)
    found: tuple[Any, ...] = ()
    for g in px.static_range(rows.GROUP):
        found = (*found, (None, px.sum(gathered[g])))
    return found


@px.func
def store_norm(rows, W, B, Y, group, chunk, terms, SPAN, ONCE, EVEN):
    """The result of a chunk of all rows of a group; the chunks are given back.

    EVEN: every row begins at a multiple of 16 bytes, so that all of them have the same weights in the same places.
    """
    w, b = None, None
    for g in px.static_range(rows.GROUP):
        begin, end = rows.ends(group * rows.GROUP + g)
        at = rows.place(begin, chunk)
        mean, scale = terms[g]
        y = px.load(rows.ring[rows.freed.stage]).to(px.f32)
        if EVEN:
            column = rows.place(0, chunk)
        else:
            column = at - begin
        if not EVEN or g == 0:
            if W is not None:
                w = px.load(W[column : column + SPAN], shifted=not EVEN).to(px.f32)
            if B is not None:
                b = px.load(B[column : column + SPAN], shifted=not EVEN).to(px.f32)
        y = y * scale if mean is None else (y - mean) * scale
        if W is not None:
            y = y * w
        if B is not None:
            y = y + b
        px.store(Y[at : at + SPAN].within(begin, end), y.to(Y.dtype), once=ONCE)
        rows.give_back()


@px.func
def normalise(rows, W, B, Y, eps, SPAN, STEP, WARPS, CENTERED, ONCE, EVEN):
    """The role that computes, group after group of rows."""
    for group in range(px.cluster.id(), rows.groups(), rows.clusters):
        if CENTERED:
            found = moments(rows, group, SPAN, STEP, WARPS)
        else:
            found = squares_of(rows, group, SPAN, STEP, WARPS)
        terms: tuple[Any, ...] = ()
        for g in px.static_range(rows.GROUP):
            mean, squares = found[g]
            terms = (*terms, (mean, px.rsqrt(squares / rows.columns + eps)))
        for chunk in range(rows.own - rows.held, rows.own):
            store_norm(rows, W, B, Y, group, chunk, terms, SPAN, ONCE, EVEN)
        for chunk in range(rows.own - rows.held):
            rows.await_group()
            store_norm(rows, W, B, Y, group, chunk, terms, SPAN, ONCE, EVEN)


@stream_kernel
def norm_stream(
    X, W, B, Y, eps, columns, rows, *, CLUSTER, WARPS, PER_SM, STEP, STAGES, KEPT, GROUP=1, ONCE=True, STREAMED=False,
    CENTERED=False, EVEN=False,
):
    """x / sqrt(mean(x^2) + eps) * W + B of each of `rows` rows; with CENTERED x - mean(x) in the place of x."""
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = 32 * WARPS * STEP * VEC
    ring, full, empty = px.shared((STAGES, SPAN), X.dtype), px.barrier(STAGES), px.barrier(STAGES)
    wait_for_prior_launch()
    with px.warps(0, WARPS):
        mine = stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, KEPT, GROUP, STREAMED)
        normalise(mine, W, B, Y, eps, SPAN, STEP, WARPS, CENTERED, ONCE, EVEN)
    with px.warps(WARPS, 1):
        stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, KEPT, GROUP, STREAMED).fetch_all(True)
