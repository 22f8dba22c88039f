"""Rows by index: gather, scatter, scatter-add, embedding lookup, in one of two ways.

Through registers (`TileConfig`): a CTA has 4 KiB of rows, or of parts of them, two vectors of 16 bytes a thread. So rows
are gathered and scattered: on an H200 that takes 4 to 10% less time than the other way. Rows that begin anywhere, and narrow
ones that are added, are moved so, too. Of rows that are added those of one index can be `combined` first.

Through a ring of stages in shared memory (`MoveConfig`): so wide rows are added, as bulk reductions. No data passes
through registers. A persistent grid moves the rows: one warp loads rows ahead by bulk copies of
whole rows (or wide parts of them), another stores them; the stages a store still reads are released a few stores
later. The CTAs are dealt the rows in turn, so that all of them write near one another (2% faster than where each has a
range of its own), and each knows the indices of its next rows before it needs them. The rings are no `px.pipe`: a stage is
released LAG stores after its own, so that a pipe would count at run time how many stages it holds.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.frozen import frozen
from phalanx.ir.archs import COPY_CHUNK
from phalanx.kernels.launches import sms_of, wait_for_prior_launch
from phalanx.kernels.matrices import empty, has_work, info_of, refused, require_config, result_info
from phalanx.machines.h200 import H200
from phalanx.runtime.device.arrays import ITEM_BYTES, PER_BYTE, ArgumentKind, ArrayInfo, kind_of
from phalanx.runtime.launch.launch_list import record_array
from phalanx.runtime.launch.replay import remembered
from phalanx.runtime.symbolic.choices import chosen_by_sizes

ELEMENTS = tuple(name for name in ITEM_BYTES if name not in PER_BYTE)
INDICES = ("i32", "i64")
SUMMABLE = ("f32", "f16", "bf16", "i32", "u32", "u64")
COMBINED_ROWS, COMBINED_STEP, COMBINED_MOST = 64, 16, 256
"""Rows of a CTA that adds those of one index first: those of one product; its columns are a multiple of a step, and so many
at the most."""


@frozen
class MoveConfig:
    """How rows travel: `rows` parts of `width` columns a stage; a stage is released `lag` stores after its own."""

    width: int
    rows: int
    stages: int
    lag: int
    per_sm: int = 1

    def constants(self, columns: int) -> dict[str, int]:
        """The constants of the kernels for rows of `columns` elements."""
        parts = px.cdiv(columns, self.width)
        return {"WIDTH": self.width, "PARTS": parts, "ROWS": self.rows, "STAGES": self.stages, "LAG": self.lag}

    def grid(self, sms: int, rows: int, columns: int) -> int:
        """CTAs for so many rows; there are no more than have something to do."""
        return max(1, min(self.per_sm * sms, px.cdiv(rows * px.cdiv(columns, self.width), self.rows)))


@chosen_by_sizes
def choose(columns: int, itemsize: int, widest: int = H200.moves.widest_bytes) -> MoveConfig:
    """The ring for rows of `columns` elements.

    That of one CTA fills an SM's shared memory; rows under 4 KiB, which take more instructions per byte, are moved
    by four. Anyone may call it; no hardware is involved. Example: ``choose(4096, 2) == MoveConfig(4096, 4, 6, 2)``.
    """
    parts = px.cdiv(columns * itemsize, widest)
    step = COPY_CHUNK // itemsize
    width = px.cdiv(px.cdiv(columns, parts), step) * step if parts > 1 else columns
    row = width * itemsize
    card = H200.moves
    per_sm = 4 if row < card.short_row_bytes else 1
    rows = max(1, min(16, (card.shared_stage_bytes if per_sm == 4 else card.stage_bytes) // row))
    stages = max(2, min(12, card.ring_bytes // per_sm // (rows * row)))
    return MoveConfig(width, rows, stages, min(3 if per_sm == 4 else 2, stages - 1), per_sm)


@frozen
class TileConfig:
    """How narrow rows travel, through registers: `rows` of them a CTA, `width` columns of each at a time.

    `combined`, for rows of bf16 or f16 that are added: those of a CTA that have one index are added on chip, in f32, and
    their sum alone leaves the SM. A CTA has 64 rows then, and a multiple of 16 columns, up to 256.
    """

    rows: int
    width: int
    combined: bool = False

    def constants(self) -> dict[str, int]:
        """The constants of the kernels."""
        return {"BM": self.rows, "BN": self.width}

    def grid(self, rows: int, columns: int) -> int:
        """CTAs for so many rows of so many columns."""
        return px.cdiv(rows, self.rows) * px.cdiv(columns, self.width)


@chosen_by_sizes
def choose_tile(columns: int, itemsize: int, moves: bool = False) -> TileConfig:
    """The configuration for rows that pass through registers: whole ones as far as a CTA's vectors reach, else parts.

    `moves`: they begin at multiples of 16 bytes and nothing is added. Of the narrowest a CTA has more. Anyone may call it;
    no hardware is involved. Example: ``choose_tile(64, 2, moves=True) == TileConfig(32, 64)``.
    """
    card = H200.moves
    moves = moves and columns * itemsize >= card.moved_least_bytes
    longest, nbytes = (card.moved_row_bytes, card.moved_bytes) if moves else (card.tile_row_bytes, card.tile_bytes)
    width = min(1 << max(columns - 1, 1).bit_length(), longest // itemsize)
    return TileConfig(max(1, nbytes // (width * itemsize)), width)


@px.func
def place_of(unit, PARTS, WIDTH):
    """The row and the first column of a unit, which is one of the PARTS parts of a row."""
    return unit // PARTS, unit % PARTS * WIDTH


@px.func
def places_of(unit, rows, ROWS, PARTS, WIDTH):
    """The rows of the units of a stage, with their first columns.

    With `rows`, how many there are, it is the last one for those beyond: such a row is loaded, which nobody stores.
    """
    places: tuple[Any, ...] = ()
    for r in px.static_range(ROWS):
        row, column = place_of(unit * ROWS + r, PARTS, WIDTH)
        places = (*places, (row if rows is None else px.minimum(row, rows - 1), column))
    return places


@px.func
def named_places(I, unit, rows, ROWS, PARTS, WIDTH):
    """`places_of` with the rows that the index array names in the place of its own; beyond its end -1."""
    places: tuple[Any, ...] = ()
    for row, column in places_of(unit, rows, ROWS, PARTS, WIDTH):
        places = (*places, (px.load(I[row], fill=-1), column))
    return places


@px.struct
class MovingRows:
    """A ring of stages (stage, row, column) in shared memory: one warp loads rows that another one stores.

    `stage` is the role's place in the ring, `freed` that of the next stage to give back.
    """

    ring: Any
    full: Any
    empty: Any
    stage: Any
    freed: Any

    def load(self, X, places):
        """Starts the copies of rows of X, (row, first column) each, into the next stage, as soon as that is free."""
        stage = self.stage.stage
        self.empty[stage].wait(self.stage.parity ^ 1)
        with self.full[stage].transaction():
            for r in px.static_range(len(places)):
                row, column = places[r]
                px.tma.load(X[row, column : column + self.ring.shape[2]], self.ring[stage, r], self.full[stage])
        self.stage.advance()

    def store(self, Y, places, frees, LAG, ADD=False):
        """Starts the copies of the next stage to rows of Y, or with ADD adds it to them.

        Where it `frees` one, it gives back the stage of LAG turns before, which has been read by then.
        """
        stage = self.stage.stage
        self.full[stage].wait(self.stage.parity)
        for r in px.static_range(len(places)):
            row, column = places[r]
            if ADD:
                px.tma.reduce(self.ring[stage, r], Y[row, column : column + self.ring.shape[2]], "add")
            else:
                px.tma.store(self.ring[stage, r], Y[row, column : column + self.ring.shape[2]])
        px.tma.commit()
        self.stage.advance()
        px.tma.wait(LAG, read=True)
        if frees:
            self.empty[self.freed.stage].arrive()
            self.freed.advance()


@px.func
def moving_rows(X, ROWS, WIDTH, STAGES):
    """The `MovingRows` of a CTA, whose roles have places of their own."""
    ring = px.shared((STAGES, ROWS, WIDTH), X.dtype)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    return MovingRows(ring, full, empty, px.ring(STAGES), px.ring(STAGES))


@px.kernel(warps=2, pdl=True)
def gather_ring(X, I, Y, *, WIDTH, PARTS, ROWS, STAGES, LAG):
    """Y[i] = X[I[i]]; indices outside X give zeros."""
    moving = moving_rows(X, ROWS, WIDTH, STAGES)
    first = px.block_id(0)
    total = px.cdiv(Y.shape[0] * PARTS, ROWS)
    step = px.num_blocks(0)
    wait_for_prior_launch()

    with px.warps(0, 1):
        following = named_places(I, first, I.shape[0], ROWS, PARTS, WIDTH)
        for unit in range(first, total, step):
            places = following
            following = named_places(I, unit + step, I.shape[0], ROWS, PARTS, WIDTH)
            moving.load(X, places)

    with px.warps(1, 1):
        for unit in range(first, total, step):
            moving.store(Y, places_of(unit, None, ROWS, PARTS, WIDTH), unit >= first + LAG * step, LAG)
        px.tma.wait(0)


@px.kernel(warps=2, pdl=True)
def scatter_ring(X, I, Y, *, WIDTH, PARTS, ROWS, STAGES, LAG, ADD=False):
    """Y[I[i]] = X[i], or with ADD += X[i], atomically per element; indices outside Y store nothing."""
    moving = moving_rows(X, ROWS, WIDTH, STAGES)
    first = px.block_id(0)
    total = px.cdiv(X.shape[0] * PARTS, ROWS)
    step = px.num_blocks(0)
    wait_for_prior_launch()

    with px.warps(0, 1):
        for unit in range(first, total, step):
            moving.load(X, places_of(unit, X.shape[0], ROWS, PARTS, WIDTH))

    with px.warps(1, 1):
        following = named_places(I, first, None, ROWS, PARTS, WIDTH)
        for unit in range(first, total, step):
            places = following
            following = named_places(I, unit + step, None, ROWS, PARTS, WIDTH)
            moving.store(Y, places, unit >= first + LAG * step, LAG, ADD)
        px.tma.wait(0)


@px.func
def tile_place(columns, BM, BN):
    """The first row and the first column of a CTA's tile: CTAs that follow each other have parts of the same rows."""
    parts = px.cdiv(columns, BN)
    return px.block_id(0) // parts * BM, px.block_id(0) % parts * BN


