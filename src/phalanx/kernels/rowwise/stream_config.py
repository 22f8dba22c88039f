"""How rows pass through the ring of a cluster (`StreamConfig`), who decides (`choose_stream`), and the launch.

`stream.py` has what kernels do with rows that pass.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import gcd
from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.kernels.launches import clusters_at_once
from phalanx.kernels.rowwise.row_config import LIMITS, MAX_CLUSTER, VECTOR_BYTES, run_of, types_of
from phalanx.machines.h200 import H200
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.symbolic.choices import chosen_by_sizes

WARPGROUP, REGISTERS, FEW_REGISTERS, MOST_REGISTERS = 4, 65536, 24, 240
"""Warps of a warpgroup; registers of an SM, of a thread that only fills the ring, and of one that computes, at most."""
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
    """Runs a kernel on as many clusters as run side by side: `args` are the run of memory with the rows, and what follows
    up to their columns."""
    itemsize = args[0].dtype.itemsize
    vector = VECTOR_BYTES // itemsize
    constants = {
        "config": config, **constants, "PERIOD": vector // gcd(columns, vector),
        "WHOLE": config.chunks(columns, itemsize) <= config.kept, "LINED": in_lines(config, columns, itemsize),
    }
    if config.hold and config.chunks(columns, itemsize) != config.kept:
        raise Error(
            f"registers for {config.kept} chunks of rows of {columns} elements, of which a CTA has up to "
            f"{config.chunks(columns, itemsize)}",
            location=caller_location(),
            remedy=f"let kept be {config.chunks(columns, itemsize)}, or hold be False",
        )
    args = *args, rows
    clusters = min(rows, clusters_at_once(kernel, config.cluster, args, constants))
    kernel[clusters * config.cluster](*args, **constants)


def in_lines(config: StreamConfig, columns: int, itemsize: int) -> bool:
    """Whether copies begin at lines and not where rows do: not where all rows begin there, nor where CTAs share an SM, whose
    shared memory has no room for a line more in each stage."""
    return config.per_sm == 1 and columns * itemsize % LINE_BYTES != 0


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
