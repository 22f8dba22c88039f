"""Cross entropy of rows in registers: each is read once, in whole vectors, wherever it begins.

The matrix is one run of memory, and a matrix of its vectors beside it. `lanes` threads have a row, of a warp or of a few;
short rows share a warp. A row's few elements in vectors that it shares with its neighbours, its edges, are loaded one by
one. So no element of a vector is looked at by itself, and nothing waits before all of a row is on its way. Of elements of 16
bits as few instructions as there can be: an SM has time for some fourteen for each of them while it reads the next.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import phalanx as px
from phalanx.frozen import frozen
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LN2, LOG2E
from phalanx.kernels.matrices import empty
from phalanx.kernels.rowwise.row_config import LIMITS, VECTOR_BYTES
from phalanx.kernels.rowwise.rows import pin_row
from phalanx.kernels.rowwise.softmax_terms import finite, fused_terms, power_of
from phalanx.kernels.rowwise.stream import whole_vectors
from phalanx.runtime.symbolic.choices import chosen_by_sizes

JOINED = 4
"""Rows of a CTA that joins what is known of their pieces: one for each warp."""


@frozen
class LossConfig:
    """How rows are dealt: `lanes` threads to each, a power of two, with `parts` vectors of 16 bytes in each thread.

    With up to 32 lanes each of a CTA's warps has as many rows as share it; with more, each team of so many threads has one.
    Rows with more vectors are cut into pieces; then a warp or a team has a piece.
    """

    lanes: int
    parts: int
    warps: int = 4
    per_sm: int = 1

    def grid(self, rows: int) -> int:
        """CTAs for so many rows, or pieces of them."""
        return px.cdiv(rows, self.warps * 32 // self.lanes)

    def pieces(self, columns: int, itemsize: int) -> int:
        """How many pieces rows of `columns` elements are cut into."""
        return max(1, px.cdiv(columns * itemsize // VECTOR_BYTES, self.lanes * self.parts))

    def sums(self, rows: int) -> int:
        """How many sums of losses there are of so many rows: one of those that share a warp."""
        return px.cdiv(rows, max(1, 32 // self.lanes))

    def constants(self) -> dict[str, LossConfig]:
        """The kernel's constant `config`."""
        return {"config": self}


