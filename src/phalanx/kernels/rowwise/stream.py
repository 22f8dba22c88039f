"""Rows of any length and any number of bytes, chunk by chunk, through rings over a cluster.

The matrix is one run of memory, in which a row begins anywhere. Chunks begin at multiples of 16 bytes: a row's first one
at the first such multiple in it. They come by bulk copies, which begin at multiples of 128 bytes, where a line of L2 does: a
stage has room for what lies before its chunk. Of the last one whole vectors count or do not: no element of them is looked at
by itself. The few elements of a row in vectors that it shares with its neighbours, its edges, have a
thread each, which loads them a row ahead.

The chunks of a row are dealt to the CTAs of a cluster in turn. A row is read twice: for what is to be known of it, and for
the result. Between the two, KEPT of a CTA's chunks stay in its ring; what does not fit is read again, out of L2. The ring
has room for more than it keeps: the next chunks are on their way while the cluster exchanges what it knows.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.rowwise.deals import classes_of, part_of
from phalanx.kernels.rowwise.stream_config import LINE_BYTES

MOST_BATCH, BATCH_BYTES = 4, 32 * 1024
"""Chunks that are given back together, and their bytes, at most; the ring has twice as many."""


@px.func
def stages_of(X, STAGES, GROUP, SPAN, LINED):
    """The ring: for each of GROUP rows a chunk in each stage, and a line more where LINED."""
    return px.shared((STAGES, GROUP * (SPAN + (LINE_BYTES // X.dtype.itemsize if LINED else 0))), X.dtype)


def stream_kernel(fn: Any) -> Any:
    """`px.kernel` with what it asks of the GPU taken from the configuration."""
    make = px.kernel(
        warps=lambda config: config.warps + config.producers, cluster=lambda config: config.cluster,
        ctas_per_sm=lambda config: config.per_sm, exit_sync=False, pdl=True,
    )  # fmt: skip
    return make(fn)


@px.struct
class Stream:
    """The chunks of the rows of X that this cluster takes, as a role sees them; `columns` elements are a row.

    GROUP rows pass at once, a chunk of each in a stage: `group` has their numbers, and where the last ones are missing, the
    first one's again. They begin at the same place of a vector. `own` is how many chunks this CTA has of each row, `held`
    how many of them stay in the ring; WHOLE: all. HOLD of them are in registers, all or none. `taken` and `freed` are the
    role's places in the ring: of the next chunk to wait for, and of the next one to fill or to give back; `again` is that of
    the next one to read for the result. Chunks are given back BATCH at a time, for one barrier of the warps.

    Rows CLASSES apart are a class, and a cluster takes the rows of one class after those of another: where they all begin
    at the same place of a vector, what it keeps for them, weights, is seldom made again. EDGES: rows need not begin at a
    multiple of a vector; a thread of rank 0 has at most one of the elements that lie in vectors which are not all the row's.
    LINE: so many elements more are in a stage for each row, and copies begin at multiples of them, which is `LINE_BYTES`;
    0: rows begin there anyway.
    """

    X: Any
    ring: Any
    full: Any
    empty: Any
    taken: Any
    freed: Any
    again: Any
    columns: Any
    rows: Any
    own: Any
    held: Any
    clusters: Any
    VEC: int
    SPAN: int
    BATCH: int
    GROUP: int
    CLASSES: int
    STREAMED: bool
    WHOLE: bool
    HOLD: int
    EDGES: bool
    LINE: int

    def classes(self):
        """The first class of rows of this cluster, and the one behind its last."""
        return classes_of(self.rows, self.CLASSES, px.cluster.id(), self.clusters, False)

    def rows_of(self, which):
        """The first row of this cluster in a class, where they end, and how far they are apart."""
        if self.CLASSES == 1:
            return px.cluster.id(), self.rows, self.clusters
        begin, end = part_of(self.rows, self.CLASSES, px.cluster.id(), self.clusters)
        each = px.cdiv(self.rows, self.CLASSES)
        first = px.maximum(begin - which * each, 0)
        last = px.minimum(end - which * each, each)
        return which + first * self.CLASSES, px.minimum(which + last * self.CLASSES, self.rows), self.CLASSES

    def group(self, row, end, step):
        """The rows that pass together from this one on, `step` apart, those before `end`; else the first one again."""
        rows: tuple[Any, ...] = (row,)
        for turn in px.static_range(1, self.GROUP):
            rows = (*rows, px.where(row + turn * step < end, row + turn * step, row))
        return rows

    def whole(self, row):
        """The places where this row's whole vectors begin and end (see `whole_vectors`)."""
        return whole_vectors(row, self.columns, self.VEC, self.EDGES)

    def first(self, row):
        """The place where this CTA's first chunk of a row begins. The compiler sees that its other chunks are apart."""
        return self.whole(row)[0] + px.cluster.rank() * self.SPAN

    def edges(self, row, LANES):
        """The place of the element that each thread has of a row's edges: first those before its whole vectors, then those
        behind them. -1: it has none."""
        return edge_places(row, self.columns, self.whole(row), px.cluster.rank() == 0, self.VEC, LANES)

    def load_edges(self, group, LANES, fill):
        """The element that each thread has of the edges of each row, or `fill`; None where rows have none."""
        found: tuple[Any, ...] = ()
        for row in group:
            found = (*found, px.load(self.X[self.edges(row, LANES)], fill=fill) if self.EDGES else None)
        return found

    def starts(self, group):
        """Each row, and where this CTA's first chunk of it begins, which is found once for all chunks that `store` gets: so
        the compiler sees that these are apart, and that no warp has to wait for another between two of them."""
        found: tuple[Any, ...] = ()
        for row in group:
            found = (*found, (row, self.first(row)))
        return found

    def store(self, Y, start, chunk, y, ONCE):
        """The result for a chunk of the row with this `start`, in the type of Y."""
        row, begin = start
        first, last = self.whole(row)
        px.assume(first >= 0)
        px.assume(first <= last)
        px.assume(last <= Y.shape[0])
        at = self.place(begin, chunk)
        px.store(Y[at : at + self.SPAN].within(first, last), y.to(Y.dtype), once=ONCE)

    def store_edges(self, Y, row, y):
        """The result for the edges of a row."""
        px.store(Y[self.edges(row, y.shape[0])], y.to(Y.dtype))

    def place(self, first, chunk):
        """The place where this CTA's chunk of this number begins, if its first one begins at `first`."""
        return first + chunk * (px.cluster.size() * self.SPAN)

    def fetch(self, group, chunk, LAST):
        """Starts the copies of a chunk of each row, as soon as a stage is free."""
        self.empty[self.freed.stage].wait(self.freed.parity ^ 1)
        stage = self.freed.stage
        with self.full[stage].transaction():
            hint = "evict_first" if self.STREAMED and LAST else None
            for turn in px.static_range(self.GROUP):
                at = self.place(self.first(group[turn]), chunk)
                at = px.where(at < self.whole(group[turn])[1], at, 0)  # behind the row's end: nobody looks at what it brings
                if self.LINE > 0:
                    at = at // self.LINE * self.LINE
                room = self.SPAN + self.LINE
                part = self.ring[stage, turn * room : turn * room + room]
                px.tma.load(self.X[at : at + room], part, self.full[stage], cache=hint)
        self.freed.advance()

    def part_of(self, stage, turn, row):
        """The view of a stage that has the chunk of one of the rows."""
        first = turn * (self.SPAN + self.LINE)
        if self.LINE > 0:
            first = first + self.whole(row)[0] // self.VEC % (self.LINE // self.VEC) * self.VEC
        return self.ring[stage, first : first + self.SPAN]

    def fetch_all(self):
        """The role that fills the ring: each row's chunks, and once more those that the ring did not keep."""
        first, last = self.classes()
        for which in range(first, last):
            begin, end, step = self.rows_of(which)
            for row in range(begin, end, step * self.GROUP):
                group = self.group(row, end, step)
                if not self.WHOLE:
                    for chunk in range(self.own - self.held):
                        self.fetch(group, chunk, False)
                    for chunk in range(self.own - self.held, self.own):
                        self.fetch(group, chunk, True)
                    for chunk in range(self.own - self.held):
                        self.fetch(group, chunk, True)
                else:
                    for chunk in range(self.own):
                        self.fetch(group, chunk, True)

    def peek(self, group):
        """The next chunk of each row, in its own type, which stays the next one."""
        self.full[self.taken.stage].wait(self.taken.parity)
        return self.chunks_in(self.taken.stage, group)

    def chunks_in(self, stage, group):
        """What a stage has of each row."""
        found: tuple[Any, ...] = ()
        for turn in px.static_range(self.GROUP):
            found = (*found, px.load(self.part_of(stage, turn, group[turn])))
        return found

    def next_again(self, group, COMES):
        """The next chunk of each row for the result: one that was kept, or one that COMES again."""
        if COMES:
            self.full[self.taken.stage].wait(self.taken.parity)
            self.taken.advance()
        x = self.chunks_in(self.again.stage, group)
        self.again.advance()
        return x

    def give_back(self, count):
        """Gives the oldest chunks that were taken back to the role that fills the ring."""
        for _ in range(count):
            self.empty[self.freed.stage].arrive()
            self.freed.advance()

    def walk(self, group, known, kind, STEP, LANES):
        """What is known of each row of a group after its last chunk, by the `kind` of knowledge. Beside it the chunks, where
        they are held: a tuple for each row."""
        if self.HOLD > 0:
            return self.walk_held(group, known, kind, STEP, LANES)
        passed = self.own - self.held
        if not self.WHOLE:
            for first in range(0, passed, self.BATCH):
                count = px.minimum(passed - first, self.BATCH)
                for chunk in range(first, first + count):
                    known = self.look_at(group, chunk, known, kind, STEP, LANES)
                    self.again.advance()
                self.give_back(count)
        for chunk in range(0 if self.WHOLE else passed, self.own):
            known = self.look_at(group, chunk, known, kind, STEP, LANES)
        return known, None

    def walk_held(self, group, known, kind, STEP, LANES):
        """`walk` where rows are held: their stages are given back on the way.

        Of the last chunk a part may be missing. Where rows have edges, their whole vectors may end a vector before the last
        chunk begins: then of the last but one, too.
        """
        FULL = self.HOLD - (2 if self.EDGES else 1)
        held: tuple[Any, ...] = ()
        for some in px.static_range(0, self.HOLD, self.BATCH):
            LAST = min(some + self.BATCH, self.HOLD)
            for chunk in px.static_range(some, LAST):
                x = self.peek(group)
                self.taken.advance()
                held = (*held, x)
                if chunk < FULL:
                    known = of_each(kind, x, None, known, STEP, LANES)
                else:
                    limit = self.whole(group[0])[1] - self.place(self.first(group[0]), chunk)
                    known = of_each(kind, x, limit, known, STEP, LANES)
            self.give_back(LAST - some)
        return known, held

    def look_at(self, group, chunk, known, kind, STEP, LANES):
        """What is known of each row with one chunk more."""
        at = self.place(self.first(group[0]), chunk)
        end = self.whole(group[0])[1]
        x = self.peek(group)
        self.taken.advance()
        if at + self.SPAN > end:
            known = of_each(kind, x, end - at, known, STEP, LANES)
        else:
            known = of_each(kind, x, None, known, STEP, LANES)
        return known


