"""Scales of blocks in the order in which tensor cores read them: as memory has them, and as a product of tiles takes them.

In memory scales lie in blocks of 128 rows by 4 of a row: (rows / 128, scales / 4, 32, 16), in which row r of a block is at
(r % 32, 4 (r / 32)). A kernel loads such a tile and turns it into rows and columns by two reshapes with a permutation in
between. Where there is tensor memory nobody has to turn anything: the blocks are copied as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.ops.memory import Load
from phalanx.ir.types import TileType
from phalanx.ir.values import Value

ROWS, LANES, SCALES = 128, 32, 4
"""Rows of a block, those that lie below each other, and the scales of a row in it."""
ORDER = (0, 3, 2, 1, 4)
"""Axes (block of rows, block of scales, lane, group of lanes, scale) in the order of rows and columns."""


@frozen(eq=False)
class BlockedScales:
    """A load of scales in blocks, and what makes rows and columns of them."""

    load: Load
    turns: tuple[Op, ...]


def blocked_scales(value: object, makers: Mapping[Value, Op]) -> BlockedScales | None:
    """The load whose blocks a matrix of scales is made of, if it is one of those."""
    if not isinstance(value, Value) or not isinstance(value.type, TileType) or len(value.type.shape) != 2:
        return None
    rows, columns = value.type.shape
    if rows % ROWS or columns % SCALES:
        return None
    split = (rows // ROWS, columns // SCALES, LANES, ROWS // LANES, SCALES)
    matrix = makers.get(value)
    turned = None if matrix is None or matrix.reshaped is None else makers.get(matrix.reshaped)
    permuted = None if turned is None else turned.permutation
    if matrix is None or turned is None or permuted is None or permuted.perm != ORDER:
        return None
    if not isinstance(permuted.x.type, TileType) or permuted.x.type.shape != split:
        return None
    turns = [matrix, turned]
    maker = makers.get(permuted.x)
    if maker is not None and maker.reshaped is not None:
        turns.append(maker)
        maker = makers.get(maker.reshaped)
    load = None if maker is None else maker.tile_load
    wanted = (split, (*split[:3], ROWS // LANES * SCALES))
    if load is None or load.view.shape not in wanted:
        return None
    return BlockedScales(load, tuple(turns))
