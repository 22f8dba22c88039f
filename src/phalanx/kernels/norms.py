"""RMSNorm and LayerNorm along the last axis: one read and one write, a row in the registers of a cluster."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.matrices import as_rows, empty, info_of, require_vector
from phalanx.kernels.rows import (
    FEWER_HELD,
    RowConfig,
    as_f32,
    choose,
    keep_row,
    load_row,
    piece,
    row_kernel,
    row_sum,
    shared_parts,
    zeros,
)


@row_kernel
def rms_norm_rows(X, W, Y, eps, *, CLUSTER, WARPS, PER_SM, ROWS, WIDTH, PARTS, SHARED=0):
    row = px.cluster.id() * ROWS
    first = px.cluster.rank() * ((PARTS + SHARED) * WIDTH)
    kept = shared_parts(X, ROWS, WIDTH, SHARED)
    x = load_row(X, row, first, kept, 0.0, ROWS, WIDTH, PARTS, SHARED)
    squares = zeros(ROWS, WIDTH)
    for part in px.static_range(PARTS + SHARED):
        tile = as_f32(x, kept, part, PARTS)
        squares = squares + tile * tile
    total = row_sum(squares, ROWS)
    scale = px.rsqrt(total / X.shape[1] + eps)
    x = keep_row(x, PARTS)
    for part in px.static_range(PARTS + SHARED):
        at = first + part * WIDTH
        if at < X.shape[1]:  # a whole tile past the row's end is not computed
            y = as_f32(x, kept, part, PARTS) * scale
            if W is not None:
                y = y * px.load(W[at : at + WIDTH]).to(px.f32)
            px.store(piece(Y, row, at, ROWS, WIDTH), y.to(Y.dtype))


@row_kernel
def layer_norm_rows(X, W, B, Y, eps, *, CLUSTER, WARPS, PER_SM, ROWS, WIDTH, PARTS, SHARED=0, MASKED=True):
    row = px.cluster.id() * ROWS
    first = px.cluster.rank() * ((PARTS + SHARED) * WIDTH)
    kept = shared_parts(X, ROWS, WIDTH, SHARED)
    x = load_row(X, row, first, kept, 0.0, ROWS, WIDTH, PARTS, SHARED)
    sums = zeros(ROWS, WIDTH)
    for part in px.static_range(PARTS + SHARED):
        sums = sums + as_f32(x, kept, part, PARTS)
    mean = row_sum(sums, ROWS) / X.shape[1]
    x = keep_row(x, PARTS)
    squares = zeros(ROWS, WIDTH)
    for part in px.static_range(PARTS + SHARED):
        at = first + part * WIDTH
        if at < X.shape[1]:
            apart = as_f32(x, kept, part, PARTS) - mean
            if MASKED:  # columns past the row's end are as far from the mean as 0 is
                apart = px.where(px.arange(WIDTH) < X.shape[1] - at, apart, 0.0)
            squares = squares + apart * apart
    total = row_sum(squares, ROWS)
    scale = px.rsqrt(total / X.shape[1] + eps)
    x = keep_row(x, PARTS)
    for part in px.static_range(PARTS + SHARED):
        at = first + part * WIDTH
        if at < X.shape[1]:
            y = (as_f32(x, kept, part, PARTS) - mean) * scale
            if W is not None:
                y = y * px.load(W[at : at + WIDTH]).to(px.f32)
            if B is not None:
                y = y + px.load(B[at : at + WIDTH]).to(px.f32)
            px.store(piece(Y, row, at, ROWS, WIDTH), y.to(Y.dtype))


def rms_norm(x: Any, weight: Any = None, eps: float = 1e-6, *, config: RowConfig | None = None) -> Any:
    """x / sqrt(mean(x^2) + eps) * weight along the last axis.

    Of a torch, CuPy or NumPy array of bf16, f16 or f32; the result has its type and shape. Computed in f32. `weight` is
    a vector or None; `config` overrides how a row is spread over a cluster. Example: ``y = px.kernels.rms_norm(x, w)``.
    """
    info = info_of("the argument", x)
    rows = as_rows(x, info)
    count, columns = rows.shape
    if weight is not None:
        require_vector("weight", weight, columns)
    y = empty(x, (count, columns), info.dtype_name)
    if count and columns:
        config = config or choose(columns, rows.dtype.itemsize)
        rms_norm_rows[config.grid(count)](rows, weight, y, float(eps), **config.constants())
    return y.reshape(info.shape)


def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *, config: RowConfig | None = None
) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias along the last axis.

    As `rms_norm`; the variance is computed around the mean, in a second pass over the registers. `weight` and `bias` are
    vectors or None. Example: ``y = px.kernels.layer_norm(x, w, b)``.
    """
    info = info_of("the argument", x)
    rows = as_rows(x, info)
    count, columns = rows.shape
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None:
            require_vector(name, vector, columns)
    y = empty(x, (count, columns), info.dtype_name)
    if count and columns:
        config = config or choose(columns, rows.dtype.itemsize, FEWER_HELD)
        masked = columns != config.columns
        launch = layer_norm_rows[config.grid(count)]
        launch(rows, weight, bias, y, float(eps), **config.constants(), MASKED=masked)
    return y.reshape(info.shape)