@px.kernel(warps=4, pdl=True)
def gather_tiles(X, I, Y, *, BM=16, BN=128):
    """`gather_ring` through registers; rows may begin anywhere."""
    wait_for_prior_launch()
    m, n = tile_place(Y.shape[1], BM, BN)
    rows = px.load(I[m : m + BM], fill=-1)
    px.store(Y[m : m + BM, n : n + BN], px.load(X[rows, n : n + BN]))


@px.kernel(warps=4, pdl=True)
def scatter_tiles(X, I, Y, *, BM=16, BN=128, ADD=False):
    """`scatter_ring` through registers; rows may begin anywhere."""
    wait_for_prior_launch()
    m, n = tile_place(X.shape[1], BM, BN)
    rows = px.load(I[m : m + BM], fill=-1)
    if ADD:
        px.atomic_add(Y[rows, n : n + BN], px.load(X[m : m + BM, n : n + BN]))
    else:
        px.store(Y[rows, n : n + BN], px.load(X[m : m + BM, n : n + BN]))


@px.kernel(warps=4, pdl=True)
def sum_tiles(X, I, Y, *, BM=COMBINED_ROWS, BN=64):
    """Y[I[i]] += X[i], atomically per element: rows of a tile that have one index are added first, in f32.

    The tensor cores multiply the tile by a matrix of ones where row and column have one index. What is no number would
    spread to the other rows, as a product by zero: such a tile is added row by row.
    """
    wait_for_prior_launch()
    m, n = tile_place(X.shape[1], BM, BN)
    rows = px.load(I[m : m + BM], fill=-1)
    values = px.load(X[m : m + BM, n : n + BN])
    place = px.arange(BM)
    same = rows.reshape(BM, 1) == rows.reshape(1, BM)
    again = px.any(same & (place.reshape(1, BM) < place.reshape(BM, 1)), axis=1)  # an earlier row has this one's index
    combines = px.any(again & (rows >= 0))
    if combines:
        combines = px.all(px.abs(values.to(px.f32)) < float("inf"))
    if combines:
        named = px.shared((BM, BM), X.dtype)
        part = px.shared((BM, BN), X.dtype)
        px.store(named, px.where(same, 1.0, 0.0).to(X.dtype))
        px.store(part, values)
        px.fence.async_proxy()
        px.sync()
        sums = px.empty((BM, BN), px.f32)
        px.wgmma(named, part, sums, accumulate=False)
        px.wgmma_commit()
        px.wgmma_wait(0)
        px.atomic_add(Y[px.where(again, -1, rows), n : n + BN], sums.to(X.dtype))
    else:
        px.atomic_add(Y[rows, n : n + BN], values)


