"""Orders of the tiles of an output, which persistent kernels share.

Tiles that are in flight at the same time should share rows of A and columns of B, so that L2 serves them. Each order
is a bijection from 0 .. rows * columns - 1 to the tiles, a `px.func` that is a plain function outside kernels.
"""

from __future__ import annotations

from typing import Any

import phalanx as px


@px.func
def by_rows(t: Any, rows: Any, columns: Any) -> Any:
    """The tiles row after row."""
    return t // columns, t % columns


@px.func
def grouped(t: Any, rows: Any, columns: Any, group: Any) -> Any:
    """`group` rows at a time, column by column: the tiles in flight at once form a block of the output.

    The last group has the rows that are left. `group` 0: all rows, column by column.
    """
    if group == 0:
        return t % rows, t // rows
    tile = px.u32(t)
    tiles = px.u32(group * columns)  # unsigned: a division costs half of a signed one that rounds down
    band = px.u32(0)
    if tile >= tiles:  # of few tiles none: one division less before the first copy
        band = tile // tiles
    rest = tile - band * tiles
    height = min(px.u32(group), px.u32(rows) - band * group)
    column = rest // height
    return px.i32(band * group + rest - column * height), px.i32(column)


@px.func
def hilbert(t: Any, rows: Any, columns: Any) -> Any:
    """Along a Hilbert curve that fills any rectangle: any run of tiles is a patch with few rows and columns.

    The rectangle is halved (or cut in three: there, across, back) until a strip one tile wide is left; each tile is a
    neighbour of the one before it, at worst across a corner. The corner is (y, x), the sides are the vectors a, along
    which the curve ends, and b.
    """
    # Step 1: the whole rectangle, whose longer side the curve follows.
    y = 0
    x = 0
    wide = columns >= rows
    ay = 0 if wide else rows
    ax = columns if wide else 0
    by = rows if wide else 0
    bx = 0 if wide else columns
    left = t
    width = abs(ay + ax)
    height = abs(by + bx)
    # Step 2: go to the part that has the tile, until a strip is left.
    while (width > 1) & (height > 1):
        day = (ay > 0) - (ay < 0)
        dax = (ax > 0) - (ax < 0)
        dby = (by > 0) - (by < 0)
        dbx = (bx > 0) - (bx < 0)
        if 2 * width > 3 * height:  # long: two halves, one behind the other
            half = width // 2
            half = half + half % 2 if width > 2 else half  # an even length, so that the curve ends on the same side
            if left >= half * height:
                left = left - half * height
                y = y + half * day
                x = x + half * dax
                ay = ay - half * day
                ax = ax - half * dax
            else:
                ay = half * day
                ax = half * dax
        else:
            up = height // 2
            up = up + up % 2 if height > 2 else up
            across = width // 2
            if left < up * across:  # there: the sides change places
                ay = up * dby
                ax = up * dbx
                by = across * day
                bx = across * dax
            elif left < up * across + width * (height - up):
                left = left - up * across
                y = y + up * dby
                x = x + up * dbx
                by = by - up * dby
                bx = bx - up * dbx
            else:  # back
                left = left - up * across - width * (height - up)
                y = y + ay - day + (up - 1) * dby
                x = x + ax - dax + (up - 1) * dbx
                ay = 0 - up * dby
                ax = 0 - up * dbx
                by = (across - width) * day
                bx = (across - width) * dax
        width = abs(ay + ax)
        height = abs(by + bx)
    # Step 3: the place in the strip.
    if height == 1:
        day = (ay > 0) - (ay < 0)
        dax = (ax > 0) - (ax < 0)
    else:
        day = (by > 0) - (by < 0)
        dax = (bx > 0) - (bx < 0)
    return y + left * day, x + left * dax
