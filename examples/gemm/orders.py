"""Which tile of the output comes when: orders that kernels share. Neighbours in time share rows or columns, and so
L2."""

import phalanx as px


@px.func
def by_rows(t, rows, columns):
    """Row after row."""
    return t // columns, t % columns


@px.func
def grouped(t, rows, columns, group):
    """`group` rows at a time, column by column: the tiles in flight at once form a block of the output."""
    if group == 0:
        return t % rows, t // rows
    tile, tiles = px.u32(t), px.u32(group * columns)  # unsigned: a division costs half of a signed one that rounds down
    band = px.u32(0)
    if tile >= tiles:  # of few tiles none: one division less before the first copy
        band = tile // tiles
    rest = tile - band * tiles
    height = min(px.u32(group), px.u32(rows) - band * group)
    column = rest // height
    return px.i32(band * group + rest - column * height), px.i32(column)
