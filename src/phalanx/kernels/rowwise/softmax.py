"""Softmax and its logarithm along the last axis: one read and one write, a row in the registers of a cluster."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.matrices import as_rows, empty, has_work, info_of, require_config
from phalanx.kernels.rowwise.rows import (
    LIMITS,
    RowConfig,
    by_warp,
    choose_for,
    fold,
    pin_row,
    row_gather,
    row_kernel,
    row_of,
    zeros,
)
from phalanx.kernels.rowwise.rows_ring import RingConfig
from phalanx.kernels.rowwise.softmax_ring import launch_softmax_ring
from phalanx.kernels.rowwise.softmax_terms import finite, softmax_terms, softmax_tile
from phalanx.runtime.launch.replay import remembered


@px.func
def row_statistics(rows, x, also):
    """The maximum of each row, the sum of e^(x - maximum), that of the tile `also`, and the row's tiles to go on with.

    Each warp finds both for its own part of a row, relative to its own maximum; one exchange brings those of all warps
    of all CTAs to every warp, which folds them. Asking whether a tile lies past the row's end saves its work there, and
    keeps ptxas from interleaving tiles until it runs out of registers.
    """
    X, ROWS, PARTS, WARPS = rows.X, rows.ROWS, rows.PARTS, rows.WARPS
    values = by_warp(X, x[0], ROWS, WARPS)
    for part in px.static_range(1, PARTS):
        values = px.maximum(values, by_warp(X, x[part], ROWS, WARPS))
    if rows.SHARED > 0:
        for part in range(rows.SHARED):
            values = px.maximum(values, by_warp(X, px.load(rows.kept[part]), ROWS, WARPS))
    peak = px.max(px.max(values, axis=0), axis=1, keepdims=True)
    base = finite(peak)
    x = pin_row(x, PARTS)
    powers = by_warp(X, zeros(ROWS, rows.WIDTH), ROWS, WARPS)
    for part in px.static_range(PARTS):
        if rows.first + part * rows.WIDTH < X.shape[1]:
            powers = powers + px.exp2((by_warp(X, x[part], ROWS, WARPS) - base) * LOG2E)
    if rows.SHARED > 0:
        for part in range(rows.SHARED):
            powers = powers + px.exp2((by_warp(X, px.load(rows.kept[part]), ROWS, WARPS) - base) * LOG2E)
    mass = px.sum(px.sum(powers, axis=0), axis=1, keepdims=True)
    others = None
    if also is None:
        peaks, masses = row_gather((peak, mass), ROWS)
    else:
        other = px.sum(px.sum(by_warp(X, also, ROWS, WARPS), axis=0), axis=1, keepdims=True)
        peaks, masses, others = row_gather((peak, mass, other), ROWS)
    largest = fold(px.max, peaks, ROWS)
    total = fold(px.sum, masses * px.exp2((peaks - finite(largest)) * LOG2E), ROWS)
    return largest, total, None if others is None else fold(px.sum, others, ROWS), pin_row(x, PARTS)


@row_kernel
def softmax_rows(X, Y, *, CLUSTER, WARPS, PER_SM, ROWS, WIDTH, PARTS, SHARED=0, ONCE=False, LOG=False):
    """e^x / sum(e^x) of each row, or its logarithm."""
    rows = row_of(X, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE)
    wait_for_prior_launch()
    x = rows.load(-float("inf"))
    largest, total, _, x = row_statistics(rows, x, None)
    base, factor = softmax_terms(largest, total, LOG)
    rows.start_again()
    for part in px.static_range(PARTS):
        at = rows.first + part * WIDTH
        if at < X.shape[1]:
            rows.store(Y, at, softmax_tile(x[part].to(px.f32), base, factor, LOG))
    if SHARED > 0:
        for part in range(SHARED):
            y = softmax_tile(px.load(rows.kept[part]).to(px.f32), base, factor, LOG)
            rows.store(Y, rows.first + (PARTS + part) * WIDTH, y)


@remembered("x")
def softmax(x: Any, *, config: RowConfig | RingConfig | None = None) -> Any:
    """Softmax along the last axis.

    Of a torch, CuPy or NumPy array of bf16, f16 or f32; the result has its type and shape. Computed in f32. `config`
    overrides how a row is spread over a cluster; a `RingConfig` lets the rows pass through a ring.
    Any GPU from sm_90, on the current stream, or the simulator for NumPy. Example:
    ``y = px.kernels.softmax(x)``.
    """
    return _launch(x, config, log=False)


@remembered("x")
def log_softmax(x: Any, *, config: RowConfig | RingConfig | None = None) -> Any:
    """The logarithm of the softmax along the last axis; see `softmax`. Example: ``y = px.kernels.log_softmax(x)``."""
    return _launch(x, config, log=True)


def _launch(x: Any, config: RowConfig | RingConfig | None, *, log: bool) -> Any:
    info = info_of("the argument", x)
    rows = as_rows(x, info)
    y = empty(x, tuple(rows.shape), info.dtype_name)
    count, columns = rows.shape
    if has_work(count, columns):
        config = require_config(config, RowConfig, RingConfig) or choose_for(rows, LIMITS.fewer_held if log else LIMITS.held)
        if isinstance(config, RingConfig):
            launch_softmax_ring(rows, y, config, log=log)
        else:
            softmax_rows[config.grid(count)](rows, y, **config.constants(), LOG=log)
    return y.reshape(info.shape)
