"""Softmax, its logarithm and cross entropy of rows of any length, chunk by chunk."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LN2, LOG2E
from phalanx.kernels.rowwise.rows import VECTOR_BYTES
from phalanx.kernels.rowwise.softmax_terms import finite, softmax_terms, softmax_tile
from phalanx.kernels.rowwise.stream import along_thread, by_thread, inside_row, of_warp, stream, stream_kernel


@px.func
def more_mass(x, peak, mass, FUSED):
    """What each thread knows of a row, its maximum and the sum of e^(x - maximum), with a chunk more.

    FUSED: in one instruction less for each element, exact enough for logits of 16 bits.
    """
    top = px.maximum(peak, along_thread(px.max, x))
    base = finite(top)
    if FUSED:
        powers = px.exp2(px.fma(x, LOG2E, (base * -LOG2E).reshape(1, base.shape[0], 1)))
    else:
        powers = px.exp2((x - base.reshape(1, base.shape[0], 1)) * LOG2E)
    return top, mass * px.exp2((peak - base) * LOG2E) + along_thread(px.sum, powers)


@px.func
def masses(rows, group, SPAN, STEP, WARPS, GIVE):
    """The maximum and the sum of e^(x - maximum) of each row of a group, in every thread of the cluster.

    GIVE: nobody reads the chunks again, and none is kept.
    """
    LANES = 32 * WARPS
    known: tuple[Any, ...] = ()
    for _ in px.static_range(rows.GROUP):
        known = (*known, (px.full((LANES,), -float("inf"), px.f32), px.zeros((LANES,), px.f32)))
    for chunk in range(rows.own):
        for g in px.static_range(rows.GROUP):
            begin, end = rows.ends(group * rows.GROUP + g)
            at = rows.place(begin, chunk)
            x = by_thread(rows.next(), STEP, LANES)
            if (at < begin) | (at + SPAN > end):
                x = px.where(inside_row(at, begin, end, SPAN, STEP, LANES), x, -float("inf"))
            known = (*known[:g], more_mass(x, *known[g], rows.X.dtype.itemsize < 4), *known[g + 1 :])
            if GIVE:
                rows.give_back()
            else:
                if chunk < rows.own - rows.held:
                    rows.give_back()
    found: tuple[Any, ...] = ()
    for g in px.static_range(rows.GROUP):
        peak, mass = known[g]
        top = of_warp(px.max, peak, WARPS)
        mass = mass.reshape(WARPS, 32) * px.exp2((peak.reshape(WARPS, 32) - finite(top)) * LOG2E)
        found = (*found, top, px.sum(mass, axis=1, keepdims=True))
    gathered = px.cluster.gather(found)
    result: tuple[Any, ...] = ()
    for g in px.static_range(rows.GROUP):
        peaks, parts = gathered[2 * g], gathered[2 * g + 1]
        largest = px.max(peaks)
        result = (*result, (largest, px.sum(parts * px.exp2((peaks - finite(largest)) * LOG2E))))
    return result


@px.func
def store_softmax(rows, Y, group, chunk, terms, SPAN, LOG, ONCE):
    """The result of a chunk of all rows of a group; the chunks are given back."""
    for g in px.static_range(rows.GROUP):
        begin, end = rows.ends(group * rows.GROUP + g)
        at = rows.place(begin, chunk)
        base, factor = terms[g]
        y = softmax_tile(px.load(rows.ring[rows.freed.stage]).to(px.f32), base, factor, LOG)
        px.store(Y[at : at + SPAN].within(begin, end), y.to(Y.dtype), once=ONCE)
        rows.give_back()


@px.func
def exponentiate(rows, Y, SPAN, STEP, WARPS, LOG, ONCE):
    """The role that computes, group after group of rows."""
    for group in range(px.cluster.id(), rows.groups(), rows.clusters):
        terms: tuple[Any, ...] = ()
        found = masses(rows, group, SPAN, STEP, WARPS, False)
        for g in px.static_range(rows.GROUP):
            terms = (*terms, softmax_terms(*found[g], LOG))
        for chunk in range(rows.own - rows.held, rows.own):
            store_softmax(rows, Y, group, chunk, terms, SPAN, LOG, ONCE)
        for chunk in range(rows.own - rows.held):
            rows.await_group()
            store_softmax(rows, Y, group, chunk, terms, SPAN, LOG, ONCE)


@stream_kernel
def softmax_stream(
    X, Y, columns, rows, *, CLUSTER, WARPS, PER_SM, STEP, STAGES, KEPT, GROUP=1, ONCE=True, STREAMED=False, LOG=False
):
    """e^x / sum(e^x) of each of `rows` rows, or its logarithm."""
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = 32 * WARPS * STEP * VEC
    ring, full, empty = px.shared((STAGES, SPAN), X.dtype), px.barrier(STAGES), px.barrier(STAGES)
    wait_for_prior_launch()
    with px.warps(0, WARPS):
        mine = stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, KEPT, GROUP, STREAMED)
        exponentiate(mine, Y, SPAN, STEP, WARPS, LOG, ONCE)
    with px.warps(WARPS, 1):
        stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, KEPT, GROUP, STREAMED).fetch_all(True)


@px.func
def judge(rows, X, T, L, ignore, SPAN, STEP, WARPS):
    """The role that computes the losses, group after group of rows."""
    for group in range(px.cluster.id(), rows.groups(), rows.clusters):
        named: tuple[Any, ...] = ()
        for g in px.static_range(rows.GROUP):
            row = group * rows.GROUP + g
            label = px.load(T[row])
            begin, _ = rows.ends(row)
            inside = (label >= 0) & (label < rows.columns)
            at = begin + px.where(inside, label, 0).to(px.i32)
            named = (*named, (label, inside, px.load(X[at]).to(px.f32)))  # of a row that is on its way anyway
        found = masses(rows, group, SPAN, STEP, WARPS, True)
        for g in px.static_range(rows.GROUP):
            (largest, total), (label, inside, chosen) = found[g], named[g]
            loss = px.where(inside, largest + px.log2(total) * LN2 - chosen, float("nan"))
            if px.cluster.rank() == 0:
                px.store(L[group * rows.GROUP + g], px.where(label == ignore, 0.0, loss))


@stream_kernel
def cross_entropy_stream(
    X, T, L, ignore, columns, rows, *, CLUSTER, WARPS, PER_SM, STEP, STAGES, KEPT=0, GROUP=1, ONCE=True, STREAMED=False
):
    """The logarithm of sum(e^x) of each row, less the element that T names; 0 where T is `ignore`. No chunk is kept."""
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = 32 * WARPS * STEP * VEC
    ring, full, empty = px.shared((STAGES, SPAN), X.dtype), px.barrier(STAGES), px.barrier(STAGES)
    wait_for_prior_launch()
    with px.warps(0, WARPS):
        mine = stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, 0, GROUP, STREAMED)
        judge(mine, X, T, L, ignore, SPAN, STEP, WARPS)
    with px.warps(WARPS, 1):
        stream(X, columns, rows, ring, full, empty, VEC, SPAN, STAGES, 0, GROUP, STREAMED).fetch_all(False)