@remembered("x", "idx", "out", writes={"out": "out is not None"})
def gather_rows(x: Any, idx: Any, *, out: Any = None, config: MoveConfig | TileConfig | None = None) -> Any:
    """Row idx[i] of `x` as row i of the result; rows outside `x`, negative ones included, are zeros.

    `x` a torch, CuPy or NumPy matrix of any element type, `idx` a vector of i32 or i64 on the same device. `out`
    takes the result where it is given. sm_90 and up, or the simulator. Example: ``y = gather_rows(x, idx)``.
    """
    source = _matrix("x", x)
    rows = _vector("idx", idx)
    shape = (rows.shape[0], source.shape[1])
    if out is None:
        out = new(x, shape)
    target = _matrix("out", out, like=source)
    if target.shape != shape:
        raise refused(f"out has shape {target.shape}, the result {shape}", "pass an array of the result's shape")
    if not has_work(*shape):
        return out
    if not source.shape[0]:
        out[...] = 0
        return out
    config = _config(config, shape[1], source, target)
    if isinstance(config, MoveConfig):
        gather_ring[config.grid(sms_of(x), *shape)](x, idx, out, **config.constants(shape[1]))
    else:
        gather_tiles[config.grid(*shape)](x, idx, out, **config.constants())
    return out


@remembered("x", "idx", "out", writes={"out": "out is not None"})
def scatter_rows(x: Any, idx: Any, out: Any, *, config: MoveConfig | TileConfig | None = None) -> Any:
    """Stores row i of `x` as row idx[i] of `out`, and returns `out`.

    Rows outside `out` are not stored; `idx` names none twice. Arrays as in `gather_rows`. sm_90 and up, or
    the simulator. Example: ``scatter_rows(x, idx, out)``.
    """
    return _scatter(x, idx, out, config, adds=False)


