"""The kernel of `attention_decode` over many sequences: all keys laid end to end, and every CTA has a run of equal length.

A block is BN rows of the cache as they lie in memory. Where the heads of a token lie side by side and their queries fit
into one tile, a row is a key of the next head, and a block has BN // HEADS tokens: memory is read from one end to the
other, and a score counts where row and column belong to the same KV head. Blocks of all sequences follow each other.
CTA i of n has the i-th of n equal parts of them, whatever the lengths: its rings run on from one sequence to the next. A
sequence that two or more CTAs share leaves a part with each, in f32 with the logarithms of its sums, and `join_runs`
weighs them against each other; all others are stored at once. Lengths are known on the device alone: each role finds
the first sequence of its run by a running sum over all of them.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.decode_config import DecodeConfig
from phalanx.kernels.attention.decode_terms import PANEL, Queries, Sequence, Softmax, attend, fetch_all
from phalanx.kernels.attention.forms import CacheForm, CachePlace, RunsForm
from phalanx.kernels.attention.scores import LAZY, NOTHING, Reach, log_sums, partial_sums
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E


@px.struct
class Work:
    """What all CTAs share out: the blocks of TOKENS tokens of each sequence, UNITS times over.

    The units of a sequence are its KV heads, or groups of them, each with every tile of its rows of queries. A sequence
    without keys has one block for each, so that somebody stores its zeros.
    """

    LENGTHS: Any
    left: Any
    right: Any
    capacity: Any
    T: int
    UNITS: int
    TOKENS: int

    def reach(self, length):
        """The keys that the tokens of a sequence see. `length`: its keys, or a tile of such numbers."""
        return Reach(self.T, px.minimum(px.maximum(length.to(px.i32), 0), self.capacity), self.left, self.right)

    def blocks(self, reach):
        """The first block of a sequence, and how many there are: `Reach.blocks`, for tiles, too."""
        high = (px.maximum(reach.end(self.T - 1), 0) + (self.TOKENS - 1)) // self.TOKENS
        low = px.minimum(reach.begin(0) // self.TOKENS, high)
        return low, px.maximum(high - low, 1)

    def counts(self, BATCH):
        """How many blocks each sequence has, of up to BATCH."""
        _, count = self.blocks(self.reach(px.load(self.LENGTHS[0:BATCH])))
        return px.where(px.arange(BATCH) < self.LENGTHS.shape[0], count * self.UNITS, 0)

    def run(self, part, parts, BATCH):
        """The run of CTA `part`: its first sequence, the place of its first block there, and how many blocks it has."""
        counts = self.counts(BATCH)
        ends = px.cumsum(counts, 0)
        first, count = share(px.sum(counts), part, parts)
        b = px.sum(px.where(ends <= first, 1, 0))
        return b, first - px.sum(px.where(ends <= first, counts, 0)), count


@px.func
def share(total, part, parts):
    """The first of the blocks that one of `parts` has, and their number: equal, to one block."""
    each = total // parts
    more = total % parts
    return part * each + px.minimum(part, more), each + px.where(part < more, 1, 0)


@px.func
def owner(total, place, parts):
    """Whose share a block is in: the inverse of `share`."""
    each = total // parts
    more = total % parts
    wide = more * (each + 1)
    behind = more + (place - wide) // px.maximum(each, 1)
    return px.where(place < wide, place // (each + 1), behind)


@px.struct
class HeadsInTurn(Softmax):
    """`Softmax` of scores whose columns belong to HEADS KV heads in turn: `same` (rows, columns of a period) says where
    row and column have the same head. Other heads' scores may be anything, also NaN, and count nothing."""

    same: Any

    def step(self, x, top, sums):
        """Powers of 2 of a block's scores, the new maxima and sums, and the factor of what was summed before."""
        rows = x.shape[0]
        columns = x.shape[1]
        period = self.same.shape[1]
        highest = x[:, 0:period]
        for column in px.static_range(period, columns, period):
            highest = px.maximum(highest, x[:, column : column + period])
        new = px.max(px.where(self.same, highest, NOTHING), axis=1) * self.factor
        new = px.where(new <= top + LAZY, top, new)
        base = px.where(new == NOTHING, 0.0, new)
        alpha = px.exp2(top - base)
        p = px.exp2(px.fma(x, self.factor, -base.reshape(rows, 1))).reshape(rows, columns // period, period)
        p = px.where(self.same.reshape(rows, 1, period), p, 0.0).reshape(rows, columns)
        return p, new, sums * alpha.reshape(rows, 1) + partial_sums(p, rows, columns), alpha


@px.func
def heads_in_turn(factor, slope, cap, BM, ROWS, G, HEADS):
    """The `HeadsInTurn` of BM rows: ROWS of them for each token, G for each of HEADS KV heads. A period has 8 columns at
    least: as many as a thread's neighbours hold."""
    period = max(8, HEADS)
    heads = (px.arange(BM) % ROWS // G).reshape(BM, 1)
    return HeadsInTurn(factor, slope, cap, heads == (px.arange(period) % HEADS).reshape(1, period))


USUAL = DecodeConfig(1, 2, 16, 1)
FORM = CacheForm()
DEALT = RunsForm()


@px.kernel(warps=lambda config: config.rows // 16 + 1, ctas_per_sm=lambda config: config.ctas, pdl=True)
def decode_runs(
    Q, K, V, LENGTHS, TABLE, O, LSE, PARTS, LOGS, scores: Softmax, cache: CachePlace,
    *, config=USUAL, form=FORM, dealt=DEALT,
):  # fmt: skip
    """The run of blocks of one CTA. Pages, boxes and blocks count rows of the cache.

    Values of other heads are multiplied by 0, which leaves NaN of those that are infinite or NaN. Where a run has found
    one, it is done again for each head alone, with zeros in the place of the other heads' values.
    """
    BM = config.rows
    BN = form.block
    G = form.group
    HEADS = dealt.heads
    # Step 1: shared memory, and what there is to do altogether.
    wait_for_prior_launch()
    part = px.block_id(0)
    tiles = px.cdiv(form.tokens * G * HEADS, BM)
    work = Work(LENGTHS, cache.left, cache.right, cache.capacity, form.tokens, dealt.units, BN // HEADS)
    q = px.shared((BM, form.dim), Q.dtype)
    room = max(config.stages, config.room)
    k = px.shared((room, BN, form.dim), K.dtype)
    v = px.shared((room, BN, form.wide), V.dtype)
    keys = px.pipe(config.stages)
    values = px.pipe(config.stages)
    spoilt = px.shared((1,), px.i32)
    known = px.barrier()

    # Step 2: one warp brings the keys and values of all sequences of the run, once more for each head alone.
    with px.warps(BM // 16, 1):
        only = -1
        turns: Any = 0
        while only < turns:
            b, place, count = work.run(part, px.num_blocks(0), dealt.batch)
            while count > 0:
                reach = work.reach(LENGTHS[b])
                low, each = work.blocks(reach)
                unit = place // each
                first = place % each
                end = px.minimum(each, first + count)
                rows = Queries(b, unit // tiles, 0, cache.heads, 0, form.tokens, G * HEADS, BM)
                mine = Sequence(reach, rows, low + first, low + end, BN, HEADS)
                fetch_all(TABLE, rows, mine, ((K, k, 0, keys), (V, v, 0, values)), BN, form.page, config.box)
                count = count - (end - first)
                place = place + (end - first)
                if place == each * dealt.units:
                    b = b + 1
                    place = 0
            if HEADS > 1:
                if only < 0:
                    known.wait(0)
                    turns = spoilt[0]
            only = only + 1

    # Step 3: the others attend, sequence by sequence.
    with px.warps(0, BM // 16):
        softmax: Any = scores
        if HEADS > 1:
            softmax = heads_in_turn(scores.factor, scores.slope, scores.cap, BM, G * HEADS, G, HEADS)
        only = -1
        turns = 0
        while only < turns:
            b, place, count = work.run(part, px.num_blocks(0), dealt.batch)
            slot = 2 * part
            while count > 0:
                reach = work.reach(LENGTHS[b])
                low, each = work.blocks(reach)
                unit = place // each
                first = place % each
                end = px.minimum(each, first + count)
                rows = Queries(b, unit // tiles, unit % tiles * BM, cache.heads, 0, form.tokens, G * HEADS, BM)
                rows.load(Q, q)
                mine = Sequence(reach, rows, low + first, low + end, BN, HEADS, only if HEADS > 1 else None)
                sums, top, total = attend(q, k, v, keys, values, mine, softmax)
                inverse = px.where(total == 0.0, 0.0, px.reciprocal(total))
                found = sums * inverse.reshape(BM, 1)
                logs = log_sums(top, total)
                targets = rows.numbers(0, BM)
                places = slot * BM + px.arange(BM)
                if HEADS > 1:
                    if only < 0:
                        turns = px.where(px.any(px.isnan(found)), HEADS, turns)
                    counts = (only < 0) | (px.arange(BM) % (G * HEADS) // G == only)
                    targets = px.where(counts, targets, -1)
                    places = px.where(counts, places, -1)
                # Step 3a: a part of a sequence waits for `join_runs`; a whole one is the result.
                if (first > 0) | (end < each):
                    px.store(PARTS[places, 0 : form.wide], found)
                    px.store(LOGS[places], logs)
                else:
                    for column in px.static_range(0, form.wide, PANEL):
                        panel = found[:, column : column + min(PANEL, form.wide - column)]
                        px.store(O[targets, column : column + panel.shape[1]], panel.to(O.dtype))
                    if LSE is not None:
                        px.store(LSE[targets], logs)
                slot = 2 * part + 1
                count = count - (end - first)
                place = place + (end - first)
                if place == each * dealt.units:
                    b = b + 1
                    place = 0
            if HEADS > 1:
                if only < 0:
                    px.store(spoilt[0], turns)
                    known.arrive()
            only = only + 1


@px.kernel(warps=4, pdl=True)
def join_runs(
    LENGTHS, PARTS, LOGS, O, LSE, cache: CachePlace, parts, *, form=FORM, dealt=DEALT, BM=64, R=4, AT_ONCE=8
):  # fmt: skip
    """Joins the parts of R rows of a unit that several of `parts` CTAs had, AT_ONCE of them at a time.

    The grid is (rows of a tile // R, UNITS, batch). Lengths are looked at before the launch before this one is over: it has
    waited for whoever wrote them.
    """
    tiles = px.cdiv(form.tokens * form.group * dealt.heads, BM)
    work = Work(LENGTHS, cache.left, cache.right, cache.capacity, form.tokens, dealt.units, form.block // dealt.heads)
    b = px.block_id(2)
    unit = px.block_id(1)
    row = px.block_id(0) * R
    counts = work.counts(dealt.batch)
    total = px.sum(counts)
    before = px.sum(px.where(px.arange(dealt.batch) < b, counts, 0))
    _, each = work.blocks(work.reach(LENGTHS[b]))
    start = before + unit * each
    one = owner(total, start, parts)
    other = owner(total, start + each - 1, parts)
    wait_for_prior_launch()
    if one < other:
        rows = Queries(b, unit // tiles, unit % tiles * BM, cache.heads, 0, form.tokens, form.group * dealt.heads, BM)
        top = px.full((R,), NOTHING, px.f32)
        mass = px.zeros((R,), px.f32)
        sums = px.zeros((R, form.wide), px.f32)
        for first in range(one, other + 1, AT_ONCE):
            part = first + px.arange(AT_ONCE * R) // R
            begin, _mine = share(total, part, parts)
            place = (2 * part + px.where(begin < start, 1, 0)) * BM + row + px.arange(AT_ONCE * R) % R
            place = px.where(part <= other, place, -1)
            logs = px.load(LOGS[place], fill=NOTHING).reshape(AT_ONCE, R)
            found = px.load(PARTS[place, 0 : form.wide]).reshape(AT_ONCE, R, form.wide)
            new = px.maximum(top, px.max(logs, axis=0))
            base = px.where(new == NOTHING, 0.0, new)
            factor = px.exp2((top - base) * LOG2E)
            weights = px.exp2((logs - base.reshape(1, R)) * LOG2E)
            mass = mass * factor + px.sum(weights, axis=0)
            sums = sums * factor.reshape(R, 1) + px.sum(weights.reshape(AT_ONCE, R, 1) * found, axis=0)
            top = new
        inverse = px.where(mass == 0.0, 0.0, px.reciprocal(mass))
        px.store(O[rows.numbers(row, R), 0 : form.wide], (sums * inverse.reshape(R, 1)).to(O.dtype))
        if LSE is not None:
            base = px.where(top == NOTHING, 0.0, top)
            px.store(LSE[rows.numbers(row, R)], px.where(mass == 0.0, NOTHING, base + px.log(mass)))
