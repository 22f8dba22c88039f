"""Gradients of rows by index: rows of gradients added where they were taken from, in f32, whatever their type."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.gather import INDICES
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import FLOATS, as_rows, empty, has_work, info_of, refused, result_info
from phalanx.runtime.device.arrays import ArgumentKind, kind_of

ROWS, COLUMNS = 16, 128
"""Rows and columns of a tile."""


@px.kernel(warps=4, pdl=True)
def add_rows(X, I, Y, *, BM=ROWS, BN=COLUMNS):
    """Y[I[i]] += X[i] in the type of Y, atomically per element; indices outside Y add nothing."""
    wait_for_prior_launch()
    m = px.block_id(0) * BM
    n = px.block_id(1) * BN
    rows = px.load(I[m : m + BM], fill=-1)
    px.atomic_add(Y[rows, n : n + BN], px.load(X[m : m + BM, n : n + BN]).to(Y.dtype))


@px.kernel(warps=4, pdl=True)
def dot_rows(X, Y, WEIGHT, SCALED, DOTS, *, BM=ROWS, BN=COLUMNS):
    """SCALED[i] = WEIGHT[i] * X[i], and DOTS[i] the product of the rows X[i] and Y[i]; either may be None."""
    wait_for_prior_launch()
    m = px.block_id(0) * BM
    factor = px.load(WEIGHT[m : m + BM]).to(px.f32).reshape(BM, 1)
    sums = px.zeros((BM, BN), px.f32)
    for n in range(0, X.shape[1], BN):
        x = px.load(X[m : m + BM, n : n + BN]).to(px.f32)
        if DOTS is not None:
            sums = sums + x * px.load(Y[m : m + BM, n : n + BN]).to(px.f32)
        if SCALED is not None:
            px.store(SCALED[m : m + BM, n : n + BN], (x * factor).to(SCALED.dtype))
    if DOTS is not None:
        px.store(DOTS[m : m + BM], px.sum(sums, axis=1).to(DOTS.dtype))


def gather_backward(d: Any, idx: Any, rows: int) -> Any:
    """The gradient of the matrix of `rows` rows from which `gather_rows` or `embedding` took rows `idx`, from theirs, `d`.

    `d` (..., columns) bf16, f16 or f32, `idx` i32 or i64 of its shape but for the last axis; rows that several indices name
    are summed in f32, in any order, and rounded once. Indices outside add nothing. Any GPU from sm_90, on the current
    stream, or the simulator for NumPy. Example: ``dtable = gather_backward(d, ids, len(table))``.
    """
    info = info_of("d", d, FLOATS)
    names = info_of("idx", idx, INDICES)
    if names.shape != info.shape[:-1]:
        raise refused(f"idx has shape {names.shape}, d {info.shape}", "pass one index per row of d")
    columns = info.shape[-1]
    sums = empty(d, (rows, columns), "f32")
    sums[...] = 0
    if has_work(rows, *info.shape):
        matrix = as_rows(d, info)
        add_rows[px.cdiv(matrix.shape[0], ROWS), px.cdiv(columns, COLUMNS)](matrix, idx.reshape(-1), sums)
    if info.dtype_name == "f32":
        return sums
    return sums.to(d.dtype) if kind_of(d) is ArgumentKind.TORCH else sums.astype(d.dtype)


def scaled_rows(x: Any, weight: Any, dot_with: Any = None) -> tuple[Any, Any]:
    """``weight[i] * x[i]`` in x's type, and the products of the rows of `x` and `dot_with` in weight's; None without it.

    `x` and `dot_with` matrices of one shape, `weight` one number per row. Any GPU from sm_90, on the current stream, or the
    simulator for NumPy. Example: ``dh, dgate = scaled_rows(d, gate, h)``.
    """
    info = info_of("x", x, FLOATS)
    factors = info_of("weight", weight, FLOATS)
    if len(info.shape) != 2 or factors.shape != info.shape[:1]:
        raise refused(f"x has shape {info.shape}, weight {factors.shape}", "pass a matrix and one number per row")
    if dot_with is not None and info_of("dot_with", dot_with, FLOATS).shape != info.shape:
        raise refused(f"dot_with has shape {tuple(dot_with.shape)}, x {info.shape}", "pass matrices of one shape")
    scaled = empty(x, info.shape, info.dtype_name)
    dots = None if dot_with is None else empty(x, info.shape[:1], factors.dtype_name)
    if dots is not None:
        result_info("dots", dots, FLOATS)
    if has_work(*info.shape):
        dot_rows[px.cdiv(info.shape[0], ROWS)](x, dot_with, weight, scaled, dots)
    return scaled, dots
