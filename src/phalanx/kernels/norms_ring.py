"""RMSNorm and LayerNorm of long rows by clusters that stay: the next rows are on their way while one is finished.

Each cluster takes one row after another. A CTA's slice of them comes through a ring of stages in shared memory, filled
by bulk copies ahead of their use, so that the memory is busy during the exchange of a row's sum; the weights are
fetched once for all rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.kernels.rows import MAX_CLUSTER, VECTOR_BYTES, keep_row, row_sum
from phalanx.runtime.arrays import describe

REGISTERS, SHARED, LOADED = "registers", "shared", "loaded"
"""Where the weights are between two rows; `LOADED`: nowhere, each row loads them again, out of L1 or L2."""
SHORTEST = 128 * 1024  # bytes of a row
SLICE_BYTES = 64 * 1024  # of a row in a CTA
WARPS = 16
STAGES = 24
SIMULATED_CLUSTERS = 2


@dataclass(frozen=True)
class RingConfig:
    """How rows pass through a cluster: a CTA has `parts` tiles of `width` columns of each, `step` tiles to a stage.

    - `held`: a row is in registers from its first use to its store, and its stages are free before the exchange;
      else it stays in the ring, and is read from there twice.
    - `producer`: a warp of its own fills the ring; else the warps that compute do, right after the exchange.
    - `early`: the stages of a held row are given back before the exchange, for one more barrier of the CTA, not after.
    - `weights`: `REGISTERS`, `SHARED` or `LOADED`.
    - `once`: no cache of the SM keeps what is stored; `streamed`: what is read leaves L2 first.
    """

    cluster: int
    warps: int
    width: int
    parts: int
    stages: int
    step: int = 1
    per_sm: int = 1
    held: bool = True
    producer: bool = True
    early: bool = False
    weights: str = REGISTERS
    once: bool = True
    streamed: bool = False

    @property
    def columns(self) -> int:
        return self.cluster * self.parts * self.width

    def constants(self) -> dict[str, Any]:
        """The kernels' constants of the same names, in capitals. Not to be changed: all callers get the same."""
        return _constants(self)

    def shared_bytes(self, itemsize: int, vectors: int = 1) -> int:
        """What the ring takes, and so many vectors of weights or biases where they are kept in shared memory."""
        tiles = self.stages * self.step + (vectors * self.parts if self.weights == SHARED else 0)
        return tiles * self.width * itemsize


@cache
def _constants(config: RingConfig) -> dict[str, Any]:
    return {name.upper(): value for name, value in asdict(config).items()}


def ring_kernel(fn: Any) -> Any:
    """`px.kernel` with what it asks of the GPU taken from the configuration."""
    make = px.kernel(
        warps=lambda WARPS, PRODUCER: WARPS + PRODUCER,
        cluster=lambda CLUSTER: CLUSTER,
        ctas_per_sm=lambda PER_SM: PER_SM,
        exit_sync=False,
    )
    return make(fn)


