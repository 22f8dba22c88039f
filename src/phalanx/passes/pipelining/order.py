"""The order of tiles that are the compiler's to order: those in flight at the same time form a block of the output.

A loop over `px.persistent` without a schedule, whose body takes the number of a tile apart into row and column, goes through
bands of a few rows, column by column. So the tiles in flight read few rows of one operand and few columns of the other, and
L2 serves them. It is a bijection of the tiles: each of them still is somebody's, once.
"""

from __future__ import annotations

import dataclasses
from math import isqrt

from phalanx.analysis.offsets import Offsets
from phalanx.analysis.tile_grids import TileGrid, find_grid
from phalanx.ir.core import Block, Function, Note, Op, rewrite, substitute
from phalanx.ir.ops.control import For
from phalanx.ir.ops.tile import Cast
from phalanx.ir.types import I32, ScalarType, u32
from phalanx.ir.values import Const, Value
from phalanx.passes.rank_code import RankCode

CTAS = 132
"""That are in flight on the GPUs that this is for, one on each SM."""
MOST_ROWS = 32


def group_tiles(function: Function) -> Function:
    """The kernel with such loops in that order. For `write_loops`, before anything is staged."""
    loops = [op for op in function.walk() if isinstance(op, For) and op.unordered and _has_pipelined(op)]
    for loop in loops:
        grid = find_grid(function, loop)
        band = None if grid is None or loop.index.type != I32 else _band(function, grid)
        if grid is not None and band is not None:
            function = _grouped(function, grid, band)
    return function


def _has_pipelined(loop: For) -> bool:
    return any(isinstance(op, For) and op.pipelined is not None for op in loop.body.walk())


def _band(function: Function, grid: TileGrid) -> int | None:
    """The rows of a band: the block of tiles in flight is about as high as it is wide, in elements.

    None where rows or columns are no places in a matrix, but numbers of matrices, say: neighbours have nothing in common.
    """
    high, wide = _step(function, grid, grid.row), _step(function, grid, grid.column)
    if high is None or wide is None:
        return None
    rows = isqrt(max(1, CTAS // function.cluster_size * wide // high))
    return min(MOST_ROWS, 1 << max(1, round(rows * 1.4).bit_length() - 1))


def _step(function: Function, grid: TileGrid, parts: tuple[Op, ...]) -> int | None:
    """How far apart two neighbours lie along an axis of the tiles that are loaded: the largest of the factors."""
    offsets = Offsets.of(function)
    values = {op.defines for op in parts}
    found: list[int] = []
    for op in grid.loop.body.walk():
        load = op.tile_load
        if load is not None and load.view.space.readable_ahead:
            for axis in load.view.kept:
                start = load.view.offsets[axis]
                if isinstance(start.type, ScalarType):
                    found += [abs(factor) for value, factor in offsets.form(start).terms if value in values]
    return max(found, default=None)


def _grouped(function: Function, grid: TileGrid, band: int) -> Function:
    loop, loc = grid.loop, grid.loop.loc
    code = RankCode(loc)
    kind = ScalarType(u32)

    def unsigned(value: Value) -> Value:
        made = Value(kind, value.name)
        code.ops.append(Cast(value, made, loc=loc))
        return made

    def signed(value: Value, name: str) -> Value:
        made = Value(I32, name)
        code.ops.append(Cast(value, made, loc=loc))
        return made

    # Unsigned: a division costs half of a signed one that rounds down.
    rows, columns, tile = unsigned(grid.rows), unsigned(grid.columns), unsigned(loop.index)
    size = code.binary("mul", Const(band, kind), columns)
    number = code.binary("floordiv", tile, size)
    rest = code.binary("sub", tile, code.binary("mul", number, size))
    first = code.binary("mul", number, Const(band, kind))
    height = code.binary("min", Const(band, kind), code.binary("sub", rows, first))
    column = code.binary("floordiv", rest, height)
    row = code.binary("add", first, code.binary("sub", rest, code.binary("mul", column, height)))
    own_row, own_column = signed(row, "row"), signed(column, "column")
    renamed: dict[Value, Value] = {loop.index: signed(code.binary("add", code.binary("mul", row, columns), column), "tile")}
    renamed |= {op.defines: own_row for op in grid.row if op.defines is not None}
    renamed |= {op.defines: own_column for op in grid.column if op.defines is not None}
    gone = {*grid.row, *grid.column}

    def visit(op: Op) -> list[Op] | None:
        return [] if op in gone else [substitute(op, renamed)]

    body = Block((*code.ops, *rewrite(loop.body, visit).ops))
    made = dataclasses.replace(loop, body=body, unordered=False)
    said = f"px.persistent: {band} rows of tiles at a time, column by column, so that those in flight share what they read"
    return dataclasses.replace(
        function, body=rewrite(function.body, lambda op: [made] if op is loop else None),
        notes=(*function.notes, Note(said, loc)),
    )
