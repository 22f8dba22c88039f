"""Norms of rows that begin anywhere, from a few KB on: teams of warps have a row each, and share the weights.

A row comes in one bulk copy, from the line of L2 in which it begins, into the shared memory of the team that has it, or in
as many as a cluster has CTAs into those of its teams of one number. They read it there twice: for its sums, and for the
result. Several rows are so on their way in a CTA, and while one team waits, for a copy or for the exchange over the cluster,
others compute. What is read and stored begins at lines: warps that store from the middle of one to that of another keep L2
busier, and took 3 to 5% longer. No copy goes on behind the end of its row by more than a line where a cluster has it:
others have what is there, at another time.

Rows PERIOD apart are a class: they begin at the same place of a vector. A cluster takes the rows of one class after
those of another, and its CTAs have the weights and biases in shared memory, moved by as many places as the rows of the
class are: so all are read in whole vectors, by one instruction for 16 bytes, and take no registers from row to row.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import gcd
from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.kernels.launches import clusters_at_once, wait_for_prior_launch
from phalanx.kernels.rowwise.deals import classes_of, deal
from phalanx.kernels.rowwise.known import NearMoments, Squares, scaled
from phalanx.kernels.rowwise.row_config import LIMITS, VECTOR_BYTES, run_of, types_of
from phalanx.kernels.rowwise.stream import from_all
from phalanx.machines.h200 import H200
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.symbolic.choices import chosen_by_sizes

LINE_BYTES = H200.line_bytes
"""Copies and stores begin at multiples of so many bytes."""
HEAD = 8
"""Elements of a row whose mean is near that of all of them: all CTAs of a cluster have them."""
TURN = 2
"""Parts of a turn of a loop: with four, registers spill."""
MOST_TEAMS = 15
"""Most teams of several warps in a CTA, which has as many barriers of threads."""
BESIDES, BESIDES_EACH = 896, 96
"""Bytes of shared memory that a CTA has besides rows, weights and what its teams exchange; and what each of them has."""
TOLD = 8
"""Bytes in which a team exchanges a number, for each warp with a part of its row."""


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


@px.func
def places_of_cta(columns, LINE, CLUSTER):
    """Places of a row that each CTA of its cluster has, wherever it begins in a line."""
    return px.cdiv(columns + LINE - 1, LINE * CLUSTER) * LINE


def parts_of(columns: int, itemsize: int, warps: int, cluster: int = 1) -> int:
    """Vectors of each thread of a row's teams that it takes, wherever it begins."""
    return px.cdiv(places_of_cta(columns, LINE_BYTES // itemsize, cluster), 32 * warps * VECTOR_BYTES // itemsize)


@cache
def edge_parts(columns: int, itemsize: int, config: TeamConfig) -> tuple[int, int]:
    """The number of a team's first parts in which a row may begin, and of its last ones in which it may end."""
    span = config.span(itemsize)
    line = LINE_BYTES // itemsize
    room = config.parts * span
    part = places_of_cta(columns, line, config.cluster)
    low = 0
    high = room
    for off in range(0, line, gcd(line, columns)):
        length = off + columns
        for rank in range(config.cluster):
            start = max(0, min(rank * part, px.cdiv(length, line) * line - room))
            low = max(low, max(rank * part, off) - start)
            high = min(high, min(rank * part + part, length) - start)
    return max(1, px.cdiv(low, span)), config.parts - max(0, high) // span


@chosen_by_sizes
@cache
def choose_teams(columns: int, itemsize: int, vectors: int, aligned: bool = False) -> TeamConfig | None:
    """The teams for rows of `columns` elements with so many vectors of weights and biases; None where others are faster.

    `aligned`: rows begin at multiples of 16 bytes. Measured on an H200, of the device copy, against teams whose copies and
    stores begin at vectors: layer_norm of 3,377 bf16 0.87 and 0.86, of 7,937 0.88 and 0.84, of 27,371 0.88 and 0.80, of
    66,057 0.86 and 0.76, of 119,819 0.85 and 0.78, of 8,895 f32 0.91 and 0.84, of 35,589 0.91 and 0.82, of 69,208 bf16
    (`aligned`) 0.90 and 0.83; rms_norm of 15,881 bf16 0.90 and 0.83, of 44,727 0.89 and 0.84; against others, rms_norm of
    118,783 0.89 and 0.83, of 35,691 f32 0.92 and 0.85, of 75,921 0.90 and 0.83. `rows_odd.txt` has more.
    Anyone may call it; no hardware is involved.
    Example: ``choose_teams(4507, 2, 2).warps == 1``.
    """
    row = columns * itemsize
    team = next((team for upto, team in LIMITS.teams.get((vectors, itemsize, aligned), ()) if row <= upto), None)
    if team is None:
        return None
    cluster, warps, slots, per_sm, wide = team
    config = TeamConfig(warps, 0, parts_of(columns, itemsize, warps, cluster), cluster, per_sm, slots, wide)
    return replace(config, teams=most_teams(config, itemsize, vectors))


def most_teams(config: TeamConfig, itemsize: int, vectors: int) -> int:
    """The most teams for which a CTA has shared memory, registers and barriers."""
    room = H200.shared_bytes_per_sm // config.per_sm - H200.reserved_shared_bytes - BESIDES
    told = TOLD * vectors * config.cluster * config.warps
    each = config.slots * config.parts * config.span(1) + told + BESIDES_EACH
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
    """Runs the kernel of this file: `args` are the run of memory with the rows, and what follows up to their columns."""
    itemsize = args[0].dtype.itemsize
    vector = VECTOR_BYTES // itemsize
    parts = parts_of(columns, itemsize, config.warps, config.cluster)
    if config.parts != parts:
        raise Error(
            f"teams of {config.warps} warps with {config.parts} vectors a thread for rows of {columns} elements",
            location=caller_location(),
            remedy=f"let parts be {parts}, or leave config out",
        )
    if columns < 2 * HEAD:
        raise Error(
            f"teams for rows of {columns} elements", location=caller_location(),
            remedy=f"leave config out: teams take rows of {2 * HEAD} elements or more",
        )
    begins, ends = edge_parts(columns, itemsize, config)
    period = vector // gcd(columns, vector)
    constants = {"config": config, **constants, "PERIOD": period, "BEGINS": begins, "ENDS": ends, "SIDES": True}
    args = *args, rows
    clusters = min(rows, clusters_at_once(kernel, config.cluster, args, constants))
    constants["SIDES"] = clusters >= period
    kernel[clusters * config.cluster](*args, **constants)


@px.struct
class TeamRow:
    """What a team has of a row: PARTS tiles of SPAN places, from `first` on, a multiple of a line, in the buffer `slot`.
    Its own are those from `low` to before `high`: others are no places of the row, or another CTA's. `beside`: where the
    weights of the first place are. `pivot`: a number near the row's mean; None where that is not asked for.
    """

    slot: Any
    first: Any
    low: Any
    high: Any
    beside: Any
    pivot: Any
    SPAN: int
    PARTS: int
    BEGINS: int
    ENDS: int
    LANES: int

    def part(self, part):
        """A part of the row in f32."""
        at = part * self.SPAN
        return px.load(self.slot[at : at + self.SPAN]).to(px.f32)

    def look_at(self, part, EDGE, known, kind):
        """What is known of the row with a part more. Only an EDGE has places that are not the row's."""
        x = self.part(part).reshape(1, self.LANES, self.SPAN // self.LANES)
        return kind.more(x, Within(part * self.SPAN, self.low, self.high) if EDGE else None, *known)

    def store(self, Y, part, y, EDGE):
        """The result for one part, in the type of Y."""
        at = self.first + part * self.SPAN
        view = Y[at : at + self.SPAN]
        if EDGE:
            view = view.within(self.first + self.low, self.first + self.high)
        px.store(view, y.to(Y.dtype), once=True)

    def finish(self, part, EDGE, known, w, b, Y, mean, scale):
        """Stores (x - mean) * scale * w + b of a part."""
        y = scaled(self.part(part), mean, scale, Y.dtype)
        at = self.beside + part * self.SPAN
        if w is not None:
            y = y * px.load(w[at : at + self.SPAN]).to(px.f32)
        if b is not None:
            y = y + px.load(b[at : at + self.SPAN]).to(px.f32)
        self.store(Y, part, y, EDGE)
        return ()


@px.struct
class Within:
    """The bounds of a part (see `known`) that begins at place `first`: the row's are those from `low` to before `high`."""

    first: Any
    low: Any
    high: Any

    def keep(self, x, fill):
        """The part, with `fill` in other places."""
        place = px.arange(x.shape[1] * x.shape[2]) + self.first
        inside = (place >= self.low) & (place < self.high)
        return px.where(inside.reshape(*x.shape), x, fill)


@px.func
def over(row, step, known, *more):
    """What a method of the row, `step(part, EDGE, known, *more)`, makes of what is known, part after part.

    Those of the middle, in which rows neither begin nor end, are in a loop, TURN at a time.
    """
    BEGINS = min(row.BEGINS, row.PARTS)
    END = max(row.PARTS - row.ENDS, BEGINS)
    for part in px.static_range(BEGINS):
        known = step(part, True, known, *more)
    for part in px.unroll(range(BEGINS, END), TURN):
        known = step(part, False, known, *more)
    for part in px.static_range(END, row.PARTS):
        known = step(part, True, known, *more)
    return known


@px.func
def moments(row, inverse):
    """The mean of a row, and the mean of the squares of what its elements are apart from it, by one exchange."""
    kind = NearMoments(row.pivot)
    WARPS = row.LANES // 32
    known = over(row, row.look_at, kind.start(row.LANES), kind)
    return kind.total(inverse, *from_all(kind.join(WARPS, *known), WARPS))


@px.func
def mean_of_squares(row, inverse):
    """The mean of x^2."""
    kind = Squares()
    squares = px.sum(over(row, row.look_at, kind.start(None, None, None, row.LANES), kind)[0])
    return (squares if px.cluster.size() == 1 else px.cluster.reduce(squares, "sum")) * inverse


@px.func
def normalise_row(row, slots, team, stage, w, b, Y, eps, inverse, CENTERED):
    """x / sqrt(mean(x^2) + eps) * w + b of a row; with CENTERED x - mean(x) in the place of x."""
    if CENTERED:
        mean, squares = moments(row, inverse)
    else:
        mean = None
        squares = mean_of_squares(row, inverse)
    row.slot = slots[px.keep(team), stage]  # to be read again: the compiler keeps nothing of it
    over(row, row.finish, (), w, b, Y, mean, px.rsqrt(squares + eps))


@px.func
def save_vectors(vectors, kept, at, team, SPAN, PARTS, TEAMS, LINE):
    """Puts what a team's turn is of the weights and biases, from place `at` on, into shared memory, where there are any:
    PARTS * SPAN of them, and a LINE more."""
    for part in range(team, PARTS, TEAMS):
        place = at + part * SPAN
        tiles: tuple[Any, ...] = ()
        for V in vectors:
            tiles = (*tiles, None if V is None else px.load(V[place : place + SPAN]))
        for number in px.static_range(len(vectors)):
            if tiles[number] is not None:
                px.store(kept[number][part * SPAN : part * SPAN + SPAN], tiles[number].to(kept[number].dtype))
    if team == TEAMS - 1:
        for number in px.static_range(len(vectors)):
            if vectors[number] is not None:
                tile = px.load(vectors[number][at + PARTS * SPAN : at + PARTS * SPAN + LINE])
                px.store(kept[number][PARTS * SPAN : PARTS * SPAN + LINE], tile.to(kept[number].dtype))


@px.func
def window_of(row, columns, part, ROOM, LINE):
    """Where the ROOM places that a CTA reads of a row begin, at a line: in memory, and in the row's lines; and by how many
    places the row begins behind a line. They end with the row's lines at the latest, and so begin before what is the
    CTA's own: another one of the cluster reads that, too, at this time, but nobody does what is behind the row."""
    off = row * columns % LINE
    begin = px.maximum(px.minimum(px.cluster.rank() * part, px.cdiv(off + columns, LINE) * LINE - ROOM), 0)
    return row * columns // LINE * LINE + begin, begin, off


@px.func
def fetch(X, row, columns, part, slot, head, full, LINE):
    """Starts the copies of what a team has of a row, and of its head, where there is a place for it."""
    VEC = VECTOR_BYTES // X.dtype.itemsize
    at = window_of(row, columns, part, slot.shape[0], LINE)[0]
    first = px.cdiv(row * columns, VEC) * VEC
    with full.transaction():
        px.tma.load(X[at : at + slot.shape[0]], slot, full)
        if head is not None:
            px.tma.load(X[first : first + HEAD], head, full)


@px.func
def head_of(heads, team, stage):
    """The place of a row's head, or None."""
    return None if heads is None else heads[team, stage]


@px.func
def pivot_of(head):
    """The mean of a row's head, or None."""
    if head is None:
        return None
    pivot = px.load(head[0]).to(px.f32)
    for place in px.static_range(1, HEAD):
        pivot = pivot + px.load(head[place]).to(px.f32)
    return pivot * (1.0 / HEAD)


@px.func
def first_beside(columns, shift, part, ROOM, LINE, VEC):
    """The first weight that this CTA may need for rows of a class: of the one that begins the farthest behind a line, and
    whose window begins the farthest before what is its own."""
    behind = shift + LINE - VEC
    last = (columns - ROOM + shift) // VEC * VEC - shift
    return px.maximum(-behind, px.minimum(px.cluster.rank() * part - behind, last))


@px.kernel(
    warps=lambda config: config.warps * config.teams, cluster=lambda config: config.cluster,
    ctas_per_sm=lambda config: config.per_sm, pdl=True,
)  # fmt: skip
def norm_teams(
    X, W, B, Y, eps, columns, rows, *, config, CENTERED=False, PERIOD=1, BEGINS=1, ENDS=2, SIDES=False,
):  # fmt: skip
    """x / sqrt(mean(x^2) + eps) * W + B of each of `rows` rows; with CENTERED x - mean(x) in the place of x.

    Rows PERIOD apart begin at the same place of a vector: they are a class, and a cluster takes those of one after another
    (see `deals`). What a team has of a row begins in one of its first BEGINS parts, and ends in one of the last ENDS.
    """
    TEAMS = config.teams
    SLOTS = config.slots
    VEC = VECTOR_BYTES // X.dtype.itemsize
    LINE = LINE_BYTES // X.dtype.itemsize
    # Step 1: places for rows, weights and biases in shared memory.
    SPAN = 32 * config.warps * VEC
    ROOM = config.parts * SPAN
    slots = px.shared((TEAMS, SLOTS, ROOM), X.dtype)
    full = px.barrier(TEAMS * SLOTS, 1, checked=False)
    heads = px.shared((TEAMS, SLOTS, HEAD), X.dtype) if CENTERED else None
    w = None if W is None else px.shared((ROOM + LINE,), px.f32 if config.wide else W.dtype)
    b = None if B is None else px.shared((ROOM + LINE,), px.f32 if config.wide else B.dtype)
    saved = px.barrier(1)
    read = px.barrier(1)
    wait_for_prior_launch()
    # Step 2: each team takes rows of one class after another.
    with px.warps(0, config.warps, copies=TEAMS) as team:
        taken = px.ring(SLOTS)
        filled = px.ring(SLOTS)
        turn = px.ring(1)
        part = places_of_cta(columns, LINE, config.cluster)
        inverse = 1.0 / columns
        number = px.cluster.id()
        clusters = px.num_blocks(0) // config.cluster
        from_class, to_class = classes_of(rows, PERIOD, number, clusters, SIDES)
        for which in range(from_class, to_class):
            dealt = deal(which, rows, PERIOD, number, clusters, SIDES)
            for ahead in range(team, px.minimum(dealt.turns, team + SLOTS * TEAMS), TEAMS):  # they come while weights do
                head = head_of(heads, team, filled.stage)
                ready = full[team * SLOTS + filled.stage]
                fetch(X, dealt.row(ahead), columns, part, slots[team, filled.stage], head, ready, LINE)
                filled.advance()
            # Step 2a: all teams bring the weights for rows of this class.
            read[0].wait(turn.parity ^ 1)
            first = first_beside(columns, which * columns % VEC, part, ROOM, LINE, VEC)
            save_vectors((W, B), (w, b), first, team, SPAN, config.parts, TEAMS, LINE)
            saved[0].arrive()
            saved[0].wait(turn.parity)
            first = px.keep(first)  # else what `save_vectors` computed from it is held in registers, and spilled
            # Step 2b: row after row; the place of one is filled again when it is done.
            for some in range(team, dealt.turns, TEAMS):
                stage = taken.stage
                full[team * SLOTS + stage].wait(taken.parity)
                taken.advance()
                at, begin, off = window_of(dealt.row(some), columns, part, ROOM, LINE)
                own = px.cluster.rank() * part
                low = px.keep(px.maximum(own, off) - begin)
                high = px.keep(px.minimum(own + part, off + columns) - begin)
                beside = px.maximum(begin - off - first, 0) // VEC * VEC
                pivot = pivot_of(head_of(heads, team, stage))
                mine = TeamRow(
                    slots[team, stage], at, low, high, beside, pivot, SPAN, config.parts, BEGINS, ENDS, 32 * config.warps
                )  # fmt: skip
                normalise_row(mine, slots, team, stage, w, b, Y, eps, inverse, CENTERED)
                ahead = some + SLOTS * TEAMS
                if ahead < dealt.turns:
                    head = head_of(heads, team, filled.stage)
                    ready = full[team * SLOTS + filled.stage]
                    fetch(X, dealt.row(ahead), columns, part, slots[team, filled.stage], head, ready, LINE)
                    filled.advance()
            read[0].arrive()
            turn.advance()
