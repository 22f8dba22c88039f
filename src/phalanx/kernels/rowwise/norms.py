"""RMSNorm and LayerNorm along the last axis: one read and one write, a row in the registers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import phalanx as px
from phalanx.kernels.matrices import (
    as_rows,
    empty,
    has_work,
    info_of,
    number_of,
    refused,
    require_config,
    require_vector,
    result_info,
)
from phalanx.kernels.rowwise.moments import WarpColumns, gather_moments, means_of_warps, squared_distance, total_of_warp
from phalanx.kernels.rowwise.row_config import LIMITS, RowConfig, choose_for, flat_like, places, types_of
from phalanx.kernels.rowwise.rows import by_warp, each_row, pin_row, row_kernel, row_sum, zeros
from phalanx.kernels.rowwise.share_config import ShareConfig, launch_shares, shares_for
from phalanx.kernels.rowwise.shares import norm_shares
from phalanx.kernels.rowwise.spans import SpanConfig, launch_spans, norm_spans, span_for
from phalanx.kernels.rowwise.stream_config import (
    LAYER_NORM,
    RMS_NORM,
    StreamConfig,
    launch_stream,
    run_for_stream,
    stream_for,
)
from phalanx.kernels.rowwise.stream_norms import norm_stream
from phalanx.kernels.rowwise.teams import TeamConfig, launch_teams, norm_teams, teams_for
from phalanx.runtime.device.arrays import dense_strides, describe
from phalanx.runtime.launch.replay import remembered

GROUP = 4
"""Weights that are not loaded ahead of the sum are loaded for so many tiles at a time."""


@px.func
def affine(y, W, B, at, WIDTH, SHIFTED=False):
    """`y` times the weights and plus the biases of `WIDTH` columns from `at` on, where there are any.

    SHIFTED: `at` may be no multiple of a vector.
    """
    if W is not None:
        y = y * px.load(W[at : at + WIDTH], shifted=SHIFTED).to(px.f32)
    if B is not None:
        y = y + px.load(B[at : at + WIDTH], shifted=SHIFTED).to(px.f32)
    return y


@px.func
def load_ahead(W, rows, AHEAD):
    """The weights of the tiles in registers, on their way while the cluster exchanges what it knows; None if not AHEAD."""
    weights: Any = None
    if W is not None and AHEAD:
        weights = ()
        for part in px.static_range(rows.PARTS):
            column = rows.first + part * rows.WIDTH - rows.shift
            weights = (*weights, px.load(W[column : column + rows.WIDTH], shifted=len(rows.X.shape) == 1))
    return weights


@px.func
def scaled_tile(tile, mean, scale):
    """A tile in f32, less the mean if there is one, times the scale."""
    return tile.to(px.f32) * scale if mean is None else (tile.to(px.f32) - mean) * scale


@px.func
def store_normalised(rows, x, weights, W, B, Y, mean, scale):
    """The result: every tile of the rows, scaled_tile, times the weights (those ahead where there are any) and plus B."""
    x = pin_row(x, rows.PARTS)
    rows.start_again()
    WIDTH = rows.WIDTH
    SHIFTED = len(rows.X.shape) == 1
    for group in px.static_range(0, rows.PARTS, GROUP):
        if rows.first + group * WIDTH < rows.length:
            for part in px.static_range(group, min(group + GROUP, rows.PARTS)):
                at = rows.first + part * WIDTH
                y = scaled_tile(x[part], mean, scale)
                if weights is None:
                    y = affine(y, W, B, at - rows.shift, WIDTH, SHIFTED)
                else:
                    y = affine(y * weights[part].to(px.f32), None, B, at - rows.shift, WIDTH, SHIFTED)
                rows.store(Y, at, y)
    if rows.SHARED + rows.AGAIN > 0:
        for part in range(rows.SHARED + rows.AGAIN):
            at = rows.first + (rows.PARTS + part) * WIDTH
            y = affine(scaled_tile(rows.beyond(part), mean, scale), W, B, at - rows.shift, WIDTH, SHIFTED)
            rows.store(Y, at, y)


@px.func
def rms_norm_row(rows, known, x, W, Y, eps, AHEAD):
    """x / sqrt(mean(x^2) + eps) * W of a row, by the warps that have loaded it."""
    squares = zeros(rows.ROWS, rows.WIDTH)
    for part in px.static_range(rows.PARTS):
        tile = x[part].to(px.f32)
        squares = squares + tile * tile
    if rows.SHARED + rows.AGAIN > 0:
        for part in range(rows.SHARED + rows.AGAIN):
            tile = rows.beyond(part).to(px.f32)
            squares = squares + tile * tile
    weights = load_ahead(W, rows, AHEAD)
    scale = px.rsqrt(row_sum(squares, rows.ROWS) / rows.columns + eps)
    store_normalised(rows, x, weights, W, None, Y, None, scale)


@px.func
def add_to_row(rows, R):
    """Says what is added to a row."""
    rows.R = R


@row_kernel
def rms_norm_rows(X, R, W, Y, eps, columns, *, config, AHEAD=False):
    """x / sqrt(mean(x^2) + eps) * W of each row; with an R of x + R, which takes the place of R."""
    after = rms_norm_row, W, Y, eps, AHEAD
    each_row(X, columns, 0.0, (add_to_row, R), after, config)


@px.func
def places_of(rows):
    """The places of a row that the warps have."""
    span = (rows.PARTS + rows.SHARED) * rows.WIDTH
    return WarpColumns(rows.X, rows.columns, rows.shift, rows.length, span, rows.ROWS, rows.WIDTH, rows.WARPS)


@px.func
def own_moments(rows, x, MASKED, FULL):
    """Each warp's mean of its own columns, and the sum of their squared distances from it. FULL: so many tiles have no place
    that is not the row's.

    Asking whether a tile lies past the row's end saves its work there, and keeps ptxas from interleaving tiles until it
    runs out of registers.
    """
    places = places_of(rows)
    sums = zeros(rows.ROWS, rows.WIDTH)
    for part in px.static_range(rows.PARTS):
        sums = sums + x[part].to(px.f32)
    if rows.SHARED > 0:
        for part in range(rows.SHARED):
            sums = sums + px.load(rows.kept[part]).to(px.f32)
    own = means_of_warps(places, sums, MASKED)
    x = pin_row(x, rows.PARTS)
    squares = by_warp(rows.X, zeros(rows.ROWS, rows.WIDTH), rows.ROWS, rows.WARPS)
    for part in px.static_range(rows.PARTS):
        at = rows.first + part * rows.WIDTH
        if at < rows.length:
            squares = squares + squared_distance(places, x[part], own, at, MASKED and part >= FULL)
    if rows.SHARED > 0:
        for part in range(rows.SHARED):
            at = rows.first + (rows.PARTS + part) * rows.WIDTH
            squares = squares + squared_distance(places, px.load(rows.kept[part]), own, at, MASKED)
    return own, total_of_warp(squares)


@px.func
def layer_norm_row(rows, known, x, W, B, Y, eps, AHEAD, MASKED, FULL):
    """(x - mean) / sqrt(variance + eps) * W + B of a row, by the warps that have loaded it."""
    own, squares = own_moments(rows, x, MASKED, FULL)
    x = pin_row(x, rows.PARTS)
    weights = load_ahead(W, rows, AHEAD)
    mean, squares = gather_moments(places_of(rows), own, squares, MASKED)
    scale = px.rsqrt(squares / rows.columns + eps)
    store_normalised(rows, x, weights, W, B, Y, mean, scale)


@row_kernel
def layer_norm_rows(X, W, B, Y, eps, columns, *, config, AHEAD=False, MASKED=True, FULL=0):
    """(x - mean) / sqrt(variance + eps) * W + B of each row."""
    after = layer_norm_row, W, B, Y, eps, AHEAD, MASKED, FULL
    each_row(X, columns, 0.0, None, after, config)


def choose_centered(rows: Any) -> RowConfig:
    """The clusters of `layer_norm`; rows that come element by element take more registers: fewer vectors a thread, none
    ahead."""
    info = describe(rows)
    assert info is not None
    if info.aligned16:
        return choose_for(rows, centered=True)
    return replace(choose_for(rows, LIMITS.fewer_held, centered=True), ahead=False)


def centered_places(rows: Any, config: RowConfig | None) -> tuple[Any, int | None, RowConfig]:
    """The matrix, or its run where a configuration is given that holds it, and the clusters of `layer_norm`.

    Two vectors that begin elsewhere than the row cost more than its wide reads save: 50,257 bf16 0.41 of the device copy,
    1,001 0.58, against 0.42 and 0.68 element by element. So the library does not choose it.
    """
    if config is None:
        return rows, None, choose_centered(rows)
    return places(rows, config)


def full_tiles(columns: int, config: RowConfig) -> int:
    """How many of the first tiles of every CTA are full of a row's columns, from the first of them on: of a cluster, where
    some CTAs have fewer, none is said to be."""
    return columns // config.width if config.cluster == 1 else 0


Config = RowConfig | StreamConfig | SpanConfig | TeamConfig | ShareConfig
RUNS: dict[type, tuple[Callable[..., None], Any]] = {
    StreamConfig: (launch_stream, norm_stream), SpanConfig: (launch_spans, norm_spans),
    TeamConfig: (launch_teams, norm_teams), ShareConfig: (launch_shares, norm_shares),
}  # fmt: skip
"""Who launches which kernel for rows of a run of memory, by the type of their configuration."""


@remembered("x", "weight")
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6, *, config: Config | None = None) -> Any:
    """x / sqrt(mean(x^2) + eps) * weight along the last axis.

    Of a torch, CuPy or NumPy array of bf16, f16 or f32; the result has its type and shape. Computed in f32. `weight` is
    a vector or None. Rows lie in the registers of a cluster as `choose` says; those that begin anywhere come in aligned
    vectors, short ones several at a time (`spans`), longer ones by teams of warps (`choose_teams`); long ones pass through a
    ring (`choose_stream` has the rule), or those of a share of all SMs (`choose_shares`). `config` overrides all that.
    Any GPU from sm_90, on the current stream, or the simulator for NumPy.
    Example: ``y = px.kernels.rms_norm(x, w)``.
    """
    return _norm(x, None, weight, None, eps, config, centered=False)


@remembered("x", "residual", "weight", writes={"residual": "residual is not None"})
def add_rms_norm(x: Any, residual: Any, weight: Any = None, eps: float = 1e-6, *, config: RowConfig | None = None) -> Any:
    """`rms_norm` of x + residual, which takes the place of `residual`: what a layer hands on, and what the next one reads.

    Both have one shape and type, in which the sum is rounded before its norm is computed; two reads and two writes.
    Example: ``y = px.kernels.add_rms_norm(x, residual, w)``.
    """
    info = info_of("the argument", x)
    other = result_info("residual", residual)
    if other.shape != info.shape or other.dtype_name != info.dtype_name:
        raise refused(
            f"residual is {other.dtype_name} {other.shape}, the argument {info.dtype_name} {info.shape}",
            "pass two arrays of one shape and element type",
        )
    if other.strides != dense_strides(other.shape):
        raise refused("residual has gaps between its elements, or another order", "pass a contiguous array")
    return _norm(x, residual, weight, None, eps, require_config(config, RowConfig), centered=False)


@remembered("x", "weight", "bias")
def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *, config: Config | None = None
) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias along the last axis.

    As `rms_norm`; the variance is computed around means, of a warp or of a thread (see `moments` and `stream_norms`), so
    that a large mean costs no digits. `weight` and `bias` are vectors or None.
    Example: ``y = px.kernels.layer_norm(x, w, b)``.
    """
    return _norm(x, None, weight, bias, eps, config, centered=True)


