"""RMSNorm and LayerNorm of long rows through a ring; the weights are fetched once for all rows."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.rowwise.moments import Places, gather_moments, means_of_warps, squared_distance, total_of_warp
from phalanx.kernels.rowwise.rows import by_warp, row_sum
from phalanx.kernels.rowwise.rows_ring import REGISTERS, SHARED, check_ring, ring_kernel, stream


@px.func
def fetch_vector(V, first, PARTS, WIDTH, WEIGHTS):
    """The weights or biases of this CTA's columns, to be asked for by `vector_part`; None where they are not kept."""
    kept: Any = None
    if V is not None:
        if WEIGHTS == REGISTERS:
            kept = ()
            for part in px.static_range(PARTS):
                kept = (*kept, px.load(V[first + part * WIDTH : first + part * WIDTH + WIDTH]))
        elif WEIGHTS == SHARED:
            kept = px.shared((PARTS, WIDTH), V.dtype)
            for part in px.static_range(PARTS):
                px.store(kept[part], px.load(V[first + part * WIDTH : first + part * WIDTH + WIDTH]))
    return kept


@px.func
def vector_part(V, kept, first, part, WIDTH, WEIGHTS):
    """One tile of the weights or biases, in f32."""
    if WEIGHTS == REGISTERS:
        tile = px.keep(kept[part])  # in their own type: widened ones would take twice the registers, for all rows
    elif WEIGHTS == SHARED:
        tile = px.load(kept[part])
    else:
        tile = px.load(V[first + part * WIDTH : first + part * WIDTH + WIDTH])
    return tile.to(px.f32)


@px.func
def squares_of(rows, x, slot):
    """The sum of x^2 over the row, in every CTA."""
    squares = px.zeros((rows.WIDTH,), px.f32)
    for part in px.static_range(rows.PARTS):
        tile = rows.part(x, slot, part)
        squares = squares + tile * tile
    return row_sum(squares, 1)


@px.func
def moments_of(rows, x, slot, WARPS, MASKED):
    """The mean of the row and the sum of (x - mean)^2, in every CTA."""
    X, WIDTH = rows.X, rows.WIDTH
    places = Places(X, X.shape[1], 0, X.shape[1], rows.PARTS * WIDTH, 1, WIDTH, WARPS)
    sums = px.zeros((WIDTH,), px.f32)
    for part in px.static_range(rows.PARTS):
        sums = sums + rows.part(x, slot, part)
    own = means_of_warps(places, sums, MASKED)
    x = rows.keep(x)
    squares = by_warp(X, px.zeros((WIDTH,), px.f32), 1, WARPS)
    for part in px.static_range(rows.PARTS):
        at = rows.first + part * WIDTH
        squares = squares + squared_distance(places, rows.part(x, slot, part), own, at, MASKED)
    return gather_moments(places, own, total_of_warp(squares), MASKED)


@px.func
def normalise(rows, W, B, Y, eps, WARPS, CENTERED, MASKED, EARLY, WEIGHTS, ONCE):
    """The role that computes: row after row out of the ring."""
    first, PARTS, WIDTH = rows.first, rows.PARTS, rows.WIDTH
    rows.begin()
    w = fetch_vector(W, first, PARTS, WIDTH, WEIGHTS)
    b = fetch_vector(B, first, PARTS, WIDTH, WEIGHTS)
    for row in range(px.cluster.id(), Y.shape[0], rows.clusters):
        x, slot = rows.take()
        if EARLY:
            rows.done(row)
        mean = None
        if CENTERED:
            mean, squares = moments_of(rows, x, slot, WARPS, MASKED)
        else:
            squares = squares_of(rows, x, slot)
        scale = px.rsqrt(squares / Y.shape[1] + eps)
        x = rows.keep(x)
        if rows.HELD and not EARLY:
            rows.done(row)
        for part in px.static_range(PARTS):
            at = first + part * WIDTH
            y = rows.part(x, slot, part)
            y = y * scale if mean is None else (y - mean) * scale
            if W is not None:
                y = y * vector_part(W, w, first, part, WIDTH, WEIGHTS)
            if B is not None:
                y = y + vector_part(B, b, first, part, WIDTH, WEIGHTS)
            px.store(Y[row, at : at + WIDTH], y.to(Y.dtype), once=ONCE)
        if not rows.HELD:
            rows.done(row)


@ring_kernel
def norm_ring(
    X, W, B, Y, eps, *, CLUSTER, WARPS, PER_SM, WIDTH, PARTS, STAGES, STEP=1, HELD=True, PRODUCER=True, EARLY=False,
    WEIGHTS=REGISTERS, ONCE=True, STREAMED=False, CENTERED=False, MASKED=True,
):  # fmt: skip
    """x / sqrt(mean(x^2) + eps) * W + B row by row; with CENTERED x - mean(x) in the place of x."""
    check_ring(STAGES, STEP, PARTS, HELD, PRODUCER, EARLY)
    ring, full = px.shared((STAGES, STEP * WIDTH), X.dtype), px.barrier(STAGES)
    wait_for_prior_launch()
    if PRODUCER:
        empty = px.barrier(STAGES)
        with px.warps(0, WARPS):
            rows = stream(X, ring, full, empty, STAGES, STEP, PARTS, WIDTH, HELD, STREAMED)
            normalise(rows, W, B, Y, eps, WARPS, CENTERED, MASKED, EARLY, WEIGHTS, ONCE)
        with px.warps(WARPS, 1):
            stream(X, ring, full, empty, STAGES, STEP, PARTS, WIDTH, HELD, STREAMED).fetch_all()
    else:
        rows = stream(X, ring, full, None, STAGES, STEP, PARTS, WIDTH, HELD, STREAMED)
        normalise(rows, W, B, Y, eps, WARPS, CENTERED, MASKED, EARLY, WEIGHTS, ONCE)
