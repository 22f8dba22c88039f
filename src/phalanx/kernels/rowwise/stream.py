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

from dataclasses import asdict, replace
from functools import cache
from math import gcd
from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.kernels.launches import clusters_at_once
from phalanx.kernels.rowwise.deals import classes_of, part_of
from phalanx.kernels.rowwise.rows import LIMITS, MAX_CLUSTER, VECTOR_BYTES, run_of, types_of
from phalanx.machines.h200 import H200
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.symbolic.choices import chosen_by_sizes

WARPGROUP, REGISTERS, FEW_REGISTERS, MOST_REGISTERS = 4, 65536, 24, 240
"""Warps of a warpgroup; registers of an SM, of a thread that only fills the ring, and of one that computes, at most."""
MOST_BATCH, BATCH_BYTES = 4, 32 * 1024
"""Chunks that are given back together, and their bytes, at most; the ring has twice as many."""
LINE_BYTES = H200.line_bytes
"""Copies begin at multiples of them, which is faster: layer_norm of 48,088 bf16 0.92 of the device copy, against 0.79 from
where rows begin, of 384,008 0.86 and 0.83; rms_norm of 873,352 0.90 and 0.85; softmax of 98,568 0.87 and 0.79."""
SOFTMAX, LOG_SOFTMAX, RMS_NORM, LAYER_NORM = "softmax", "log_softmax", "rms_norm", "layer_norm"
WIDE_SOFTMAX = "wide softmax"
"""What is computed of rows, as far as the choice of a configuration depends on it."""
VECTORS = {SOFTMAX: 0, LOG_SOFTMAX: 0, WIDE_SOFTMAX: 0, RMS_NORM: 1, LAYER_NORM: 2}
"""Weights and biases beside the rows."""


