"""Norms of rows that a share of all SMs has: a slice of each in a CTA, its weights in registers, what is known through L2.

The CTAs of a launch are in groups of `share`, wherever they run; a group has rows of its own, one after another, and CTA c
of it the same columns of each. A slice comes by one bulk copy, or a few, into a ring, from the line on in which it begins:
copies that begin elsewhere took 3 to 9% longer. They have no hint for L2: with "evict_first" they took 1 to 2% longer. Every
warp has the same places of all slices: so its weights and biases stay in its registers from row to row, and it waits for no
other warp of its CTA, only for copies and for what is known of a row.

A warp looks at a row and leaves what it knows of it; then it stores the result of the row DELAY before that one, of which
the rest of the group has told in the meantime. Few more warps exchange what is known, each of a row in turn: one joins what
the warps of its CTA left, publishes that as a word (see `grid_rows`), and gathers the words of all others of the group.

Rows PERIOD apart are a class: they begin at the same place of a vector. A group takes the rows of one class after those of
another, and has weights and biases moved by as many places as the rows of the class are.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.rowwise.deals import classes_of, deal
from phalanx.kernels.rowwise.grid_rows import as_numbers, as_word
from phalanx.kernels.rowwise.known import Moments, Squares, along_thread, normalised
from phalanx.kernels.rowwise.row_config import VECTOR_BYTES
from phalanx.kernels.rowwise.share_config import LANES, LINE_BYTES, MOST_MOVED, most_rows, share_slice

TOGETHER = 5, 3
"""Parts whose weights, or biases, are on their way at once where rows begin anywhere: of one vector, and of each of two."""


@px.struct
class ShareGroup:
    """The rows of this CTA's group, `part` places of each of which are the CTA's slice."""

    columns: Any
    rows: Any
    part: Any
    number: Any
    groups: Any
    rank: Any
    VEC: int
    PERIOD: int

    def classes(self):
        """The first class of rows of this group, and the one behind its last."""
        return classes_of(self.rows, self.PERIOD, self.number, self.groups, False)

    def rows_of(self, which):
        """The first row of this group in a class, how many there are, and how far they are apart."""
        dealt = deal(which, self.rows, self.PERIOD, self.number, self.groups, self.PERIOD == 1)
        return dealt.first, dealt.turns, dealt.step

    def total(self):
        """How many rows this group has."""
        if self.PERIOD == 1:
            count = self.rows_of(0)[1]
        else:
            count = 0
            first, last = self.classes()
            for which in range(first, last):
                count = count + self.rows_of(which)[1]
        return count

    def shift(self, which):
        """The number of places by which the rows of a class begin behind a multiple of a vector."""
        return which * self.columns % self.VEC if self.PERIOD > 1 else 0

    def begin(self, row):
        """The place where this CTA's slice of a row begins: a multiple of a vector."""
        return row * self.columns // self.VEC * self.VEC + self.rank * self.part

    def before(self, row, LINE):
        """How far behind a multiple of LINE, at which the copy begins, this CTA's slice of a row does; 0: at none."""
        return self.begin(row) // self.VEC % (LINE // self.VEC) * self.VEC if LINE > 0 else 0

    def mine(self, row):
        """The places where this CTA's slice of a row begins and ends."""
        if self.PERIOD > 1:
            first = self.begin(row)
            last = row * self.columns + self.columns
            begin = first
        else:
            first = row * self.columns // self.VEC * self.VEC
            last = (row * self.columns + self.columns) // self.VEC * self.VEC
            begin = px.minimum(first + self.rank * self.part, last)
        return begin, px.minimum(begin + self.part, last)

    def inside(self, shift):
        """The first place of this CTA's slices that is the row's, and the one behind the last."""
        before = self.rank * self.part
        return shift - before, px.minimum(shift + self.columns - before, self.part)


