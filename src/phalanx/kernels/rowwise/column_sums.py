"""Sums of the columns of a matrix: gradients of biases, and of weights whose parts many CTAs left behind."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import sms_of, wait_for_prior_launch
from phalanx.kernels.matrices import FLOATS, empty, has_work, info_of, refused

ROWS, COLUMNS = 32, 128
"""Rows and columns of a tile."""


@px.func
def sum_share(X, Y, BM, BN):
    """Row s of Y is the sum of the rows of X that are dealt to the CTAs with block_id(1) = s."""
    n = px.block_id(0) * BN
    share = px.block_id(1)
    sums = px.zeros((BM, BN), px.f32)
    for m in range(share * BM, X.shape[0], px.num_blocks(1) * BM):
        sums = sums + px.load(X[m : m + BM, n : n + BN]).to(px.f32)
    px.store(Y[share, n : n + BN], px.sum(sums, axis=0).to(Y.dtype))


@px.kernel(warps=4, pdl=True)
def sum_columns(X, Y, ALSO_X, ALSO_Y, *, BM=ROWS, BN=COLUMNS):
    """Shares of the sums of X's columns, as rows of Y; CTAs with block_id(2) = 1 do the same for a second matrix, if any."""
    wait_for_prior_launch()
    if ALSO_X is None or px.block_id(2) == 0:
        sum_share(X, Y, BM, BN)
    else:
        sum_share(ALSO_X, ALSO_Y, BM, BN)


def column_sums(x: Any, dtype: str | None = None) -> Any:
    """The sum of the rows of a matrix of bf16, f16 or f32: a vector of its type, or of `dtype`.

    Added in f32 and in one order, so that repeats are equal. A tall matrix is summed by many CTAs, whose sums a second
    launch adds. Any GPU from sm_90, on the current stream, or the simulator for NumPy. Example: ``db = column_sums(dy)``.
    """
    return both_column_sums((x, dtype), None)[0]


def both_column_sums(one: tuple[Any, str | None], other: tuple[Any, str | None] | None) -> tuple[Any, Any]:
    """The `column_sums` of a matrix, and those of a second one of its shape, or None, by the same launches.

    Each is given with the type of its sums, as to `column_sums`. Example: ``both_column_sums((dw, "bf16"), (db, "bf16"))``.
    """
    given = [one] if other is None else [one, other]
    infos = [info_of("x", x, FLOATS) for x, _ in given]
    if len(infos[0].shape) != 2:
        raise refused(f"x has shape {infos[0].shape}", "pass a matrix; x.reshape(-1, columns) makes one")
    if infos[-1].shape != infos[0].shape:
        raise refused(f"matrices have shapes {infos[0].shape} and {infos[-1].shape}", "sum those of other shapes apart")
    rows, columns = infos[0].shape
    matrices = [x for x, _ in given]
    results = [empty(x, (1, columns), dtype or info.dtype_name) for (x, dtype), info in zip(given, infos)]
    if has_work(columns):
        wide = px.cdiv(columns, COLUMNS)
        shares = min(max(1, 4 * sms_of(matrices[0]) // wide), px.cdiv(rows, 4 * ROWS))
        if shares > 1:
            parts = [empty(x, (shares, columns), "f32") for x in matrices]
            _launch(wide, shares, matrices, parts)
            matrices = parts
        _launch(wide, 1, matrices, results)
    sums = [result.reshape((columns,)) for result in results]
    return sums[0], None if other is None else sums[1]


def _launch(wide: int, shares: int, matrices: list[Any], results: list[Any]) -> None:
    second = (None, None) if len(matrices) == 1 else (matrices[1], results[1])
    sum_columns[wide, shares, len(matrices)](matrices[0], results[0], *second)