@remembered("x", "idx", "out", writes={"out": "out is not None"})
def scatter_add_rows(x: Any, idx: Any, out: Any, *, config: MoveConfig | TileConfig | None = None) -> Any:
    """Adds row i of `x` to row idx[i] of `out`, and returns `out`. Rows named several times add up, in any order.

    By bulk reductions, narrow rows by reductions of 16 bytes: f32, f16, bf16, i32, u32 and u64, added in that type. Arrays
    as in `gather_rows`. With ``config=TileConfig(64, 64, combined=True)``, rows of bf16 or f16 that stand near each other
    in `x` and have one index are added on chip first, in f32, by `wgmma` (sm_90a): for indices that repeat often. sm_90 and
    up, or the simulator. Example: ``scatter_add_rows(grad, ids, table_grad)``.
    """
    return _scatter(x, idx, out, config, adds=True)


@remembered("weight", "ids")
def embedding(weight: Any, ids: Any) -> Any:
    """Row ids[...] of the table `weight` for every id: the shape of `ids` and one more axis.

    Ids outside the table give zeros. sm_90 and up, or the simulator. Example: ``embedding(table, tokens)``.
    """
    info_of("ids", ids, INDICES)
    rows = gather_rows(weight, ids.reshape(-1))
    return rows.reshape((*ids.shape, weight.shape[1]))


