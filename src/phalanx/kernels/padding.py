"""Copies of arrays whose rows the copy engine can't read, with rows that begin at multiples of 16 bytes.

Their own kernels make them, not the array's framework: a launch like others of the library, which waits for the one before
it by itself, and which a call that comes again repeats.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK
from phalanx.kernels.gather import new
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import like
from phalanx.kernels.rowwise.row_config import run_of
from phalanx.runtime.device.arrays import ITEM_BYTES, ArrayInfo, dense_strides, describe

WARPS, TURNS, TILE, PIECE_BYTES = 4, 4, 64, 32 * COPY_CHUNK
"""Warps of a CTA, pieces of rows that each has on its way, rows and columns of a tile; a piece is a vector in each lane."""
MOST_CTAS = 65535
"""Along the second and the third axis of a grid."""


@px.func
def pad_pieces(X, Y, columns, warp):
    """The pieces of rows that this warp, of all that copy X, has: one vector in each lane, wherever they begin in X."""
    WIDTH = PIECE_BYTES // X.dtype.itemsize
    parts = px.cdiv(columns, WIDTH)
    some: tuple[Any, ...] = ()
    for turn in px.static_range(TURNS):
        piece = warp * TURNS + turn
        row = piece // parts
        at = piece % parts * WIDTH
        start = row * columns + at
        some = (*some, (row, at, px.load(X[start : start + WIDTH], shifted=True)))
    for row, at, values in some:
        px.store(Y[row, at : at + WIDTH], values)


@px.kernel(warps=WARPS, exit_sync=False, pdl=True)
def pad_rows(X, Y, columns, ctas, Z, W, others):
    """Y[i, k] = X[i * columns + k], and W[i, k] = Z[i * others + k] where there is a Z: by the CTAs from `ctas` on."""
    wait_for_prior_launch()
    with px.warps(0, 1, copies=WARPS) as warp:
        if Z is None or px.block_id(0) < ctas:
            pad_pieces(X, Y, columns, px.block_id(0) * WARPS + warp)
        else:
            pad_pieces(Z, W, others, (px.block_id(0) - ctas) * WARPS + warp)


@px.kernel(warps=WARPS, exit_sync=False, pdl=True)
def pad_tiles(X, Y, *, TURNED=False):
    """Y[b, i, k] = X[b, i, k], or X[b, k, i] with TURNED, of rows that lie apart, in any way that X says."""
    wait_for_prior_launch()
    b = px.block_id(2)
    i = px.block_id(0) * TILE
    k = px.block_id(1) * TILE
    if TURNED:
        tile = px.load(X[b, k : k + TILE, i : i + TILE]).T
    else:
        tile = px.load(X[b, i : i + TILE, k : k + TILE])
    px.store(Y[b, i : i + TILE, k : k + TILE], tile)


@frozen
class Run:
    """An array that is one run of memory, of rows of `columns` elements, and the array that its copy is to be."""

    run: Any
    made: Any
    columns: int

    @property
    def ctas(self) -> int:
        """The number of CTAs that copy the array."""
        parts = px.cdiv(self.columns, PIECE_BYTES // self.run.dtype.itemsize)
        return px.cdiv(self.made.shape[0] * parts, WARPS * TURNS)


def padded_copy(x: Any) -> Any:
    """`padded_copies` of one array."""
    return padded_copies(x)[0]


def padded_copies(*arrays: Any) -> list[Any]:
    """Copies of the same shapes whose rows begin at multiples of 16 bytes.

    Of runs of memory a launch for two of them, of matrices with rows or columns that are contiguous one for each; of
    anything else, what the array does when it is assigned to another one. For functions of the library, on any GPU from
    sm_90 or in the simulator. Example: ``a, b = padded_copies(a, b)``.
    """
    copies = []
    runs = []
    for x in arrays:
        info = describe(x)
        assert info is not None
        step = COPY_CHUNK // ITEM_BYTES[info.dtype_name]
        columns = info.shape[-1]
        shape = (*info.shape[:-1], -(-info.shape[-1] // step) * step)
        dense = 0 not in shape and info.strides == dense_strides(info.shape)
        run = run_of(x.reshape(-1, columns)) if dense else None
        turned = not info.contiguous_inner
        if run is not None:
            made = new(x, shape)
            runs.append(Run(run, made.reshape(-1, shape[-1]), columns))
        elif 0 not in shape and _in_tiles(info, turned):
            made = new(x, shape)
            given = x.swapaxes(-1, -2) if turned else x
            operands = (given, made) if len(shape) == 3 else (given[None], made[None])
            batch, rows = (1, *shape[:-1])[-2:]
            pad_tiles[px.cdiv(rows, TILE), px.cdiv(columns, TILE), batch](*operands, TURNED=turned)
        else:
            made = like(x, shape)
            made[..., :columns] = x
        copies.append(made[..., :columns])
    for number in range(0, len(runs), 2):
        _copy_runs(*runs[number : number + 2])
    return copies


def _in_tiles(info: ArrayInfo, turned: bool) -> bool:
    """Whether `pad_tiles` reads an array: a matrix, or some, that go forward, with contiguous rows or (`turned`) columns."""
    forward = all(stride > 0 for size, stride in zip(info.shape, info.strides) if size > 1)
    some = len(info.shape) == 2 or (len(info.shape) == 3 and info.shape[0] <= MOST_CTAS)
    return some and info.shape[-1] <= MOST_CTAS * TILE and forward and (not turned or info.strides[-2] == 1)


def _copy_runs(first: Run, second: Run | None = None) -> None:
    """Launches the copy of one run of memory, or of two."""
    mine = first.run, first.made, first.columns
    if second is None:
        pad_rows[first.ctas](*mine, None, None, None, None)
    else:
        pad_rows[first.ctas + second.ctas](*mine, first.ctas, second.run, second.made, second.columns)
