"""Grouped products of few rows: the weights of every group stream in about once, by clusters that split K.

The weights are the tensor cores' M operand, as in `split_k_matmul`, so that the rows of a group may be any multiple of 8:
a tile has few rows, and there are enough tiles for all SMs although groups are few. The table of `plan_groups` says which
rows a cluster takes; clusters beyond its last tile have nothing to do.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.products.activations import activate
from phalanx.kernels.products.group_tiles import most_tiles, planned
from phalanx.kernels.products.split_config import SplitConfig
from phalanx.kernels.products.split_ring import ExchangedSums, Rings, inbox_for, sharers


@px.func
def takes(rows, pieces, width, PIECES):
    """Whether a tile of so many rows takes so many pieces of `width` rows: as few as have them all, PIECES at most."""
    enough = rows <= pieces * width if pieces < PIECES else True
    return enough & (rows > (pieces - 1) * width) if pieces > 1 else enough


@px.kernel(
    warps=lambda config: 4 * config.groups + 2, cluster=lambda config: (config.split, config.cn, 1),
    exit_sync=False, pdl=True,
)  # fmt: skip
def grouped_split_ring(A, W, Y, TABLE, BIAS, *, config, BIASED=False, ACTIVATION=None):
    """Y[i] = A[i] @ W[g].T for the rows i of every group g: a tile for each cluster, which splits K.

    It has both rings and the sums of `split_ring`. What differs: the tile's rows and weights come from TABLE; of its rows
    only those of the group are stored; and as nobody but the device knows how many there are, only so many pieces of them
    are fetched and multiplied as are needed.
    """
    BN = config.bn
    STAGES = config.stages
    AHEAD = config.ahead
    SPLIT = config.split
    PIECES = config.pieces
    # Step 1: the place of this CTA in its cluster, its part of K, and shared memory.
    s = px.cluster.rank(0)
    y = px.cluster.rank(1)
    same_rows, same_columns, same_tile = sharers(s, y, 0, SPLIT, config.cn, 1)
    w = px.shared((STAGES, BN, config.bk), W.dtype)
    a = px.shared((STAGES - AHEAD, config.bm, config.bk), A.dtype)
    w_full = px.barrier(STAGES)
    w_empty = px.barrier(STAGES)
    a_full = px.barrier(STAGES - AHEAD)
    a_empty = px.barrier(STAGES - AHEAD)
    steps = px.cdiv(A.shape[1], config.bk)
    first = s * steps // SPLIT
    end = (s + 1) * steps // SPLIT
    width = config.bm // PIECES
    most = px.cdiv(PIECES, SPLIT)
    out = px.shared((most, width, BN), Y.dtype, reuse=w)
    inbox, landed, drained = inbox_for(a, SPLIT, most, width, BN, config.reuse)
    rings = Rings(
        w, a, w_full, w_empty, a_full, a_empty, px.ring(STAGES), px.ring(STAGES - AHEAD), same_rows, same_columns,
        first, end, config.bm, BN, config.bk, STAGES, AHEAD, config.cn, 1, config.hint, True, True,
    )  # fmt: skip
    wait_for_prior_launch()
    t = px.block_id(2)
    n = px.block_id(1) * BN
    tiles = px.load(TABLE[3, 0])

    # Step 2: warpgroups multiply as many pieces of rows as the group has, and store what they add up.
    with px.warps(0, 4 * config.groups):
        if t < tiles:
            m = px.load(TABLE[1, t])
            last = px.load(TABLE[2, t])
            for pieces in px.static_range(1, PIECES + 1):
                if takes(last - m, pieces, width, PIECES):
                    acc = rings.with_rows(pieces * width).multiply()
                    tile = ExchangedSums(s, y, 0, same_tile, inbox, landed, drained, width, SPLIT, config.cn, pieces)
                    if SPLIT > 1:
                        tile.send(acc)
                    for q in px.static_range(px.cdiv(pieces, SPLIT)):
                        if q * SPLIT + s < pieces:
                            c = tile.total(acc, q, BN)
                            if BIASED:
                                c = c + px.load(BIAS[px.load(TABLE[0, t]), n : n + BN]).to(px.f32).reshape(BN, 1)
                            px.store(out[q].T, activate(c, ACTIVATION).to(Y.dtype))
                            px.fence.async_proxy()
                            place = m + (q * SPLIT + s) * width + px.arange(width)
                            px.tma.scatter(out[q], px.where(place < last, place, -1), n, Y)
                            px.tma.commit()
            px.tma.wait(0, read=True)

    # Step 3: a warp for each ring.
    with px.warps(4 * config.groups + 1, 1):
        if t < tiles:
            m = px.load(TABLE[1, t])
            last = px.load(TABLE[2, t])
            for pieces in px.static_range(1, PIECES + 1):
                if takes(last - m, pieces, width, PIECES):
                    rings.with_rows(pieces * width).fetch_rows(A, m, y)

    with px.warps(4 * config.groups, 1):
        if t < tiles:
            rings.fetch_weights(W, n, 0, px.load(TABLE[0, t]))


def launch_few_rows(
    x: Any, w: Any, out: Any, sizes: Any, config: SplitConfig, bias: Any, activation: str | None, named: dict[str, Any]
) -> None:
    """The launch for the rows of `x` in groups of these `sizes`, of arguments that go together."""
    rows = x.shape[0]
    groups = w.shape[0]
    n = w.shape[1]
    table = planned(sizes, x, rows, groups, config.bm)
    split, columns, _ = config.grid(1, n)
    grouped_split_ring[split, columns, most_tiles(rows, groups, config.bm)](
        x, w, out, table, table if bias is None else bias, BIASED=bias is not None, ACTIVATION=activation,
        **config.constants(), **named,
    )
