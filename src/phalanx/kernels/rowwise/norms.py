"""RMSNorm and LayerNorm along the last axis: one read and one write, a row in the registers of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import as_rows, empty, has_work, info_of, number_of, require_config, require_vector
from phalanx.kernels.rowwise.moments import gather_moments, means_of_warps, squared_distance, total_of_warp
from phalanx.kernels.rowwise.norms_ring import norm_ring
from phalanx.kernels.rowwise.rows import (
    LIMITS,
    RowConfig,
    by_warp,
    choose_for,
    pin_row,
    row_kernel,
    row_of,
    row_sum,
    zeros,
)
from phalanx.kernels.rowwise.rows_ring import RingConfig, choose_ring, launch_ring
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.launch.replay import remembered

GROUP = 4
"""Weights that are not loaded ahead of the sum are loaded for so many tiles at a time."""


@px.func
def affine(y, W, B, at, WIDTH):
    """`y` times the weights and plus the biases of `WIDTH` columns from `at` on, where there are any."""
    if W is not None:
        y = y * px.load(W[at : at + WIDTH]).to(px.f32)
    if B is not None:
        y = y + px.load(B[at : at + WIDTH]).to(px.f32)
    return y


@px.func
def load_ahead(W, rows, AHEAD):
    """The weights of the tiles in registers, on their way while the cluster exchanges what it knows; None if not AHEAD."""
    weights: Any = None
    if W is not None and AHEAD:
        weights = ()
        for part in px.static_range(rows.PARTS):
            at = rows.first + part * rows.WIDTH
            weights = (*weights, px.load(W[at : at + rows.WIDTH]))
    return weights


@px.func
def normalised(tile, mean, scale):
    """A tile in f32, less the mean if there is one, times the scale."""
    return tile.to(px.f32) * scale if mean is None else (tile.to(px.f32) - mean) * scale


@px.func
def store_normalised(rows, x, weights, W, B, Y, mean, scale):
    """The result: every tile of the rows, normalised, times the weights (those ahead where there are any) and plus B."""
    x = pin_row(x, rows.PARTS)
    rows.start_again()
    WIDTH, PARTS = rows.WIDTH, rows.PARTS
    for group in px.static_range(0, PARTS, GROUP):
        if rows.first + group * WIDTH < rows.X.shape[1]:
            for part in px.static_range(group, min(group + GROUP, PARTS)):
                at = rows.first + part * WIDTH
                y = normalised(x[part], mean, scale)
                if weights is None:
                    y = affine(y, W, B, at, WIDTH)
                else:
                    y = affine(y * weights[part].to(px.f32), None, B, at, WIDTH)
                rows.store(Y, at, y)
    if rows.SHARED > 0:
        for part in range(rows.SHARED):
            at = rows.first + (PARTS + part) * WIDTH
            y = affine(normalised(px.load(rows.kept[part]), mean, scale), W, B, at, WIDTH)
            rows.store(Y, at, y)


@row_kernel
def rms_norm_rows(X, W, Y, eps, *, CLUSTER, WARPS, PER_SM, ROWS, WIDTH, PARTS, SHARED=0, ONCE=False, AHEAD=False):
    """x / sqrt(mean(x^2) + eps) * W of each row."""
    rows = row_of(X, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE)
    wait_for_prior_launch()
    x = rows.load(0.0)
    squares = zeros(ROWS, WIDTH)
    for part in px.static_range(PARTS):
        tile = x[part].to(px.f32)
        squares = squares + tile * tile
    if SHARED > 0:
        for part in range(SHARED):
            tile = px.load(rows.kept[part]).to(px.f32)
            squares = squares + tile * tile
    weights = load_ahead(W, rows, AHEAD)
    scale = px.rsqrt(row_sum(squares, ROWS) / X.shape[1] + eps)
    store_normalised(rows, x, weights, W, None, Y, None, scale)


@px.func
def own_moments(rows, x, MASKED):
    """Each warp's mean of its own columns, and the sum of their squared distances from it.

    Asking whether a tile lies past the row's end saves its work there, and keeps ptxas from interleaving tiles until it
    runs out of registers.
    """
    X, ROWS, WIDTH, PARTS, SHARED, WARPS = rows.X, rows.ROWS, rows.WIDTH, rows.PARTS, rows.SHARED, rows.WARPS
    sums = zeros(ROWS, WIDTH)
    for part in px.static_range(PARTS):
        sums = sums + x[part].to(px.f32)
    if SHARED > 0:
        for part in range(SHARED):
            sums = sums + px.load(rows.kept[part]).to(px.f32)
    own = means_of_warps(X, sums, (PARTS + SHARED) * WIDTH, ROWS, WIDTH, WARPS, MASKED)
    x = pin_row(x, PARTS)
    squares = by_warp(X, zeros(ROWS, WIDTH), ROWS, WARPS)
    for part in px.static_range(PARTS):
        at = rows.first + part * WIDTH
        if at < X.shape[1]:
            squares = squares + squared_distance(X, x[part], own, at, ROWS, WIDTH, WARPS, MASKED)
    if SHARED > 0:
        for part in range(SHARED):
            at = rows.first + (PARTS + part) * WIDTH
            squares = squares + squared_distance(X, px.load(rows.kept[part]), own, at, ROWS, WIDTH, WARPS, MASKED)
    return own, total_of_warp(squares)


@row_kernel
def layer_norm_rows(
    X, W, B, Y, eps, *, CLUSTER, WARPS, PER_SM, ROWS, WIDTH, PARTS, SHARED=0, ONCE=False, AHEAD=False, MASKED=True
):
    """(x - mean) / sqrt(variance + eps) * W + B of each row."""
    rows = row_of(X, ROWS, WIDTH, PARTS, SHARED, WARPS, ONCE)
    wait_for_prior_launch()
    x = rows.load(0.0)
    own, squares = own_moments(rows, x, MASKED)
    x = pin_row(x, PARTS)
    weights = load_ahead(W, rows, AHEAD)
    mean, squares = gather_moments(X, own, squares, (PARTS + SHARED) * WIDTH, ROWS, WIDTH, WARPS, MASKED)
    scale = px.rsqrt(squares / X.shape[1] + eps)
    store_normalised(rows, x, weights, W, B, Y, mean, scale)


def ring_for(rows: Any, *vectors: Any) -> RingConfig | None:
    """The ring for a matrix with these weights and biases, or None for each, where there is one and it pays.

    Long rows of whole vectors (see `choose_ring`) that begin at multiples of 16 bytes, four or more for each cluster
    of an H200, and no weights of another type, which would take more registers.
    """
    info = describe(rows)
    assert info is not None
    given = [vector for vector in vectors if vector is not None]
    ring = choose_ring(info.shape[1], rows.dtype.itemsize, len(given))
    if ring is None or not info.aligned16 or info.shape[0] * ring.cluster < LIMITS.ring_rows * px.device().sms:
        return None
    if any(info_of("weight", vector).dtype_name != info.dtype_name for vector in given):
        return None
    return ring


def choose_centered(rows: Any) -> RowConfig:
    """The clusters of `layer_norm`; rows that begin anywhere take more registers: fewer vectors a thread, none ahead."""
    info = describe(rows)
    assert info is not None
    if info.aligned16:
        return choose_for(rows, centered=True)
    return replace(choose_for(rows, LIMITS.fewer_held, centered=True), ahead=False)


@remembered("x", "weight")
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6, *, config: RowConfig | RingConfig | None = None) -> Any:
    """x / sqrt(mean(x^2) + eps) * weight along the last axis.

    Of a torch, CuPy or NumPy array of bf16, f16 or f32; the result has its type and shape. Computed in f32. `weight` is
    a vector or None. Many long rows pass through a ring (`ring_for` has the rule), others lie in the registers of a
    cluster as `rows.choose` says; `config` overrides either. Any GPU from sm_90, on the current stream, or the
    simulator for NumPy. Example: ``y = px.kernels.rms_norm(x, w)``.
    """
    info = info_of("the argument", x)
    rows = as_rows(x, info)
    count, columns = rows.shape
    if weight is not None:
        require_vector("weight", weight, columns)
    eps, config = number_of("eps", eps), require_config(config, RowConfig, RingConfig)
    y = empty(x, (count, columns), info.dtype_name)
    if has_work(count, columns):
        config = config or ring_for(rows, weight) or choose_for(rows, weighted=weight is not None)
        if isinstance(config, RingConfig):
            launch_ring(norm_ring, config, (rows, weight, None, y, eps), {"CENTERED": False})
        else:
            launch = rms_norm_rows[config.grid(count)]
            launch(rows, weight, y, eps, **config.constants(), AHEAD=config.ahead)
    return y.reshape(info.shape)


@remembered("x", "weight", "bias")
def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *, config: RowConfig | RingConfig | None = None
) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias along the last axis.

    As `rms_norm`; the variance is computed around means, in a second pass over the registers (see `moments`), so that
    a large mean costs no digits. `weight` and `bias` are vectors or None.
    Example: ``y = px.kernels.layer_norm(x, w, b)``.
    """
    info = info_of("the argument", x)
    rows = as_rows(x, info)
    count, columns = rows.shape
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None:
            require_vector(name, vector, columns)
    eps, config = number_of("eps", eps), require_config(config, RowConfig, RingConfig)
    y = empty(x, (count, columns), info.dtype_name)
    if has_work(count, columns):
        config = config or ring_for(rows, weight, bias) or choose_centered(rows)
        if isinstance(config, RingConfig):
            launch_ring(norm_ring, config, (rows, weight, bias, y, eps), {"CENTERED": True})
        else:
            masked = columns != config.columns
            launch = layer_norm_rows[config.grid(count)]
            launch(rows, weight, bias, y, eps, **config.constants(), AHEAD=config.ahead, MASKED=masked)
    return y.reshape(info.shape)
