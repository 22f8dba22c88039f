"""What grouped products share: what they take, and which tile belongs to which group.

The latter is a table, made on the device, which no host waits for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import phalanx as px
from phalanx.kernels.gather import INDICES
from phalanx.kernels.launches import sms_of, wait_for_prior_launch
from phalanx.kernels.matrices import HALVES, empty, has_work, info_of, refused, result_info
from phalanx.kernels.products.operand_recipes import is_copyable
from phalanx.runtime.device.arrays import ArgumentKind, ArrayInfo, describe, kind_of

ENTRIES = 32
"""Tiles that one CTA enters into the table."""


@px.kernel(warps=4, pdl=True)
def plan_groups(SIZES, TABLE, *, GROUPS, BM, BT=ENTRIES):
    """TABLE[:, t] of tile t: its group, its first row, the row behind the group's last, and the number of tiles."""
    wait_for_prior_launch()
    sizes = px.load(SIZES[0:GROUPS]).to(px.i32)
    tiles = (sizes + (BM - 1)) // BM
    upto = px.cumsum(tiles, 0)
    ends = px.cumsum(sizes, 0)
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


def operands_of(what: str, x: Any, w: Any) -> tuple[ArrayInfo, ArrayInfo]:
    """Rows (rows, K), which the caller names `what`, and weights (groups, N, K); `px.Error` if they do not go together."""
    rows = info_of(what, x, HALVES)
    weights = info_of("w", w, HALVES)
    if len(rows.shape) != 2 or len(weights.shape) != 3 or rows.shape[1] != weights.shape[2]:
        raise refused(
            f"{what} has shape {rows.shape}, w {weights.shape}", "pass rows (rows, K) and weights (groups, N, K)"
        )
    if rows.dtype_name != weights.dtype_name:
        raise refused(
            f"{what} is {rows.dtype_name}, w is {weights.dtype_name}", "pass operands of one element type"
        )
    if rows.shape[1] == 0:
        raise refused(f"{what} has no columns", "the sum over none of them is zero: write that")
    for name, info in ((what, rows), ("w", weights)):
        _require_copyable(name, info)
    return rows, weights


def stored_result(x: Any, out: Any, shape: tuple[int, int], dtype: str) -> Any:
    """`out` if the copy engine can store a result of this shape and type there, or a new array if it is None."""
    if shape[1] % 8:
        raise refused(f"w has {shape[1]} rows a group", "pad them to a multiple of 8: results are stored 16 bytes at a time")
    if out is None:
        return empty(x, shape, dtype)
    info = result_info("out", out, (dtype,))
    if info.shape != shape:
        raise refused(f"out has shape {info.shape}", f"pass one of shape {shape}")
    _require_copyable("out", info)
    return out


def _require_copyable(what: str, info: ArrayInfo) -> None:
    if has_work(*info.shape) and not is_copyable(info):
        raise refused(
            f"the rows of {what}, of shape {info.shape} and strides {info.strides}, do not begin at multiples of 16 bytes",
            "pass a contiguous array whose last axis is padded to a multiple of 8",
        )


def sizes_of(given: Any, groups: int, rows: int, x: Any) -> Any:
    """The sizes of the groups as an array on x's device."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != groups:
            raise refused(f"group_sizes is a list of {len(given)}", f"pass {groups} numbers of rows, one per group of w")
        wrong = next((size for size in given if not isinstance(size, int | np.integer) or size < 0), None)
        if wrong is not None:
            raise refused(f"group_sizes contains {wrong!r}", "pass numbers of rows, 0 or more")
        if sum(given) > rows:
            raise refused(f"the groups have {sum(given)} rows, not {rows}", "every row belongs to at most one group")
        if kind_of(x) is ArgumentKind.TORCH:
            torch = sys.modules["torch"]
            return torch.tensor(given, dtype=torch.int32, device=x.device)
        if kind_of(x) is ArgumentKind.CUPY:
            with x.device:
                return sys.modules["cupy"].asarray(given, np.int32)
        return np.array(given, np.int32)
    found = info_of("group_sizes", given, INDICES)
    if found.shape != (groups,):
        raise refused(f"group_sizes has shape {found.shape}", f"pass one size per group of w: ({groups},)")
    return given


def most_tiles(rows: int, groups: int, height: int) -> int:
    """How many tiles of `height` rows there are at most, whatever the sizes of the groups."""
    return min(rows // height + groups, rows)


def planned(sizes: Any, x: Any, rows: int, groups: int, height: int) -> Any:
    """The table of `plan_groups` for `rows` rows in groups of these `sizes`, on the device of `x`."""
    count = px.cdiv(most_tiles(rows, groups, height), ENTRIES) * ENTRIES
    table = empty(x, (4, count), "i32")
    plan_groups[count // ENTRIES](sizes, table, GROUPS=groups, BM=height)
    return table


def clusters_at_once(x: Any, size: int) -> int:
    """How many clusters of `size` CTAs run at once on the GPU where `x` is, or in the simulator."""
    info = describe(x)
    return px.device().clusters(size) if info is not None and info.kind == "cuda" else max(1, sms_of(x) // size)