@chosen_by_sizes
@cache
def choose_losses(columns: int, itemsize: int) -> LossConfig:
    """How rows of `columns` elements are dealt: as few threads to each as hold it, so that what a row costs besides its
    elements is paid seldom. Longer ones are cut into pieces, which any SM takes as it comes to them.

    Measured on an H200, of the copy of half the matrix, against `cross_entropy_rows` and streams: of 237 bf16 columns 1.02
    against 0.40, of 1,064 1.08 against 0.79, with 32 threads 1.02 and with 64, a CTA each, 0.44; of 2,288 1.08 against 0.88,
    of 6,177 1.06 against 0.85, of 19,568 1.06 against 0.91, of 50,201 1.03 against 0.75, of 1,999,200 1.03 against 0.77; of
    f32 as much, since what was there before was at 1.04 to 1.10 where rows begin at vectors.
    Anyone may call it; no hardware is involved. Example: ``choose_losses(1088, 2).lanes == 16``.
    """
    vectors = max(1, columns * itemsize // VECTOR_BYTES)
    edges = columns * itemsize % VECTOR_BYTES != 0
    most_edges = 2 * (VECTOR_BYTES // itemsize - 1) if edges else 0
    for lanes, most in LIMITS.loss_lanes:
        if vectors <= lanes * most:
            return _dealt(lanes, px.cdiv(vectors, lanes), px.cdiv(most_edges, lanes))
    lanes, most = LIMITS.loss_pieces[itemsize > 2]
    return _dealt(lanes, px.cdiv(vectors, lanes * px.cdiv(vectors, lanes * most)), 1)


def _dealt(lanes: int, parts: int, edges: int) -> LossConfig:
    """The configuration with so many vectors, and so many elements of edges, in each thread, and as many warps on an SM as
    have the registers for them."""
    warps = LIMITS.loss_warps if lanes <= 32 else lanes // 32
    on_sm = next(count for most, count in LIMITS.loss_occupancy if parts + edges // 4 <= most)
    return LossConfig(lanes, parts, warps, on_sm // warps)


def launch_losses(
    config: LossConfig, run: Any, targets: Any, losses: Any, sums: Any, ignore: int, rows: int, columns: int
) -> None:
    """The loss of every row, of a matrix that is one run of memory; or sums of some of them, and how many count."""
    vector = VECTOR_BYTES // run.dtype.itemsize
    pieces = config.pieces(columns, run.dtype.itemsize)
    whole = rows * columns // vector
    vectors = run[: whole * vector].reshape(whole, vector)
    constants = {**config.constants(), "EDGES": columns % vector != 0}
    if pieces == 1:
        loss_rows[config.grid(rows)](run, vectors, targets, losses, sums, ignore, columns, None, **constants)
    else:
        known = empty(run, (2, rows * pieces), "f32")
        loss_rows[config.grid(rows * pieces)](run, vectors, None, None, known, ignore, columns, pieces, **constants)
        join_pieces[px.cdiv(rows, JOINED)](run, targets, known, losses, ignore, columns, pieces)


@px.struct
class LossRows:
    """A row of X, or as many as share a warp, from `row` on, of `columns` elements each; V has the vectors of X.

    LANES threads have a row: all of some warps, or one of the GROUPS of a warp. `own` is the row of each thread, and `turn`
    its number among those of its row. The vectors from `first` to before `last` are all the row's own. `number` is that of
    the row, of the rows that share a warp, or of the piece of a row; `piece` its number among those of its row, or None.
    """

    X: Any
    V: Any
    number: Any
    row: Any
    own: Any
    turn: Any
    columns: Any
    first: Any
    last: Any
    label: Any
    piece: Any
    LANES: int
    GROUPS: int
    EDGES: bool

    def load(self, PARTS):
        """Vectors of each thread, edges of each thread, and what the labels name: all on their way together."""
        VEC = VECTOR_BYTES // self.X.dtype.itemsize
        parts: tuple[Any, ...] = ()
        for part in px.static_range(PARTS):
            place = self.first + self.turn + part * self.LANES
            if self.piece is not None:
                place = place + self.piece * (PARTS * self.LANES)
            parts = (*parts, px.load(self.V[px.where(place < self.last, place, -1), 0:VEC], fill=-float("inf")))
        edges: tuple[Any, ...] = ()
        for some in px.static_range(0, 2 * (VEC - 1) if self.EDGES else 0, self.LANES):
            edges = (*edges, px.load(self.X[self.edge_places(self.turn + some)], fill=-float("inf")))
        if self.piece is not None:
            return pin_row(parts, PARTS), edges, None
        at = px.where(self.inside(), self.label, 0).to(px.i32)
        if self.LANES < 32:
            chosen = px.load(self.X[(self.row + px.arange(self.GROUPS)) * self.columns + at])
        else:
            chosen = px.load(self.X[self.row * self.columns + at])
        return pin_row(parts, PARTS), edges, chosen

    def edge_places(self, turn):
        """Where each thread has an element of a row's edges, first those before its whole vectors, then those behind them;
        -1: it has none."""
        MOST = VECTOR_BYTES // self.X.dtype.itemsize - 1  # on either side
        begin = self.own * self.columns
        first = self.first * (MOST + 1)
        last = self.last * (MOST + 1)
        place = px.where(turn < MOST, first, last) + turn - MOST
        there = (place >= begin) & (place < begin + self.columns) & (turn < 2 * MOST) & ((turn < MOST) | (place >= first))
        if self.piece is not None:
            there = there & (self.piece == 0)
        return px.where(there, place, -1)

    def inside(self):
        """Whether labels are classes."""
        return (self.label >= 0) & (self.label < self.columns)

    def finish(self, loaded, L, S, ignore):
        """Stores the losses; or with an S their sum there, and how many count."""
        parts, edges, chosen = loaded
        GROUPS = self.GROUPS
        EACH = min(self.LANES, 32)
        PARTS = len(parts)
        FUSED = self.X.dtype.itemsize < 4
        tops = parts[0]
        for part in px.static_range(1, PARTS):
            tops = px.maximum(tops, parts[part])
        top = px.max(by_group(tops, GROUPS), axis=2)
        singles: tuple[Any, ...] = ()
        for edge in edges:
            edge = edge.to(px.f32).reshape(GROUPS, EACH)
            top = px.maximum(top, edge)
            singles = (*singles, edge)
        peak = px.max(top, axis=1, keepdims=True)
        factor: Any = None
        base = finite(peak)
        if FUSED:
            base, factor = fused_terms(base)
        terms = base.reshape(GROUPS, 1, 1), factor.reshape(GROUPS, 1, 1) if FUSED else None
        parts = pin_row(parts, PARTS)
        powers = power_of(by_group(parts[0], GROUPS), terms)
        for part in px.static_range(1, PARTS):
            powers = powers + power_of(by_group(parts[part], GROUPS), terms)
        mass = px.sum(powers, axis=2)
        for edge in singles:
            mass = mass + power_of(edge, (base, factor))
        largest = peak
        total = px.sum(mass, axis=1, keepdims=True)
        if FUSED:  # what all powers have too much, since the product with the base was rounded
            total = total * px.exp2(-px.fma(finite(peak), factor, base))
        if self.LANES > 32:
            peaks, masses = px.cluster.gather((largest, total))
            largest = px.max(peaks)
            total = px.sum(masses * px.exp2((peaks - finite(largest)) * LOG2E))
        elif self.LANES < 32:
            largest = largest.reshape(GROUPS)
            total = total.reshape(GROUPS)
        else:
            largest = px.max(largest)
            total = px.sum(total)
        if self.piece is not None:
            px.store(S[0, self.number], largest)
            px.store(S[1, self.number], total)
            return
        loss = px.where(self.inside(), largest - chosen.to(px.f32) + px.log2(total) * LN2, float("nan"))
        loss = px.where(self.label == ignore, 0.0, loss)
        count = px.where(self.label == ignore, 0.0, 1.0)
        if S is not None:
            px.store(S[0, self.number], px.sum(loss) if self.LANES < 32 else loss)
            px.store(S[1, self.number], px.sum(count) if self.LANES < 32 else count)
        elif self.LANES < 32:
            px.store(L[self.row : self.row + GROUPS], loss)
        else:
            px.store(L[self.row], loss)


@px.func
def by_group(x, GROUPS):
    """A vector of each thread, in f32, as (rows of a warp, or warps of a row; their threads; elements)."""
    return x.to(px.f32).reshape(GROUPS, x.shape[0] // GROUPS, x.shape[1])


@px.func
def loss_row(X, V, T, ignore, columns, pieces, number, LANES, EDGES):
    """The row, or the rows that share a warp, of this number; or the piece of a row, where each has so many `pieces`."""
    THREADS = max(LANES, 32)
    VEC = VECTOR_BYTES // X.dtype.itemsize
    lane = px.arange(THREADS)
    if LANES < 32:
        row = number * (32 // LANES)
        own = row + lane // LANES
        label = px.load(T[row : row + 32 // LANES], fill=ignore)
    elif pieces is None:
        row = number
        own = row
        label = px.load(T[row], fill=ignore)
    else:
        row = number // pieces
        own = row
        label = None
    first, last = whole_vectors(own, columns, VEC, EDGES)
    piece = None if pieces is None else number % pieces
    GROUPS = 32 // LANES if LANES < 32 else LANES // 32
    return LossRows(
        X, V, number, row, own, lane % LANES, columns, first // VEC, last // VEC, label, piece, LANES, GROUPS, EDGES
    )


@px.kernel(warps=lambda config: config.warps, ctas_per_sm=lambda config: config.per_sm, exit_sync=False, pdl=True)
def loss_rows(X, V, T, L, S, ignore, columns, pieces, *, config, EDGES):
    """The logarithm of sum(e^x) of each row, less the element that T names; 0 where T is `ignore`.

    With an S, in the place of L, the sums of the losses of rows that share a warp, and how many count. `pieces`: rows are
    cut into so many, and S has the maximum of each, and the sum of e^(x - maximum). EDGES: rows need not begin at vectors.
    """
    wait_for_prior_launch()
    TEAM = max(1, config.lanes // 32)
    TEAMS = config.warps // TEAM
    with px.warps(0, TEAM, copies=TEAMS) as team:
        number = px.block_id(0) * TEAMS + team
        rows = loss_row(X, V, T, ignore, columns, pieces, number, config.lanes, EDGES)
        rows.finish(rows.load(config.parts), L, S, ignore)


@px.kernel(warps=JOINED, exit_sync=False, pdl=True)
def join_pieces(X, T, S, L, ignore, columns, pieces):
    """The loss of each row of which S has the maximum of each piece, and the sum of e^(x - maximum)."""
    wait_for_prior_launch()
    with px.warps(0, 1, copies=JOINED) as warp:
        row = px.block_id(0) * JOINED + warp
        label = px.load(T[row], fill=ignore)
        inside = (label >= 0) & (label < columns)
        chosen = px.load(X[row * columns + px.where(inside, label, 0).to(px.i32)]).to(px.f32)
        top = px.full((32,), -float("inf"), px.f32)
        mass = px.zeros((32,), px.f32)
        for some in range(0, pieces, 32):
            piece = some + px.arange(32)
            place = px.where(piece < pieces, row * pieces + piece, -1)
            peak = px.load(S[0, place], fill=-float("inf"))
            more = px.load(S[1, place])
            larger = px.maximum(top, peak)
            mass = mass * px.exp2((top - finite(larger)) * LOG2E) + more * px.exp2((peak - finite(larger)) * LOG2E)
            top = larger
        largest = px.max(top)
        total = px.sum(mass * px.exp2((top - finite(largest)) * LOG2E))
        loss = px.where(inside, largest - chosen + px.log2(total) * LN2, float("nan"))
        px.store(L[row], px.where(label == ignore, 0.0, loss))
