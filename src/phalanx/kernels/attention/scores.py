"""What all attention kernels do with a tile of scores: who may attend to whom, caps and biases, the softmax in steps.

Scores are raw products of queries and keys until `softmax_step`, which multiplies them by `factor`: the scale times
log2(e), since every exponential is a power of 2. Scores with a cap or a bias have been scaled before, their factor is
1. Row maxima (`top`) are in these units of log2 everywhere, and -inf where a row has seen no key. Sums of powers stay
in the threads that made them: tiles of (rows, 4) that `row_sums` folds at the end. Kernels choose by compile-time
constants what they do with a block, so that nothing is paid for what is off.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.logarithms import LN2, LOG2E

NOTHING = -float("inf")
"""The score of a key that a query must not attend to, and the maximum of a row without keys."""
LAZY = 8.0
"""A row may exceed its `top` by this much (an exponent of 2) before it is rescaled: powers are at most 256."""


@px.struct
class Reach:
    """The keys that the queries of one sequence may attend to; `left` and `right` are None where there is no bound.

    Query i stands beside key i + keys - queries: the last query beside the last key. It reaches `left` keys back and
    `right` keys ahead; causal is ``right=0``.
    """

    queries: Any
    keys: Any
    left: Any
    right: Any

    def beside(self, row):
        """The key beside a query. It may be negative, or beyond the keys."""
        return row + (self.keys - self.queries)

    def end(self, row):
        """One more than the last key that a query may attend to: not more than there are, perhaps 0 or less."""
        if self.right is None:
            end = self.keys
        else:
            end = px.minimum(self.keys, self.beside(row) + self.right + 1)
        return end

    def begin(self, row):
        """The first key that a query may attend to, if there is one."""
        if self.left is None:
            begin = 0
        else:
            begin = px.maximum(0, self.beside(row) - self.left)
        return begin

    def blocks(self, first, count, KEYS):
        """The key blocks (first, one more than the last) that any of `count` queries from `first` on may attend to."""
        high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)
        low = px.minimum(self.begin(first) // KEYS, high)
        return low, high

    def whole_blocks(self, first, count, KEYS):
        """The blocks of which all `count` queries may attend to every key: they need no mask."""
        high = px.maximum(self.end(first), 0) // KEYS
        low = px.cdiv(self.begin(first + (count - 1)), KEYS)
        return low, px.maximum(low, high)

    def masked(self, s, first, key, ROWS, KEYS):
        """The scores of queries from `first` on (rows) and keys from `key` on (columns), -inf where they must not meet."""
        rows = px.arange(ROWS).reshape(ROWS, 1)
        columns = px.arange(KEYS).reshape(1, KEYS)
        if self.right is None:
            ok = columns < self.keys - key
        else:
            ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)
        if self.left is not None:
            ok = ok & (columns >= self.beside(first) - self.left - key + rows)
        return px.where(ok, s, NOTHING)


@px.func
def capped(s, slope, cap):
    """``cap * tanh(slope * s)``. By powers of 2: exact to a unit of f32 beside `cap`, which tanh.approx is not."""
    return cap - (2 * cap) * px.reciprocal(px.exp2(s * (slope * (2 * LOG2E))) + 1.0)


@px.func
def distances(reach, first, key, ROWS, KEYS):
    """How far each key is from the place beside each query, in f32: what ALiBi's slope is multiplied by."""
    beside = reach.beside(first) + px.arange(ROWS).reshape(ROWS, 1)
    return px.abs((beside - (key + px.arange(KEYS).reshape(1, KEYS))).to(px.f32))


@px.func
def softmax_step(s, top, sums, factor, ROWS, KEYS, EMPTY, SLACK, SHIFT=0.0):
    """Powers ``2 ** (factor * s - top)`` of a block of scores, new row maxima and sums, and the factor of earlier results.

    `top` (ROWS,) grows only where a row's maximum has become more than SLACK larger (0: wherever it has grown), so that
    `alpha` is 1 nearly everywhere; powers are at most ``2 ** SLACK``. `sums` (ROWS, 4) have been multiplied by alpha,
    too. EMPTY says that rows may have no key yet: their maximum is -inf, their powers are 0. With SHIFT all powers are
    ``2 ** SHIFT`` times as large, and `top` that much smaller: for types that have few small numbers.
    """
    highest = shifted(px.max(s, axis=1) * factor, SHIFT)
    if SLACK > 0:
        new = px.where(highest <= top + SLACK, top, highest)
    else:
        new = px.maximum(top, highest)
    base = px.where(new == NOTHING, 0.0, new) if EMPTY else new
    alpha = px.exp2(top - base)
    p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))
    sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)
    return p, new, sums, alpha


@px.func
def shifted(top, SHIFT):
    """Maxima from which powers are ``2 ** SHIFT`` times as large."""
    return top - SHIFT if SHIFT > 0 else top


@px.func
def first_step(s, factor, ROWS, KEYS, EMPTY, SHIFT=0.0):
    """Powers, maxima and sums of a tile's first block: `softmax_step` where there are no earlier results to rescale."""
    top = shifted(px.max(s, axis=1) * factor, SHIFT)
    base = px.where(top == NOTHING, 0.0, top) if EMPTY else top
    p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))
    return p, top, partial_sums(p, ROWS, KEYS)


@px.func
def partial_sums(p, ROWS, KEYS):
    """Sums along the rows as far as they need no other thread: (ROWS, 4), since four threads hold a row of a product."""
    eights = px.sum(p.reshape(ROWS, KEYS // 8, 8), axis=1)
    return px.sum(eights.reshape(ROWS, 4, 2), axis=2)


@px.func
def row_sums(sums):
    """What is to be known of a row at the end: the factor 1 / sum (0 without keys), and the sum."""
    total = px.sum(sums, axis=1)
    return px.where(total == 0.0, 0.0, px.reciprocal(total)), total


@px.func
def log_sums(top, total):
    """The natural logarithm of the sum of e^score of each row; -inf without keys."""
    return px.where(total == 0.0, NOTHING, (top + px.log2(total)) * LN2)
