"""Which tile of the output comes when: orders that kernels share. Neighbours in time share rows or columns, and so
L2."""

from __future__ import annotations

import phalanx as px


@px.func
def grouped(t, rows, columns, group):
    """`group` rows at a time, column by column: the tiles in flight at once form a block of the output."""
    tile = px.u32(t)  # unsigned: a division costs half of a signed one that rounds down
    band = tile // px.u32(group * columns)
    rest = tile - band * px.u32(group * columns)
    height = min(px.u32(group), px.u32(rows) - band * group)
    column = rest // height
    return px.i32(band * group + rest - column * height), px.i32(column)
