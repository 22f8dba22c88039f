"""Long rows by clusters that stay: the next rows are on their way while one is finished.

Each cluster takes one row after another. A CTA's slice of them comes through a ring of stages in shared memory, filled
by bulk copies ahead of their use, so that the memory is busy while the cluster exchanges what it knows of a row.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

import phalanx as px
from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.kernels.rowwise.rows import LIMITS, MAX_CLUSTER, VECTOR_BYTES, pin_row
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.exporting.choices import chosen_at_example, chosen_by_sizes

REGISTERS, SHARED, LOADED = "registers", "shared", "loaded"
"""Where the weights are between two rows; `LOADED`: nowhere, each row loads them again, out of L1 or L2."""
WARPS = 16
STAGES = 24
SHORT_PARTS, SHORT_STAGES = 4, 4
"""A slice of so few parts is one stage, and the ring then has so many of them."""
SIMULATED_CLUSTERS = 2


@frozen
class RingConfig:
    """How rows pass through a cluster: a CTA has `parts` tiles of `width` columns of each, `step` tiles to a stage.

    - `held`: a row is in registers from its first use to its store, and its stages are free by the exchange;
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
        """Columns that a cluster holds."""
        return self.cluster * self.parts * self.width

    def constants(self) -> dict[str, Any]:
        """The kernels' constants of the same names, in capitals. All callers get the same dict, and must not change it."""
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
        pdl=True,
    )
    return make(fn)


