"""Softmax and its logarithm of rows of any length, chunk by chunk."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.rowwise.known import Mass
from phalanx.kernels.rowwise.row_config import VECTOR_BYTES
from phalanx.kernels.rowwise.softmax_terms import LARGE, softmax_terms, softmax_tile
from phalanx.kernels.rowwise.stream import know, pinned, stages_of, stream, stream_kernel
from phalanx.kernels.rowwise.stream_config import FEW_REGISTERS


@px.func
def fused_factor(base):
    """What x and `base` are multiplied by, so that the difference of the products is (x - base) * log2(e), near enough.

    The product with `base` is rounded, by 0.004 at `LARGE`, and far beyond it, where masks of logits are, by more than an
    exponent has room for. There the factor is less, so that the product stays what it is at `LARGE`.
    """
    return LOG2E * px.minimum(LARGE * px.reciprocal(px.maximum(px.abs(base), 1.0)), 1.0)


@px.func
def probability(x, terms, LOG, FUSED):
    """Softmax of elements, or its logarithm; `terms` are what is subtracted and a factor.

    FUSED: what is subtracted has the logarithm of the sum in it, to base 2, and the factor is that of x: two instructions
    less for each element.
    """
    base, factor = terms
    if FUSED:
        return px.exp2(px.fma(x.to(px.f32), factor, base))
    return softmax_tile(x.to(px.f32), base, factor, LOG)


@px.func
def store_chunks(rows, Y, starts, chunk, x, terms, LOG, ONCE, FUSED):
    """The result of a chunk of each row."""
    for turn in px.static_range(rows.GROUP):
        rows.store(Y, starts[turn], chunk, probability(x[turn], terms[turn], LOG, FUSED), ONCE)


@px.func
def store_softmax(rows, Y, group, starts, first, last, terms, LOG, ONCE, FUSED, COME):
    """The result of some chunks, which are given back; COME: they come again, else they were kept."""
    for some in range(first, last, rows.BATCH):
        count = px.minimum(last - some, rows.BATCH)
        for chunk in range(some, some + count):
            store_chunks(rows, Y, starts, chunk, rows.next_again(group, COME), terms, LOG, ONCE, FUSED)
        rows.give_back(count)


@px.func
def exponentiate_rows(rows, Y, group, edges, STEP, WARPS, LOG, ONCE):
    """Some rows, of which the edges were loaded."""
    FUSED = not LOG and Y.dtype.itemsize < 4
    starts = rows.starts(group)
    terms: tuple[Any, ...] = ()
    found, held = know(rows, Mass(rows.X.dtype.itemsize < 4), group, edges, STEP, WARPS)
    for largest, total in found:
        if FUSED:
            factor = fused_factor(largest)
            terms = (*terms, (largest * -factor - px.log2(total), factor))
        else:
            terms = (*terms, softmax_terms(largest, total, LOG))
    if rows.HOLD > 0:
        for part in px.static_range(rows.HOLD):
            store_chunks(rows, Y, starts, part, pinned(held[part]), terms, LOG, ONCE, FUSED)
    else:
        passed = 0 if rows.WHOLE else rows.own - rows.held
        store_softmax(rows, Y, group, starts, passed, rows.own, terms, LOG, ONCE, FUSED, False)
        if not rows.WHOLE:
            store_softmax(rows, Y, group, starts, 0, passed, terms, LOG, ONCE, FUSED, True)
    if rows.EDGES:
        for turn in px.static_range(rows.GROUP):
            rows.store_edges(Y, group[turn], probability(edges[turn], terms[turn], LOG, FUSED))


@px.func
def exponentiate_chunks(rows, Y, STEP, WARPS, LOG, ONCE):
    """The role that computes, row after row of one class after another."""
    LANES = 32 * WARPS
    FILL = -float("inf")
    first, last = rows.classes()
    for which in range(first, last):
        begin, end, step = rows.rows_of(which)
        ahead = rows.load_edges(rows.group(begin, end, step), LANES, FILL)
        for row in range(begin, end, step * rows.GROUP):
            edges = ahead
            ahead = rows.load_edges(rows.group(row + step * rows.GROUP, end, step), LANES, FILL)
            exponentiate_rows(rows, Y, rows.group(row, end, step), edges, STEP, WARPS, LOG, ONCE)


@stream_kernel
def softmax_stream(
    X, Y, columns, rows, *, config, WHOLE=False, LOG=False, PERIOD=1, LINED=False
):  # fmt: skip
    """e^x / sum(e^x) of each of `rows` rows, or its logarithm. LINED: copies begin at lines."""
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = 32 * config.warps * config.step * VEC
    CLASSES = PERIOD if config.group > 1 else 1
    ring = stages_of(X, config.stages, config.group, SPAN, LINED)
    full = px.barrier(config.stages)
    empty = px.barrier(config.stages)
    wait_for_prior_launch()
    with px.warps(0, config.warps, regs=config.regs):
        mine = stream(X, columns, rows, ring, full, empty, config, VEC, SPAN, WHOLE, PERIOD, CLASSES)
        exponentiate_chunks(mine, Y, config.step, config.warps, LOG, config.once)
    with px.warps(config.warps, config.producers, regs=None if config.regs is None else FEW_REGISTERS):
        mine = stream(X, columns, rows, ring, full, empty, config, VEC, SPAN, WHOLE, PERIOD, CLASSES)
        mine.fetch_all()
