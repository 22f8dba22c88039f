"""Norms of rows that begin anywhere, from a few KB on: teams of warps have a row each, and share the weights.

A row comes in one bulk copy, from the multiple of 16 bytes at or before its begin, into the shared memory of the team that
has it, or in as many as a cluster has CTAs into those of its teams of one number. They read it there two or three times: for
its mean, for the squares of what it is apart from it, or for both at once, and for the result. Several rows are so on their
way in a CTA, and while one team waits, for a copy or for the exchange over the cluster, others compute.

Rows PERIOD apart are a class: they begin at the same place of a vector. A cluster takes the rows of one class after
those of another, and its CTAs have the weights and biases in shared memory, moved by as many places as the rows of the
class are: so all are read in whole vectors, by one instruction for 16 bytes, and take no registers from row to row.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from math import gcd
from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.rowwise.rows import LIMITS, VECTOR_BYTES, run_of, types_of
from phalanx.kernels.rowwise.rows_ring import clusters_at_once
from phalanx.kernels.rowwise.stream import along_thread
from phalanx.kernels.rowwise.stream_norms import of_warps
from phalanx.machines.h200 import H200
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.exporting.choices import chosen_by_sizes

TURN = 4
"""Parts of a turn of a loop."""
MOST_TEAMS = 15
"""Of several warps each: a CTA has as many barriers of threads."""
MOST_AT_ONCE = 4
"""CTAs of a cluster that exchange all they know of a row of f32 at once; with more, and of 16 bits, registers spill."""
BESIDES, BESIDES_EACH = 512, 64
"""Bytes of shared memory that a CTA has besides rows, weights and what its teams exchange; and what each of them has."""
TOLD, TOLD_AT_ONCE = 8, 36
"""Bytes in which a team exchanges what it knows, for each warp with a part of its row: one number at a time, or three."""


@frozen
class TeamConfig:
    """How rows are dealt.

    - `warps` of a team have a row, or their part of it, `parts` vectors of each thread; `teams` are in a CTA.
    - The teams of one number of all CTAs of a `cluster` share a row.
    - `slots` rows of a team are in shared memory: the one that it computes, and those that are on their way.
    - `wide`: weights and biases are in shared memory in f32.
    """

    warps: int
    teams: int
    parts: int
    cluster: int = 1
    per_sm: int = 1
    slots: int = 1
    wide: bool = False

    def span(self, itemsize: int) -> int:
        """Elements of one vector of each thread of a team."""
        return 32 * self.warps * VECTOR_BYTES // itemsize

    def shared_bytes(self, itemsize: int, vectors: int) -> int:
        """What the rows of a CTA take, and so many vectors of weights and biases."""
        wider = 4 // itemsize if self.wide else 1
        return (self.teams * self.slots + wider * vectors) * self.parts * self.span(1)

    def constants(self) -> dict[str, Any]:
        """The kernels' constants of the same names, in capitals. All callers get the same dict, and must not change it."""
        return _constants(self)


@cache
def _constants(config: TeamConfig) -> dict[str, Any]:
    return {name.upper(): value for name, value in asdict(config).items()}


def parts_of(columns: int, itemsize: int, warps: int, cluster: int = 1) -> int:
    """Vectors of each thread of a row's teams that it takes, wherever it begins."""
    vector = VECTOR_BYTES // itemsize
    return px.cdiv(columns + vector - gcd(columns, vector), cluster * 32 * warps * vector)


def ends_of(columns: int, itemsize: int, config: TeamConfig) -> int:
    """In how many of the last parts of a team of the last CTA a row may end."""
    span = config.span(itemsize)
    return config.parts - max(0, columns - (config.cluster - 1) * config.parts * span) // span