@px.func
def whole_vectors(row, columns, VEC, EDGES):
    """The places where a row's whole vectors begin and end; of a row without any, twice where its only vector begins."""
    begin = row * columns
    first = (begin + (VEC - 1)) // VEC * VEC
    last = (begin + columns) // VEC * VEC
    return px.minimum(first, last) if EDGES else first, last


@px.func
def edge_places(row, columns, whole, mine, VEC, LANES):
    """The place of the element that each thread has of a row's edges: first those before its whole vectors, then those
    behind them. -1: it has none, as all have where they are not `mine`."""
    first, last = whole
    end = row * columns + columns
    begin = px.where(mine, row * columns, end)
    lane = px.arange(LANES)
    place = px.where(lane < VEC, first, last) + lane - VEC
    there = (place >= begin) & (place < end) & (lane < 2 * VEC) & ((lane < VEC) | (place >= first))
    return px.where(there, place, -1)


@px.func
def of_each(kind, x, limit, known, STEP, LANES):
    """What is known of each row with a chunk more, of which the vectors before place `limit` are the row's; None: all."""
    bounds = None if limit is None else Before(limit)
    result: tuple[Any, ...] = ()
    for turn in px.static_range(len(x)):
        result = (*result, kind.more(by_thread(x[turn], STEP, LANES), bounds, *known[turn]))
    return result


