"""The kernel of `attention_decode`: a ring of keys, a ring of values, and a cluster that joins what its CTAs found.

A CTA has up to 64 rows of queries (the heads of a group times the tokens) of one sequence and one KV head, and a part of
that sequence's keys. Keys and values stream through two rings, block by block; one warpgroup multiplies. Two CTAs share an
SM, so that one loads and multiplies while the other begins or ends. The CTAs of a cluster have the parts of one sequence:
each leaves its sums in its own shared memory, and takes some rows of all of them to join.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch

NEVER = -float("inf")
LN2 = 0.6931471805599453
ROWS = 64
"""Rows of queries of a CTA: the least that a warpgroup multiplies. Rows that are not there cost nothing where memory is the limit."""


@px.struct
class Sequence:
    """Which keys the tokens of one sequence see: token t of T stands at `length` - T + t, aligned to the end.

    `first` and `end` are the blocks of BN keys of this CTA, one of the `parts` of a cluster.
    """

    length: Any
    window: Any
    first: Any
    end: Any
    T: int
    G: int
    BN: int
    CAUSAL: bool
    WINDOW: bool

    def mask(self, x, block, row):
        """The scores `x` of a block of keys for rows that begin at `row`, with those that a row does not see at -inf."""
        keys = block * self.BN + px.arange(self.BN).reshape(1, self.BN)
        token = ((row + px.arange(ROWS)) // self.G).reshape(ROWS, 1)
        place = self.length - self.T + token
        seen = keys < self.length
        if self.CAUSAL:
            seen = seen & (keys <= place)
        if self.WINDOW:
            seen = seen & (keys > place - self.window)
        return px.where(seen, x, NEVER)

    def whole(self, block):
        """Whether every row sees every key of a block."""
        inside = (block + 1) * self.BN <= self.length - (self.T - 1 if self.CAUSAL else 0)
        if self.WINDOW:
            inside = inside & (block * self.BN > self.length - 1 - self.window)
        return inside

    def filled(self, block):
        """Which tokens of a block some row may see, as a column; the others may be anything in memory, NaN included."""
        keys = block * self.BN + px.arange(self.BN).reshape(self.BN, 1)
        there = keys < self.length
        if self.WINDOW:
            there = there & (keys > self.length - self.T - self.window)
        return there


@px.func
def sequence_of(LENGTHS, b, window, capacity, rank, C, T, G, BN, CAUSAL, WINDOW):
    """The `Sequence` b, and the blocks of it that CTA `rank` of C has: equal parts, to one block."""
    length = px.minimum(px.maximum(LENGTHS[b].to(px.i32), 0), capacity)
    begin = 0
    if WINDOW:
        begin = px.maximum(length - T - window + 1, 0) // BN
    count = px.maximum(px.cdiv(length, BN) - begin, 0)
    first, end = begin + rank * count // C, begin + (rank + 1) * count // C
    return Sequence(length, window, first, end, T, G, BN, CAUSAL, WINDOW)


@px.func
def pages_of(TABLE, b, block, BN, PAGE):
    """The pages that hold a block of keys, -1 beyond the table's end: of small pages several, of large ones a part of one."""
    found: tuple[Any, ...] = ()
    for part in px.static_range(max(1, BN // PAGE)):
        found = found + (px.load(TABLE[b, block * BN // PAGE + part], fill=-1).to(px.i32),)  # noqa: RUF005
    return found


@px.func
def fetch(CACHE, pages, b, h, block, ring, pipe, BN, D, PAGE, BOX, HINT):
    """Fills the next stage of a ring with the keys, or values, of one block, BOX tokens a copy."""
    with pipe.produce() as stage:
        for token in px.static_range(0, BN, BOX):
            if PAGE == 0:
                page, start = b, block * BN + token
            elif PAGE >= BN:
                page, start = pages[0], block * BN % PAGE + token
            else:
                page, start = pages[token // PAGE], token % PAGE
            there = ring[stage][token : token + BOX]
            px.tma.load(CACHE[page, start : start + BOX, h, 0:D], there, pipe.full[stage], cache=HINT)


@px.func
def capped(x, inner, outer):
    """The scores under a soft cap, ``outer * tanh(inner' * x)``, by one exponential: exact to f32's last places."""
    return outer - 2.0 * outer * px.reciprocal(1.0 + px.exp2(x * inner))


@px.func
def softmax_step(x, top, mass, scale, BN):
    """Exponentials of a block's scores, the new maxima, the sums so far and the factor of what was summed before.

    `mass` is (rows, 8): a thread sums up the columns that it has, and only the end adds the threads up.
    """
    new = px.maximum(top, px.max(x, axis=1))
    base = px.where(new == NEVER, 0.0, new) * scale
    factor = px.exp2(top * scale - base)
    p = px.exp2(x * scale - base.reshape(ROWS, 1))
    mass = mass * factor.reshape(ROWS, 1) + px.sum(p.reshape(ROWS, BN // 8, 8), axis=1)
    return p, new, mass, factor


@px.func
def row_numbers(b, h, row, count, heads, T, G):
    """Where `count` rows of queries from `row` on lie among the rows of Q, (sequence, token, head); -1 for those beyond the last."""
    r = row + px.arange(count)
    return px.where(r < T * G, (b * T + r // G) * heads + h * G + r % G, -1)


@px.func
def store_rows(O, LSE, rows, sums, top, mass, scale, v_scale, WANT_LSE):
    """The result of some rows from their sums: 0, and -inf, where a row saw nothing."""
    some = mass > 0.0
    inverse = px.where(mass == 0.0, 0.0, v_scale * px.reciprocal(mass))
    px.store(O[rows, 0 : sums.shape[1]], (sums * inverse.reshape(sums.shape[0], 1)).to(O.dtype))
    if WANT_LSE:
        px.store(LSE[rows], px.where(mass == 0.0, NEVER, (top * scale + px.log2(mass)) * LN2))


@px.kernel(warps=5, cluster=lambda C: C, ctas_per_sm=lambda CTAS: CTAS, pdl=True)
def decode_ring(
    Q, K, V, LENGTHS, TABLE, O, LSE, scale, v_scale, inner, outer, window, capacity, heads,
    *, C=1, CTAS=2, STAGES=3, BN=64, BOX=16, HINT="evict_first", D=128, DV=128, T=1, G=4, PAGE=0, CAUSAL=True, WINDOW=False, CAPPED=False, WANT_LSE=False
):
    """Up to 64 rows of queries of one sequence and KV head, over the keys that this CTA of C has."""
    wait_for_prior_launch()
    rank, b = px.cluster.rank(), px.block_id(2)
    tiles = px.cdiv(T * G, ROWS)
    h, row = px.block_id(1) // tiles, px.block_id(1) % tiles * ROWS
    q = px.shared((ROWS, D), Q.dtype)
    k, v = px.shared((STAGES, BN, D), K.dtype), px.shared((STAGES, BN, DV), V.dtype)
    keys, values = px.pipe(STAGES), px.pipe(STAGES)
    mine = sequence_of(LENGTHS, b, window, capacity, rank, C, T, G, BN, CAUSAL, WINDOW)
    if C > 1:
        part, tops, masses = px.shared((ROWS, DV), px.f32, reuse=k), px.shared((ROWS,), px.f32), px.shared((ROWS,), px.f32)

    with px.warps(4, 1):
        if PAGE > 0:
            following = pages_of(TABLE, b, mine.first, BN, PAGE)
        for block in range(mine.first, mine.end):
            pages: tuple[Any, ...] = ()
            if PAGE > 0:
                pages = following
                following = pages_of(TABLE, b, block + 1, BN, PAGE)
            fetch(K, pages, b, h, block, k, keys, BN, D, PAGE, BOX, HINT)
            fetch(V, pages, b, h, block, v, values, BN, DV, PAGE, BOX, HINT)

    with px.warps(0, 4):
        px.store(q, px.load(Q[row_numbers(b, h, row, ROWS, heads, T, G), 0:D]))
        px.fence.async_proxy()
        sums = px.zeros((ROWS, DV), px.f32)
        top, mass = px.full((ROWS,), NEVER, px.f32), px.zeros((ROWS, 8), px.f32)
        for block in range(mine.first, mine.end):
            with keys.consume() as s:
                x = px.dot(q, k[s].T)
            if CAPPED:
                x = capped(x, inner, outer)
            whole = mine.whole(block)
            if not whole:
                x = mine.mask(x, block, row)
            p, top, mass, factor = softmax_step(x, top, mass, scale, BN)
            sums = sums * factor.reshape(ROWS, 1)
            with values.consume() as s:
                if not whole:  # 0 times what lies behind the last token would be NaN where that is
                    px.store(v[s], px.where(mine.filled(block), px.load(v[s]), 0.0))
                    px.fence.async_proxy()
                sums = px.dot(p.to(V.dtype), v[s], sums)
        total = px.sum(mass, axis=1)
        if C == 1:
            store_rows(O, LSE, row_numbers(b, h, row, ROWS, heads, T, G), sums, top, total, scale, v_scale, WANT_LSE)
        else:
            px.store(part, sums)
            px.store(tops, top)
            px.store(masses, total)

    if C > 1:
        few = min(ROWS, T * G)
        each = 1
        for _ in px.static_range(6):
            if each * C < few:
                each = 2 * each
        px.cluster.sync()
        if rank * each < few:
            first = rank * each
            top = px.full((each,), NEVER, px.f32)
            for other in px.static_range(C):
                top = px.maximum(top, px.load(tops.at(other)[first : first + each]))
            base = px.where(top == NEVER, 0.0, top) * scale
            total, sums = px.zeros((each,), px.f32), px.zeros((each, DV), px.f32)
            for other in px.static_range(C):
                factor = px.exp2(px.load(tops.at(other)[first : first + each]) * scale - base)
                total = total + factor * px.load(masses.at(other)[first : first + each])
                sums = sums + factor.reshape(each, 1) * px.load(part.at(other)[first : first + each])
            store_rows(O, LSE, row_numbers(b, h, row + first, each, heads, T, G), sums, top, total, scale, v_scale, WANT_LSE)
