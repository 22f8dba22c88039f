"""Short rows that begin anywhere: each warp takes spans of whole rows, so many that a span begins at a multiple of 16 bytes.

A span comes and goes in vectors, through the warp's own part of shared memory. There its rows are taken apart element by
element: `lanes` threads have a row, each every `lanes`-th element of it, in registers from its one read to its one write.
So where a row begins is nobody's business, no element is masked but a thread's last one, and no warp waits for another.
Weights and biases stay in registers for all spans of a warp.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LN2, LOG2E
from phalanx.kernels.rowwise.row_config import LIMITS, VECTOR_BYTES, run_of
from phalanx.kernels.rowwise.softmax_terms import finite
from phalanx.runtime.device.arrays import describe

MOST_ELEMENTS = 72
"""Elements of rows, weights and biases that a thread holds in registers, in f32."""
SPAN_BYTES, SHARED_BYTES = 4096, 220 * 1024
"""Bytes of a warp's span, about; bytes of all spans of an SM, at most."""
MOST_VECTORS = 8
"""Vectors of a thread that are on their way together."""


@frozen
class SpanConfig:
    """How short rows are dealt: `lanes` threads to each, of which each has `each` elements at most, or with `pairs` so many
    pairs of neighbours; `rows` a span, which is at most `vectors` vectors of each thread; `spans` of them a warp."""

    lanes: int
    each: int
    rows: int
    vectors: int
    spans: int = 4
    warps: int = 4
    per_sm: int = 8
    pairs: bool = False

    @property
    def taken(self) -> int:
        """Elements of a row that its threads take at a time, one of each or a pair."""
        return self.lanes * (2 if self.pairs else 1)

    def grid(self, rows: int) -> int:
        """CTAs for so many rows."""
        return px.cdiv(rows, self.rows * self.spans * self.warps)

    def constants(self) -> dict[str, SpanConfig]:
        """The kernels' constant `config`."""
        return {"config": self}