@px.func
def know(rows, kind, group, edges, STEP, WARPS):
    """What is known of each row of a group, in all threads of the cluster; and the chunks in registers."""
    LANES = 32 * WARPS
    first: Any = None
    bounds: Any = None
    if kind.PEEKS:
        first = rows.peek(group)
        bounds = Before(rows.whole(group[0])[1] - rows.first(group[0]))
    known: tuple[Any, ...] = ()
    for turn in px.static_range(rows.GROUP):
        x = by_thread(first[turn], STEP, LANES) if kind.PEEKS else None
        known = (*known, kind.start(x, bounds, edges[turn], LANES))
    known, held = rows.walk(group, known, kind, STEP, LANES)
    sent: tuple[Any, ...] = ()
    for turn in px.static_range(rows.GROUP):
        one = known[turn]
        if edges[turn] is not None:
            there = rows.edges(group[turn], LANES) >= 0 if kind.PEEKS else None
            one = kind.edge(edges[turn], there, *one)
        sent = (*sent, *kind.join(WARPS, *one))
    got = from_all(sent, WARPS)
    result: tuple[Any, ...] = ()
    for turn in px.static_range(rows.GROUP):
        mine: tuple[Any, ...] = ()
        for number in px.static_range(kind.NUMBERS):
            mine = (*mine, got[kind.NUMBERS * turn + number])
        result = (*result, kind.total(rows.columns, *mine))
    return result, held


