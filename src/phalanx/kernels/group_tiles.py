"""Which tile of a grouped product belongs to which group: a table, made on the device, which no host waits for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import phalanx as px
from phalanx.kernels.gather import sms_of
from phalanx.runtime.arrays import ArgumentKind, describe, kind_of

ENTRIES = 32
"""Tiles that one CTA enters into the table."""


@px.kernel(warps=4)
def plan_groups(SIZES, TABLE, *, GROUPS, BM, BT=ENTRIES):
    """TABLE[:, t] of tile t: its group, its first row, the row behind the group's last, and the number of tiles."""
    sizes = px.load(SIZES[0:GROUPS]).to(px.i32)
    tiles = (sizes + (BM - 1)) // BM
    upto, ends = px.cumsum(tiles, 0), px.cumsum(sizes, 0)
    start = px.block_id(0) * BT
    tile = start + px.arange(BT)
    group = px.sum(px.where(upto.reshape(1, GROUPS) <= tile.reshape(BT, 1), 1, 0), axis=1)
    mine = group.reshape(BT, 1) == px.arange(GROUPS).reshape(1, GROUPS)
    end = px.sum(px.where(mine, ends.reshape(1, GROUPS), 0), axis=1)
    # The group's first row, and BM for each of its tiles before this one.
    origin = px.sum(px.where(mine, (ends - sizes - (upto - tiles) * BM).reshape(1, GROUPS), 0), axis=1)
    px.store(TABLE[0, start : start + BT], group)
    px.store(TABLE[1, start : start + BT], origin + tile * BM)
    px.store(TABLE[2, start : start + BT], end)
    px.store(TABLE[3, start : start + BT], px.full((BT,), px.sum(tiles), px.i32))


def most_tiles(rows: int, groups: int, height: int) -> int:
    """How many tiles of `height` rows there are at most, whatever the sizes of the groups."""
    return min(rows // height + groups, rows)


def planned(sizes: Any, x: Any, rows: int, groups: int, height: int) -> Any:
    """The table of `plan_groups` for `rows` rows in groups of these `sizes`, on the device of `x`."""
    count = px.cdiv(most_tiles(rows, groups, height), ENTRIES) * ENTRIES
    if kind_of(x) is ArgumentKind.TORCH:
        table = x.new_empty((4, count), dtype=sys.modules["torch"].int32)
    else:
        table = np.empty_like(x, np.int32, shape=(4, count), order="C", subok=False)
    plan_groups[count // ENTRIES](sizes, table, GROUPS=groups, BM=height)
    return table


def clusters_at_once(x: Any, size: int) -> int:
    """How many clusters of `size` CTAs run at once where `x` is."""
    info = describe(x)
    return px.device().clusters(size) if info is not None and info.kind == "cuda" else max(1, sms_of(x) // size)
