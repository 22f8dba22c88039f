"""Sums of products in registers: how a warpgroup adds up the stages of a ring, and in which order threads hold them."""

from __future__ import annotations

import phalanx as px


@px.func
def sum_stages(a, b, full, empty, ring, steps, top, height, same_rows, same_columns, TURNED):
    """The product of rows `top` to `top + height` of `a` and of `b`, over the next `steps` stages of their ring.

    A stage is given back, to the CTAs in both masks, while the product of the one behind it is made. With TURNED, `b` lies
    along the columns of the result.
    """
    acc = px.empty((height, b.shape[2 if TURNED else 1]), px.f32)
    last = 0
    for k in range(steps):
        s = ring.stage
        full[s].wait(ring.parity)
        px.wgmma(a[s][top : top + height], b[s] if TURNED else b[s].T, acc, accumulate=k > 0)
        px.wgmma_commit()
        px.wgmma_wait(1)
        if k > 0:
            empty[last].arrive(ctas=same_rows | same_columns)
        last = s
        ring.advance()
    px.wgmma_wait(0)
    empty[last].arrive(ctas=same_rows | same_columns)
    return acc


@px.func
def by_thread(tile, FLAT=False):
    """Sums in the order in which threads hold them, 16 bytes of each next to those of its neighbour: a vector if FLAT."""
    rows, columns = tile.shape
    pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)
    return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)


@px.func
def by_place(pieces, rows, columns):
    """Turns values from the order of `by_thread` back into rows and columns."""
    tile = pieces.reshape(columns // 8, rows // 16, 8, 4, 2, 2)
    return tile.permute(1, 4, 2, 0, 3, 5).reshape(rows, columns)