@cache
def choose_span(columns: int, itemsize: int, vectors: int = 0) -> SpanConfig | None:
    """The spans for rows of `columns` elements, with so many vectors of weights and biases; None where they are too long.

    So many threads to a row that few are idle in its last turn, each with 8 elements at least where the row has as many.
    Measured on an H200, of the device copy, against the rows of `choose`: softmax of 39 bf16 0.93 against 0.36, of 257
    0.93 against 0.49, of 590 0.85 against 0.76, of 1,001 0.71 against 0.88; of 205 f32 as much, of 429 0.86 against 0.99;
    layer_norm of 39 bf16 0.87 against 0.31, of 257 0.82 against 0.36 (more since: `rows_short.txt`), of 429 f32 0.92 against
    0.83.
    Anyone may call it; no hardware is involved. Example: ``choose_span(257, 2).lanes == 32``.
    """
    most = MOST_ELEMENTS // (1 + vectors)
    if columns > most * 32 or columns * itemsize > LIMITS.span_bytes[vectors, itemsize]:
        return None
    fitting = [lanes for lanes in (1, 2, 4, 8, 16, 32) if lanes * most >= columns and lanes * 8 <= max(columns, 8)]
    lanes = max(fitting or [32], key=lambda lanes: (columns / (lanes * px.cdiv(columns, lanes)) > 0.85, lanes))
    # A warp that has a row of whole pairs takes these, but for softmax, which gains 1% or loses 2% by it (`rows_short.txt`).
    pairs = lanes == 32 and itemsize == 2 and columns % 2 == 0 and vectors > 0
    each = px.cdiv(columns, 2 * lanes if pairs else lanes)
    held = 2 * each if pairs else each
    together = max(VECTOR_BYTES // itemsize, 32 // lanes)
    rows = together * max(1, SPAN_BYTES // (together * columns * itemsize))
    parts = px.cdiv(rows * columns * itemsize, 32 * VECTOR_BYTES)
    registers = px.cdiv(34 + vectors * held + max(held + 10, 4 * min(parts, MOST_VECTORS)), 8) * 8
    warps = SpanConfig.warps
    on_sm = 65536 // (32 * warps * registers)
    if lanes == 32:  # where compilers were seen to need less
        on_sm = next((more for upto, more in LIMITS.span_ctas.get((vectors, itemsize), ()) if held <= upto), on_sm)
    per_sm = min(8, SHARED_BYTES // (warps * parts * 32 * VECTOR_BYTES), on_sm)
    return SpanConfig(lanes, each, rows, parts, per_sm=max(1, per_sm), pairs=pairs)


def span_for(rows: Any, *vectors: Any) -> SpanConfig | None:
    """The spans for a matrix with these weights and biases (None for each), where its rows begin anywhere and are short."""
    info = describe(rows)
    assert info is not None
    if info.aligned16 or run_of(rows) is None:
        return None
    return choose_span(info.shape[1], rows.dtype.itemsize, sum(vector is not None for vector in vectors))


def launch_spans(
    kernel: Any, config: SpanConfig, args: tuple[Any, ...], constants: dict[str, Any], rows: int, columns: int
) -> None:
    """Runs a kernel of this file, whose first argument is the run of memory with the rows."""
    each = px.cdiv(columns, config.taken)
    nbytes = config.rows * columns * args[0].dtype.itemsize
    vectors = px.cdiv(nbytes, 32 * VECTOR_BYTES)
    if config.each != each or config.vectors < vectors or (config.pairs and columns % 2):
        kind = "pairs" if config.pairs else "elements"
        raise Error(
            f"spans of {config.rows} rows, {config.each} {kind} for each of {config.lanes} threads and {config.vectors} "
            f"vectors, of rows of {columns} elements",
            location=caller_location(),
            remedy=f"let each be {each} and vectors at least {vectors}, pairs False if rows are odd, or leave config out",
        )
    kernel[config.grid(rows)](*args, **config.constants(), **constants)


def span_kernel(fn: Any) -> Any:
    """`px.kernel` with what it asks of the GPU taken from the configuration."""
    return px.kernel(warps=lambda config: config.warps, ctas_per_sm=lambda config: config.per_sm, pdl=True)(fn)


@px.struct
class Span:
    """The rows of a warp's span, whose elements lie in its part of the buffer `s` behind each other.

    `turn` numbers the elements that the threads of a row take at a time: one of each, or with PAIR two neighbours.
    """

    s: Any
    warp: Any
    turn: Any
    columns: Any
    LANES: int
    EACH: int
    VECTORS: int
    WIDTH: int
    PAIR: int

    def copy_in(self, X, begin, end):
        """Brings the elements of X from `begin` to before `end`; what is behind them is 0."""
        for some in px.static_range(0, self.VECTORS, MOST_VECTORS):
            tiles: tuple[Any, ...] = ()
            for part in px.static_range(some, min(some + MOST_VECTORS, self.VECTORS)):
                at = begin + part * self.WIDTH
                tiles = (*tiles, px.load(X[at : at + self.WIDTH].within(begin, end)))
            for part in px.static_range(some, min(some + MOST_VECTORS, self.VECTORS)):
                px.store(self.part(part), tiles[part - some])

    def part(self, part):
        """One vector of each thread in the buffer."""
        return self.s[self.warp, part * self.WIDTH : part * self.WIDTH + self.WIDTH]

    def copy_out(self, Y, begin, end):
        """Stores what `copy_in` brought, and the threads have changed, to Y."""
        for part in px.static_range(self.VECTORS):
            at = begin + part * self.WIDTH
            px.store(Y[at : at + self.WIDTH].within(begin, end), px.load(self.part(part)))

    def inside(self, number, there, none):
        """`there` for the element of this number of each thread, or `none` where its row has no such element: only the last
        one may be missing."""
        if number == self.EACH - 1:
            there = px.where(self.turn + number * self.LANES * self.PAIR < self.columns, there, none)
        return there

    def places(self, row, number):
        """The view of the buffer that has each thread's element of this number, of the rows from `row` on."""
        WARP = 32 * self.PAIR
        ROW = self.LANES * self.PAIR
        if self.LANES == 32 and number < self.EACH - 1:
            at = row * self.columns + number * WARP
            return self.s[self.warp, at : at + WARP]
        place = (row + px.arange(WARP) // ROW) * self.columns + self.turn + number * ROW
        return self.s[self.warp, self.inside(number, place, -1)]

    def take(self, row, fill):
        """The elements of each thread, in f32; `fill` where its row has no more."""
        x: tuple[Any, ...] = ()
        for number in px.static_range(self.EACH):
            if self.LANES == 32 and number < self.EACH - 1:
                tile = px.load(self.places(row, number))
            else:
                tile = px.load(self.places(row, number), fill=fill)
            x = (*x, tile.to(px.f32))
        return x

    def put(self, row, y):
        """Puts the results of each thread where its elements were."""
        for number in px.static_range(self.EACH):
            px.store(self.places(row, number), y[number].to(self.s.dtype))

    def vector(self, V):
        """The weights or biases beside the elements of each thread, in f32, or None."""
        v: Any = None
        if V is not None:
            v = ()
            for number in px.static_range(self.EACH):
                v = (*v, px.load(V[self.turn + number * self.LANES * self.PAIR]).to(px.f32))
        return v

    def of_row(self, reduce, x):
        """A fold of the numbers that the threads of a row have, one each or two, in each of them."""
        SHAPE = 32 // self.LANES, self.LANES * self.PAIR
        return (reduce(x.reshape(*SHAPE), axis=1, keepdims=True) + px.zeros(SHAPE, px.f32)).reshape(32 * self.PAIR)


@px.func
def softmax_of(rows, row, LOG):
    """e^x / sum(e^x) of the rows that the threads have, or its logarithm."""
    x = rows.take(row, -float("inf"))
    peak = x[0]
    for number in px.static_range(1, rows.EACH):
        peak = px.maximum(peak, x[number])
    base = finite(rows.of_row(px.max, peak))
    mass = px.zeros((32 * rows.PAIR,), px.f32)
    powers: tuple[Any, ...] = ()
    for number in px.static_range(rows.EACH):
        power = px.exp2((x[number] - base) * LOG2E)
        mass = mass + power
        powers = (*powers, power)
    total = rows.of_row(px.sum, mass)
    if LOG:
        less = base + px.log2(total) * LN2
        factor = None
    else:
        less = None
        factor = px.reciprocal(total)
    y: tuple[Any, ...] = ()
    for number in px.static_range(rows.EACH):
        y = (*y, x[number] - less if LOG else powers[number] * factor)
    rows.put(row, y)


@px.func
def norm_of(rows, row, w, b, eps, inverse, CENTERED):
    """x / sqrt(mean(x^2) + eps) * w + b of the rows that the threads have; with CENTERED x - mean(x) in the place of x."""
    x = rows.take(row, 0.0)
    if CENTERED:
        sums = x[0]
        for number in px.static_range(1, rows.EACH):
            sums = sums + x[number]
        mean = rows.of_row(px.sum, sums) * inverse
        apart: tuple[Any, ...] = ()
        for number in px.static_range(rows.EACH):
            apart = (*apart, rows.inside(number, x[number] - mean, 0.0))
        x = apart
    squares = px.zeros((32 * rows.PAIR,), px.f32)
    for number in px.static_range(rows.EACH):
        squares = squares + x[number] * x[number]
    scale = px.rsqrt(rows.of_row(px.sum, squares) * inverse + eps)
    y: tuple[Any, ...] = ()
    for number in px.static_range(rows.EACH):
        z = x[number] * scale
        if w is not None:
            z = z * w[number]
        if b is not None:
            z = z + b[number]
        y = (*y, z)
    rows.put(row, y)


@px.func
def each_span(X, Y, columns, start, each, config):
    """Every warp's spans: `each` is a function of the `Span`, of the first of the rows that are next, and of what `start`
    gives, both with more arguments for them."""
    LANES = config.lanes
    ROWS = config.rows
    WARPS = config.warps
    VEC = VECTOR_BYTES // X.dtype.itemsize
    PAIR = 2 if config.pairs else 1
    if config.pairs:
        px.assume(columns % 2 == 0)
    assert ROWS % VEC == 0 and ROWS * LANES % 32 == 0, "a span begins at a multiple of a vector, and whole warps take it"
    s = px.shared((WARPS, config.vectors * 32 * VEC), X.dtype)
    wait_for_prior_launch()
    with px.warps(0, 1, copies=WARPS) as warp:
        turn = px.arange(32 * PAIR) % (LANES * PAIR)
        rows = Span(s, warp, turn, columns, LANES, config.each, config.vectors, 32 * VEC, PAIR)
        known = start[0](rows, *start[1:])
        for span in range(px.block_id(0) * WARPS + warp, px.cdiv(X.shape[0], ROWS * columns), px.num_blocks(0) * WARPS):
            begin = span * ROWS * columns
            end = px.minimum(begin + ROWS * columns, X.shape[0])
            rows.copy_in(X, begin, end)
            for row in range(0, ROWS, 32 // LANES):
                each[0](rows, row, *known, *each[1:])
            rows.copy_out(Y, begin, end)


@px.func
def nothing(rows):
    """Softmax needs to know nothing besides the rows."""
    return ()


@px.func
def vectors_beside(rows, W, B):
    """The weights and biases of each thread."""
    return rows.vector(W), rows.vector(B)


@span_kernel
def softmax_spans(X, Y, columns, *, config, LOG=False):
    """e^x / sum(e^x) of each row of `columns` elements, or its logarithm."""
    each_span(X, Y, columns, (nothing,), (softmax_of, LOG), config)


@span_kernel
def norm_spans(X, W, B, Y, eps, columns, *, config, CENTERED=False):
    """x / sqrt(mean(x^2) + eps) * W + B of each row of `columns` elements; with CENTERED x - mean(x) in the place of x."""
    each = norm_of, eps, 1.0 / columns, CENTERED
    each_span(X, Y, columns, (vectors_beside, W, B), each, config)
