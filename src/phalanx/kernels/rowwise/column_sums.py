"""Sums of the columns of a matrix: gradients of biases, and of weights whose parts many CTAs left behind."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.gather import sms_of
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import FLOATS, empty, has_work, info_of, refused

ROWS, COLUMNS = 32, 128
"""Of a tile."""


@px.kernel(warps=4, pdl=True)
def sum_columns(X, Y, *, BM=ROWS, BN=COLUMNS):
    """Row s of Y is the sum of the rows of X that are dealt to the CTAs with block_id(1) = s."""
    wait_for_prior_launch()
    n, share = px.block_id(0) * BN, px.block_id(1)
    sums = px.zeros((BM, BN), px.f32)
    for m in range(share * BM, X.shape[0], px.num_blocks(1) * BM):
        sums = sums + px.load(X[m : m + BM, n : n + BN]).to(px.f32)
    px.store(Y[share, n : n + BN], px.sum(sums, axis=0).to(Y.dtype))


def column_sums(x: Any, dtype: str | None = None) -> Any:
    """The sum of the rows of a matrix of bf16, f16 or f32: a vector of its type, or of `dtype`.

    Added in f32 and in one order, so that repeats are equal. A tall matrix is summed by many CTAs, whose sums a second
    launch adds. Any GPU from sm_90, on the current stream, or the simulator for NumPy. Example: ``db = column_sums(dy)``.
    """
    info = info_of("x", x, FLOATS)
    if len(info.shape) != 2:
        raise refused(f"x has shape {info.shape}", "pass a matrix; x.reshape(-1, columns) makes one")
    rows, columns = info.shape
    result = empty(x, (1, columns), dtype or info.dtype_name)
    if has_work(columns):
        wide = px.cdiv(columns, COLUMNS)
        shares = min(max(1, 4 * sms_of(x) // wide), px.cdiv(rows, 4 * ROWS))
        if shares > 1:
            parts = empty(x, (shares, columns), "f32")
            sum_columns[wide, shares](x, parts)
            sum_columns[wide, 1](parts, result)
        else:
            sum_columns[wide, 1](x, result)
    return result.reshape((columns,))


__all__ = ["column_sums", "sum_columns"]
