"""Softmax and its logarithm of rows that all CTAs of a GPU share (see `grid_rows`)."""

from __future__ import annotations

import phalanx as px
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.rowwise.grid_rows import Exchange, gatherers, grid_kernel, slices_of
from phalanx.kernels.rowwise.rows import VECTOR_BYTES
from phalanx.kernels.rowwise.softmax_terms import finite, softmax_terms
from phalanx.kernels.rowwise.stream import by_thread, of_warp
from phalanx.kernels.rowwise.stream_softmax import fused_factor, more_mass, more_mass_fused, probability


@px.func
def join_masses(peaks, masses):
    """The maximum of some parts, and the sum of e^(x - maximum) over them."""
    largest = px.max(peaks)
    return largest, px.sum(masses * px.exp2((peaks - finite(largest)) * LOG2E))


@px.func
def join_masses_of_all(there, peaks, masses):
    """The maximum and the sum of a row, from those of the CTAs that are `there`."""
    return join_masses(px.where(there, peaks, -float("inf")), px.where(there, masses, 0.0))


@px.func
def exponentiate(rows, exchange, team, Y, LOG, ONCE):
    """A team's rows."""
    LANES, FILL = rows.LANES, -float("inf")
    WARPS = LANES // 32
    FUSED = not LOG and Y.dtype.itemsize < 4
    more = more_mass_fused if rows.X.dtype.itemsize < 4 else more_mass
    ahead = rows.load_edges(team, FILL)
    turn = 0
    for row in range(team, rows.rows, exchange.TEAMS):
        edge, ahead = ahead, rows.load_edges(row + exchange.TEAMS, FILL)
        peak, mass = rows.walk(team, row, (px.full((LANES,), FILL, px.f32), px.zeros((LANES,), px.f32)), more)
        if edge is not None:
            peak, mass = more(by_thread(edge, 1, LANES), None, peak, mass)
        top = of_warp(px.max, peak, WARPS)
        mass = mass.reshape(WARPS, 32) * px.exp2((peak.reshape(WARPS, 32) - finite(top)) * LOG2E)
        exchange.leave(team, (top, px.sum(mass, axis=1, keepdims=True)))
        largest, total = exchange.get(team, turn & 1)
        if FUSED:
            factor = fused_factor(largest)
            base = largest * -factor - px.log2(total)
        else:
            base, factor = softmax_terms(largest, total, LOG)
        rows.store_all(team, row, Y, probability, ((base, factor), LOG, FUSED), ONCE)
        if edge is not None:
            px.store(Y[rows.edges(row, LANES)], probability(edge, (base, factor), LOG, FUSED).to(Y.dtype))
        turn = turn + 1


@grid_kernel
def softmax_grid(
    X, Y, columns, rows, WORDS, *, TEAMS, WARPS, STEP, STAGES, SLOTS, ONCE=True, LOG=False, PERIOD=1
):
    """e^x / sum(e^x) of each of `rows` rows, or its logarithm."""
    SPAN, GATHERERS = 32 * WARPS * STEP * (VECTOR_BYTES // X.dtype.itemsize), gatherers(TEAMS)
    ring, full = px.shared((TEAMS, STAGES, SPAN), X.dtype), px.barrier(TEAMS * STAGES)
    empty = px.barrier(TEAMS * STAGES, count=1, checked=False)  # each by its team
    parts, known = px.shared((TEAMS, 2, WARPS), px.f32), px.shared((TEAMS, 2), px.f32)
    left, told, cleared = px.barrier(TEAMS), px.barrier(TEAMS), px.counters(2)
    found = px.barrier(TEAMS, count=1, checked=False)
    with px.warps(0, WARPS, copies=TEAMS) as team:
        mine = slices_of(X, columns, rows, ring, full, empty, STEP, PERIOD)
        exchange = Exchange(WORDS, cleared, parts, known, left, told, found, rows, SLOTS, TEAMS)
        exponentiate(mine, exchange, team, Y, LOG, ONCE)
    with px.warps(WARPS * TEAMS, 1):
        slices_of(X, columns, rows, ring, full, empty, STEP, PERIOD).fetch_all()
    with px.warps(WARPS * TEAMS + 1, 1):
        Exchange(WORDS, cleared, parts, known, left, told, found, rows, SLOTS, TEAMS).publish_all(join_masses)
    with px.warps(WARPS * TEAMS + 2, 1, copies=GATHERERS) as number:
        Exchange(WORDS, cleared, parts, known, left, told, found, rows, SLOTS, TEAMS).gather_all(
            number, GATHERERS, join_masses_of_all
        )
