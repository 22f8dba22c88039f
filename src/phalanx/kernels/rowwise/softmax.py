"""Softmax and its logarithm along the last axis: one read and one write, a row in the registers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import phalanx as px
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.matrices import FLOATS, as_rows, empty, has_work, info_of, number_of, refused, require_config
from phalanx.kernels.rowwise.grid_rows import GridConfig, grid_for, launch_grid
from phalanx.kernels.rowwise.grid_softmax import softmax_grid
from phalanx.kernels.rowwise.row_config import LIMITS, RowConfig, flat_like, places, run_of
from phalanx.kernels.rowwise.rows import by_warp, each_row, fold, pin_row, row_gather, row_kernel, zeros
from phalanx.kernels.rowwise.softmax_terms import finite, softmax_terms, softmax_tile
from phalanx.kernels.rowwise.spans import SpanConfig, launch_spans, softmax_spans, span_for
from phalanx.kernels.rowwise.stream_config import (
    LOG_SOFTMAX,
    SOFTMAX,
    StreamConfig,
    launch_stream,
    run_for_stream,
    stream_for,
)
from phalanx.kernels.rowwise.stream_softmax import softmax_stream
from phalanx.runtime.launch.replay import remembered

FULL, FULL_OF_LOGS = LIMITS.held, LIMITS.fewer_held
"""Vectors of a thread beyond which its registers are full; the logarithm leaves the compiler more to interleave."""


@px.func
def row_statistics(rows, x, also):
    """The maximum of each row, the sum of e^(x - maximum), that of the tile `also`, and the row's tiles to go on with.

    Each warp finds both for its own part of a row, relative to its own maximum; one exchange brings those of all warps
    of all CTAs to every warp, which folds them. Asking whether a tile lies past the row's end saves its work there, and
    keeps ptxas from interleaving tiles until it runs out of registers.
    """
    X = rows.X
    ROWS = rows.ROWS
    WARPS = rows.WARPS
    values = by_warp(X, x[0], ROWS, WARPS)
    for part in px.static_range(1, rows.PARTS):
        values = px.maximum(values, by_warp(X, x[part], ROWS, WARPS))
    if rows.SHARED + rows.AGAIN > 0:
        for part in range(rows.SHARED + rows.AGAIN):
            values = px.maximum(values, by_warp(X, rows.beyond(part), ROWS, WARPS))
    peak = px.max(px.max(values, axis=0), axis=1, keepdims=True)
    base = finite(peak)
    x = pin_row(x, rows.PARTS)
    powers = by_warp(X, zeros(ROWS, rows.WIDTH), ROWS, WARPS)
    for part in px.static_range(rows.PARTS):
        if rows.first + part * rows.WIDTH < rows.length:
            powers = powers + px.exp2((by_warp(X, x[part], ROWS, WARPS) - base) * LOG2E)
    if rows.SHARED + rows.AGAIN > 0:
        for part in range(rows.SHARED + rows.AGAIN):
            powers = powers + px.exp2((by_warp(X, rows.beyond(part), ROWS, WARPS) - base) * LOG2E)
    mass = px.sum(px.sum(powers, axis=0), axis=1, keepdims=True)
    others = None
    if also is None:
        peaks, masses = row_gather((peak, mass), ROWS)
    else:
        other = px.sum(px.sum(by_warp(X, also, ROWS, WARPS), axis=0), axis=1, keepdims=True)
        peaks, masses, others = row_gather((peak, mass, other), ROWS)
    largest = fold(px.max, peaks, ROWS)
    total = fold(px.sum, masses * px.exp2((peaks - finite(largest)) * LOG2E), ROWS)
    return largest, total, None if others is None else fold(px.sum, others, ROWS), pin_row(x, rows.PARTS)


@px.func
def softmax_row(rows, known, x, Y, LOG):
    """e^x / sum(e^x) of a row, or its logarithm, by the warps that have loaded it."""
    largest, total, _, x = row_statistics(rows, x, None)
    base, factor = softmax_terms(largest, total, LOG)
    rows.start_again((FULL_OF_LOGS if LOG else FULL) < rows.PARTS)
    for part in px.static_range(rows.PARTS):
        at = rows.first + part * rows.WIDTH
        if at < rows.length:
            rows.store(Y, at, softmax_tile(x[part].to(px.f32), base, factor, LOG))
    if rows.SHARED + rows.AGAIN > 0:
        for part in range(rows.SHARED + rows.AGAIN):
            y = softmax_tile(rows.beyond(part).to(px.f32), base, factor, LOG)
            rows.store(Y, rows.first + (rows.PARTS + part) * rows.WIDTH, y)


@px.func
def scale_and_mask(rows, M, scale, outer, inner):
    """Says what a row, or rows, are multiplied with, and which rows of the mask are theirs.

    Each of its `inner` rows serves `outer` rows in turn.
    """
    rows.scale = scale
    rows.M = M
    if M is not None:
        row = rows.row if rows.ROWS == 1 else rows.row + px.arange(rows.ROWS)
        rows.masks = row // outer * inner + row % inner


@row_kernel
def softmax_rows(X, M, Y, scale, outer, inner, columns, *, config, LOG=False):
    """e^x / sum(e^x) of each row, or its logarithm; of scale * x where there is a scale, and with a mask M of x + M.

    A mask of truth values says which elements count.
    """
    before = scale_and_mask, M, scale, outer, inner
    DTYPE = None if scale is None and M is None else px.f32
    after = softmax_row, Y, LOG
    each_row(X, columns, -float("inf"), before, after, config, DTYPE)


Config = RowConfig | StreamConfig | SpanConfig | GridConfig
RUNS: dict[type, tuple[Callable[..., None], Any]] = {
    StreamConfig: (launch_stream, softmax_stream), SpanConfig: (launch_spans, softmax_spans),
    GridConfig: (launch_grid, softmax_grid),
}  # fmt: skip
"""Who launches which kernel for rows of a run of memory, by the type of their configuration."""


@remembered("x", "mask")
def softmax(x: Any, *, scale: float | None = None, mask: Any = None, config: Config | None = None) -> Any:
    """Softmax along the last axis, of `scale` times x where there is a scale.

    Of a torch, CuPy or NumPy array of bf16, f16 or f32; the result has its type and shape. Computed in f32. `mask`, whose
    shape is that of x or has ones, or nothing, in a row of its leading axes, says what takes part where its elements are
    truth values, and is added to the scaled x otherwise; a row in which nothing takes part is NaN. Rows that begin
    anywhere come in aligned vectors, short ones several at a time (`spans`); long ones pass through a ring (`choose_stream`
    has the rule), the longest through rings of all SMs (`choose_grid`). `config` overrides how a row is spread over a
    cluster (`RowConfig`), or passes through (`StreamConfig`, `SpanConfig`, `GridConfig`).
    Any GPU from sm_90, on the current stream, or the simulator for NumPy. Example:
    ``y = px.kernels.softmax(scores, scale=0.125, mask=keep)``.
    """
    return _launch(x, scale, mask, config, log=False)


@remembered("x", "mask")
def log_softmax(x: Any, *, scale: float | None = None, mask: Any = None, config: Config | None = None) -> Any:
    """The logarithm of the softmax along the last axis; see `softmax`. Example: ``y = px.kernels.log_softmax(x)``."""
    return _launch(x, scale, mask, config, log=True)


def _launch(x: Any, scale: float | None, mask: Any, config: Config | None, *, log: bool) -> Any:
    info = info_of("the argument", x)
    rows = as_rows(x, info)
    y = empty(x, tuple(rows.shape), info.dtype_name)
    count, columns = rows.shape
    plain = scale is None and mask is None
    if plain:
        config = require_config(config, RowConfig, *RUNS)
    else:
        config = require_config(config, RowConfig)
    if scale is not None:
        scale = number_of("scale", scale)
        if not scale > 0:
            raise refused(f"scale is {scale}", "it is a number above 0: what is left out of a row stays -inf times scale")
    table, outer, inner = mask_of(mask, info.shape) if mask is not None else (None, None, None)
    if not has_work(count, columns):
        return y.reshape(info.shape)
    held = LIMITS.fewer_held if not plain or (log and rows.dtype.itemsize < 4) else LIMITS.held
    if plain and config is None:
        kind = LOG_SOFTMAX if log else SOFTMAX
        config = span_for(rows) or grid_for(rows, kind) or stream_for(rows, kind)
    if config is not None and not isinstance(config, RowConfig):
        launch_run, kernel = RUNS[type(config)]
        launch_run(kernel, config, (run_for_stream(rows), y.reshape(-1), columns), {"LOG": log}, count, columns)
    else:
        # Scaled or masked they are in f32: as many registers as for rows of f32.
        given, length, config = places(rows, config, itemsize=None if plain else 4, held=held, bare=plain, again=not plain)
        if table is not None and length is not None:
            run = run_of(table)
            table = table if run is None else run
        launch = softmax_rows[config.grid(count)]
        launch(given, table, flat_like(y, given), scale, outer, inner, length, **config.constants(), LOG=log)
    return y.reshape(info.shape)


def mask_of(mask: Any, shape: tuple[int, ...]) -> tuple[Any, int, int]:
    """A mask as a matrix, and which of its rows serves a row: row r // outer * inner + r % inner.

    Its axes are the array's, but that it may have ones, or nothing, in some that follow each other, before the last.
    """
    info = info_of("mask", mask, ("bool", *FLOATS))
    missing = len(shape) - len(info.shape)
    sizes = (1,) * missing + info.shape
    wrong = refused(
        f"mask has shape {info.shape}, the argument {shape}",
        "its axes are the argument's, with ones, or nothing, in some that follow each other before the last",
    )
    if missing < 0 or not info.shape or sizes[-1] != shape[-1]:
        raise wrong
    spread = [axis for axis, (mine, size) in enumerate(zip(sizes[:-1], shape[:-1])) if mine != size]
    if any(sizes[axis] != 1 for axis in spread):
        raise wrong
    first, last = (spread[0], spread[-1]) if spread else (0, -1)
    if any(sizes[axis] != 1 for axis in range(first, last + 1)):
        raise wrong
    inner = prod(shape[last + 1 : -1])
    return as_rows(mask, info), max(1, prod(shape[first:-1])), max(1, inner)