@chosen_by_sizes
@cache
def choose_teams(columns: int, itemsize: int, vectors: int, aligned: bool = False) -> TeamConfig | None:
    """The teams for rows of `columns` elements with so many vectors of weights and biases; None where others are faster.

    `aligned`: rows begin at multiples of 16 bytes. Measured on an H200, of the device copy, against what was chosen before:
    layer_norm of 4,507 bf16 0.86 against 0.70, of 1,803 0.84 against 0.54, of 24,003 0.81 against 0.76, of 6,199 f32 0.86
    against 0.73, of 72,000 bf16 (`aligned`) 0.88 against 0.80; rms_norm of 3,305 bf16 0.86 against 0.72, of 27,004 0.82
    against 0.53. Longer rows than those of `LIMITS.teams` lose: layer_norm of 304,000 bf16 0.73 against 0.81.
    Anyone may call it; no hardware is involved.
    Example: ``choose_teams(4507, 2, 2).warps == 1``.
    """
    row = columns * itemsize
    longest, entries = LIMITS.teams.get((vectors, itemsize, aligned), (0, ()))
    for upto, cluster, warps, slots, per_sm, wide in entries:
        if longest < row <= upto:
            parts = parts_of(columns, itemsize, warps, cluster)
            config = TeamConfig(warps, 0, parts, cluster, per_sm, slots, wide)
            return replace(config, teams=most_teams(config, itemsize, vectors))
    return None


@px.func
def at_once(itemsize, cluster):
    """Whether the teams that share a row tell each other all they know of it by one exchange: its mean and its squares."""
    return itemsize == 4 and 1 < cluster <= MOST_AT_ONCE


def most_teams(config: TeamConfig, itemsize: int, vectors: int) -> int:
    """As many teams as a CTA has shared memory, registers and barriers for."""
    room = H200.shared_bytes_per_sm // config.per_sm - H200.reserved_shared_bytes - BESIDES
    told = TOLD_AT_ONCE if vectors == 2 and at_once(itemsize, config.cluster) else TOLD
    each = config.slots * config.parts * config.span(1) + told * config.cluster * config.warps + BESIDES_EACH
    teams = (room - replace(config, teams=0).shared_bytes(itemsize, vectors)) // each
    warps = LIMITS.team_warps[vectors if config.cluster > 1 else 0] // (config.warps * config.per_sm)
    return min(teams, warps, MOST_TEAMS if config.warps > 1 else teams)


def teams_for(rows: Any, *vectors: Any) -> TeamConfig | None:
    """The teams for a matrix with these weights and biases (None for each), where it is a run of memory and teams pay; not
    for weights of another type, which might find no room."""
    info = describe(rows)
    assert info is not None
    others = types_of(vectors)
    config = choose_teams(info.shape[1], rows.dtype.itemsize, len(others), info.aligned16)
    if config is None or run_of(rows) is None or any(name != info.dtype_name for name in others):
        return None
    return config


def launch_teams(
    kernel: Any, config: TeamConfig, args: tuple[Any, ...], constants: dict[str, Any], rows: int, columns: int
) -> None:
    """Runs the kernel of this file, whose first argument is the run of memory with the rows."""
    itemsize = args[0].dtype.itemsize
    vector = VECTOR_BYTES // itemsize
    parts = parts_of(columns, itemsize, config.warps, config.cluster)
    if config.parts != parts:
        raise Error(
            f"teams of {config.warps} warps with {config.parts} vectors a thread for rows of {columns} elements",
            location=caller_location(),
            remedy=f"let parts be {parts}, or leave config out",
        )
    constants = {
        **config.constants(), **constants, "PERIOD": vector // gcd(columns, vector),
        "ENDS": ends_of(columns, itemsize, config),
    }
    constants["EVEN"] = False
    clusters = min(rows, clusters_at_once(kernel, config.cluster, args, constants))
    constants["EVEN"] = config.cluster == 1 and clusters % constants["PERIOD"] == 0
    kernel[clusters * config.cluster](*args, **constants)


