"""Softmax, its logarithm, RMSNorm and LayerNorm of rows that all CTAs of a GPU share (see `grid_rows`)."""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.rowwise.grid_rows import Exchange, gatherers, grid_kernel, slices_of
from phalanx.kernels.rowwise.rows import VECTOR_BYTES
from phalanx.kernels.rowwise.softmax_terms import finite, softmax_terms
from phalanx.kernels.rowwise.stream import by_thread, of_warp
from phalanx.kernels.rowwise.stream_norms import (
    LOADED,
    edges_of,
    more_moments,
    more_squares,
    normalised,
    of_warps,
    pivot_of,
)
from phalanx.kernels.rowwise.stream_softmax import fused_factor, more_mass, more_mass_fused, probability


@px.func
def join_masses(peaks, masses):
    """The maximum of some parts, and the sum of e^(x - maximum) over them."""
    largest = px.max(peaks)
    return largest, px.sum(masses * px.exp2((peaks - finite(largest)) * LOG2E))


@px.func
def join_masses_of_all(row, lane, there, peaks, masses):
    """The same of all CTAs."""
    return join_masses(px.where(there, peaks, -float("inf")), px.where(there, masses, 0.0))


@px.func
def nothing_beside(place):
    """Softmax has no weights."""
    return ()


@px.func
def softmax_of_chunk(x, place, vectors, base, factor, LOG, FUSED):
    """The result for a chunk."""
    return probability(x, (base, factor), LOG, FUSED)


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
        rows.store_all(team, row, Y, softmax_of_chunk, (base, factor, LOG, FUSED), (nothing_beside,), 0, ONCE)
        if edge is not None:
            px.store(Y[rows.edges(row, LANES)], probability(edge, (base, factor), LOG, FUSED).to(Y.dtype))
        turn = turn + 1