def _norm(x: Any, residual: Any, weight: Any, bias: Any, eps: float, config: Config | None, *, centered: bool) -> Any:
    info = info_of("the argument", x)
    rows = as_rows(x, info)
    count, columns = rows.shape
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None:
            require_vector(name, vector, columns)
    eps = number_of("eps", eps)
    config = require_config(config, RowConfig, *RUNS)
    y = empty(x, (count, columns), info.dtype_name)
    if not has_work(count, columns):
        return y.reshape(info.shape)
    args: tuple[Any, ...]
    if config is None and residual is None:
        kind = LAYER_NORM if centered else RMS_NORM
        config = shares_for(rows, kind, weight, bias) or span_for(rows, weight, bias) or teams_for(rows, weight, bias)
        config = config or stream_for(rows, kind, weight, bias)
    if config is not None and not isinstance(config, RowConfig):
        launch, kernel = RUNS[type(config)]
        args = (run_for_stream(rows), weight, bias, y.reshape(-1), eps, columns)
        launch(kernel, config, args, {"CENTERED": centered}, count, columns)
    elif centered:
        given, length, config = centered_places(rows, config)
        masked = length is not None or columns != config.columns
        full = full_tiles(columns, config) if length is None else 0
        args = (given, weight, bias, flat_like(y, given), eps, length)
        layer_norm_rows[config.grid(count)](*args, **config.constants(), AHEAD=config.ahead, MASKED=masked, FULL=full)
    else:
        given, length, chosen = places(
            rows, config, shortest=LIMITS.run_vectors if weight is None else LIMITS.weighted_run_vectors,
            weighted=weight is not None, bare=residual is None and types_of((weight,)) == [info.dtype_name],
            again=residual is not None,
        )
        ahead = chosen.ahead and (length is None or config is not None)
        more = None if residual is None else flat_like(residual.reshape(count, columns), given)
        args = (given, more, weight, flat_like(y, given), eps, length)
        rms_norm_rows[chosen.grid(count)](*args, **chosen.constants(), AHEAD=ahead)
    return y.reshape(info.shape)
