"""What the kernels over a cache share: which keys a token sees, how blocks of keys come, one step of a softmax, the join.

All are functions inside kernels. A CTA has `ROWS` rows of queries of one sequence and one KV head: the heads of a group
times the tokens.
"""

from __future__ import annotations

from typing import Any

import phalanx as px

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
def results(sums, total, v_scale, dtype):
    """The results of some rows from their sums: 0 where a row saw nothing."""
    inverse = px.where(total == 0.0, 0.0, v_scale * px.reciprocal(total))
    return (sums * inverse.reshape(sums.shape[0], 1)).to(dtype)


@px.func
def store_results(O, rows, column, sums, total, v_scale, out):
    """Stores some columns of the results of all rows, by way of the shared buffer `out`: from there in whole vectors."""
    width = sums.shape[1]
    step = min(width, 128)
    px.store(out[:, column : column + width], results(sums, total, v_scale, O.dtype))
    for left in px.static_range(column, column + width, step):
        wide = min(step, column + width - left)
        px.store(O[rows, left : left + wide], px.load(out[:, left : left + wide]))


@px.func
def store_logs(LSE, rows, top, total, scale):
    """The logarithms of the sums of exponentials of some rows: -inf where a row saw nothing."""
    px.store(LSE[rows], px.where(total == 0.0, NEVER, (top * scale + px.log2(total)) * LN2))


@px.func
def rows_each(rows, C):
    """How many rows each CTA of a cluster joins: a power of two, so that all of them have some, or some have one."""
    each = 1
    for _ in px.static_range(6):
        if each * C < rows:
            each = 2 * each
    return each


@px.func
def join(part, left, right, tops, masses, O, LSE, rank, b, h, row, heads, scale, v_scale, C, T, G, WANT_LSE):
    """Columns `left` to `right` of the rows that this CTA joins: sums, maxima and sums of exponentials lie in each CTA."""
    each = rows_each(min(ROWS, T * G), C)
    first = rank * each
    if first < min(ROWS, T * G):
        rows = row_numbers(b, h, row + first, each, heads, T, G)
        top, total = px.full((each,), NEVER, px.f32), px.zeros((each,), px.f32)
        for other in px.static_range(C):
            top = px.maximum(top, px.load(tops.at(other)[first : first + each]))
        base = px.where(top == NEVER, 0.0, top) * scale
        for other in px.static_range(C):
            factor = px.exp2(px.load(tops.at(other)[first : first + each]) * scale - base)
            total = total + factor * px.load(masses.at(other)[first : first + each])
        for column in px.static_range(left, right, 128):
            sums = px.zeros((each, min(128, right - column)), px.f32)
            for other in px.static_range(C):
                factor = px.exp2(px.load(tops.at(other)[first : first + each]) * scale - base)
                there = part.at(other)[first : first + each, column : column + sums.shape[1]]
                sums = sums + factor.reshape(each, 1) * px.load(there)
            px.store(O[rows, column : column + sums.shape[1]], results(sums, total, v_scale, O.dtype))
        if WANT_LSE:
            store_logs(LSE, rows, top, total, scale)
