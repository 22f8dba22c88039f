"""The kernel of `px.kernels.attention`: persistent CTAs, a producer, and warpgroups that each attend for 64 queries.

The products of a warpgroup never wait for its softmax: while it works on the scores of a block, the tensor cores
multiply the powers of the block before with its values. So each step begins Q K^T of the next block, then P V of this
one, waits for the first alone, does the softmax, and waits for the second. The chain goes on over the end of a tile:
the last P V of a tile runs beside the first Q K^T of the next one. Keys are taken from the last block to the first.

K and V come through rings of their own, in the order in which they are used: K of a block, then V of the block before.
The result leaves through the place of its own Q, where that is free (`OWN_OUT` where it is not). Features that a call
does not ask for (bounds, caps, biases, packed sequences) are left out when the kernel is read.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.config import AttentionConfig
from phalanx.kernels.attention.forms import (
    OperandScales,
    PackedStarts,
    ScoreFactors,
    TileHeights,
    TilesForm,
    Window,
)
from phalanx.kernels.attention.narrow import SHIFT, in_order_of_registers
from phalanx.kernels.attention.scores import (
    Reach,
    capped,
    distances,
    first_step,
    log_sums,
    row_sums,
    softmax_step,
)
from phalanx.kernels.attention.tiles import Tiles
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E

USUAL = AttentionConfig()
FORM = TilesForm()
WIDE_HEADS = 192
"""Elements of a head from which on products take so long that masks cost 1 to 2% beside them: with a bound on either side
every block has one, and the step is written once, which compiles in three quarters of the time. So it is with caps and
biases."""


@px.struct
class Buffers:
    """What is in shared memory, `q` (stages, groups, rows, dim), `k` and `v` (stages, keys, ...), and pipes that tell."""

    q: Any
    k: Any
    v: Any
    out: Any
    queries: Any
    keys: Any
    values: Any
    places: Any
    ROWS: int
    KEYS: int
    DIM: int
    WIDE: int
    GROUPS: int
    NARROW: bool
    SCHEDULE: str

    def next(self, place):
        """The place for what is told of the next tile."""
        return px.where(place == self.places.shape[0] - 1, 0, place + 1)

    def tell(self, place, tile):
        """The producer says where a tile is, so that nobody else has to find it."""
        px.store(self.places[place, 0], self.GROUPS if tile.groups is None else tile.groups)
        px.store(self.places[place, 1], tile.batch)
        px.store(self.places[place, 2], tile.head)
        px.store(self.places[place, 3], tile.row)
        if tile.CUQ is not None:
            px.store(self.places[place, 4], tile.first_query)
            px.store(self.places[place, 5], tile.reach.queries)
            px.store(self.places[place, 6], tile.reach.keys)
            px.store(self.places[place, 7], tile.sequence)


@px.struct
class Tile:
    """What a warpgroup knows of a tile: warpgroups that attend to it (0: there is no further tile), and where it is."""

    places: Any
    reach: Any
    VARLEN: bool
    groups: Any = 0
    batch: Any = 0
    head: Any = 0
    row: Any = 0
    first_query: Any = 0
    sequence: Any = 0

    def read(self, place):
        """Goes to what the producer has told at this place."""
        places = self.places
        self.groups, self.batch = px.load(places[place, 0]), px.load(places[place, 1])
        self.head, self.row = px.load(places[place, 2]), px.load(places[place, 3])
        self.sequence = self.batch
        if self.VARLEN:
            self.first_query, self.sequence = px.load(places[place, 4]), px.load(places[place, 7])
            self.reach.queries, self.reach.keys = px.load(places[place, 5]), px.load(places[place, 6])


@px.func
def blocks_of(tile, buffers):
    """The key blocks (first, behind the last) of a whole tile: at least one, even if nobody attends to any key."""
    low, high = tile.reach.blocks(tile.row, buffers.ROWS * buffers.GROUPS, buffers.KEYS)
    low = px.maximum(px.minimum(low, high - 1), 0)
    return low, px.maximum(high, low + 1)


@px.func
def values_of(V, batch, head, key, b):
    """A block of values: (keys, dim), of 8-bit floats (dim, keys)."""
    if b.NARROW:
        return V[batch, head, 0 : b.WIDE, key : key + b.KEYS]
    return V[batch, head, key : key + b.KEYS, 0 : b.WIDE]


@px.func
def fetch(Q, K, V, tiles, buffers, group):
    """The producer: where each tile is, and its Q; K and V of each of its blocks."""
    b = buffers
    place = 0
    tile = tiles
    for t in px.persistent(tiles.count(), schedule=b.SCHEDULE):
        tile.seek(t)
        if tile.live:
            low, high = blocks_of(tile, b)
            batch = tile.batch
            head = tile.head // px.keep(group)
            key = tile.first_key + (high - 1) * b.KEYS
            with b.keys.produce() as stage:
                px.tma.load(K[batch, head, key : key + b.KEYS, 0 : b.DIM], b.k[stage], b.keys.full[stage])
            stage = b.queries.acquire()
            b.tell(stage if b.places.shape[0] == b.q.shape[0] else place, tile)
            for c in px.static_range(b.GROUPS):
                row = tile.first_query + tile.row + c * b.ROWS
                px.tma.load(Q[batch, tile.head, row : row + b.ROWS, 0 : b.DIM], b.q[stage, c], b.queries.full[stage])
            b.queries.commit(b.q[0].nbytes)
            place = b.next(place)
            for j in range(1, high - low):  # K is one block ahead of V
                key = tile.first_key + (high - 1 - j) * b.KEYS
                with b.keys.produce() as stage:
                    px.tma.load(K[batch, head, key : key + b.KEYS, 0 : b.DIM], b.k[stage], b.keys.full[stage])
                with b.values.produce() as stage:
                    behind = key + b.KEYS
                    px.tma.load(values_of(V, batch, head, behind, b), b.v[stage], b.values.full[stage])
            key = tile.first_key + low * b.KEYS
            with b.values.produce() as stage:
                px.tma.load(values_of(V, batch, head, key, b), b.v[stage], b.values.full[stage])
    stage = b.queries.acquire()
    px.store(b.places[stage if b.places.shape[0] == b.q.shape[0] else place], px.zeros((8,), px.i32))
    b.queries.commit()


@px.struct
class AttendingGroup:
    """A warpgroup that attends for the queries `c * ROWS` to ``c * ROWS + ROWS - 1`` of each tile."""

    buffers: Any
    reach: Any
    c: Any
    O: Any
    LSE: Any
    BIAS: Any
    factor: Any
    cap: Any
    slope: Any
    v_scale: Any
    place: Any
    TYPE: Any
    BIAS_KIND: Any
    VARLEN: bool
    LEVEL: bool
    SURE: bool
    WHOLE: bool
    SKIP: bool
    SLACK: float
    SHIFT: float
    OWN_OUT: bool
    PARTS: int

    def scores(self, slot):
        """Begins the scores of the next block of keys."""
        b = self.buffers
        stage = b.keys.wait()
        s = px.empty((b.ROWS, b.KEYS), px.f32)
        px.wgmma(b.q[slot, self.c], b.k[stage].T, s, accumulate=False)
        px.wgmma_commit()
        return s

    def multiply(self, p, o):
        """Begins the products of powers with the values of their block."""
        b = self.buffers
        stage = b.values.wait()
        px.wgmma(p, b.v[stage].T if b.NARROW else b.v[stage], o)
        px.wgmma_commit()
        return o

    def operand(self, powers):
        """Powers as the tensor cores take them."""
        b = self.buffers
        return (in_order_of_registers(powers, b.ROWS, b.KEYS) if b.NARROW else powers).to(self.TYPE)

    def pass_on(self, pipe, count):
        """Gives back blocks that lie beyond the reach of all of this group's queries, unread."""
        if self.SKIP:
            for _ in range(count):
                pipe.wait()
                pipe.release()

    def finished(self, s, tile, key, MASKED):
        """Scores as the softmax takes them: capped, with their bias, and -inf where there is to be no attention."""
        b = self.buffers
        reach = tile.reach
        row = tile.row + self.c * b.ROWS
        if self.cap is not None:
            s = capped(s, self.slope, self.cap)
        elif self.BIAS_KIND is not None:
            s = s * self.slope
        if self.BIAS_KIND == "slopes":
            s = s - distances(reach, row, key, b.ROWS, b.KEYS) * (self.BIAS[tile.sequence, tile.head] * LOG2E)
        elif self.BIAS_KIND == "tile":
            bias = px.load(self.BIAS[tile.batch, tile.head, row : row + b.ROWS, key : key + b.KEYS])
            s = s + bias.to(px.f32) * LOG2E
        return reach.masked(s, row, key, b.ROWS, b.KEYS) if MASKED else s

    def step(self, state, tile, slot, j, MASKED):
        """Scores and powers of block `j`, beside the products of the block before it."""
        b = self.buffers
        o, p, top, sums = state
        s = self.scores(slot)
        o = self.multiply(p, o)
        px.wgmma_wait(1)
        b.keys.release()
        s = self.finished(s, tile, j * b.KEYS, MASKED)
        empty = MASKED or self.BIAS_KIND == "tile"  # whose elements may be -inf
        powers, top, sums, alpha = softmax_step(s, top, sums, self.factor, b.ROWS, b.KEYS, empty, self.SLACK, self.SHIFT)
        px.wgmma_wait(0)
        b.values.release()
        o = px.multiply(o, alpha.reshape(b.ROWS, 1), skip_ones=self.SLACK > 0)
        return o, self.operand(powers), top, sums

    def extent(self, tile):
        """Blocks of the tile, those before the first one of this group's queries, and where blocks need no mask."""
        b = self.buffers
        low, high = blocks_of(tile, b)
        row = tile.row + self.c * b.ROWS
        _, mine = tile.reach.blocks(row, b.ROWS, b.KEYS)
        mine = px.maximum(px.minimum(mine, high), low + 1) if self.SKIP else high
        whole_low, whole_high = tile.reach.whole_blocks(row, b.ROWS, b.KEYS)
        whole_high = px.maximum(px.minimum(whole_high, mine - 1), low)
        return low, mine, high - mine, px.minimum(px.maximum(whole_low, low), whole_high), whole_high

    def next(self, tile):
        """Waits for the next tile, and goes to it: where it is told of, and the place of its Q."""
        b = self.buffers
        slot = b.queries.wait()
        place = slot if b.places.shape[0] == b.q.shape[0] else self.place
        self.place = b.next(self.place)
        tile.read(place)
        px.sync()  # all have read it: what they give back from here on waits for nobody
        return place, slot

    def attends(self, tile):
        """Whether there is a tile, and this group attends to it."""
        return self.c < tile.groups if self.LEVEL else tile.groups > 0

    def attend(self):
        """Attends for all tiles of this CTA."""
        b = self.buffers
        tile = Tile(b.places, self.reach, self.VARLEN)
        place, slot = self.next(tile)
        if self.LEVEL:
            while tile.groups > 0:
                if self.c < tile.groups:
                    place, slot = self.attend_on(place, slot, tile)
                else:
                    self.pass_by(tile)
                    place, slot = self.next(tile)
        elif tile.groups > 0:
            self.attend_on(place, slot, tile)
        b.queries.release()

    def pass_by(self, tile):
        """Gives back all blocks of a tile that others attend to, unread."""
        b = self.buffers
        low, high = blocks_of(tile, b)
        b.queries.release()
        for _ in range(high - low):
            b.keys.wait()
            b.keys.release()
            b.values.wait()
            b.values.release()

    def attend_on(self, place, slot, tile):
        """This tile and all that follow, up to one that this group does not attend to: where that one is told of."""
        b = self.buffers
        low, high, skipped, whole_low, whole_high = self.extent(tile)
        self.pass_on(b.keys, skipped)
        s = self.scores(slot)
        px.wgmma_wait(0)
        b.keys.release()
        self.pass_on(b.values, skipped)
        s = self.finished(s, tile, (high - 1) * b.KEYS, True)
        powers, top, sums = first_step(s, self.factor, b.ROWS, b.KEYS, True, self.SHIFT)
        state = px.zeros((b.ROWS, b.WIDE), px.f32), self.operand(powers), top, sums
        while True:
            bounded = tile.reach.left is not None or tile.reach.right is not None
            if bounded and (b.DIM >= WIDE_HEADS or self.cap is not None or self.BIAS_KIND is not None):
                for j in range(high - 2, low - 1, -1):
                    state = self.step(state, tile, slot, j, True)
            elif tile.reach.left is None:
                if tile.reach.right is not None:
                    for j in range(high - 2, whole_high - 1, -1):
                        state = self.step(state, tile, slot, j, True)
                for j in range(whole_high - 1, whole_low - 1, -1):
                    state = self.step(state, tile, slot, j, False)
            else:  # blocks on the right edge, whole ones, blocks on the left edge: twice the first two kinds
                edge = high - 2
                inner = whole_high - 1
                end = whole_low - 1
                for _ in range(2):
                    for j in range(edge, inner, -1):
                        state = self.step(state, tile, slot, j, True)
                    for j in range(inner, end, -1):
                        state = self.step(state, tile, slot, j, False)
                    edge = end
                    inner = low - 1
                    end = low - 1
            if self.OWN_OUT:
                b.queries.release()
            o, p, before_top, before_sums = state
            before = place, slot
            place, slot = self.next(tile)
            if not self.attends(tile):
                break
            low, high, skipped, whole_low, whole_high = self.extent(tile)
            self.pass_on(b.keys, skipped)
            s = self.scores(slot)
            o = self.multiply(p, o)
            px.wgmma_wait(1)
            b.keys.release()
            s = self.finished(s, tile, (high - 1) * b.KEYS, True)
            powers, top, sums = first_step(s, self.factor, b.ROWS, b.KEYS, True, self.SHIFT)
            px.wgmma_wait(0)
            b.values.release()
            self.pass_on(b.values, skipped)
            p = self.operand(powers)
            self.store(o, before_top, before_sums, *before)
            state = px.zeros((b.ROWS, b.WIDE), px.f32), p, top, sums
        o = self.multiply(p, o)
        px.wgmma_wait(0)
        b.values.release()
        self.store(o, before_top, before_sums, *before)
        return place, slot

    def store(self, o, top, sums, place, slot):
        """Divides by the sums, and lets the result go; logarithms of the sums, where they are asked for."""
        b = self.buffers
        O = self.O
        tile = Tile(b.places, Reach(self.reach.queries, self.reach.keys, None, None), self.VARLEN)
        tile.read(px.keep(place))
        row = tile.row + self.c * b.ROWS
        out = b.out[self.c] if self.OWN_OUT else b.q[slot, self.c]
        inverse, total = row_sums(sums)
        if self.v_scale is not None:
            inverse = inverse * self.v_scale
        result = o * inverse.reshape(b.ROWS, 1)
        if not self.SURE:  # rows without keys: 0, whatever their values are
            result = px.where(total.reshape(b.ROWS, 1) == 0.0, 0.0, result)
        self.send(result.to(O.dtype), top, total, out, tile, row)

    def send(self, result, top, total, out, tile, row):
        """Stores the rows of a whole tile: through shared memory, so that threads have 16 bytes of a row each.

        Not by TMA: the place would be free only when the copy engine has read it, and a tile may begin before row 0. Q's
        place is free when the rows are in registers again; a fence behind stores to global memory would wait for these. But
        narrow heads with a bound on the right have no registers left to hold the rows over the fence.
        """
        b = self.buffers
        O = self.O
        LSE = self.LSE
        batch = tile.batch
        head = tile.head
        at = tile.first_query + row
        px.assume(batch >= 0)
        px.assume(batch < O.shape[0])
        px.assume(head >= 0)
        px.assume(head < O.shape[1])
        if self.WHOLE:
            px.assume(O.shape[3] == b.WIDE)
        rows = row + px.arange(b.ROWS)  # the rows around a packed sequence are another's
        rows = px.where((rows >= 0) & (rows < tile.reach.queries), rows + tile.first_query, -1)
        if LSE is not None and self.VARLEN:
            px.store(LSE[batch, head, rows], log_sums(top, total))
        elif LSE is not None:
            px.store(LSE[batch, head, at : at + b.ROWS], log_sums(top, total))
        width = b.WIDE // self.PARTS
        step = width & -width  # threads share a power of two of columns best
        early = b.WIDE > 64 or not self.SKIP
        for left in px.static_range(0, b.WIDE, width):
            px.store(out, result[:, left : left + width] if self.PARTS > 1 else result)
            pieces: Any = ()
            for column in px.static_range(0, width, step):
                pieces = pieces + (px.load(out[:, column : column + step]),)  # noqa: RUF005
            if not self.OWN_OUT and early:
                px.fence.async_proxy()  # the next Q comes to where the result was stored
                b.queries.release()
            for column in px.static_range(0, width, step):
                piece = pieces[column // step]
                to = left + column
                if self.VARLEN:
                    px.store(O[batch, head, rows, to : to + step], piece)
                else:
                    px.store(O[batch, head, at : at + b.ROWS, to : to + step], piece)
            if not self.OWN_OUT and not early:
                px.fence.async_proxy()
                b.queries.release()


@px.func
def scaled(factor, FIRST, SECOND):
    """A factor times scales that are arrays of one number, or None."""
    if FIRST is not None:
        factor = px.load(FIRST[0]) if factor is None else factor * px.load(FIRST[0])
    if SECOND is not None:
        factor = px.load(SECOND[0]) if factor is None else factor * px.load(SECOND[0])
    return factor


@px.kernel(warps=lambda config: 4 + 4 * config.groups, pdl=True)
def attention_tiles(
    Q, K, V, O, LSE, BIAS, packed: PackedStarts, scales: OperandScales, scores: ScoreFactors, window: Window, group, band,
    heights: TileHeights, *, config=USUAL, form=FORM,
):  # fmt: skip
    """O = softmax(scores) V. Q (batch, heads, queries, dim), K and V (batch, heads // group, keys, dim and wide).

    Scores are what `scores` makes of Q K^T, plus the bias. LSE and BIAS are None where there are none. `band` heads take
    turns under a bound to the right; `heights` has numbers for full attention alone.
    """
    ROWS = 64
    GROUPS = config.groups
    NARROW = V.dtype == px.f8e4m3
    # Step 1: shared memory, pipes, and how tiles are numbered.
    q = px.shared((config.query_stages, GROUPS, ROWS, form.dim), Q.dtype)
    k = px.shared((config.stages, config.keys, form.dim), K.dtype)
    v = px.shared((config.stages, form.wide, config.keys) if NARROW else (config.stages, config.keys, form.wide), V.dtype)
    out = px.shared((GROUPS, ROWS, form.wide // config.parts), O.dtype) if form.own_out else None
    queries = px.pipe(config.query_stages)
    keys = px.pipe(config.stages)
    values = px.pipe(config.stages)
    places = px.shared((config.query_stages + 1 if form.own_out else config.query_stages, 8), px.i32)
    buffers = Buffers(
        q, k, v, out, queries, keys, values, places, ROWS, config.keys, form.dim, form.wide, GROUPS, NARROW,
        config.schedule,
    )  # fmt: skip
    batches = Q.shape[0] if packed.CUQ is None else packed.CUQ.shape[0] - 1
    plan = None
    if heights.whole is not None:
        plan = (heights.whole, heights.more, heights.low, heights.first, heights.second)
    reach = Reach(Q.shape[2], K.shape[2], window.left, window.right)
    tiles = Tiles(
        packed.CUQ, packed.CUK, Q.shape[2], K.shape[2], Q.shape[1], batches, band, reach, plan, GROUPS, ROWS * GROUPS
    )  # fmt: skip
    wait_for_prior_launch()

    # Step 2: one warp brings queries, keys and values of all tiles.
    with px.warps(0, 1, regs=config.producer_regs):
        fetch(Q, K, V, tiles, buffers, group)

    # Step 3: each warpgroup attends for its 64 queries of every tile.
    with px.warps(4, 4, regs=config.regs, copies=GROUPS) as c:
        scale = 1.0 if scores.factor is None else scaled(scores.factor, scales.QS, scales.KS)
        before = None if scores.slope is None else scaled(scores.slope, scales.QS, scales.KS)
        mine = AttendingGroup(
            buffers, reach, c, O, LSE, BIAS, scale, scores.cap, before, scaled(scores.v_scale, scales.VS, None), 0,
            V.dtype, form.bias_kind, packed.CUQ is not None, plan is not None, form.sure, form.whole,
            window.right is not None, config.slack, SHIFT if NARROW else 0.0, form.own_out,
            config.parts,
        )  # fmt: skip
        mine.attend()
