"""Softmax, its logarithm and cross entropy of rows of any length, chunk by chunk."""

from __future__ import annotations

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LN2, LOG2E
from phalanx.kernels.rowwise.rows import VECTOR_BYTES
from phalanx.kernels.rowwise.softmax_terms import finite, softmax_terms, softmax_tile
from phalanx.kernels.rowwise.stream import along_thread, from_all, inside_row, of_warp, stream, stream_kernel


@px.func
def more_mass(x, ends, peak, mass, FUSED=False):
    """What each thread knows of a row, its maximum and the sum of e^(x - maximum), with a chunk more.

    FUSED: in one instruction less for each element, exact enough for logits of 16 bits.
    """
    if ends is not None:
        x = px.where(inside_row(x, ends), x, -float("inf"))
    top = px.maximum(peak, along_thread(px.max, x))
    base = finite(top)
    if FUSED:
        powers = px.exp2(px.fma(x, LOG2E, (base * -LOG2E).reshape(1, base.shape[0], 1)))
    else:
        powers = px.exp2((x - base.reshape(1, base.shape[0], 1)) * LOG2E)
    return top, mass * px.exp2((peak - base) * LOG2E) + along_thread(px.sum, powers)


@px.func
def more_mass_fused(x, ends, peak, mass):
    """`more_mass` for logits of 16 bits."""
    return more_mass(x, ends, peak, mass, True)


@px.func
def masses(rows, row, STEP, WARPS, AGAIN):
    """The maximum and the sum of e^(x - maximum) of a row, in every thread of the cluster. AGAIN: see `Stream.walk`."""
    LANES = 32 * WARPS
    more = more_mass_fused if rows.X.dtype.itemsize < 4 else more_mass
    known = px.full((LANES,), -float("inf"), px.f32), px.zeros((LANES,), px.f32)
    peak, mass = rows.walk(row, known, more, STEP, LANES, AGAIN)
    top = of_warp(px.max, peak, WARPS)
    mass = mass.reshape(WARPS, 32) * px.exp2((peak.reshape(WARPS, 32) - finite(top)) * LOG2E)
    peaks, parts = from_all((top, px.sum(mass, axis=1, keepdims=True)), WARPS)
    largest = px.max(peaks)
    return largest, px.sum(parts * px.exp2((peaks - finite(largest)) * LOG2E))


@px.func
def store_softmax(rows, Y, row, first, last, base, factor, LOG, ONCE, FUSED, COME):
    """The result of some chunks, which are given back; COME: they come again, else they were kept.

    FUSED: `base` has the logarithm of the factor in it, to base 2: two instructions less for each element.
    """
    begin, places = row * rows.columns, rows.first(row)
    for some in range(first, last, rows.BATCH):
        count = px.minimum(last - some, rows.BATCH)
        for chunk in range(some, some + count):
            at = rows.place(places, chunk)
            y = rows.next_again(COME)
            if FUSED:
                y = px.exp2(px.fma(y, LOG2E, base))
            else:
                y = softmax_tile(y, base, factor, LOG)
            px.store(Y[at : at + rows.SPAN].within(begin, begin + rows.columns), y.to(Y.dtype), once=ONCE)
        rows.give_back(count)


@px.func
def exponentiate(rows, Y, STEP, WARPS, LOG, ONCE):
    """The role that computes, row after row."""
    for row in range(px.cluster.id(), rows.rows, rows.clusters):
        largest, total = masses(rows, row, STEP, WARPS, True)
        FUSED = not LOG and Y.dtype.itemsize < 4
        if FUSED:
            base, factor = largest * -LOG2E - px.log2(total), 1.0
        else:
            base, factor = softmax_terms(largest, total, LOG)
        passed = rows.own - rows.held
        store_softmax(rows, Y, row, passed, rows.own, base, factor, LOG, ONCE, FUSED, False)
        store_softmax(rows, Y, row, 0, passed, base, factor, LOG, ONCE, FUSED, True)


@stream_kernel
def softmax_stream(
    X, Y, columns, rows, *, CLUSTER, WARPS, PER_SM, STEP, STAGES, KEPT, PARTS=0, ONCE=True, STREAMED=False, LOG=False,
    PERIOD=1,
):
    """e^x / sum(e^x) of each of `rows` rows, or its logarithm."""
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = 32 * WARPS * STEP * VEC
    ring, full, empty = px.shared((STAGES, SPAN), X.dtype), px.barrier(STAGES), px.barrier(STAGES)
    wait_for_prior_launch()
    with px.warps(0, WARPS):
        mine = stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, KEPT, STREAMED, PERIOD)
        exponentiate(mine, Y, STEP, WARPS, LOG, ONCE)
    with px.warps(WARPS, 1):
        stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, KEPT, STREAMED, PERIOD).fetch_all(True)


@px.func
def judge(rows, X, T, L, ignore, STEP, WARPS):
    """The role that computes the losses, row after row."""
    following = px.load(T[px.cluster.id()], fill=ignore)
    for row in range(px.cluster.id(), rows.rows, rows.clusters):
        label, following = following, px.load(T[row + rows.clusters], fill=ignore)  # ahead: the next row waits for none
        inside = (label >= 0) & (label < rows.columns)
        at = row * rows.columns + px.where(inside, label, 0).to(px.i32)
        chosen = px.load(X[at]).to(px.f32)  # of a row that is on its way anyway
        largest, total = masses(rows, row, STEP, WARPS, False)
        loss = px.where(inside, largest + px.log2(total) * LN2 - chosen, float("nan"))
        if px.cluster.rank() == 0:
            px.store(L[row], px.where(label == ignore, 0.0, loss))


@stream_kernel
def cross_entropy_stream(
    X, T, L, ignore, columns, rows, *, CLUSTER, WARPS, PER_SM, STEP, STAGES, KEPT=0, PARTS=0, ONCE=True, STREAMED=False,
    PERIOD=1,
):
    """The logarithm of sum(e^x) of each row, less the element that T names; 0 where T is `ignore`. No chunk is kept."""
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = 32 * WARPS * STEP * VEC
    ring, full, empty = px.shared((STAGES, SPAN), X.dtype), px.barrier(STAGES), px.barrier(STAGES)
    wait_for_prior_launch()
    with px.warps(0, WARPS):
        mine = stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, 0, STREAMED, PERIOD)
        judge(mine, X, T, L, ignore, STEP, WARPS)
    with px.warps(WARPS, 1):
        stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, 0, STREAMED, PERIOD).fetch_all(False)
