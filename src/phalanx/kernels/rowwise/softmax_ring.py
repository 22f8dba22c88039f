"""Softmax and its logarithm of long rows through a ring."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.rowwise.rows import by_warp, fold, row_gather
from phalanx.kernels.rowwise.rows_ring import RingConfig, check_ring, launch_ring, ring_kernel, stream
from phalanx.kernels.rowwise.softmax_terms import finite, softmax_terms, softmax_tile


@px.func
def logits(rows, x, slot, part, MASKED):
    """One tile of a row; columns past its end count nothing."""
    tile = rows.part(x, slot, part)
    if MASKED:
        left = rows.X.shape[1] - (rows.first + part * rows.WIDTH)
        tile = px.where(px.arange(rows.WIDTH) < left, tile, -float("inf"))
    return tile


@px.func
def exponentiate(rows, Y, WARPS, LOG, MASKED, EARLY, ONCE):
    """The role that computes: row after row out of the ring.

    Asking whether a tile lies past the row's end saves its work there, and keeps ptxas from interleaving tiles until it
    runs out of registers.
    """
    first, WIDTH = rows.first, rows.WIDTH
    rows.begin()
    for row in range(px.cluster.id(), Y.shape[0], rows.clusters):
        x, slot = rows.take()
        if EARLY:
            rows.done(row)
        values = by_warp(Y, logits(rows, x, slot, 0, MASKED), 1, WARPS)
        for part in px.static_range(1, rows.PARTS):
            values = px.maximum(values, by_warp(Y, logits(rows, x, slot, part, MASKED), 1, WARPS))
        peak = px.max(px.max(values, axis=0), axis=1, keepdims=True)
        base = finite(peak)
        x = rows.keep(x)
        powers = by_warp(Y, px.zeros((WIDTH,), px.f32), 1, WARPS)
        for part in px.static_range(rows.PARTS):
            if first + part * WIDTH < Y.shape[1]:
                powers = powers + px.exp2((by_warp(Y, logits(rows, x, slot, part, MASKED), 1, WARPS) - base) * LOG2E)
        mass = px.sum(px.sum(powers, axis=0), axis=1, keepdims=True)
        peaks, masses = row_gather((peak, mass), 1)
        if rows.HELD and not EARLY:
            rows.done(row)
        largest = fold(px.max, peaks, 1)
        total = fold(px.sum, masses * px.exp2((peaks - finite(largest)) * LOG2E), 1)
        base, factor = softmax_terms(largest, total, LOG)
        x = rows.keep(x)
        for part in px.static_range(rows.PARTS):
            at = first + part * WIDTH
            if at < Y.shape[1]:
                y = softmax_tile(rows.part(x, slot, part), base, factor, LOG)
                px.store(Y[row, at : at + WIDTH], y.to(Y.dtype), once=ONCE)
        if not rows.HELD:
            rows.done(row)


@ring_kernel
def softmax_ring(
    X, Y, *, CLUSTER, WARPS, PER_SM, WIDTH, PARTS, STAGES, STEP=1, HELD=True, PRODUCER=True, EARLY=False, WEIGHTS=None,
    ONCE=True, STREAMED=False, LOG=False, MASKED=True,
):  # fmt: skip
    """e^x / sum(e^x) row by row, or its logarithm. There are no weights to keep anywhere."""
    check_ring(STAGES, STEP, PARTS, HELD, PRODUCER, EARLY)
    ring, full = px.shared((STAGES, STEP * WIDTH), X.dtype), px.barrier(STAGES)
    wait_for_prior_launch()
    if PRODUCER:
        empty = px.barrier(STAGES)
        with px.warps(0, WARPS):
            rows = stream(X, ring, full, empty, STAGES, STEP, PARTS, WIDTH, HELD, STREAMED)
            exponentiate(rows, Y, WARPS, LOG, MASKED, EARLY, ONCE)
        with px.warps(WARPS, 1):
            stream(X, ring, full, empty, STAGES, STEP, PARTS, WIDTH, HELD, STREAMED).fetch_all()
    else:
        rows = stream(X, ring, full, None, STAGES, STEP, PARTS, WIDTH, HELD, STREAMED)
        exponentiate(rows, Y, WARPS, LOG, MASKED, EARLY, ONCE)


def launch_softmax_ring(x: Any, y: Any, config: RingConfig, *, log: bool) -> None:
    """Runs `softmax_ring` on a matrix; called by `softmax` where its configuration is a ring."""
    launch_ring(softmax_ring, config, (x, y), {"LOG": log})
