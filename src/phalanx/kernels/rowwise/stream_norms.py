"""RMSNorm and LayerNorm of rows of any length, chunk by chunk."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.rowwise.known import Moments, Squares, normalised
from phalanx.kernels.rowwise.row_config import VECTOR_BYTES
from phalanx.kernels.rowwise.stream import know, pinned, stages_of, stream, stream_kernel
from phalanx.kernels.rowwise.stream_config import FEW_REGISTERS

LOADED = 2
"""Chunks whose weights are loaded together."""
STORED = 4
"""Chunks that are held, and stored without a barrier between them."""


@px.func
def vector_of(rows, V, row, chunk, PERIOD):
    """The weights or biases beside a chunk of a row, where there are any, in their own type."""
    at = rows.place(px.cluster.rank() * rows.SPAN, chunk)
    if V is None:
        return None
    if PERIOD == 1:
        return px.load(V[at : at + rows.SPAN])
    at = at + (rows.whole(row)[0] - row * rows.columns)
    return px.load(V[at : at + rows.SPAN], shifted=True)


@px.func
def edges_of(rows, V, row, LANES):
    """The weights or biases beside the edges of a row, if it has any, and if there are any."""
    if V is None or not rows.EDGES:
        return None
    place = rows.edges(row, LANES)
    return px.load(V[px.where(place < 0, -1, place - row * rows.columns)])


@px.func
def first_kept(rows):
    """The first of the chunks that the ring keeps, whose weights and biases are the first ones to be kept as well."""
    return 0 if rows.WHOLE else rows.own - rows.held


@px.func
def vectors_of(rows, V, row, PARTS, PERIOD):
    """The weights or biases beside the first PARTS chunks that the ring keeps."""
    tiles: tuple[Any, ...] = ()
    for part in px.static_range(PARTS):
        tiles = (*tiles, vector_of(rows, V, row, first_kept(rows) + part, PERIOD))
    return tiles


@px.func
def store_norms(rows, x, w, b, Y, starts, chunk, known, ONCE):
    """The result of a chunk of each row. `known` has the mean and the scale of each; weights and biases are those of all."""
    for turn in px.static_range(rows.GROUP):
        mean, scale = known[turn]
        rows.store(Y, starts[turn], chunk, normalised(x[turn].to(px.f32), w, b, mean, scale, Y.dtype), ONCE)


@px.func
def beside(rows, W, B, row, first, PERIOD):
    """The weights and biases of LOADED chunks, each with None where there are none."""
    vectors: tuple[Any, ...] = ()
    for turn in px.static_range(LOADED):
        w = vector_of(rows, W, row, first + turn, PERIOD)
        b = vector_of(rows, B, row, first + turn, PERIOD)
        vectors = (*vectors, (w, b))
    return vectors


@px.func
def load_and_store(rows, W, B, Y, group, starts, first, last, known, ONCE, PERIOD, COME):
    """Stores the results of chunks `first` to `last`, and gives their stages back. While some are computed, weights and
    biases of the next ones are loaded. COME: the chunks are fetched a second time; else the ring has kept them.
    """
    ahead = beside(rows, W, B, group[0], first, PERIOD)
    for some in range(first, last, LOADED):
        vectors = ahead
        ahead = beside(rows, W, B, group[0], some + LOADED, PERIOD)
        for turn in px.static_range(LOADED):
            if some + turn < last:
                w, b = vectors[turn]
                store_norms(rows, rows.next_again(group, COME), w, b, Y, starts, some + turn, known, ONCE)
        rows.give_back(px.minimum(last - some, LOADED))


@px.func
def store_held(rows, held, W, B, w, b, Y, group, starts, known, PARTS, ONCE, PERIOD):
    """The result of rows that are held in registers.

    After some of their chunks their starts are found again, and a barrier parts the stores: ptxas would begin with so many
    chunks at once that it runs out of registers.
    """
    for part in px.static_range(rows.HOLD):
        if part > 0 and part % STORED == 0:
            starts = rows.starts(group)
        if part < PARTS:
            mine = None if W is None else px.keep(w[part])
            bias = None if B is None else px.keep(b[part])
        else:
            mine = vector_of(rows, W, group[0], part, PERIOD)
            bias = vector_of(rows, B, group[0], part, PERIOD)
        store_norms(rows, pinned(held[part]), mine, bias, Y, starts, part, known, ONCE)


@px.func
def save(rows, V, kept, row, PARTS, PERIOD):
    """Puts the weights or biases beside the chunks behind PARTS of those that the ring keeps into shared memory, as many as
    `kept` has room for; None: none."""
    if kept is not None:
        for part in px.static_range(kept.shape[0]):
            px.store(kept[part], vector_of(rows, V, row, first_kept(rows) + PARTS + part, PERIOD))


@px.func
def beside_part(v, kept, part):
    """The weights or biases beside a chunk whose number is a constant, which are in registers or in shared memory."""
    if v is None:
        return None
    if part < len(v):
        return px.keep(v[part])  # in their own type: widened ones take twice the registers
    return px.load(kept[part - len(v)])


@px.func
def store_kept(rows, W, B, w, b, saved, Y, group, starts, known, PARTS, ALL, ONCE, PERIOD):
    """The result of rows that the ring has, or some of them; their stages are given back."""
    first = first_kept(rows)
    for some in px.static_range(0, PARTS, rows.BATCH):
        last = min(some + rows.BATCH, PARTS)
        for part in px.static_range(some, last):
            if part < rows.held:
                mine = beside_part(None if W is None else w, saved[0], part)
                bias = beside_part(None if B is None else b, saved[1], part)
                store_norms(rows, rows.next_again(group, False), mine, bias, Y, starts, first + part, known, ONCE)
        rows.give_back(px.minimum(rows.held, last) - px.minimum(rows.held, some))
    if not (rows.WHOLE and ALL):
        load_and_store(rows, W, B, Y, group, starts, first + PARTS, rows.own, known, ONCE, PERIOD, False)
    if not rows.WHOLE:
        load_and_store(rows, W, B, Y, group, starts, 0, first, known, ONCE, PERIOD, True)


@px.func
def normalise_rows(rows, W, B, w, b, saved, edges, w_edge, b_edge, Y, eps, group, config, CENTERED, PERIOD):
    """Some rows, with the weights `w` and biases `b` beside their first chunks, and those that are saved.

    Those of other chunks are loaded.
    """
    PARTS = config.parts + config.saved
    found, held = know(rows, Moments() if CENTERED else Squares(), group, edges, config.step, config.warps)
    known: tuple[Any, ...] = ()
    starts = rows.starts(group)
    for mean, squares in found:
        known = (*known, (mean, px.rsqrt(squares / rows.columns + eps)))
    if rows.HOLD > 0:
        store_held(rows, held, W, B, w, b, Y, group, starts, known, PARTS, config.once, PERIOD)
    else:
        ALL = config.kept <= PARTS
        store_kept(rows, W, B, w, b, saved, Y, group, starts, known, PARTS, ALL, config.once, PERIOD)
    if rows.EDGES:
        for turn in px.static_range(rows.GROUP):
            y = normalised(edges[turn].to(px.f32), w_edge, b_edge, known[turn][0], known[turn][1], Y.dtype)
            rows.store_edges(Y, group[turn], y)


@px.func
def normalise_chunks(rows, W, B, saved, Y, eps, config, CENTERED, PERIOD):
    """The role that computes, row after row of one class after another; `config` is a `StreamConfig`."""
    LANES = 32 * config.warps
    first, last = rows.classes()
    for which in range(first, last):
        w = vectors_of(rows, W, which, config.parts, PERIOD)
        b = vectors_of(rows, B, which, config.parts, PERIOD)
        save(rows, W, saved[0], which, config.parts, PERIOD)
        save(rows, B, saved[1], which, config.parts, PERIOD)
        begin, end, step = rows.rows_of(which)
        ahead = rows.load_edges(rows.group(begin, end, step), LANES, 0.0)
        w_edge = edges_of(rows, W, begin, LANES)
        b_edge = edges_of(rows, B, begin, LANES)
        for row in range(begin, end, step * rows.GROUP):
            edges = ahead
            ahead = rows.load_edges(rows.group(row + step * rows.GROUP, end, step), LANES, 0.0)
            if PERIOD > rows.CLASSES:  # this row's edges are others than the last one's
                w_edge = edges_of(rows, W, row, LANES)
                b_edge = edges_of(rows, B, row, LANES)
            group = rows.group(row, end, step)
            normalise_rows(rows, W, B, w, b, saved, edges, w_edge, b_edge, Y, eps, group, config, CENTERED, PERIOD)


@stream_kernel
def norm_stream(
    X, W, B, Y, eps, columns, rows, *, config, WHOLE=False, CENTERED=False, PERIOD=1, LINED=False
):  # fmt: skip
    """x / sqrt(mean(x^2) + eps) * W + B of each of `rows` rows; with CENTERED x - mean(x) in the place of x.

    Rows PERIOD apart begin at the same place of a vector. Where the ring keeps whole rows (WHOLE), weights
    and biases of some chunks stay in registers and in shared memory, as `StreamConfig` says. LINED: copies begin at lines.
    """
    SAVED = config.saved
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = 32 * config.warps * config.step * VEC
    CLASSES = PERIOD if config.parts > 0 or config.group > 1 else 1
    ring = stages_of(X, config.stages, config.group, SPAN, LINED)
    full = px.barrier(config.stages)
    empty = px.barrier(config.stages)
    saved = (
        px.shared((SAVED, SPAN), W.dtype) if SAVED > 0 and W is not None else None,
        px.shared((SAVED, SPAN), B.dtype) if SAVED > 0 and B is not None else None,
    )
    wait_for_prior_launch()
    with px.warps(0, config.warps, regs=config.regs):
        mine = stream(X, columns, rows, ring, full, empty, config, VEC, SPAN, WHOLE, PERIOD, CLASSES)
        normalise_chunks(mine, W, B, saved, Y, eps, config, CENTERED, PERIOD)
    with px.warps(config.warps, config.producers, regs=None if config.regs is None else FEW_REGISTERS):
        mine = stream(X, columns, rows, ring, full, empty, config, VEC, SPAN, WHOLE, PERIOD, CLASSES)
        mine.fetch_all()
