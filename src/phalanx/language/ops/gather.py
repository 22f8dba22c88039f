"""`px.tma.gather4`, `scatter4`, `gather` and `scatter`: rows of a global matrix by index, by the TMA engine."""

from __future__ import annotations

from phalanx.ir.archs import COPY_CHUNK
from phalanx.ir.ops.gather import TmaGather, TmaGather4, TmaScatter, TmaScatter4
from phalanx.ir.types import ArrayType, i32, i64
from phalanx.ir.values import Param, Value
from phalanx.ir.views import GlobalView, SharedView, in_shared
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import builtin
from phalanx.language.objects import Slice, describe
from phalanx.language.operators import binary, cast, compare, dtype_of, is_scalar, is_tile, select, shape_of
from phalanx.language.ops.mbarrier import mask_operand
from phalanx.language.ops.tma_operands import cache_hint, completion, require_pairs, shared_side
from phalanx.language.values import ViewValue, load_view, refuse_padded, require_index

FOUR = 4
NO_ROW = -1
LAST_ROW = 2**31 - 1


@builtin("tma.gather4")
def gather4(
    ctx: Builder,
    src: object,
    rows: object,
    col: object,
    dst: object,
    bar: object,
    multicast: object = None,
    cache: object = None,
    two_cta: object = False,
) -> None:
    """Starts a copy of four rows of the matrix `src`, from column `col` on, to the shared tile `dst` of shape (4, K).

    Any agent, one elected thread; sm_90 and up; PTX ``cp.async.bulk.tensor.2d.tile::gather4`` on sm_100, four one-row
    ``cp.async.bulk.tensor.2d`` on sm_90: same bytes on `bar`, same shared image. `rows`: four integers (a tuple), a tile
    of four, or four elements of an index array; one outside the matrix brings zeros, and its bytes. `multicast`,
    `cache` and `two_cta` as in `px.tma.load`.
    Example: ``with bar.transaction(): px.tma.gather4(X, (r0, r1, r2, r3), k, s, bar)``.
    """
    _gather(ctx, "px.tma.gather4", src, rows, col, dst, bar, multicast, cache, two_cta, four=True)


@builtin("tma.gather")
def gather(
    ctx: Builder,
    src: object,
    rows: object,
    col: object,
    dst: object,
    bar: object,
    multicast: object = None,
    cache: object = None,
    two_cta: object = False,
) -> None:
    """Starts a copy of any multiple of four rows of the matrix `src` to the shared tile `dst` of shape (R, K).

    Any agent, all its warps, four rows per lane; sm_90 and up; PTX as `px.tma.gather4`. `rows`: a tile of R
    indices, a slice of an index array (i32 or i64; beyond its end: no row, zeros), or a tuple of R integers. `multicast`,
    `cache` and `two_cta` as in `px.tma.load`.
    Example: ``with bar.transaction(): px.tma.gather(X, IDX[i:i+32], k, s, bar)``.
    """
    _gather(ctx, "px.tma.gather", src, rows, col, dst, bar, multicast, cache, two_cta, four=False)


@builtin("tma.scatter4")
def scatter4(ctx: Builder, src: object, rows: object, col: object, dst: object, cache: object = None) -> None:
    """Starts a copy of the shared tile `src` of shape (4, K) to four rows of the matrix `dst`, from column `col` on.

    Any agent, one elected thread; sm_90 and up; PTX ``cp.async.bulk.tensor.2d.tile::scatter4`` on sm_100, four one-row
    stores on sm_90. It finishes with its group (`px.tma.commit`, `px.tma.wait`). A row outside the matrix is not
    stored; the rows differ. `cache` as in `px.tma.store`.
    Example: ``px.tma.scatter4(s, (r0, r1, r2, r3), k, Y); px.tma.commit(); px.tma.wait(0)``.
    """
    _scatter(ctx, "px.tma.scatter4", src, rows, col, dst, cache, four=True)


@builtin("tma.scatter")
def scatter(ctx: Builder, src: object, rows: object, col: object, dst: object, cache: object = None) -> None:
    """Starts a copy of the shared tile `src` of shape (R, K), R a multiple of four, to rows of the matrix `dst`.

    Any agent, one elected thread (bulk groups are a thread's own); sm_90 and up; PTX as `px.tma.scatter4`. `rows` as in
    `px.tma.gather`, `cache` as in `px.tma.store`.
    Example: ``px.tma.scatter(s, IDX[i:i+32], k, Y); px.tma.commit(); px.tma.wait(0)``.
    """
    _scatter(ctx, "px.tma.scatter", src, rows, col, dst, cache, four=False)