@px.struct
class Stream:
    """This CTA's slices of the rows of X that its cluster takes, and the ring of stages that they come through.

    Without `empty`, the role that takes them fills the ring as well. `taken` and `freed` are its places in the ring: of
    the next stage to take, and of the next one to give back or to fill. `first` is the CTA's first column. `clusters` is
    the number of clusters: so many rows lie between one row of this cluster and its next.
    It is no `px.pipe`: one role may fill the ring and take from it as well, a row takes several stages at once and gives
    them back together, and does so before or after the exchange.
    """

    X: Any
    ring: Any
    full: Any
    empty: Any
    taken: Any
    freed: Any
    first: Any
    clusters: Any
    STAGES: int
    SPAN: int
    PARTS: int
    WIDTH: int
    HELD: bool
    STREAMED: bool

    def ahead(self):
        """How many rows lie between one row and the next one that comes through the same stages."""
        return self.STAGES * self.SPAN // (self.PARTS * self.WIDTH) * self.clusters

    def fetch(self, row):
        """Starts the copies of a row's slice, a stage each; where there is `empty`, as stages become free."""
        for chunk in range(self.PARTS * self.WIDTH // self.SPAN):
            stage = self.freed.stage
            if self.empty is not None:
                self.empty[stage].wait(self.freed.parity ^ 1)
            with self.full[stage].transaction():
                at = self.first + chunk * self.SPAN
                source = self.X[row, at : at + self.SPAN]
                px.tma.load(source, self.ring[stage], self.full[stage], cache="evict_first" if self.STREAMED else None)
            self.freed.advance()

    def fetch_all(self):
        """The role that only fills the ring."""
        for row in range(px.cluster.id(), self.X.shape[0], self.clusters):
            self.fetch(row)

    def begin(self):
        """Fills the ring for the first time, where nobody else does."""
        if self.empty is None:
            last = px.minimum(px.cluster.id() + self.ahead(), self.X.shape[0])
            for row in range(px.cluster.id(), last, self.clusters):
                self.fetch(row)

    def take(self):
        """The next row's slice: a tuple of tiles and None where rows are held in registers, else None and its stage."""
        x: Any = None
        slot = None
        if self.HELD:
            x = ()
            for _ in px.static_range(0, self.PARTS * self.WIDTH, self.SPAN):
                self.full[self.taken.stage].wait(self.taken.parity)
                for at in px.static_range(0, self.SPAN, self.WIDTH):
                    x = (*x, px.load(self.ring[self.taken.stage, at : at + self.WIDTH]))
                self.taken.advance()
        else:
            self.full[self.taken.stage].wait(self.taken.parity)
            slot = self.ring[self.taken.stage]
            self.taken.advance()
        return x, slot

    def part(self, x, slot, part):
        """One tile of a row that was taken, in f32."""
        if self.HELD:
            tile = x[part]
        else:
            tile = px.load(slot[part * self.WIDTH : part * self.WIDTH + self.WIDTH])
        return tile.to(px.f32)

    def keep(self, x):
        """The row, pinned in registers in its own type: the compiler keeps nothing that it computed from it."""
        return pin_row(x, self.PARTS) if self.HELD else None

    def done(self, row):
        """Gives the stages of `row`, the last one taken, back: to the role that fills them, or to copies of a row to come.

        Held rows: an exchange with the cluster is over in one warp only when all warps of the CTA have brought what they
        know of the row, so none reads these stages any more. Right after it this needs no barrier.
        """
        if self.empty is not None:
            for _ in px.static_range(0, self.PARTS * self.WIDTH, self.SPAN):
                self.empty[self.freed.stage].arrive()
                self.freed.advance()
        elif row + self.ahead() < self.X.shape[0]:
            self.fetch(row + self.ahead())


@px.func
def stream(X, ring, full, empty, STAGES, STEP, PARTS, WIDTH, HELD, STREAMED):
    """The `Stream` of a role, with its own places in the ring."""
    first, clusters = px.cluster.rank() * (PARTS * WIDTH), px.num_blocks(0) // px.cluster.size()
    taken, freed = px.ring(STAGES), px.ring(STAGES)
    return Stream(
        X, ring, full, empty, taken, freed, first, clusters, STAGES, STEP * WIDTH, PARTS, WIDTH, HELD, STREAMED
    )


@px.func
def check_ring(STAGES, STEP, PARTS, HELD, PRODUCER, EARLY):
    """Refuses configurations whose rows do not fill whole stages, or that nobody would give stages back to."""
    assert PARTS % STEP == 0 and STAGES * STEP >= PARTS, "a row is a whole number of stages, and the ring holds one"
    assert HELD or STEP == PARTS, "a row that stays in the ring is one stage"
    assert PRODUCER or STAGES * STEP % PARTS == 0, "the warps that compute fill the ring with whole rows"
    assert not EARLY or (HELD and PRODUCER), "a stage is given back early to a producer, when its row is in registers"


@chosen_by_sizes
@cache
def choose_ring(columns: int, itemsize: int, vectors: int = 1) -> RingConfig | None:
    """The ring for rows of `columns` elements with weights of the same type, or None where rows are not for it.

    It takes rows of 256 KiB to 1 MiB that fill the threads of a cluster to the last vector. The smallest cluster, of 8
    or 16, with at most 64 KiB of a row in each CTA: 512 threads hold them and their weights in registers. Three rows
    are on their way in the 192 KiB of the ring, tile by tile; four where a slice is half as long, each in one piece.
    Measured on an H200: 0.93 of the device copy for 131,072 and 262,144 columns of bf16. A long slice with two
    `vectors`, weights and biases, is not for it: it needs more registers than the warps have beside a producer, shared
    memory would hold both only in the place of half the ring, and loading them again for each row reads three times as
    much as the row. Anyone may call it; no hardware is involved. Example: ``choose_ring(131072, 2).cluster == 8``.
    """
    row = columns * itemsize
    width = 32 * WARPS * VECTOR_BYTES // itemsize
    if row < LIMITS.ring_row_bytes or columns % width:
        return None
    cluster = next((size for size in (8, MAX_CLUSTER) if row <= size * LIMITS.ring_slice_bytes), None)
    if cluster is None or columns % (cluster * width):
        return None
    parts = columns // (cluster * width)
    if parts <= SHORT_PARTS:
        return RingConfig(cluster, WARPS, width, parts, SHORT_STAGES, parts)
    return RingConfig(cluster, WARPS, width, parts, STAGES, once=False) if vectors <= 1 else None


def launch_ring(kernel: Any, config: RingConfig, args: tuple[Any, ...], constants: dict[str, Any]) -> None:
    """Runs a ring kernel, whose first argument is a matrix of rows that begin at multiples of 16 bytes, on as many
    clusters as run side by side."""
    info = describe(args[0])
    assert info is not None
    if not (info.contiguous_inner and info.aligned16):
        raise Error(
            "the argument has rows that do not begin at multiples of 16 bytes",
            location=caller_location(),
            remedy="leave config out, or pass a RowConfig: the copies of a ring begin at such multiples only",
        )
    rows, columns = info.shape
    if columns > config.columns:
        raise Error(
            f"rows of {columns} columns are longer than the {config.columns} of the configuration",
            location=caller_location(),
            remedy="raise its cluster, parts or width",
        )
    constants = {**config.constants(), **constants, "MASKED": columns != config.columns}
    clusters = min(rows, clusters_at_once(kernel, config.cluster, args, constants))
    kernel[clusters * config.cluster](*args, **constants)


@chosen_at_example
def clusters_at_once(kernel: Any, cluster: int, args: tuple[Any, ...], constants: dict[str, Any]) -> int:
    """How many clusters of the kernel the GPU of the arguments holds, as its driver says; a few in the simulator."""
    infos = [describe(argument) for argument in args]
    first = infos[0]
    assert first is not None
    if first.kind != "cuda":
        return SIMULATED_CLUSTERS
    key = (kernel, first.device, tuple(info and info.dtype_name for info in infos), tuple(constants.items()))
    if key not in _clusters:
        device = px.device(first.device)
        made = px.compile(kernel[cluster], *args, arch=device.arch, **constants)
        _clusters[key] = device.clusters(made)
    return _clusters[key]


_clusters: dict[tuple[Any, ...], int] = {}