def _scatter(x: Any, idx: Any, out: Any, config: MoveConfig | TileConfig | None, *, adds: bool) -> Any:
    elements = SUMMABLE if adds else ELEMENTS
    source = _matrix("x", x, elements)
    rows = _vector("idx", idx)
    target = _matrix("out", out, elements)
    if rows.shape[0] != source.shape[0]:
        raise refused(f"idx has {rows.shape[0]} entries, x has {source.shape[0]} rows", "pass one index per row of x")
    if target.dtype_name != source.dtype_name or target.shape[1] != source.shape[1]:
        raise refused(
            f"a row of x is {source.shape[1]} {source.dtype_name}, a row of out {target.shape[1]} {target.dtype_name}",
            "both have the same columns and element type",
        )
    if not has_work(*source.shape, *target.shape):
        return out
    count, columns = source.shape
    config = _config(config, columns, source, target, adds=adds)
    if isinstance(config, MoveConfig):
        scatter_ring[config.grid(sms_of(x), count, columns)](x, idx, out, **config.constants(columns), ADD=adds)
    elif config.combined:
        sum_tiles[config.grid(count, columns)](x, idx, out, **config.constants())
    else:
        scatter_tiles[config.grid(count, columns)](x, idx, out, **config.constants(), ADD=adds)
    return out


def _config(config: Any, columns: int, *matrices: ArrayInfo, adds: bool = False) -> MoveConfig | TileConfig:
    """The configuration that was asked for, or the usual one: a ring for rows that the copy engine can add and that are
    wide enough for it, tiles for others."""
    config = require_config(config, MoveConfig, TileConfig)
    itemsize = ITEM_BYTES[matrices[0].dtype_name]
    moves = _moves(*matrices)
    if isinstance(config, MoveConfig) and not moves:
        raise refused("a MoveConfig for rows that do not begin at multiples of 16 bytes", "pass a TileConfig, or none")
    if isinstance(config, TileConfig) and config.combined:
        _require_combinable(config, matrices[0], adds)
    if config is not None:
        return config
    if adds and moves and columns * itemsize >= H200.moves.narrow_bytes:
        return choose(columns, itemsize)
    return choose_tile(columns, itemsize, moves and not adds)


def _require_combinable(config: TileConfig, rows: ArrayInfo, adds: bool) -> None:
    """Refuses tiles whose rows of one index can't be added on chip."""
    if not adds or rows.dtype_name not in ("bf16", "f16"):
        raise refused(
            f"{config} for rows of {rows.dtype_name} that are {'added' if adds else 'stored'}",
            "combined=True is for rows of bf16 or f16 that are added; leave it out",
        )
    if config.rows != COMBINED_ROWS or config.width % COMBINED_STEP or not 0 < config.width <= COMBINED_MOST:
        raise refused(
            f"{config} has tiles whose rows can't be combined",
            f"let rows be {COMBINED_ROWS}, and width a multiple of {COMBINED_STEP} up to {COMBINED_MOST}",
        )


# ---------------------------------------------------------------------- arrays


def new(like: Any, shape: tuple[int, ...]) -> Any:
    """A new contiguous array of the same kind and element type, on the same device."""
    if kind_of(like) is ArgumentKind.TORCH:
        return record_array(like.new_empty(shape))
    return empty(like, shape, info_of("x", like, ELEMENTS).dtype_name)


def _matrix(what: str, x: Any, elements: tuple[str, ...] = ELEMENTS, like: ArrayInfo | None = None) -> ArrayInfo:
    info = (result_info if what == "out" else info_of)(what, x, elements)
    if len(info.shape) != 2:
        raise refused(f"{what} has shape {info.shape}", "pass a matrix; x.reshape(-1, columns) makes one")
    if like is not None and info.dtype_name != like.dtype_name:
        raise refused(f"{what} is {info.dtype_name}, x is {like.dtype_name}", "pass one of the same element type")
    return info


def _vector(what: str, x: Any) -> ArrayInfo:
    info = info_of(what, x, INDICES)
    if len(info.shape) != 1:
        raise refused(f"{what} has shape {info.shape}", f"pass a vector; {what}.reshape(-1) makes one")
    return info


def _moves(*matrices: ArrayInfo) -> bool:
    """Whether whole rows can be moved by the copy engine: they start on multiples of 16 bytes, elements adjacent."""
    return all(info.contiguous_inner and info.aligned16 for info in matrices)
