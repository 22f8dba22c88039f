"""Copies of arrays whose rows the copy engine can't read, with rows that begin at multiples of 16 bytes.

Their own kernels make them, not the array's framework: a launch like others of the library, which waits for the one before
it by itself, and which a call that comes again repeats.
"""

from __future__ import annotations

from math import prod
from typing import Any

import phalanx as px
from phalanx.ir.archs import COPY_CHUNK
from phalanx.kernels.gather import new
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import like
from phalanx.kernels.rowwise.rows import run_of
from phalanx.runtime.device.arrays import ITEM_BYTES, ArrayInfo, dense_strides, describe

WARPS, TURNS, TILE = 4, 4, 64
"""Warps of a CTA, pieces of rows that each has on its way, rows and columns of a tile."""


@px.kernel(warps=WARPS, exit_sync=False, pdl=True)
def pad_rows(X, Y, columns):
    """Y[i, k] = X[i * columns + k]: a warp has some pieces of rows, of one vector in each lane, wherever they begin in X."""
    wait_for_prior_launch()
    WIDTH = 32 * (COPY_CHUNK // X.dtype.itemsize)
    parts = px.cdiv(columns, WIDTH)
    with px.warps(0, 1, copies=WARPS) as warp:
        first = (px.block_id(0) * WARPS + warp) * TURNS
        some: tuple[Any, ...] = ()
        for turn in px.static_range(TURNS):
            row, at = (first + turn) // parts, (first + turn) % parts * WIDTH
            start = row * columns + at
            some = (*some, (row, at, px.load(X[start : start + WIDTH], shifted=True)))
        for row, at, piece in some:
            px.store(Y[row, at : at + WIDTH], piece)


@px.kernel(warps=WARPS, exit_sync=False, pdl=True)
def pad_tiles(X, Y, *, TURNED=False):
    """Y[b, i, k] = X[b, i, k], or X[b, k, i] with TURNED, of rows that lie apart, in any way that X says."""
    wait_for_prior_launch()
    b, i, k = px.block_id(2), px.block_id(0) * TILE, px.block_id(1) * TILE
    if TURNED:
        tile = px.load(X[b, k : k + TILE, i : i + TILE]).T
    else:
        tile = px.load(X[b, i : i + TILE, k : k + TILE])
    px.store(Y[b, i : i + TILE, k : k + TILE], tile)


def padded_copy(x: Any) -> Any:
    """A copy of the same shape whose rows begin at multiples of 16 bytes.

    Of a run of memory, or of matrices with rows or columns that are contiguous, a launch; of anything else, and where an
    export traces the call, what the array does when it is assigned to another one.
    """
    info = describe(x)
    assert info is not None
    step = COPY_CHUNK // ITEM_BYTES[info.dtype_name]
    columns, shape = info.shape[-1], (*info.shape[:-1], -(-info.shape[-1] // step) * step)
    launch = None if 0 in shape else _launch_for(x, info)
    if launch is None:
        made = like(x, shape)
        made[..., :columns] = x
    else:
        made = new(x, shape)
        launch(made)
    return made[..., :columns]


def _launch_for(x: Any, info: ArrayInfo) -> Any:
    """What copies an array to another one, given that; None where no kernel of this file reads it."""
    *lead, columns = info.shape
    run = run_of(x.reshape(-1, columns)) if info.strides == dense_strides(info.shape) else None
    if run is not None:
        width = 32 * (COPY_CHUNK // ITEM_BYTES[info.dtype_name])
        ctas = px.cdiv(prod(lead) * px.cdiv(columns, width), WARPS * TURNS)
        return lambda made: pad_rows[ctas](run, made.reshape(-1, made.shape[-1]), columns)
    if len(lead) not in (1, 2) or any(stride <= 0 for size, stride in zip(info.shape, info.strides) if size > 1):
        return None
    turned = not info.contiguous_inner
    if turned and info.strides[-2] != 1:
        return None
    batch, rows = (1, *lead)[-2:]
    grid = px.cdiv(rows, TILE), px.cdiv(columns, TILE), batch
    given = x.swapaxes(-1, -2) if turned else x

    def launch(made: Any) -> None:
        operands = (given, made) if len(lead) == 2 else (given[None], made[None])
        pad_tiles[grid](*operands, TURNED=turned)

    return launch


__all__ = ["pad_rows", "pad_tiles", "padded_copy"]
