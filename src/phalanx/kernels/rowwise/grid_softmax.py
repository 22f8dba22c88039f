"""Softmax and its logarithm of rows that all CTAs of a GPU share (see `grid_rows`)."""

from __future__ import annotations

import phalanx as px
from phalanx.kernels.rowwise.grid_rows import GridExchange, gatherers, slices_of
from phalanx.kernels.rowwise.known import Mass
from phalanx.kernels.rowwise.row_config import VECTOR_BYTES
from phalanx.kernels.rowwise.softmax_terms import softmax_terms
from phalanx.kernels.rowwise.stream_softmax import fused_factor, probability


@px.func
def exponentiate_slices(rows, exchange, team, Y, LOG, ONCE):
    """A team's rows."""
    FILL = -float("inf")
    WARPS = rows.LANES // 32
    FUSED = not LOG and Y.dtype.itemsize < 4
    kind = Mass(rows.X.dtype.itemsize < 4)
    ahead = rows.load_edges(team, FILL)
    turn = 0
    for row in range(team, rows.rows, exchange.TEAMS):
        edge = ahead
        ahead = rows.load_edges(row + exchange.TEAMS, FILL)
        known = rows.walk(team, row, kind.start(None, None, None, rows.LANES), kind)
        if edge is not None:
            known = kind.edge(edge, None, *known)
        exchange.leave(team, kind.join(WARPS, *known))
        largest, total = exchange.get(team, turn & 1)
        if FUSED:
            factor = fused_factor(largest)
            base = largest * -factor - px.log2(total)
        else:
            base, factor = softmax_terms(largest, total, LOG)
        rows.store_all(team, row, Y, probability, ((base, factor), LOG, FUSED), ONCE)
        if edge is not None:
            px.store(Y[rows.edges(row, rows.LANES)], probability(edge, (base, factor), LOG, FUSED).to(Y.dtype))
        turn = turn + 1


@px.kernel(
    warps=lambda config: config.warps * config.teams + 2 + gatherers(config.teams), exit_sync=False, cooperative=True
)
def softmax_grid(X, Y, columns, rows, WORDS, *, config, SLOTS, LOG=False, PERIOD=1):
    """e^x / sum(e^x) of each of `rows` rows, or its logarithm."""
    TEAMS = config.teams
    WARPS = config.warps
    STEP = config.step
    SPAN = 32 * WARPS * STEP * (VECTOR_BYTES // X.dtype.itemsize)
    GATHERERS = gatherers(TEAMS)
    ring = px.shared((TEAMS, config.stages, SPAN), X.dtype)
    full = px.barrier(TEAMS * config.stages)
    empty = px.barrier(TEAMS * config.stages, count=1, checked=False)  # each by its team
    parts = px.shared((TEAMS, 2, WARPS), px.f32)
    known = px.shared((TEAMS, 2), px.f32)
    left = px.barrier(TEAMS)
    told = px.barrier(TEAMS)
    cleared = px.counters(2)
    found = px.barrier(TEAMS, count=1, checked=False)
    with px.warps(0, WARPS, copies=TEAMS) as team:
        mine = slices_of(X, columns, rows, ring, full, empty, STEP, PERIOD)
        exchange = GridExchange(WORDS, cleared, parts, known, left, told, found, rows, SLOTS, TEAMS)
        exponentiate_slices(mine, exchange, team, Y, LOG, config.once)
    with px.warps(WARPS * TEAMS, 1):
        slices_of(X, columns, rows, ring, full, empty, STEP, PERIOD).fetch_all()
    with px.warps(WARPS * TEAMS + 1, 1):
        GridExchange(WORDS, cleared, parts, known, left, told, found, rows, SLOTS, TEAMS).publish_all(Mass(False))
    with px.warps(WARPS * TEAMS + 2, 1, copies=GATHERERS) as number:
        exchange = GridExchange(WORDS, cleared, parts, known, left, told, found, rows, SLOTS, TEAMS)
        exchange.gather_all(number, GATHERERS, Mass(False))
