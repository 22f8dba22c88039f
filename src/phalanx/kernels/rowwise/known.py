"""What is known of a row, from the first element that a thread looks at to the numbers that its result is made with.

Kernels that look at a row part by part find it in these steps, whichever way the row takes through an SM:

1. `start`: what each thread knows of a row before its first part.
2. `more`: with a part more, and `edge`: with an element that lies in no whole vector of the row.
3. `join`: what a warp knows, from its threads.
4. `total`: the row's numbers, from those of all warps that have a part of it.

CTAs that tell each other through memory `publish` what they know as two numbers, and join those that are `gathered`.

There are three kinds of knowledge. `Mass` is for softmax: the maximum, and the sum of e^(x - maximum). `Squares` is for
RMSNorm: the sum of x^2. `Moments` is for LayerNorm: the count, the mean, and the sum of (x - mean)^2, so that a large mean
costs no digits.

A part is a tile of (vectors of a thread, threads, elements of a vector), in f32. Its `bounds` are None where all of it is
the row's, else a struct with two methods: `keep(x, fill)` gives the part with `fill` in places that are not the row's, and
`count(x)` how many places of each thread are.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.logarithms import LOG2E
from phalanx.kernels.rowwise.softmax_terms import finite, fused_terms


@px.func
def along_thread(reduce, x):
    """A fold of what each thread has of a part."""
    return reduce(reduce(x, axis=2), axis=0)


@px.func
def by_warps(x, WARPS):
    """A number of each thread as (warps, their threads); WARPS None: there is one warp."""
    return x if WARPS is None else x.reshape(WARPS, 32)


@px.func
def of_warp(reduce, x, WARPS):
    """A fold over the threads of each warp, (warps, 1), of one number for each thread; WARPS None: of one warp, a scalar."""
    return reduce(x) if WARPS is None else reduce(x.reshape(WARPS, 32), axis=1, keepdims=True)


@px.struct
class Mass:
    """The maximum of a row, and the sum of e^(x - maximum).

    FUSED: in one instruction less for each element, exact enough for elements of 16 bits.
    """

    FUSED: bool
    NUMBERS: int = 2
    """Numbers that a warp knows of a row."""
    PEEKS: bool = False
    """Whether `start` looks at the first part."""

    def start(self, x, bounds, edge, LANES):
        return px.full((LANES,), -float("inf"), px.f32), px.zeros((LANES,), px.f32)

    def more(self, x, bounds, peak, mass):
        if bounds is not None:
            x = bounds.keep(x, -float("inf"))
        top = px.maximum(peak, along_thread(px.max, x))
        base = finite(top)
        if self.FUSED:
            less, factor = fused_terms(base)
            powers = px.exp2(px.fma(x, factor.reshape(1, base.shape[0], 1), less.reshape(1, base.shape[0], 1)))
        else:
            powers = px.exp2((x - base.reshape(1, base.shape[0], 1)) * LOG2E)
        return top, mass * px.exp2((peak - base) * LOG2E) + along_thread(px.sum, powers)

    def edge(self, element, there, peak, mass):
        return self.more(element.to(px.f32).reshape(1, element.shape[0], 1), None, peak, mass)

    def join(self, WARPS, peak, mass):
        top = of_warp(px.max, peak, WARPS)
        mass = by_warps(mass, WARPS) * px.exp2((by_warps(peak, WARPS) - finite(top)) * LOG2E)
        return top, px.sum(mass, axis=1, keepdims=True)

    def total(self, columns, peaks, masses):
        largest = px.max(peaks)
        return largest, px.sum(masses * px.exp2((peaks - finite(largest)) * LOG2E))

    def publish(self, peaks, masses):
        return self.total(None, peaks, masses)

    def gathered(self, there, counts, columns, peaks, masses):
        return self.total(columns, px.where(there, peaks, -float("inf")), px.where(there, masses, 0.0))


@px.struct
class Squares:
    """The sum of the squares of a row."""

    NUMBERS: int = 1
    PEEKS: bool = False

    def start(self, x, bounds, edge, LANES):
        return (px.zeros((LANES,), px.f32),)

    def more(self, x, bounds, squares):
        if bounds is not None:
            x = bounds.keep(x, 0.0)
        return (squares + along_thread(px.sum, x * x),)

    def edge(self, element, there, squares):
        return (squares + element.to(px.f32) * element.to(px.f32),)

    def join(self, WARPS, squares):
        return (of_warp(px.sum, squares, WARPS),)

    def total(self, columns, squares):
        return None, px.sum(squares)

    def publish(self, squares):
        """The second number says nothing, and is not 0."""
        return px.sum(squares), 1.0

    def gathered(self, there, counts, columns, squares, ones):
        return None, px.sum(px.where(there, squares, 0.0))


@px.struct
class Moments:
    """How many elements a row has, their mean, and the sum of (x - mean)^2.

    A thread knows the first of these, what its elements are apart from a pivot in sum, and the squares of that. Its pivot is
    the mean of what it has of its first part: the mean of m numbers of n is so near to that of all that distances from it
    lose at most log2(n / m) digits. Warps are joined by Chan's formula.
    """

    NUMBERS: int = 3
    PEEKS: bool = True

    def start(self, x, bounds, edge, LANES):
        none = px.zeros((LANES,), px.f32)
        count = bounds.count(x)
        pivot = along_thread(px.sum, bounds.keep(x, 0.0)) * px.reciprocal(px.maximum(count, 1.0))
        if edge is not None:
            pivot = px.where(count > 0.0, pivot, edge.to(px.f32))
        return none, pivot, none, none

    def more(self, x, bounds, count, pivot, sums, squares):
        apart = x - pivot.reshape(1, x.shape[1], 1)
        if bounds is not None:
            apart = bounds.keep(apart, 0.0)
        sums = sums + along_thread(px.sum, apart)
        squares = squares + along_thread(px.sum, apart * apart)
        count = count + (float(x.shape[0] * x.shape[2]) if bounds is None else bounds.count(x))
        return count, pivot, sums, squares

    def edge(self, element, there, count, pivot, sums, squares):
        apart = px.where(there, element.to(px.f32) - pivot, 0.0)
        return count + px.where(there, 1.0, 0.0), pivot, sums + apart, squares + apart * apart

    def join(self, WARPS, count, pivot, sums, squares):
        near = sums * px.reciprocal(px.maximum(count, 1.0))
        mean = pivot + near
        squares = squares - sums * near
        every = of_warp(px.sum, count, WARPS)
        middle = of_warp(px.sum, count * mean, WARPS) * px.reciprocal(px.maximum(every, 1.0))
        apart = by_warps(mean, WARPS) - middle
        squares = by_warps(squares, WARPS) + by_warps(count, WARPS) * apart * apart
        return every, middle, px.sum(squares) if WARPS is None else px.sum(squares, axis=1, keepdims=True)

    def total(self, columns, counts, means, squares):
        mean = px.sum(counts * means) / columns
        apart = means - mean
        return mean, px.sum(squares + counts * apart * apart)

    def publish(self, counts, means, squares):
        mean = px.sum(counts * means) * px.reciprocal(px.maximum(px.sum(counts), 1.0))
        apart = means - mean
        return mean, px.sum(squares + counts * apart * apart)

    def gathered(self, there, counts, columns, means, squares):
        counts = px.where(there, counts, 0.0)
        return self.total(columns, counts, px.where(there, means, 0.0), px.where(there, squares, 0.0))


@px.struct
class NearMoments:
    """The mean of a row, and the mean of (x - mean)^2, of threads that have one `pivot`.

    The pivot is the mean of a row's first elements, which is so near to that of all that no digits are lost. Where just
    these lie far from all others, few digits are lost, since they make the row's variance large as well: with 25,001
    elements, of which the first eight are 10,000 times as far away as the others, the result is right to 1e-4.
    """

    pivot: Any

    def start(self, LANES):
        none = px.zeros((LANES,), px.f32)
        return none, none

    def more(self, x, bounds, sums, squares):
        apart = x - self.pivot
        if bounds is not None:
            apart = bounds.keep(apart, 0.0)
        return sums + along_thread(px.sum, apart), squares + along_thread(px.sum, apart * apart)

    def join(self, WARPS, sums, squares):
        return of_warp(px.sum, sums, WARPS), of_warp(px.sum, squares, WARPS)

    def total(self, inverse, sums, squares):
        """`inverse`: 1 by the row's elements."""
        near = px.sum(sums) * inverse
        around = px.sum(squares) * inverse
        return self.pivot + near, px.maximum(around - near * near, 0.0)


@px.func
def scaled(x, mean, scale, DTYPE):
    """Elements in f32 less the mean, if there is one, times the scale, for a result that is rounded to DTYPE."""
    if mean is None:
        return x * scale
    if DTYPE.itemsize < 4:  # one instruction: of 16 bits the mean has fewer digits than the product
        return px.fma(x, scale, mean * -scale)
    return (x - mean) * scale


@px.func
def normalised(x, w, b, mean, scale, DTYPE):
    """What is `scaled`, times the weights and plus the biases, where there are any."""
    y = scaled(x, mean, scale, DTYPE)
    if w is not None:
        y = y * w.to(px.f32)
    if b is not None:
        y = y + b.to(px.f32)
    return y