@px.func
def pinned(chunks):
    """Chunks, pinned in registers in their own type: the compiler keeps nothing that it computed from them."""
    same: tuple[Any, ...] = ()
    for x in chunks:
        same = (*same, px.keep(x))
    return same


@px.func
def stream(X, columns, rows, ring, full, empty, config, VEC, SPAN, WHOLE, PERIOD, CLASSES=1):
    """The `Stream` of a role, with its own places in the ring. Rows PERIOD apart begin at the same place of a vector."""
    size = px.cluster.size()
    most = px.cdiv(columns, SPAN)  # chunks of a row, wherever it begins
    own = config.kept
    if not config.hold:  # one that is all masked, where there is none
        own = px.maximum(most - px.cluster.rank() + size - 1, size) // size
    held = own if WHOLE else px.minimum(own, config.kept)
    clusters = px.num_blocks(0) // size
    taken = px.ring(config.stages)
    freed = px.ring(config.stages)
    again = px.ring(config.stages)
    BATCH = max(1, min(MOST_BATCH, BATCH_BYTES // (config.group * SPAN * X.dtype.itemsize), config.stages // 2))
    return Stream(
        X, ring, full, empty, taken, freed, again, columns, rows, own, held, clusters, VEC, SPAN, BATCH, config.group,
        CLASSES, config.streamed, WHOLE, config.kept if config.hold else 0, PERIOD > 1, ring.shape[1] // config.group - SPAN,
    )


@px.func
def by_thread(x, STEP, LANES):
    """A chunk in f32 as (vectors of a thread, threads, elements of a vector): folds along the outer axes need no other."""
    return x.to(px.f32).reshape(STEP, LANES, x.shape[0] // (STEP * LANES))


@px.func
def from_all(known, WARPS):
    """What every warp of the cluster knows, (WARPS, 1) each, from all of them. A single warp that has a row knows it all."""
    if WARPS > 1 or px.cluster.size() > 1:
        known = px.cluster.gather(known)
    return known


@px.struct
class Before:
    """The bounds of a chunk (see `known`) of which the vectors before place `limit` are the row's."""

    limit: Any

    def keep(self, x, fill):
        """The chunk, with `fill` behind the row's end."""
        STEP, LANES, EACH = x.shape
        vector = px.arange(STEP).reshape(STEP, 1, 1) * LANES + px.arange(LANES).reshape(1, LANES, 1)
        return px.where(vector * EACH < self.limit, x, fill)

    def count(self, x):
        """How many elements of the row each thread has."""
        STEP, LANES, EACH = x.shape
        count = px.zeros((LANES,), px.f32)
        for step in px.static_range(STEP):
            count = count + px.where((px.arange(LANES) + step * LANES) * EACH < self.limit, float(EACH), 0.0)
        return count