@px.struct
class TeamRow:
    """What a team has of a row: PARTS tiles of SPAN places, from `first` on, a multiple of a vector, in the buffer `slot`.
    The row's own are those from `shift` to `length`, of which the first or the last may be another CTA's.
    """

    slot: Any
    first: Any
    shift: Any
    length: Any
    SPAN: int
    PARTS: int
    ENDS: int
    LANES: int

    def part(self, part):
        """A part of the row in f32."""
        at = part * self.SPAN
        return px.load(self.slot[at : at + self.SPAN]).to(px.f32)

    def by_thread(self, part):
        """A part of the row in f32, as (1, threads, elements of a vector)."""
        return self.part(part).reshape(1, self.LANES, self.SPAN // self.LANES)

    def there(self, part):
        """Which places of a part are the row's, in the same shape."""
        place = px.arange(self.SPAN).reshape(1, self.LANES, self.SPAN // self.LANES)
        low, high = self.shift - part * self.SPAN, self.length - part * self.SPAN
        if part > 0:
            there = place < high
        elif part < self.PARTS - self.ENDS:
            there = place >= low
        else:
            there = (place >= low) & (place < high)
        return there

    def before(self, place, PARTS):
        """How many of the first places of PARTS parts each thread has."""
        VEC, place = self.SPAN // self.LANES, px.minimum(px.maximum(place, 0), PARTS * self.SPAN)
        rest = place % self.SPAN - px.arange(self.LANES) * VEC
        return place // self.SPAN * VEC + px.minimum(px.maximum(rest, 0), VEC)

    def counts(self, PARTS):
        """How many of those are the row's."""
        return (self.before(self.length, PARTS) - self.before(self.shift, PARTS)).to(px.f32)

    def inside(self, tile, part, EDGE):
        """A tile of this part of the row, with 0 in places that are not the row's; only an EDGE has such."""
        if EDGE:
            place = px.arange(self.SPAN) + part * self.SPAN
            tile = px.where((place >= self.shift) & (place < self.length), tile, 0.0)
        return tile

    def store(self, Y, part, y, EDGE):
        """The result for one part, in the type of Y."""
        at = self.first + part * self.SPAN
        view = Y[at : at + self.SPAN]
        if EDGE:
            view = view.within(self.first + self.shift, self.first + self.length)
        px.store(view, y.to(Y.dtype), once=True)

    def over(self, step, known):
        """What `step[0](row, part, EDGE, *known, *step[1:])` makes of what is known, part after part. Those of the middle
        are in a loop, TURN at a time."""
        WHOLE = max(0, self.PARTS - 1 - self.ENDS) // TURN * TURN
        known = step[0](self, 0, True, *known, *step[1:])
        if WHOLE > TURN:
            for some in range(1, 1 + WHOLE, TURN):
                for turn in px.static_range(TURN):
                    known = step[0](self, some + turn, False, *known, *step[1:])
        else:
            for part in px.static_range(1, 1 + WHOLE):
                known = step[0](self, part, False, *known, *step[1:])
        for part in px.static_range(1 + WHOLE, self.PARTS):
            known = step[0](self, part, part >= self.PARTS - self.ENDS, *known, *step[1:])
        return known


@px.func
def total(x):
    """The sum of a tile over the teams that have a row: one of each CTA of the cluster."""
    return px.sum(x) if px.cluster.size() == 1 else px.cluster.reduce(px.sum(x), "sum")


@px.func
def more_moments(row, part, EDGE, sums, squares, pivot):
    """The sum of what elements are apart from the pivot, and the squares of that, with a part more."""
    apart = row.inside(row.part(part) - pivot, part, EDGE)
    return sums + apart, squares + apart * apart


@px.func
def moments(row, inverse):
    """The mean of a row that one team has, and the mean of the squares of what its elements are apart from it.

    Both are found around the mean of the row's first part, which is so near to that of all that no digits are lost.
    """
    count = px.minimum(row.length, row.SPAN) - row.shift
    pivot = px.sum(row.inside(row.part(0), 0, True)) / count
    none = px.zeros((row.SPAN,), px.f32)
    sums, squares = row.over((more_moments, pivot), (none, none))
    near, mean_of_squares = px.sum(sums) * inverse, px.sum(squares) * inverse
    return pivot + near, px.maximum(mean_of_squares - near * near, 0.0)


@px.func
def more_of_threads(row, part, EDGE, pivot, sums, squares):
    """What each thread knows of a row with a part more: what its elements are apart from its pivot in sum, and the squares
    of that."""
    apart = row.by_thread(part) - pivot.reshape(1, row.LANES, 1)
    if EDGE:
        apart = px.where(row.there(part), apart, 0.0)
    return pivot, sums + apart, squares + apart * apart


@px.func
def moments_of_cluster(row, inverse):
    """The same of a row that several teams have, by one exchange: around the mean of each thread's first vector."""
    x = row.by_thread(0)
    none = px.zeros(x.shape, px.f32)
    pivot = along_thread(px.sum, px.where(row.there(0), x, 0.0)) * px.reciprocal(px.maximum(row.counts(1), 1.0))
    pivot, sums, squares = row.over((more_of_threads,), (pivot, none, none))
    sums, squares, WARPS = along_thread(px.sum, sums), along_thread(px.sum, squares), row.LANES // 32
    known = of_warps(None, None, None, row.counts(row.PARTS), pivot, sums, squares, WARPS)
    counts, means, squares = px.cluster.gather(known)
    mean = px.sum(counts * means) * inverse
    apart = means - mean
    return mean, px.sum(squares + counts * apart * apart) * inverse


@px.func
def more_sums(row, part, EDGE, sums):
    """The sum with a part more."""
    return (sums + row.inside(row.part(part), part, EDGE),)


@px.func
def more_squares(row, part, EDGE, squares, mean):
    """The sum of (x - mean)^2 with a part more; of x^2 where there is no mean."""
    x = row.part(part)
    x = row.inside(x if mean is None else x - mean, part, EDGE)
    return (squares + x * x,)


@px.func
def mean_of(step, row, inverse):
    """The mean of what `step` sums up."""
    return total(row.over(step, (px.zeros((row.SPAN,), px.f32),))[0]) * inverse


@px.func
def finish(row, part, EDGE, w, b, Y, mean, scale):
    """(x - mean) * scale * w + b of a part of a row."""
    y = row.part(part)
    if mean is None:
        y = y * scale
    elif Y.dtype.itemsize < 4:  # one instruction: of 16 bits the mean has fewer digits than the product
        y = px.fma(y, scale, mean * -scale)
    else:
        y = (y - mean) * scale
    at = part * row.SPAN
    if w is not None:
        y = y * px.load(w[at : at + row.SPAN]).to(px.f32)
    if b is not None:
        y = y + px.load(b[at : at + row.SPAN]).to(px.f32)
    row.store(Y, part, y, EDGE)
    return ()


@px.func
def normalise(row, slots, team, stage, w, b, Y, eps, inverse, CENTERED):
    """x / sqrt(mean(x^2) + eps) * w + b of a row; with CENTERED x - mean(x) in the place of x."""
    mean = None
    if CENTERED and px.cluster.size() == 1:
        mean, squares = moments(row, inverse)
    elif CENTERED and at_once(Y.dtype.itemsize, px.cluster.size()):
        mean, squares = moments_of_cluster(row, inverse)
    elif CENTERED:
        mean = mean_of((more_sums,), row, inverse)
        row.slot = slots[px.keep(team), stage]  # to be read again: the compiler keeps nothing of it
        squares = mean_of((more_squares, mean), row, inverse)
    else:
        squares = mean_of((more_squares, None), row, inverse)
    row.slot = slots[px.keep(team), stage]
    row.over((finish, w, b, Y, mean, px.rsqrt(squares + eps)), ())


@px.func
def save(vectors, kept, at, team, SPAN, PARTS, TEAMS):
    """Puts what a team's turn is of the weights and biases, from place `at` on, into shared memory, where there are any."""
    for part in range(team, PARTS, TEAMS):
        place = at + part * SPAN
        tiles: tuple[Any, ...] = ()
        for V in vectors:
            tiles = (*tiles, None if V is None else px.load(V[place : place + SPAN]))
        for number in px.static_range(len(vectors)):
            if tiles[number] is not None:
                px.store(kept[number][part * SPAN : part * SPAN + SPAN], tiles[number].to(kept[number].dtype))


@px.func
def classes_of(rows, PERIOD, EVEN):
    """The first class of this cluster, the one behind its last, and which part of all rows, class by class, is its own: as
    many as another's, or one more. EVEN: it has every row of one class that is not another's."""
    each, clusters = px.cdiv(rows, PERIOD), px.num_blocks(0) // px.cluster.size()
    if EVEN:
        which = px.cluster.id() % PERIOD
        found = which, which + 1, 0, 0
    else:
        own, more = each * PERIOD // clusters, each * PERIOD % clusters
        begin = px.cluster.id() * own + px.minimum(px.cluster.id(), more)
        end = begin + own + px.where(px.cluster.id() < more, 1, 0)
        found = begin // each, px.minimum(px.cdiv(end, each), PERIOD), begin, end
    return found


@px.func
def rows_of(which, begin, end, rows, team, TEAMS, PERIOD, EVEN):
    """A team's first row of a class, where they end, and how far they are apart."""
    each = px.cdiv(rows, PERIOD)
    if EVEN:
        alike = px.num_blocks(0) // (px.cluster.size() * PERIOD)
        found = which + (px.cluster.id() // PERIOD + alike * team) * PERIOD, rows, alike * TEAMS * PERIOD
    else:
        first = which + (px.maximum(begin - which * each, 0) + team) * PERIOD
        last = px.minimum(which + px.minimum(end - which * each, each) * PERIOD, rows)
        found = first, last, TEAMS * PERIOD
    return found


@px.func
def fetch(X, row, columns, slot, full, VEC):
    """Starts the copy of what a team has of a row. Where the row ends before, it brings what nobody looks at."""
    at = row * columns // VEC * VEC + px.cluster.rank() * slot.shape[0]
    at = px.where(at < row * columns + columns, at, 0)
    with full.transaction():
        px.tma.load(X[at : at + slot.shape[0]], slot, full)


@px.kernel(
    warps=lambda WARPS, TEAMS: WARPS * TEAMS, cluster=lambda CLUSTER: CLUSTER, ctas_per_sm=lambda PER_SM: PER_SM, pdl=True
)
def norm_teams(
    X, W, B, Y, eps, columns, rows, *, WARPS, TEAMS, PARTS, CLUSTER=1, PER_SM=1, SLOTS=1, WIDE=False, CENTERED=False,
    PERIOD=1, ENDS=2, EVEN=False,
):
    """x / sqrt(mean(x^2) + eps) * W + B of each of `rows` rows; with CENTERED x - mean(x) in the place of x.

    Rows PERIOD apart begin at the same place of a vector: they are a class, and a cluster takes those of one after another;
    EVEN: of one class alone, since as many clusters are there for each. Rows end in one of the last ENDS parts of a team.
    """
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = 32 * WARPS * VEC
    slots, full = px.shared((TEAMS, SLOTS, PARTS * SPAN), X.dtype), px.barrier(TEAMS * SLOTS, 1, checked=False)
    w = None if W is None else px.shared((PARTS * SPAN,), px.f32 if WIDE else W.dtype)
    b = None if B is None else px.shared((PARTS * SPAN,), px.f32 if WIDE else B.dtype)
    saved, read = px.barrier(1), px.barrier(1)
    wait_for_prior_launch()
    with px.warps(0, WARPS, copies=TEAMS) as team:
        taken, filled, turn = px.ring(SLOTS), px.ring(SLOTS), px.ring(1)
        before, inverse = px.cluster.rank() * (PARTS * SPAN), 1.0 / columns
        from_class, to_class, begin, end = classes_of(rows, PERIOD, EVEN)
        for which in range(from_class, to_class):
            shift = which * columns % VEC
            first, last, step = rows_of(which, begin, end, rows, team, TEAMS, PERIOD, EVEN)
            for ahead in range(first, px.minimum(last, first + SLOTS * step), step):  # they come while weights do
                fetch(X, ahead, columns, slots[team, filled.stage], full[team * SLOTS + filled.stage], VEC)
                filled.advance()
            read[0].wait(turn.parity ^ 1)
            save((W, B), (w, b), before - shift, team, SPAN, PARTS, TEAMS)
            saved[0].arrive()
            saved[0].wait(turn.parity)
            shift = px.keep(shift)  # else what `save` computed from it is held in registers, and spilled
            for row in range(first, last, step):
                stage = taken.stage
                full[team * SLOTS + stage].wait(taken.parity)
                taken.advance()
                at = row * columns // VEC * VEC + before
                low = shift - before
                mine = TeamRow(slots[team, stage], at, low, low + columns, SPAN, PARTS, ENDS, 32 * WARPS)
                normalise(mine, slots, team, stage, w, b, Y, eps, inverse, CENTERED)
                ahead = row + SLOTS * step
                if ahead < last:
                    fetch(X, ahead, columns, slots[team, filled.stage], full[team * SLOTS + filled.stage], VEC)
                    filled.advance()
            read[0].arrive()
            turn.advance()