@px.func
def fetch_row(X, row, first, ring, full, empty, stage, SPAN, PARTS, WIDTH, STREAMED):
    """Starts the copies of this CTA's slice of a row, a stage each; where there is `empty`, as stages become free."""
    for chunk in range(PARTS * WIDTH // SPAN):
        if empty is not None:
            empty[stage.stage].wait(stage.parity ^ 1)
        with full[stage.stage].transaction():
            at = first + chunk * SPAN
            source = X[row, at : at + SPAN]
            px.tma.load(source, ring[stage.stage], full[stage.stage], cache="evict_first" if STREAMED else None)
        stage.advance()


@px.func
def take_row(ring, full, stage, SPAN, PARTS, WIDTH):
    """The slice of a row in registers, a tuple of tiles."""
    parts: tuple[Any, ...] = ()
    for _ in px.static_range(0, PARTS * WIDTH, SPAN):
        full[stage.stage].wait(stage.parity)
        for at in px.static_range(0, SPAN, WIDTH):
            parts = (*parts, px.load(ring[stage.stage, at : at + WIDTH]))
        stage.advance()
    return parts


@px.func
def release_row(empty, stage, SPAN, PARTS, WIDTH):
    """Gives the stages of a row back to the warp that fills them."""
    for _ in px.static_range(0, PARTS * WIDTH, SPAN):
        empty[stage.stage].arrive()
        stage.advance()


@px.func
def part_of(x, slot, part, WIDTH):
    """One tile of the row, from the registers or the stage that has it, in f32."""
    if slot is None:
        tile = x[part]
    else:
        tile = px.load(slot[part * WIDTH : part * WIDTH + WIDTH])
    return tile.to(px.f32)


@px.func
def fetch_vector(V, first, PARTS, WIDTH, WEIGHTS):
    """The weights or biases of this CTA's columns, to be asked for by `vector_part`; None where they are not kept."""
    kept: Any = None
    if V is not None:
        if WEIGHTS == REGISTERS:
            kept = ()
            for part in px.static_range(PARTS):
                kept = (*kept, px.load(V[first + part * WIDTH : first + part * WIDTH + WIDTH]))
        elif WEIGHTS == SHARED:
            kept = px.shared((PARTS, WIDTH), V.dtype)
            for part in px.static_range(PARTS):
                px.store(kept[part], px.load(V[first + part * WIDTH : first + part * WIDTH + WIDTH]))
    return kept


@px.func
def vector_part(V, kept, first, part, WIDTH, WEIGHTS):
    """One tile of the weights or biases, in f32."""
    if WEIGHTS == REGISTERS:
        tile = px.keep(kept[part])  # in their own type: widened ones would take twice the registers, for all rows
    elif WEIGHTS == SHARED:
        tile = px.load(kept[part])
    else:
        tile = px.load(V[first + part * WIDTH : first + part * WIDTH + WIDTH])
    return tile.to(px.f32)


@px.func
def squares_around(mean, x, slot, columns, first, PARTS, WIDTH, MASKED):
    """The sum of (x - mean)^2 over the row, in every CTA; of x^2 where `mean` is None."""
    squares = px.zeros((WIDTH,), px.f32)
    for part in px.static_range(PARTS):
        tile = part_of(x, slot, part, WIDTH)
        if mean is not None:
            tile = tile - mean
            if MASKED:  # columns past the row's end are zeros, as far from the mean as any
                tile = px.where(px.arange(WIDTH) < columns - (first + part * WIDTH), tile, 0.0)
        squares = squares + tile * tile
    return row_sum(squares, 1)


@px.func
def mean_of(x, slot, columns, PARTS, WIDTH):
    total = px.zeros((WIDTH,), px.f32)
    for part in px.static_range(PARTS):
        total = total + part_of(x, slot, part, WIDTH)
    return row_sum(total, 1) / columns


@px.func
def finish_rows(
    X, W, B, Y, eps, ring, full, empty, CENTERED, MASKED, STAGES, SPAN, PARTS, WIDTH, HELD, EARLY, WEIGHTS, ONCE,
    STREAMED,
):  # fmt: skip
    """The role that computes: row after row out of the ring. Without `empty` it fills the ring as well.

    Held rows: the exchange of a row's sum is over in one warp only when all warps of the CTA have brought their parts
    of it, so none reads this row's stages any more; whoever gives them back or refills them there needs no barrier.
    """
    columns, first = X.shape[1], px.cluster.rank() * (PARTS * WIDTH)
    clusters = px.num_blocks(0) // px.cluster.size()
    ahead = STAGES * SPAN // (PARTS * WIDTH) * clusters  # from a row to the next one in the same stages
    taken, freed = px.ring(STAGES), px.ring(STAGES)
    if empty is None:
        for row in range(px.cluster.id(), px.minimum(px.cluster.id() + ahead, X.shape[0]), clusters):
            fetch_row(X, row, first, ring, full, None, freed, SPAN, PARTS, WIDTH, STREAMED)
    w = fetch_vector(W, first, PARTS, WIDTH, WEIGHTS)
    b = fetch_vector(B, first, PARTS, WIDTH, WEIGHTS)
    for row in range(px.cluster.id(), X.shape[0], clusters):
        x, slot = None, None
        if HELD:
            x = take_row(ring, full, taken, SPAN, PARTS, WIDTH)
            if EARLY:
                release_row(empty, freed, SPAN, PARTS, WIDTH)
        else:
            full[taken.stage].wait(taken.parity)
            slot = ring[taken.stage]
            taken.advance()
        mean = None
        if CENTERED:
            mean = mean_of(x, slot, columns, PARTS, WIDTH)
            x = keep_row(x, PARTS) if HELD else None
        scale = px.rsqrt(squares_around(mean, x, slot, columns, first, PARTS, WIDTH, MASKED) / columns + eps)
        x = keep_row(x, PARTS) if HELD else None
        if HELD and not EARLY:
            if empty is not None:
                release_row(empty, freed, SPAN, PARTS, WIDTH)
            elif row + ahead < X.shape[0]:
                fetch_row(X, row + ahead, first, ring, full, None, freed, SPAN, PARTS, WIDTH, STREAMED)
        for part in px.static_range(PARTS):
            at = first + part * WIDTH
            y = part_of(x, slot, part, WIDTH)
            y = y * scale if mean is None else (y - mean) * scale
            if W is not None:
                y = y * vector_part(W, w, first, part, WIDTH, WEIGHTS)
            if B is not None:
                y = y + vector_part(B, b, first, part, WIDTH, WEIGHTS)
            px.store(Y[row, at : at + WIDTH], y.to(Y.dtype), once=ONCE)
        if not HELD:
            if empty is not None:
                release_row(empty, freed, SPAN, PARTS, WIDTH)
            elif row + ahead < X.shape[0]:
                fetch_row(X, row + ahead, first, ring, full, None, freed, SPAN, PARTS, WIDTH, STREAMED)


@ring_kernel
def norm_ring(
    X, W, B, Y, eps, *, CLUSTER, WARPS, PER_SM, WIDTH, PARTS, STAGES, STEP=1, HELD=True, PRODUCER=True, EARLY=False,
    WEIGHTS=REGISTERS, ONCE=True, STREAMED=False, CENTERED=False, MASKED=True,
):  # fmt: skip
    """x / sqrt(mean(x^2) + eps) * W + B row by row; with CENTERED x - mean(x) in the place of x."""
    assert PARTS % STEP == 0 and STAGES * STEP >= PARTS, "a row is a whole number of stages, and the ring holds one"
    assert HELD or STEP == PARTS, "a row that stays in the ring is one stage"
    assert PRODUCER or STAGES * STEP % PARTS == 0, "the warps that compute fill the ring with whole rows"
    assert not EARLY or (HELD and PRODUCER), "a stage is given back early to a producer, when its row is in registers"
    SPAN = STEP * WIDTH
    ring, full = px.shared((STAGES, SPAN), X.dtype), px.barrier(STAGES)
    if PRODUCER:
        empty = px.barrier(STAGES)
        with px.warps(0, WARPS):
            finish_rows(
                X, W, B, Y, eps, ring, full, empty, CENTERED, MASKED, STAGES, SPAN, PARTS, WIDTH, HELD, EARLY, WEIGHTS,
                ONCE, STREAMED,
            )  # fmt: skip
        with px.warps(WARPS, 1):
            stage = px.ring(STAGES)
            first = px.cluster.rank() * (PARTS * WIDTH)
            for row in range(px.cluster.id(), X.shape[0], px.num_blocks(0) // px.cluster.size()):
                fetch_row(X, row, first, ring, full, empty, stage, SPAN, PARTS, WIDTH, STREAMED)
    else:
        finish_rows(
            X, W, B, Y, eps, ring, full, None, CENTERED, MASKED, STAGES, SPAN, PARTS, WIDTH, HELD, False, WEIGHTS, ONCE,
            STREAMED,
        )  # fmt: skip


@cache
def choose_ring(columns: int, itemsize: int) -> RingConfig | None:
    """The ring for rows of `columns` elements with weights of the same type, or None where rows are not for it.

    It takes rows of 128 KiB to 1 MiB that fill the threads of a cluster to the last vector. The smallest cluster with
    at most 64 KiB of a row in each CTA: 512 threads hold them and their weights in registers, and three rows are on
    their way in the 192 KiB of the ring. Anyone may call it; no hardware is involved. Example:
    ``choose_ring(131072, 2).cluster == 4``.
    """
    row = columns * itemsize
    width = 32 * WARPS * VECTOR_BYTES // itemsize
    if row < SHORTEST or columns % width:
        return None
    cluster = next((size for size in (2, 4, 8, MAX_CLUSTER) if row <= size * SLICE_BYTES), None)
    if cluster is None or columns % (cluster * width):
        return None
    return RingConfig(cluster, WARPS, width, columns // (cluster * width), STAGES)


def clusters_at_once(config: RingConfig, args: tuple[Any, ...], constants: dict[str, Any]) -> int:
    """How many clusters of the kernel run side by side on the GPU of the arguments, as its driver says; a few in the
    simulator."""
    info = describe(args[0])
    assert info is not None
    if info.kind != "cuda":
        return SIMULATED_CLUSTERS
    kinds = tuple(None if array is None else describe(array).dtype_name for array in args[:4])  # type: ignore[union-attr]
    key = (info.device, kinds, tuple(constants.items()))
    if key not in _clusters:
        device = px.device(info.device)
        made = px.compile(norm_ring[config.cluster], *args, arch=device.arch, **constants)
        _clusters[key] = device.clusters(made)
    return _clusters[key]


_clusters: dict[tuple[Any, ...], int] = {}


def launch_ring(x: Any, w: Any, b: Any, y: Any, eps: float, config: RingConfig, *, centered: bool) -> None:
    """Runs `norm_ring` on a matrix whose rows begin at multiples of 16 bytes."""
    info = describe(x)
    if info is None or not (info.contiguous_inner and info.aligned16):
        raise Error(
            "the argument has rows that do not begin at multiples of 16 bytes",
            location=caller_location(),
            remedy="leave config out, or pass a RowConfig: the copies of a ring begin at such multiples only",
        )
    rows, columns = x.shape
    if columns > config.columns:
        raise Error(
            f"rows of {columns} columns are longer than the {config.columns} of the configuration",
            location=caller_location(),
            remedy="raise its cluster, parts or width",
        )
    constants = {**config.constants(), "CENTERED": centered, "MASKED": columns != config.columns}
    args = (x, w, b, y, eps)
    clusters = min(rows, clusters_at_once(config, args, constants))
    norm_ring[clusters * config.cluster](*args, **constants)