def _gather(
    ctx: Builder,
    what: str,
    src: object,
    rows: object,
    col: object,
    dst: object,
    bar: object,
    multicast: object,
    cache: object,
    two_cta: object,
    *,
    four: bool,
) -> None:
    matrix = _matrix(ctx, f"the source of {what}", src)
    tile = _tile(ctx, f"the destination of {what}", dst, four)
    named = _rows(ctx, what, rows, tile.shape[0], four)
    column = _column(ctx, what, matrix, col)
    _check_same_dtype(ctx, what, matrix, tile, f"the matrix '{matrix.name}'", "the destination")
    barrier, hint = completion(ctx, what, bar), cache_hint(ctx, cache)
    mask = mask_operand(ctx, "the multicast mask", multicast)
    pair = require_pairs(ctx, what, two_cta)
    if isinstance(named, Value):
        view = GlobalView(matrix, (named, column), tile.shape, (0, 1))
        ctx.emit(TmaGather(view, tile, barrier, ctx.agent.warps, mask, hint, pair, loc=ctx.loc))
        return
    for start in range(0, len(named), FOUR):
        four_rows = tuple(_row(matrix, row, column, tile) for row in named[start : start + FOUR])
        ctx.emit(TmaGather4(four_rows, _part(ctx, tile, start), barrier, mask, hint, pair, loc=ctx.loc))


def _scatter(
    ctx: Builder, what: str, src: object, rows: object, col: object, dst: object, cache: object, *, four: bool
) -> None:
    tile = _tile(ctx, f"the source of {what}", src, four)
    matrix = _matrix(ctx, f"the destination of {what}", dst)
    named = _rows(ctx, what, rows, tile.shape[0], four)
    column = _column(ctx, what, matrix, col)
    _check_same_dtype(ctx, what, matrix, tile, f"the matrix '{matrix.name}'", "the source")
    hint = cache_hint(ctx, cache)
    if isinstance(named, Value):
        view = GlobalView(matrix, (named, column), tile.shape, (0, 1))
        ctx.emit(TmaScatter(tile, view, ctx.agent.warps, hint, loc=ctx.loc))
        return
    for start in range(0, len(named), FOUR):
        four_rows = tuple(_row(matrix, row, column, tile) for row in named[start : start + FOUR])
        ctx.emit(TmaScatter4(_part(ctx, tile, start), four_rows, hint, loc=ctx.loc))


def _row(matrix: Param, row: Value, column: Value, tile: SharedView) -> GlobalView:
    return GlobalView(matrix, (row, column), (1, tile.shape[1]), (1,))


def _part(ctx: Builder, tile: SharedView, start: int) -> SharedView:
    """Four rows of the shared tile."""
    if tile.shape[0] == FOUR:
        return tile
    part = ViewValue(tile).subscript(ctx, (Slice(start, start + FOUR, None),)).view
    assert in_shared(part)
    return part


# Operands.


def _matrix(ctx: Builder, what: str, array: object) -> Param:
    """The global side: the array itself, of two axes."""
    if not isinstance(array, Param) or not isinstance(array.type, ArrayType):
        remedy = "pass the array itself; the rows, the column and the width of the tile say which part"
        ctx.fail(f"{what} must be a global array, not {describe(array)}", remedy)
    if array.type.rank != 2:
        axes = f"{array.type.rank} ax{'e' if array.type.rank != 1 else 'i'}s"
        remedy = "rows are gathered from a matrix: reshape the array to rows x width"
        ctx.fail(f"{what}, '{array.name}', has {axes}", remedy)
    if array.type.dense:
        remedy = "only px.tma.load reads such arrays: pass one with a byte for each element, px.packed without dense=True"
        ctx.fail(f"{what}, '{array.name}', has elements of {array.type.dtype} that lie four to three bytes", remedy)
    return array


def _tile(ctx: Builder, what: str, view: object, four: bool) -> SharedView:
    """The shared side: a matrix of rows that follow each other."""
    tile = shared_side(ctx, what, view)
    shape = "(4, K)" if four else "(R, K)"
    if len(tile.shape) != 2:
        ctx.fail(f"{what} has shape {tile.shape}", f"it must be a matrix of shape {shape}: index the axes before it")
    if tile.kept != (len(tile.extents) - 2, len(tile.extents) - 1):
        ctx.fail(
            f"the rows of {what} do not follow each other",
            f"its axes must be the last two of '{tile.buffer.name}': index the others",
        )
    rows, columns = tile.shape
    if four and rows != FOUR:
        name = what.rsplit(".", 1)[-1][:-1]
        ctx.fail(f"{what} has {rows} rows", f"it takes 4; px.tma.{name} takes any multiple of four")
    if rows % FOUR:
        ctx.fail(f"{what} has {rows} rows", "it takes a multiple of four; rows named -1 are left out")
    refuse_padded(ctx, f"{what}: rows by index", tile)
    if tile.dtype.nbytes(columns) % COPY_CHUNK:
        ctx.fail(
            f"{what} has rows of {tile.dtype.nbytes(columns)} bytes",
            f"TMA copies multiples of {COPY_CHUNK}: make them a multiple of {tile.dtype.elements(COPY_CHUNK)} columns",
        )
    return tile