@frozen
class StreamConfig:
    """How rows pass through a cluster.

    - `warps` of a CTA compute, with `step` vectors of 16 bytes of each chunk in each thread; one more fills the ring.
    - `stages` chunks are in the ring, `kept` of them of the row that the cluster has.
    - `hold`: rows of `kept` chunks are in registers from their one read to their store, and their stages are free by the
      exchange; else they stay in the ring, and are read there twice.
    - `group` rows pass at once, so that what a chunk costs besides its elements, weights among it, is paid once for all.
    - `parts`: the weights of so many chunks, and their biases, stay in registers from one row to the next; those of `saved`
      chunks more in shared memory, in the place of stages.
    - `once`: no cache of the SM keeps what is stored; `streamed`: what is read for the last time leaves L2 first.
    """

    cluster: int
    warps: int
    step: int
    stages: int
    kept: int
    parts: int = 0
    per_sm: int = 1
    once: bool = True
    streamed: bool = False
    group: int = 1
    hold: bool = False
    saved: int = 0

    def span(self, itemsize: int) -> int:
        """Elements of a chunk."""
        return 32 * self.warps * self.step * VECTOR_BYTES // itemsize

    def chunks(self, columns: int, itemsize: int) -> int:
        """Chunks of a row that one CTA has at most, wherever the row begins."""
        return px.cdiv(columns, self.cluster * self.span(itemsize))

    def shared_bytes(self, vectors: int = 0) -> int:
        """What the ring takes, and the saved ones of so many vectors of weights or biases."""
        return (self.stages * self.group + self.saved * vectors) * self.span(1)

    def constants(self) -> dict[str, Any]:
        """The kernels' constants of the same names, in capitals. All callers get the same dict, and must not change it."""
        return _constants(self)


    @property
    def producers(self) -> int:
        """Warps of the role that fills the ring: a warpgroup beside others, which then has few registers."""
        return WARPGROUP if self.warps % WARPGROUP == 0 else 1

    @property
    def regs(self) -> int | None:
        """Registers of a thread that computes: what those that fill the ring leave."""
        if self.producers == 1:
            return None
        threads, computing = 32 * (self.warps + self.producers), 32 * self.warps
        each = REGISTERS // (threads * self.per_sm) // 8 * 8
        return min(MOST_REGISTERS, (each * threads - 32 * self.producers * FEW_REGISTERS) // computing // 8 * 8)


@cache
def _constants(config: StreamConfig) -> dict[str, Any]:
    constants = {name.upper(): value for name, value in asdict(config).items() if name != "saved" or value}
    return {**constants, "PRODUCERS": config.producers, "REGS": config.regs}


LONGEST = StreamConfig(16, 16, 1, 26, 24, streamed=True)
LONGEST_WEIGHTED = {
    count: replace(LONGEST, kept=22, parts=LIMITS.stream_weights_again // count) for count in set(VECTORS.values()) if count
}
"""The stream of the longest rows, by their vectors of weights and biases, some of which stay in registers."""
MOST_WARPS = 16
PIECE = MOST_WARPS * 32 * VECTOR_BYTES
"""Bytes of a vector of each thread of the largest CTAs."""


@chosen_by_sizes
@cache
def choose_stream(columns: int, itemsize: int, kind: str = SOFTMAX, aligned: bool = True) -> StreamConfig | None:
    """The stream for rows of `columns` elements, or None where registers hold them better.

    `kind`: `SOFTMAX`, `LOG_SOFTMAX`, `RMS_NORM` (with weights) or `LAYER_NORM` (and biases). Rings keep whole rows, and
    registers all weights beside them, as long as there is room: `whole_rows` has the rule. Longer ones are read again, out
    of L2, and so are most weights.
    Measured on an H200, of the device copy, against rows in registers: softmax of 238,976 f32 0.91, of 404,200 0.87, of
    750,720 bf16 0.89, held in the registers of 8 CTAs, against 0.77 in the rings of 16 (`softmax_of_16_bits` has more), of
    1,394,256 f32 0.76, which no cluster holds; rms_norm of 919,168 bf16 0.91 against 0.59; layer_norm of 65,536 0.89
    against 0.78, of 67,000 0.83 against 0.63, of 105,000 0.81 against 0.70, of 41,000 f32 0.92 against 0.85, of 50,257 bf16
    0.75 against 0.42, of 250,392 0.83 against 0.63, of 5,003 0.77 against 0.67, of 2,403 0.69 against 0.56. Shorter rows
    lose: softmax of 50,257 bf16 0.83 against 0.86, layer_norm of 15,936 f32 0.88 against 0.96, of 9,376 bf16 0.86 against
    0.87.
    Anyone may call it; no hardware is involved.
    Example: ``choose_stream(1000000, 2).cluster == 16``.
    """
    row = columns * itemsize
    if itemsize == 2 and kind in (SOFTMAX, LOG_SOFTMAX):
        return softmax_of_16_bits(columns, kind, aligned)
    if kind in (SOFTMAX, LOG_SOFTMAX):
        kind = WIDE_SOFTMAX
    if row < LIMITS.stream_bytes[kind] and (aligned or row < LIMITS.stream_odd_bytes[kind][itemsize > 2]):
        return None
    vectors = VECTORS[kind]
    found = held_rows(columns, itemsize, kind, aligned) or whole_rows(columns, itemsize, vectors, aligned)
    return found or (LONGEST_WEIGHTED[vectors] if vectors else LONGEST)


def softmax_of_16_bits(columns: int, kind: str, aligned: bool) -> StreamConfig | None:
    """The stream for softmax, or its logarithm, of elements of 16 bits; None where registers hold them better.

    These hold rows that fill them: `LIMITS.bare_held` vectors a thread of one, two, four or eight CTAs, or not much less.
    Rows that would leave many registers of eight CTAs empty pass `in_pieces`, and so do those beyond eight, and those of
    four; of the logarithm only the shorter of these that begin anywhere (`LIMITS.stream_odd_logs`). Measured on an H200, of
    the device copy: 98,560 columns 0.90 in pieces against 0.86 in registers, 183,346 0.88 against 0.82; 240,928 0.83
    against 0.89; 595,703 0.84 against 0.81 in the registers of a stream, 886,424 0.86 against 0.78, 1,388,463 0.82 against
    0.79 in chunks of one vector; the logarithm of 76,042 0.90 against 0.80, of 113,221 0.90 against 0.93. Anyone may call
    it; no hardware is involved.
    Example: ``softmax_of_16_bits(183346, "softmax", True).cluster == 4``.
    """
    row, full = 2 * columns + (not aligned) * VECTOR_BYTES, PIECE * LIMITS.bare_held[not aligned]
    if row <= 8 * full:
        cluster = 4 if row > 4 * full else 2
        found = in_pieces(columns, cluster) if row > 2 * full else None
        if found is not None and cluster == 2 and kind == LOG_SOFTMAX:
            return None if aligned or found.kept > LIMITS.stream_odd_logs else found
        return found
    return in_pieces(columns, 8) or held_rows(columns, 2, kind, aligned) or in_pieces(columns, MAX_CLUSTER) or LONGEST


def in_pieces(columns: int, cluster: int) -> StreamConfig | None:
    """The stream whose rings keep whole rows of 16-bit elements in chunks of two vectors a thread, which halves what chunks
    cost besides their elements; None where they are more than `LIMITS.stream_pieces`.

    Anyone may call it; no hardware is involved. Example: ``in_pieces(183346, 4).kept == 6``.
    """
    config = StreamConfig(cluster, MOST_WARPS, 2, LIMITS.stream_ring_bytes // (2 * PIECE), 0)
    own = config.chunks(columns, 2)
    return replace(config, kept=own) if own <= LIMITS.stream_pieces[cluster] else None


def held_rows(columns: int, itemsize: int, kind: str, aligned: bool) -> StreamConfig | None:
    """The stream whose threads hold whole rows of 16-bit elements, and all weights beside them; None where none pays.

    The smallest cluster with as few chunks for each thread as `LIMITS.stream_held` says: for softmax of long rows and its
    logarithm; and for `layer_norm` of rows that begin anywhere, of all elements, whose weights take most of the registers,
    but for the shortest, of which two pass at once. Anyone may call it; no hardware is involved.
    Example: ``held_rows(750720, 2, "softmax", True).cluster == 8``.
    """
    row = columns * itemsize
    if kind not in LIMITS.stream_held or (kind == LAYER_NORM and aligned):
        return None
    if kind == LAYER_NORM and row <= LIMITS.stream_pair_bytes:
        return None
    for upto, warps, per_sm, clusters, most in LIMITS.stream_held[kind]:
        if row > upto:
            continue
        for cluster in clusters:
            stages = LIMITS.stream_ring_bytes // (per_sm * 32 * warps * VECTOR_BYTES)
            config = StreamConfig(cluster, warps, 1, stages, 0, per_sm=per_sm, hold=True)
            own = config.chunks(columns, itemsize)
            if own <= most:
                return replace(config, kept=own, parts=own if VECTORS[kind] else 0)
    return None


def whole_rows(columns: int, itemsize: int, vectors: int, aligned: bool = True) -> StreamConfig | None:
    """The stream whose rings keep whole rows, and its registers so many vectors beside them; None where none has room.

    The cluster by which most rows are done in a time. Where a thread takes 1 for a vector of a row, a chunk
    takes 0.5 besides, a vector of weights that is loaded for it 1, and the cluster's exchange `LIMITS.stream_exchange`.
    Two rows with two vectors pass at once through clusters of `LIMITS.stream_pairs`, where the ring has room for both:
    measured on an H200, layer_norm of 180,000 bf16, over 8 CTAs, is at 0.89 of the device copy, one row at a time at 0.80;
    but of 105,000, over 4, at 0.78 and 0.81. Weights that registers have no room for take the place of stages in large
    clusters: rms_norm of 1,200,000 bf16 is at 0.81 with them, at 0.72 where they are loaded for each row; layer_norm of
    600,000 at 0.72 against 0.62, and of 330,000, of which 8 CTAs then hold all weights, at 0.77 against 0.57 in 16. Where
    they take too much, all are loaded: what is read leaves L2 first, and they stay (layer_norm of 1,400,000 bf16 0.63
    against 0.53). Anyone may call it; no hardware is involved.
    Example: ``whole_rows(65536, 2, 2).parts == 8``.
    """
    row = columns * itemsize
    warps, per_sm = next(((few, many) for limit, few, many in LIMITS.stream_warps if row <= limit), (16, 1))
    stages = LIMITS.stream_ring_bytes // (per_sm * 32 * warps * VECTOR_BYTES)
    best, most = None, 0.0
    for cluster in (1, 2, 4, 8, MAX_CLUSTER):
        config = StreamConfig(cluster, warps, 1, stages, 0, per_sm=per_sm)
        own = config.chunks(columns, itemsize)
        share = LIMITS.stream_share if cluster < MAX_CLUSTER else LIMITS.stream_longest_share
        if own > share * stages or (vectors == 1 and row > LIMITS.stream_wide_bytes and cluster < 8):
            continue
        config = with_weights(replace(config, kept=own), vectors, aligned)
        loaded = own - config.parts - config.saved if vectors else 0
        if vectors == 1 and loaded and cluster < MAX_CLUSTER:
            continue
        rate = H200.clusters_at_once[cluster] / (LIMITS.stream_exchange + own * 1.5 + loaded * vectors)
        if rate > most:
            best, most = config, rate
    two = best is not None and vectors == 2 and (best.cluster in LIMITS.stream_pairs or row <= LIMITS.stream_pair_bytes)
    if best is not None and two and best.parts == best.kept and 2 * best.kept <= LIMITS.stream_share * stages:
        best = replace(best, group=2, stages=stages // 2)
    return best


def with_weights(config: StreamConfig, vectors: int, aligned: bool) -> StreamConfig:
    """A stream that keeps whole rows, with so many vectors of weights and biases beside them.

    They are in registers, as many as fit; behind them in shared memory, where few or none are left to load for each row.
    Loading takes registers: where rows begin anywhere, fewer weights stay there then. Anyone may call it; no hardware is
    involved.
    """
    if not vectors:
        return config
    own = config.kept
    parts = min(own, LIMITS.stream_weights // vectors)
    saved = 0
    if config.cluster in LIMITS.stream_saved[vectors]:
        saved = max(0, min(own - parts, (config.stages - own - LIMITS.stream_spare) // vectors))
    loaded = own - parts - saved
    if loaded > LIMITS.stream_loaded or (loaded and vectors == 2 and not aligned):
        parts = min(own, (LIMITS.stream_weights if aligned else LIMITS.stream_weights_again) // vectors)
        return replace(config, parts=parts, streamed=config.cluster == MAX_CLUSTER)
    return replace(config, stages=config.stages - saved * vectors, parts=parts, saved=saved)


def stream_for(rows: Any, kind: str = SOFTMAX, *vectors: Any) -> StreamConfig | None:
    """The stream for a matrix with these weights and biases (None for each), where it is a run of memory and a stream pays.

    Weights of another type, which would take more registers, are loaded beside each row: that pays for the longest alone.
    """
    info = describe(rows)
    assert info is not None
    config = choose_stream(info.shape[1], rows.dtype.itemsize, kind, info.aligned16)
    if config is None or run_of(rows) is None:
        return None
    if config.parts and any(name != info.dtype_name for name in types_of(vectors)):
        return LONGEST if info.shape[1] * rows.dtype.itemsize >= LIMITS.stream_mixed_bytes else None
    return config


def launch_stream(
    kernel: Any, config: StreamConfig, args: tuple[Any, ...], constants: dict[str, Any], rows: int, columns: int
) -> None:
    """Runs a kernel of this file's kind, whose first argument is the run of memory with the rows, on as many clusters as run
    side by side."""
    itemsize = args[0].dtype.itemsize
    vector = VECTOR_BYTES // itemsize
    constants = {
        **config.constants(), **constants, "PERIOD": vector // gcd(columns, vector),
        "WHOLE": config.chunks(columns, itemsize) <= config.kept,
    }
    if config.hold and config.chunks(columns, itemsize) != config.kept:
        raise Error(
            f"registers for {config.kept} chunks of rows of {columns} elements, of which a CTA has up to "
            f"{config.chunks(columns, itemsize)}",
            location=caller_location(),
            remedy=f"let kept be {config.chunks(columns, itemsize)}, or hold be False",
        )
    clusters = min(rows, clusters_at_once(kernel, config.cluster, args, constants))
    kernel[clusters * config.cluster](*args, **constants)


def in_lines(config: StreamConfig, columns: int, itemsize: int) -> bool:
    """Whether copies begin at lines and not where rows do: not where all rows begin there, nor where CTAs share an SM, whose
    shared memory has no room for a line more in each stage."""
    return config.per_sm == 1 and columns * itemsize % LINE_BYTES != 0


@px.func
def stages_of(X, STAGES, GROUP, SPAN, LINED):
    """The ring: for each of GROUP rows a chunk in each stage, and a line more where LINED."""
    return px.shared((STAGES, GROUP * (SPAN + (LINE_BYTES // X.dtype.itemsize if LINED else 0))), X.dtype)


def run_for_stream(rows: Any) -> Any:
    """The run of memory that a matrix is; an error where it is none."""
    run = run_of(rows)
    if run is None:
        raise Error(
            "the rows of the argument do not lie side by side from a multiple of 16 bytes on",
            location=caller_location(),
            remedy="leave config out, or pass a RowConfig: a StreamConfig is for one run of memory",
        )
    return run


def stream_kernel(fn: Any) -> Any:
    """`px.kernel` with what it asks of the GPU taken from the configuration."""
    make = px.kernel(
        warps=lambda WARPS, PRODUCERS: WARPS + PRODUCERS, cluster=lambda CLUSTER: CLUSTER, ctas_per_sm=lambda PER_SM: PER_SM,
        exit_sync=False, pdl=True,
    )
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
            found = px.cluster.id(), self.rows, self.clusters
        else:
            begin, end = part_of(self.rows, self.CLASSES, px.cluster.id(), self.clusters)
            each = px.cdiv(self.rows, self.CLASSES)
            first = px.maximum(begin - which * each, 0)
            last = px.minimum(end - which * each, each)
            found = which + first * self.CLASSES, px.minimum(which + last * self.CLASSES, self.rows), self.CLASSES
        return found

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
        at, end = self.place(self.first(group[0]), chunk), self.whole(group[0])[1]
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
    first, last = (begin + (VEC - 1)) // VEC * VEC, (begin + columns) // VEC * VEC
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
def stream(X, columns, rows, ring, full, empty, VEC, SPAN, GROUP, STAGES, KEPT, WHOLE, HOLD, STREAMED, PERIOD, CLASSES=1):
    """The `Stream` of a role, with its own places in the ring. Rows PERIOD apart begin at the same place of a vector."""
    size = px.cluster.size()
    most = px.cdiv(columns, SPAN)  # chunks of a row, wherever it begins
    own = KEPT if HOLD else px.maximum(most - px.cluster.rank() + size - 1, size) // size  # one that is all masked, if none
    held = own if WHOLE else px.minimum(own, KEPT)
    clusters = px.num_blocks(0) // size
    taken, freed, again = px.ring(STAGES), px.ring(STAGES), px.ring(STAGES)
    BATCH = max(1, min(MOST_BATCH, BATCH_BYTES // (GROUP * SPAN * X.dtype.itemsize), STAGES // 2))
    return Stream(
        X, ring, full, empty, taken, freed, again, columns, rows, own, held, clusters, VEC, SPAN, BATCH, GROUP,
        CLASSES, STREAMED, WHOLE, KEPT if HOLD else 0, PERIOD > 1, ring.shape[1] // GROUP - SPAN,
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