@grid_kernel
def softmax_grid(
    X, Y, columns, rows, WORDS, *, TEAMS, WARPS, STEP, STAGES, SLOTS, SAVED=(0, 0), ONCE=True, LOG=False, PERIOD=1
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


@px.func
def join_squares(squares):
    """The sum of the squares of all warps; the second number says nothing."""
    return px.sum(squares), 1.0


@px.func
def join_squares_of_all(row, lane, there, squares, ones, rows, eps):
    """A mean that is not asked for, and the scale of a row."""
    return 0.0, px.rsqrt(px.sum(px.where(there, squares, 0.0)) / rows.columns + eps)


@px.func
def join_moments(counts, means, squares):
    """The mean of what this CTA has of a row, and the sum of the squared distances from it."""
    mean = px.sum(counts * means) * px.reciprocal(px.maximum(px.sum(counts), 1.0))
    apart = means - mean
    return mean, px.sum(squares + counts * apart * apart)


@px.func
def join_moments_of_all(row, lane, there, means, squares, rows, eps):
    """The mean of a row, and its scale."""
    first, last = rows.whole(row)
    whole = px.minimum(px.maximum(last - first - lane * rows.part, 0), rows.part)
    counts = (whole + px.where(lane == 0, rows.columns - (last - first), 0)).to(px.f32)
    counts = px.where(there, counts, 0.0)
    means, squares = px.where(there, means, 0.0), px.where(there, squares, 0.0)
    mean = px.sum(counts * means) / rows.columns
    apart = means - mean
    return mean, px.rsqrt(px.sum(squares + counts * apart * apart) / rows.columns + eps)


@px.struct
class Beside:
    """Weights or biases V, of which `kept`, in shared memory, has this CTA's from `first` on; None: they come from L2 and
    the SM's cache whenever they are asked for."""

    V: Any
    kept: Any
    first: Any

    def save(self, team, SPAN, TEAMS):
        """Puts a team's share of them into shared memory, and so many more behind them as a row may begin later."""
        if self.kept is not None:
            VEC = self.kept.shape[0] % SPAN
            for place in range(team * SPAN, self.kept.shape[0] - VEC, TEAMS * SPAN):
                at = self.first + place
                px.store(self.kept[place : place + SPAN], px.load(self.V[at : at + SPAN]))
            if team == 0:
                END = self.kept.shape[0] - VEC
                at = self.first + END
                px.store(self.kept[END : END + VEC], px.load(self.V[at : at + VEC]))

    def ahead(self, place, SPAN, EDGES):
        """Those beside a chunk that begins so many elements behind the first, unless they are kept."""
        at = self.first + place
        return None if self.V is None or self.kept is not None else px.load(self.V[at : at + SPAN], shifted=EDGES)

    def now(self, place, SPAN, ahead, EDGES):
        """The same as soon as they are needed; `ahead` came before."""
        return ahead if self.kept is None else px.load(self.kept[place : place + SPAN], shifted=EDGES)


@px.func
def room_for(V, SAVED, SPAN, VEC):
    """Shared memory for so many chunks of weights or biases, and a vector; None without any."""
    return px.shared((SAVED * SPAN + VEC,), V.dtype) if SAVED > 0 and V is not None else None


@px.func
def both_beside(place, weights, biases, SPAN, EDGES):
    """The weights and the biases beside a chunk, each unless they are kept."""
    return weights.ahead(place, SPAN, EDGES), biases.ahead(place, SPAN, EDGES)


@px.func
def norm_of_chunk(x, place, vectors, weights, biases, mean, scale, DTYPE, EDGES):
    """The result for a chunk."""
    w = weights.now(place, x.shape[0], vectors[0], EDGES)
    return normalised(x.to(px.f32), w, biases.now(place, x.shape[0], vectors[1], EDGES), mean, scale, DTYPE)


@px.func
def normalise(rows, exchange, team, W, B, kept, ready, Y, CENTERED, ONCE):
    """A team's rows."""
    first = px.block_id(0) * rows.part
    weights, biases = Beside(W, kept[0], first), Beside(B, kept[1], first)
    beside = both_beside, weights, biases, rows.SPAN, rows.EDGES
    AHEAD = LOADED if (W is not None and kept[0] is None) or (B is not None and kept[1] is None) else 0
    weights.save(team, rows.SPAN, exchange.TEAMS)
    biases.save(team, rows.SPAN, exchange.TEAMS)
    if ready is not None:
        ready.arrive()
    LANES = rows.LANES
    WARPS, none = LANES // 32, px.zeros((LANES,), px.f32)
    ahead = rows.load_edges(team, 0.0)
    turn = 0
    for row in range(team, rows.rows, exchange.TEAMS):
        edge, ahead = ahead, rows.load_edges(row + exchange.TEAMS, 0.0)
        w_edge, b_edge = edges_of(rows, W, row, LANES), edges_of(rows, B, row, LANES)
        if CENTERED:
            begin, last = rows.mine(row)
            pivot = pivot_of(rows.peek(team), last - begin, edge, rows.STEP, LANES)
            known = rows.walk(team, row, (none, pivot, none, none), more_moments)
            exchange.leave(team, of_warps(row, edge, rows, *known, WARPS))
        else:
            known = rows.walk(team, row, (none,), more_squares)
            squares = known[0]
            if edge is not None:
                squares = squares + edge.to(px.f32) * edge.to(px.f32)
            exchange.leave(team, (of_warp(px.sum, squares, WARPS),))
        mean, scale = exchange.get(team, turn & 1)
        mean = mean if CENTERED else None
        if ready is not None:
            ready.wait(0)
        known = weights, biases, mean, scale, Y.dtype, rows.EDGES
        rows.store_all(team, row, Y, norm_of_chunk, known, beside, AHEAD, ONCE)
        if edge is not None:
            y = normalised(edge.to(px.f32), w_edge, b_edge, mean, scale, Y.dtype)
            px.store(Y[rows.edges(row, LANES)], y.to(Y.dtype))
        turn = turn + 1


@grid_kernel
def norm_grid(
    X, W, B, Y, eps, columns, rows, WORDS, *, TEAMS, WARPS, STEP, STAGES, SLOTS, SAVED=(0, 0), ONCE=True, CENTERED=False,
    PERIOD=1,
):
    """x / sqrt(mean(x^2) + eps) * W + B of each of `rows` rows; with CENTERED x - mean(x) in the place of x.

    SAVED: chunks of weights, and of biases, that stay in shared memory: all of a slice's, or none.
    """
    SPAN, GATHERERS = 32 * WARPS * STEP * (VECTOR_BYTES // X.dtype.itemsize), gatherers(TEAMS)
    ring, full = px.shared((TEAMS, STAGES, SPAN), X.dtype), px.barrier(TEAMS * STAGES)
    empty = px.barrier(TEAMS * STAGES, count=1, checked=False)  # each by its team
    parts, known = px.shared((TEAMS, 3 if CENTERED else 1, WARPS), px.f32), px.shared((TEAMS, 2), px.f32)
    VEC = VECTOR_BYTES // X.dtype.itemsize
    kept = room_for(W, SAVED[0], SPAN, VEC), room_for(B, SAVED[1], SPAN, VEC)
    ready = px.barrier() if SAVED[0] + SAVED[1] > 0 else None
    left, told, cleared = px.barrier(TEAMS), px.barrier(TEAMS), px.counters(2)
    found = px.barrier(TEAMS, count=1, checked=False)
    with px.warps(0, WARPS, copies=TEAMS) as team:
        mine = slices_of(X, columns, rows, ring, full, empty, STEP, PERIOD)
        exchange = Exchange(WORDS, cleared, parts, known, left, told, found, rows, SLOTS, TEAMS)
        normalise(mine, exchange, team, W, B, kept, ready, Y, CENTERED, ONCE)
    with px.warps(WARPS * TEAMS, 1):
        slices_of(X, columns, rows, ring, full, empty, STEP, PERIOD).fetch_all()
    with px.warps(WARPS * TEAMS + 1, 1):
        join = join_moments if CENTERED else join_squares
        Exchange(WORDS, cleared, parts, known, left, told, found, rows, SLOTS, TEAMS).publish_all(join)
    with px.warps(WARPS * TEAMS + 2, 1, copies=GATHERERS) as number:
        mine = slices_of(X, columns, rows, ring, full, empty, STEP, PERIOD)
        join = join_moments_of_all if CENTERED else join_squares_of_all
        Exchange(WORDS, cleared, parts, known, left, told, found, rows, SLOTS, TEAMS).gather_all(
            number, GATHERERS, join, mine, eps
        )