@px.func
def group_of(X, columns, rows, SHARE, PERIOD):
    """The `ShareGroup` of this CTA."""
    VEC = VECTOR_BYTES // X.dtype.itemsize
    groups = px.num_blocks(0) // SHARE
    block = px.block_id(0)
    part = share_slice(columns, VEC, SHARE)
    return ShareGroup(columns, rows, part, block // SHARE, groups, block % SHARE, VEC, PERIOD)


@px.struct
class RowTurn:
    """A role's place in the rows of its group: `row` of class `which`, of which `left` are left with it."""

    which: Any
    row: Any
    left: Any
    step: Any

    def advance(self, group):
        """Moves on by a row."""
        self.row = self.row + self.step
        self.left = self.left - 1
        self.settle(group)

    def settle(self, group):
        """Moves on to the next class that has rows, where none are left."""
        if group.PERIOD > 1:
            while (self.left == 0) & (self.which < group.PERIOD - 1):
                self.which = self.which + 1
                self.row, self.left, self.step = group.rows_of(self.which)


@px.func
def first_turn(group):
    """The first row of a group."""
    which = group.classes()[0]
    first, count, step = group.rows_of(which)
    turn = RowTurn(which, first, count, step)
    turn.settle(group)
    return turn


@px.func
def fetch_all(group, X, ring, full, empty, SPAN, PIECES):
    """The role that fills the ring, whose stages have a line more than SPAN where copies begin at lines."""
    ROOM = ring.shape[1]
    filled = px.ring(ring.shape[0])
    first_class, last_class = group.classes()
    for which in range(first_class, last_class):
        first, count, step = group.rows_of(which)
        for number in range(count):
            row = first + number * step
            end = row * group.columns + group.columns
            for piece in px.static_range(PIECES):
                at = group.begin(row) + piece * SPAN
                at = px.where(at < end, at, 0)  # behind the row's end: nobody looks at what it brings
                if ROOM > SPAN:
                    at = at // (ROOM - SPAN) * (ROOM - SPAN)
                empty[filled.stage].wait(filled.parity ^ 1)
                with full[filled.stage].transaction():
                    px.tma.load(X[at : at + ROOM], ring[filled.stage], full[filled.stage])
                filled.advance()


@px.struct
class SlicePlaces:
    """The places of a warp in all slices: PARTS times a vector of each lane, WARPS such apart. `low` and `high`: those of
    the slice that are the row's. `before`: what lies before the slice in its stage."""

    warp: Any
    before: Any
    low: Any
    high: Any
    VEC: int
    WARPS: int
    EDGES: bool

    def at(self, part):
        """The place of the slice where a part begins."""
        return (part * self.WARPS + self.warp) * (LANES * self.VEC)

    def whole(self, first, last):
        """Whether all places of these parts are the row's."""
        found = self.at(last - 1) + LANES * self.VEC <= self.high
        return found & (self.at(first) >= self.low) if self.EDGES else found

    def part(self, ring, stage, part):
        """A part of a piece, in f32, as (1, lanes, elements of a vector)."""
        return self.tile(ring, stage, part).reshape(1, LANES, self.VEC)

    def tile(self, ring, stage, part):
        """Loads a part of a piece, in f32."""
        at = self.before + self.at(part)
        return px.load(ring[stage, at : at + LANES * self.VEC]).to(px.f32)

    def bounds(self, part):
        """The bounds of a part: which of its places are the row's."""
        place = px.arange(LANES * self.VEC).reshape(1, LANES, self.VEC) + self.at(part)
        inside = place < self.high
        return Inside(inside & (place >= self.low) if self.EDGES else inside)


@px.struct
class Inside:
    """The bounds of a part (see `known`) of which the places that are `inside` are the row's."""

    inside: Any

    def keep(self, x, fill):
        """The part, with `fill` in other places."""
        return px.where(self.inside, x, fill)

    def count(self, x):
        """How many elements of the row each lane has."""
        return along_thread(px.sum, px.where(self.inside, 1.0, 0.0))


@px.func
def look_at(row, ring, full, taken, PARTS, PIECES, kind):
    """What a warp knows of a row. `row` are its places.

    All parts but the last one, and where rows begin anywhere the first, are the row's in most slices; else they are looked
    at one by one.
    """
    EACH = PARTS // PIECES
    known: tuple[Any, ...] = ()
    for piece in px.static_range(PIECES):
        stage = taken.stage
        before = piece * EACH
        full[stage].wait(taken.parity)
        if piece == 0:
            first, bounds = (row.part(ring, stage, 0), row.bounds(0)) if kind.PEEKS else (None, None)
            known = kind.start(first, bounds, None, LANES)
        FIRST = 1 if row.EDGES and piece == 0 else 0
        LAST = max(FIRST, EACH - 1) if piece == PIECES - 1 else EACH
        if FIRST > 0:
            known = kind.more(row.part(ring, stage, 0), row.bounds(0), *known)
        if FIRST < LAST:
            if row.whole(before + FIRST, before + LAST):
                for part in px.static_range(FIRST, LAST):
                    known = kind.more(row.part(ring, stage, part), None, *known)
            else:
                for part in range(FIRST, LAST):
                    known = kind.more(row.part(ring, stage, part), row.bounds(before + part), *known)
        if LAST < EACH:
            known = kind.more(row.part(ring, stage, LAST), row.bounds(before + LAST), *known)
        taken.advance()
    return kind.join(None, *known)


@px.func
def store_row(row, ring, empty, again, begin, end, w, b, Y, mean, scale, PARTS, PIECES):
    """The result of a row, of which this CTA has the places from `begin` to `end`, and whose stages are given back.

    Where rows begin at multiples of a vector, each is stored whole or not at all. Else the first part and the last one are
    stored element by element where they have to be, and others where a slice is shorter than most.
    """
    VEC = row.VEC
    EACH = PARTS // PIECES
    low = begin + px.maximum(row.low, 0) if row.EDGES else begin
    whole = row.whole(1, PARTS - 1) if row.EDGES and PARTS > 2 else False
    for piece in px.static_range(PIECES):
        for part in px.static_range(EACH):
            number = piece * EACH + part
            x = row.tile(ring, again.stage, part)
            y = normalised(x, beside(w, number), beside(b, number), mean, scale, Y.dtype).to(Y.dtype)
            at = begin + row.at(number)
            if 0 < number < PARTS - 1 and row.EDGES:
                if whole:
                    px.store(Y[at : at + LANES * VEC], y, once=True)
                else:
                    px.store(Y[at : at + LANES * VEC].within(low, end), y, once=True)
            else:
                px.store(Y[at : at + LANES * VEC].within(low, end), y, once=True)
        empty[again.stage].arrive()
        again.advance()


@px.func
def beside(v, part):
    """The weights or biases of a part; None: there are none."""
    return None if v is None else px.keep(v[part])  # in their own type: widened ones take twice the registers


@px.func
def take(V, group, warp, which, moved, WARPS, PARTS, AT_ONCE):
    """The weights or biases beside a warp's places of the rows of a class. None without any."""
    if V is None:
        return None
    held: tuple[Any, ...] = ()
    for first in px.static_range(0, PARTS, AT_ONCE):
        LAST = min(first + AT_ONCE, PARTS)
        held = (*held, *take_parts(V, group, warp, which, moved, WARPS, first, LAST))
    return held


@px.func
def take_parts(V, group, warp, which, moved, WARPS, FIRST, LAST):
    """The weights or biases of some parts. With `moved`, in shared memory, all come at once, as they lie, and are moved to
    the places of the class there: a load that begins anywhere waits for itself before the next one starts."""
    row = SlicePlaces(warp, 0, 0, 0, group.VEC, WARPS, False)
    VEC = group.VEC
    place = group.rank * group.part
    shift = group.shift(which)
    own = warp * ((LANES + 1) * VEC) + VEC
    held: tuple[Any, ...] = ()
    for part in px.static_range(FIRST, LAST):
        at = place + row.at(part)
        if moved is None:
            held = (*held, px.load(V[at - shift : at - shift + LANES * VEC], shifted=group.PERIOD > 1))
        else:
            held = (*held, (px.load(V[at : at + LANES * VEC]), px.load(V[at - VEC : at])))
    if moved is None:
        return held
    found: tuple[Any, ...] = ()
    for part in px.static_range(LAST - FIRST):
        px.sync()
        px.store(moved[own : own + LANES * VEC], held[part][0])
        px.store(moved[own - VEC : own], held[part][1])
        px.sync()
        found = (*found, px.load(moved[own - shift : own - shift + LANES * VEC], shifted=True))
    return found


@px.func
def none_of(V, VEC, PARTS):
    """Registers for the weights or biases of PARTS parts."""
    return None if V is None else (px.zeros((LANES * VEC,), V.dtype),) * PARTS


@px.func
def normalise_group(group, warp, W, B, moved, ring, full, empty, exchange, Y, config, CENTERED):
    """A warp's places of all rows of its group; `config` is a `ShareConfig`."""
    WARPS = config.warps
    PARTS = config.parts
    PIECES = config.pieces
    DELAY = config.delay
    EDGES = group.PERIOD > 1
    total = group.total()
    AT_ONCE = TOGETHER[W is not None and B is not None]
    LINE = ring.shape[1] - PARTS // PIECES * WARPS * LANES * group.VEC
    kind = Moments() if CENTERED else Squares()
    taken = px.ring(ring.shape[0])
    again = px.ring(ring.shape[0])
    leaves = px.ring(DELAY + 1)
    gets = px.ring(DELAY + 1)
    ahead = first_turn(group)
    turn = first_turn(group)
    which = -1 if EDGES else 0
    w = none_of(W, group.VEC, PARTS)
    b = none_of(B, group.VEC, PARTS)
    if not EDGES:
        w = take(W, group, warp, 0, None, WARPS, PARTS, AT_ONCE)
        b = take(B, group, warp, 0, None, WARPS, PARTS, AT_ONCE)
    for number in range(total + DELAY):
        if number < total:
            low, high = group.inside(group.shift(ahead.which))
            row = SlicePlaces(warp, group.before(ahead.row, LINE), low, high, group.VEC, WARPS, EDGES)
            exchange.leave(leaves.stage, warp, look_at(row, ring, full, taken, PARTS, PIECES, kind))
            leaves.advance()
            ahead.advance(group)
        if number >= DELAY:
            if EDGES:
                if which != turn.which:
                    which = turn.which
                    w = take(W, group, warp, which, moved, WARPS, PARTS, AT_ONCE)
                    b = take(B, group, warp, which, moved, WARPS, PARTS, AT_ONCE)
            low, high = group.inside(group.shift(turn.which))
            row = SlicePlaces(warp, group.before(turn.row, LINE), low, high, group.VEC, WARPS, EDGES)
            begin, end = group.mine(turn.row)
            if not EDGES:
                px.assume(begin >= 0)
                px.assume(begin <= end)
                px.assume(end <= Y.shape[0])
            mean, scale = exchange.get(gets)
            mean = mean if CENTERED else None
            store_row(row, ring, empty, again, begin, end, w, b, Y, mean, scale, PARTS, PIECES)
            gets.advance()
            turn.advance(group)


@px.struct
class GroupExchange:
    """What is told of rows: in the CTA by each warp, `parts`, and of all, `known`, in places that rows take in turn, with
    barriers; between CTAs by the WORDS, SLOTS of a row. `cleared` counts those that have set their words to 0, and those
    that have seen that all did."""

    WORDS: Any
    cleared: Any
    parts: Any
    known: Any
    left: Any
    found: Any
    SLOTS: int
    SHARE: int

    def leave(self, place, warp, numbers):
        """Leaves what a warp knows of a row."""
        for which in px.static_range(len(numbers)):
            px.store(self.parts[place, which, warp], numbers[which])
        self.left[place].arrive()

    def get(self, gets):
        """The mean of a row and its scale."""
        self.found[gets.stage].wait(gets.parity)
        return px.load(self.known[gets.stage, 0]), px.load(self.known[gets.stage, 1])

    def clear(self, group, place, PLACES):
        """Sets the words of this CTA to 0, of every PLACES-th row from `place` on."""
        most = most_rows(group.rows, group.PERIOD, group.groups)
        for some in range(place, most, LANES * PLACES):
            number = some + px.arange(LANES) * PLACES
            at = (group.number * most + number) * self.SLOTS + group.rank
            px.store(self.WORDS[px.where(number < most, at, -1)], px.zeros((LANES,), px.i64))
        px.atomic_add(self.cleared[0], 1, order="acq_rel")
        every = px.num_blocks(0) * PLACES
        while px.atomic_add(self.cleared[0], 0, order="acq_rel") < every:
            pass
        if px.atomic_add(self.cleared[1], 1, order="acq_rel") == every - 1:  # nobody looks at the first one any more
            px.atomic_exch(self.cleared[0], 0)
            px.atomic_exch(self.cleared[1], 0)

    def tell_all(self, group, place, PLACES, eps, kind):
        """One of PLACES roles that exchange what is known of rows, which they take in turn."""
        self.clear(group, place, PLACES)
        most = most_rows(group.rows, group.PERIOD, group.groups)
        turn = px.ring(PLACES)
        number = 0
        first_class, last_class = group.classes()
        for which in range(first_class, last_class):
            count = group.rows_of(which)[1]
            shift = group.shift(which)
            for _ in range(count):
                if turn.stage == place:
                    self.left[place].wait(turn.parity)
                    at = (group.number * most + number) * self.SLOTS
                    mean, scale = self.tell(group, place, at, shift, eps, kind)
                    px.store(self.known[place, 0], mean)
                    px.store(self.known[place, 1], scale)
                    self.found[place].arrive()
                turn.advance()
                number = number + 1

    def tell(self, group, place, at, shift, eps, kind):
        """Publishes what the warps of this CTA left of a row, waits for the words of all, and joins them."""
        numbers: tuple[Any, ...] = ()
        for which in px.static_range(kind.NUMBERS):
            numbers = (*numbers, px.load(self.parts[place, which]))
        first, second = kind.publish(*numbers)
        px.atomic_exch(self.WORDS[at + group.rank], as_word(first, second))
        lane = px.arange(self.SLOTS)
        there = lane < self.SHARE
        words = px.atomic_load(self.WORDS[at : at + self.SLOTS])
        while px.min(px.where(there & (words == 0), 0, 1)) == 0:
            if self.SLOTS > LANES:  # only those that are missing: so many would keep L2 busy
                words = words | px.atomic_load(self.WORDS[px.where(there & (words == 0), at + lane, -1)])
            else:
                words = px.atomic_load(self.WORDS[at : at + self.SLOTS])
        one, other = as_numbers(words)
        high = px.minimum(shift + group.columns - lane * group.part, group.part)
        counts = px.maximum(high - px.where(lane == 0, shift, 0), 0).to(px.f32)
        mean, squares = kind.gathered(there, counts, group.columns, one, other)
        return 0.0 if mean is None else mean, px.rsqrt(squares / group.columns + eps)


@px.kernel(warps=lambda config: config.warps + config.delay + 2, exit_sync=False, cooperative=True)
def norm_shares(
    X, W, B, Y, eps, columns, rows, WORDS, *, config, SLOTS, CENTERED=False, PERIOD=1, LINED=False
):  # fmt: skip
    """x / sqrt(mean(x^2) + eps) * W + B of each of `rows` rows; with CENTERED x - mean(x) in the place of x.

    Rows PERIOD apart begin at the same place of a vector. `delay` + 1 rows have a place each for what is known of them: who
    leaves something there has stored the row that had it before, and so has found what was told of it. LINED: copies begin
    at lines, each of which is before the slice that it brings.
    """
    SHARE = config.share
    WARPS = config.warps
    VEC = VECTOR_BYTES // X.dtype.itemsize
    SPAN = config.parts // config.pieces * WARPS * LANES * VEC
    ring = px.shared((config.stages, SPAN + (LINE_BYTES // X.dtype.itemsize if LINED else 0)), X.dtype)
    full = px.barrier(config.stages)
    empty = px.barrier(config.stages)
    COUNT = (W is not None) + (B is not None)
    ALIKE = W is None or B is None or W.dtype == B.dtype
    MOVED = PERIOD > 1 and ALIKE and 0 < COUNT * config.parts <= MOST_MOVED
    moved = px.shared((WARPS * (LANES + 1) * VEC,), (B if W is None else W).dtype) if MOVED else None
    PLACES = config.delay + 1
    parts = px.shared((PLACES, 3 if CENTERED else 1, WARPS), px.f32)
    known = px.shared((PLACES, 2), px.f32)
    left = px.barrier(PLACES)
    found = px.barrier(PLACES, count=1, checked=False)
    cleared = px.counters(2)
    with px.warps(0, 1, copies=WARPS) as warp:
        group = group_of(X, columns, rows, SHARE, PERIOD)
        exchange = GroupExchange(WORDS, cleared, parts, known, left, found, SLOTS, SHARE)
        normalise_group(group, warp, W, B, moved, ring, full, empty, exchange, Y, config, CENTERED)
    with px.warps(WARPS, 1):
        fetch_all(group_of(X, columns, rows, SHARE, PERIOD), X, ring, full, empty, SPAN, config.pieces)
    with px.warps(WARPS + 1, 1, copies=PLACES) as place:
        group = group_of(X, columns, rows, SHARE, PERIOD)
        exchange = GroupExchange(WORDS, cleared, parts, known, left, found, SLOTS, SHARE)
        exchange.tell_all(group, place, PLACES, eps, Moments() if CENTERED else Squares())
