"""Softmax and its logarithm of rows of any length, chunk by chunk."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.rowwise.rows import VECTOR_BYTES
from phalanx.kernels.rowwise.softmax_terms import LARGE, finite, fused_terms, softmax_terms, softmax_tile
from phalanx.kernels.rowwise.stream import (
    FEW_REGISTERS,
    along_thread,
    by_thread,
    from_all,
    inside_row,
    of_warp,
    pinned,
    stages_of,
    stream,
    stream_kernel,
)


@px.func
def fused_factor(base):
    """What x and `base` are multiplied by, so that the difference of the products is (x - base) * log2(e), near enough.

    The product with `base` is rounded, by 0.004 at `LARGE`, and far beyond it, where masks of logits are, by more than an
    exponent has room for. There the factor is less, so that the product stays what it is at `LARGE`.
    """
    return LOG2E * px.minimum(LARGE * px.reciprocal(px.maximum(px.abs(base), 1.0)), 1.0)


@px.func
def more_mass(x, limit, peak, mass, FUSED=False):
    """What each thread knows of a row, its maximum and the sum of e^(x - maximum), with a chunk more.

    FUSED: in one instruction less for each element, exact enough for logits of 16 bits.
    """
    if limit is not None:
        x = px.where(inside_row(x, limit), x, -float("inf"))
    top = px.maximum(peak, along_thread(px.max, x))
    base = finite(top)
    if FUSED:
        less, factor = fused_terms(base)
        powers = px.exp2(px.fma(x, factor.reshape(1, base.shape[0], 1), less.reshape(1, base.shape[0], 1)))
    else:
        powers = px.exp2((x - base.reshape(1, base.shape[0], 1)) * LOG2E)
    return top, mass * px.exp2((peak - base) * LOG2E) + along_thread(px.sum, powers)


@px.func
def more_mass_fused(x, limit, peak, mass):
    """`more_mass` for logits of 16 bits."""
    return more_mass(x, limit, peak, mass, True)


@px.func
def masses(rows, group, edges, STEP, WARPS):
    """The maximum and the sum of e^(x - maximum) of each row, in all threads of the cluster; and the chunks in registers."""
    LANES = 32 * WARPS
    more = more_mass_fused if rows.X.dtype.itemsize < 4 else more_mass
    known: tuple[Any, ...] = ((px.full((LANES,), -float("inf"), px.f32), px.zeros((LANES,), px.f32)),) * rows.GROUP
    known, held = rows.walk(group, known, more, STEP, LANES)
    sent: tuple[Any, ...] = ()
    for turn in px.static_range(rows.GROUP):
        peak, mass = known[turn]
        if edges[turn] is not None:
            peak, mass = more(by_thread(edges[turn], 1, LANES), None, peak, mass)
        top = of_warp(px.max, peak, WARPS)
        mass = mass.reshape(WARPS, 32) * px.exp2((peak.reshape(WARPS, 32) - finite(top)) * LOG2E)
        sent = (*sent, top, px.sum(mass, axis=1, keepdims=True))
    got = from_all(sent, WARPS)
    result: tuple[Any, ...] = ()
    for turn in px.static_range(rows.GROUP):
        peaks, parts = got[2 * turn], got[2 * turn + 1]
        largest = px.max(peaks)
        result = (*result, (largest, px.sum(parts * px.exp2((peaks - finite(largest)) * LOG2E))))
    return result, held


@px.func
def probability(x, terms, LOG, FUSED):
    """Softmax of elements, or its logarithm; `terms` are what is subtracted and a factor.

    FUSED: what is subtracted has the logarithm of the sum in it, to base 2, and the factor is that of x: two instructions
    less for each element.
    """
    base, factor = terms
    if FUSED:
        y = px.exp2(px.fma(x.to(px.f32), factor, base))
    else:
        y = softmax_tile(x.to(px.f32), base, factor, LOG)
    return y


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
    FUSED, starts = not LOG and Y.dtype.itemsize < 4, rows.starts(group)
    terms: tuple[Any, ...] = ()
    found, held = masses(rows, group, edges, STEP, WARPS)
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
def exponentiate(rows, Y, STEP, WARPS, LOG, ONCE):
    """The role that computes, row after row of one class after another."""
    LANES, FILL = 32 * WARPS, -float("inf")
    first, last = rows.classes()
    for which in range(first, last):
        begin, end, step = rows.rows_of(which)
        ahead = rows.load_edges(rows.group(begin, end, step), LANES, FILL)
        for row in range(begin, end, step * rows.GROUP):
            edges, ahead = ahead, rows.load_edges(rows.group(row + step * rows.GROUP, end, step), LANES, FILL)
            exponentiate_rows(rows, Y, rows.group(row, end, step), edges, STEP, WARPS, LOG, ONCE)


@stream_kernel
def softmax_stream(
    X, Y, columns, rows, *, CLUSTER, WARPS, PER_SM, STEP, STAGES, KEPT, PARTS=0, ONCE=True, STREAMED=False, GROUP=1,
    PRODUCERS=1, REGS=None, WHOLE=False, HOLD=False, LOG=False, PERIOD=1, LINED=False,
):
    """e^x / sum(e^x) of each of `rows` rows, or its logarithm. LINED: copies begin at lines."""
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = 32 * WARPS * STEP * VEC
    CLASSES = PERIOD if GROUP > 1 else 1
    ring, full, empty = stages_of(X, STAGES, GROUP, SPAN, LINED), px.barrier(STAGES), px.barrier(STAGES)
    wait_for_prior_launch()
    with px.warps(0, WARPS, regs=REGS):
        mine = stream(
            X, columns, rows, ring, full, empty, VEC, SPAN, GROUP, STAGES, KEPT, WHOLE, HOLD, STREAMED, PERIOD, CLASSES
        )
        exponentiate(mine, Y, STEP, WARPS, LOG, ONCE)
    with px.warps(WARPS, PRODUCERS, regs=None if REGS is None else FEW_REGISTERS):
        mine = stream(
            X, columns, rows, ring, full, empty, VEC, SPAN, GROUP, STAGES, KEPT, WHOLE, HOLD, STREAMED, PERIOD, CLASSES
        )
        mine.fetch_all()