def _check_same_dtype(ctx: Builder, what: str, matrix: Param, tile: SharedView, left: str, right: str) -> None:
    assert isinstance(matrix.type, ArrayType)
    if matrix.type.dtype != tile.dtype:
        ctx.fail(
            f"{what}: {left} is {matrix.type.dtype}, {right} {tile.dtype}",
            "a copy does not convert: make the shared buffer of the array's dtype",
        )


def _column(ctx: Builder, what: str, matrix: Param, col: object) -> Value:
    """The first column, a multiple of 16 bytes as far as that is known by now."""
    col = require_index(ctx, f"the column of {what}", col)
    assert isinstance(matrix.type, ArrayType)
    step = matrix.type.dtype.elements(COPY_CHUNK)
    if isinstance(col, int) and col % step:
        ctx.fail(
            f"{what} begins at column {col}, byte {matrix.type.dtype.nbytes(col)} of its rows",
            f"TMA begins at multiples of {COPY_CHUNK} bytes: a multiple of {step} columns",
        )
    return operand(col)


def _rows(ctx: Builder, what: str, rows: object, count: int, four: bool) -> Value | list[Value]:
    """The indices: one tile of them, or scalars, all i32."""
    listed = f"{count} rows"
    if isinstance(rows, tuple | list):
        if len(rows) != count:
            ctx.fail(f"{what} got {len(rows)} rows for a tile of {listed}", "name as many rows as the tile has")
        scalars = []
        for row in rows:
            row = require_index(ctx, f"a row of {what}", _element(ctx, row))
            scalars.append(_narrow(ctx, row))
        return scalars
    if isinstance(rows, ViewValue):
        view = rows.view
        if len(view.shape) != 1 or view.dtype not in (i32, i64):
            shown = f"{view.dtype}{list(view.shape)}"
            remedy = "they must be a slice of i32 or i64 indices: IDX[i:i+32]"
            ctx.fail(f"the rows of {what} are a view of {shown}", remedy)
        if view.shape[0] != count:
            ctx.fail(f"{what} got {view.shape[0]} rows for a tile of {listed}", "name as many rows as the tile has")
        return _narrow(ctx, load_view(ctx, view, NO_ROW))
    if is_tile(rows):
        if len(shape_of(rows)) != 1 or dtype_of(rows) not in (i32, i64):
            remedy = "they must be i32[n] or i64[n]: load them from an index array"
            ctx.fail(f"the rows of {what} are a tile of {rows.type}", remedy)
        if shape_of(rows)[0] != count:
            ctx.fail(f"{what} got {shape_of(rows)[0]} rows for a tile of {listed}", "name as many rows as the tile has")
        return _narrow(ctx, rows)
    few = "four integers, e.g. (r0, r1, r2, r3)" if four or is_scalar(rows) else "a tile or a slice of indices"
    ctx.fail(f"the rows of {what} can't be {describe(rows)}", f"name {few}")


def _element(ctx: Builder, row: object) -> object:
    """A row index; an element beyond the end of an index array names no row."""
    if isinstance(row, ViewValue) and row.view.shape == () and row.view.dtype in (i32, i64):
        return load_view(ctx, row.view, NO_ROW)
    return row


def _narrow(ctx: Builder, rows: int | Value) -> Value:
    """Indices as TMA takes them, 32-bit; a wider one that does not fit names no row."""
    if isinstance(rows, int):
        return operand(rows if abs(rows) <= LAST_ROW else NO_ROW)
    if dtype_of(rows) == i32:
        return rows
    if dtype_of(rows).bits < 32:
        return cast(ctx, rows, i32)
    fits = binary(ctx, "and", compare(ctx, "ge", rows, 0), compare(ctx, "le", rows, LAST_ROW))
    return operand(select(ctx, fits, cast(ctx, rows, i32), NO_ROW))


__all__ = ["gather", "gather4", "scatter", "scatter4"]
