"""Gradients of grouped products: of the weights, a product along each group's rows, and of the biases, their sums.

The gradient of the rows is a grouped product itself, with weights that lie the other way. That of the weights of group g
is ``d[rows of g].T @ x[rows of g]``:
every CTA takes a tile of one group's weights and walks along the group's rows. The last step of a group would reach into
the next one: its rows are fetched by index, with none behind the group's end, which are zeros.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.gather import INDICES
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import FLOATS, HALVES, empty, has_work, info_of, like, refused
from phalanx.kernels.products.group_tiles import clusters_at_once, most_tiles, planned, sizes_of
from phalanx.kernels.products.grouped import GroupedConfig, grouped_matmul, grouped_ring
from phalanx.kernels.products.moe import ROWS, expert_ring, moe_matmul_scatter
from phalanx.kernels.products.operand_recipes import is_copyable
from phalanx.kernels.products.targets import target_of
from phalanx.runtime.device.arrays import ArgumentKind, ArrayInfo, kind_of

TILE = 128
"""Rows and columns of a tile of a weight's gradient."""
STEP = 64
"""Rows of a group at a time."""
BIAS_COLUMNS = 128


@px.func
def range_of(SIZES, group, GROUPS):
    """The first row of a group, and the one behind its last."""
    sizes = px.load(SIZES[0:GROUPS]).to(px.i32)
    begin = px.sum(px.where(px.arange(GROUPS) < group, sizes, 0))
    return begin, begin + px.load(SIZES[group]).to(px.i32)


@px.kernel(warps=12, pdl=True)
def group_gradients(D, X, SIZES, W, *, GROUPS, BM=TILE, BN=TILE, BK=STEP, STAGES=4):
    """W[g] = D[rows of g].T @ X[rows of g], a tile of BM x BN by each CTA."""
    half = BM // 2
    a = px.shared((STAGES, BK, BM), D.dtype)
    b = px.shared((STAGES, BK, BN), X.dtype)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    ring = px.ring(STAGES)
    wait_for_prior_launch()
    m = px.block_id(0) * BM
    n = px.block_id(1) * BN
    group = px.block_id(2)
    begin, end = range_of(SIZES, group, GROUPS)

    with px.warps(0, 4, regs=40):
        for row in range(begin, end, BK):
            s = ring.stage
            empty[s].wait(ring.parity ^ 1)
            if row + BK <= end:
                with full[s].transaction():
                    px.tma.load(D[row : row + BK, m : m + BM], a[s], full[s])
                    px.tma.load(X[row : row + BK, n : n + BN], b[s], full[s])
            else:
                place = row + px.arange(BK)
                names = px.where(place < end, place, -1)
                with full[s].transaction():
                    px.tma.gather(D, names, m, a[s], full[s])
                    px.tma.gather(X, names, n, b[s], full[s])
            ring.advance()

    for c in px.static_range(2):
        with px.warps(4 + 4 * c, 4, regs=232):
            acc = px.zeros((half, BN), px.f32)
            for _ in range(begin, end, BK):
                s = ring.stage
                full[s].wait(ring.parity)
                px.wgmma(a[s][:, c * half : c * half + half].T, b[s], acc)
                px.wgmma_commit()
                px.wgmma_wait(0)
                empty[s].arrive()
                ring.advance()
            px.store(W[group, m + c * half : m + c * half + half, n : n + BN], acc.to(W.dtype))


@px.kernel(warps=4, pdl=True)
def group_sums(D, SIZES, B, *, GROUPS, BM=32, BN=BIAS_COLUMNS):
    """B[g] = the sum of the rows of group g of D."""
    wait_for_prior_launch()
    n = px.block_id(0) * BN
    group = px.block_id(1)
    begin, end = range_of(SIZES, group, GROUPS)
    sums = px.zeros((BM, BN), px.f32)
    for row in range(begin, end, BM):
        inside = (row + px.arange(BM) < end).reshape(BM, 1)
        sums = sums + px.where(inside, px.load(D[row : row + BM, n : n + BN]).to(px.f32), 0.0)
    px.store(B[group, n : n + BN], px.sum(sums, axis=0).to(B.dtype))


def grouped_row_gradients(d: Any, w: Any, group_sizes: Any) -> Any:
    """The gradients of the rows of a grouped product, (rows, K): ``d[i] @ w[g]``, g the group of row i.

    From that of its result, `d` (rows, N), and the weights `w` (groups, N, K), both bf16 or f16; sizes as in
    `grouped_matmul`. Rows of no group have zeros. Sums are f32. sm_90a reads the weights as they lie; elsewhere a
    transposed copy is multiplied. Or the simulator.
    Example: ``dx = grouped_row_gradients(d, w, counts)``.
    """
    rows, weights = _turned("d", d, w)
    height = rows.shape[0]
    groups = weights.shape[0]
    n = weights.shape[2]
    out = like(d, (height, n), zero=True)
    if not has_work(height, groups, n):
        return out
    if target_of(rows, None).blackwell:
        return grouped_matmul(d, _contiguous(w.swapaxes(1, 2)), group_sizes, out=out)
    cut = GroupedConfig()
    table = planned(sizes_of(group_sizes, groups, height, d), d, height, groups, cut.bm)
    tiles = most_tiles(height, groups, cut.bm) * px.cdiv(n, cut.cn * cut.bn)
    grouped_ring[min(clusters_at_once(d, cut.cn), tiles), cut.cn](d, w, out, table, table, **cut.constants(), TURNED=True)
    return out


def moe_row_gradients(d: Any, w: Any, group_sizes: Any, idx: Any, rows: int) -> Any:
    """The gradients of the `rows` rows that `moe_gather_matmul` took by `idx`: sums of ``d[i] @ w[e]`` in f32, (rows, K).

    Arrays and targets as in `grouped_row_gradients`. Example: ``dx = moe_row_gradients(d, w1, counts, order, len(x))``.
    """
    found, weights = _turned("d", d, w)
    groups = weights.shape[0]
    n = weights.shape[2]
    out = empty(d, (rows, n), "f32")
    out[...] = 0
    names = info_of("idx", idx, INDICES).shape[0]
    if not has_work(rows, names, groups, n):
        return out
    ones = empty(d, (names,), "f32")
    ones[...] = 1
    if target_of(found, None).blackwell:
        return moe_matmul_scatter(d, _contiguous(w.swapaxes(1, 2)), group_sizes, idx, ones, out)
    table = planned(sizes_of(group_sizes, groups, names, d), d, names, groups, ROWS)
    clusters = min(clusters_at_once(d, 2), most_tiles(names, groups, ROWS) * px.cdiv(n, 512))
    expert_ring[2 * clusters](d, idx, w, out, table, ones, GATHER=False, SCATTER=True, TURNED=True)
    return out


def _turned(what: str, d: Any, w: Any) -> tuple[ArrayInfo, ArrayInfo]:
    """What a gradient and the weights are whose product along N it needs."""
    left = info_of(what, d, HALVES)
    right = info_of("w", w, HALVES)
    if len(left.shape) != 2 or len(right.shape) != 3 or left.shape[1] != right.shape[1]:
        raise refused(f"{what} has shape {left.shape}, w {right.shape}", "pass (rows, N) and weights (groups, N, K)")
    if left.dtype_name != right.dtype_name:
        raise refused(f"{what} is {left.dtype_name}, w is {right.dtype_name}", "pass operands of one element type")
    for name, info in ((what, left), ("w", right)):
        _require_copyable(name, info)
    return left, right


def _require_copyable(what: str, info: ArrayInfo) -> None:
    if has_work(*info.shape) and not is_copyable(info):
        raise refused(
            f"the rows of {what}, of strides {info.strides}, do not begin at multiples of 16 bytes",
            "pass a contiguous array whose last axis is padded to a multiple of 8",
        )


def _contiguous(x: Any) -> Any:
    return x.contiguous() if kind_of(x) is ArgumentKind.TORCH else x.copy()


def grouped_weight_gradients(d: Any, x: Any, group_sizes: Any, groups: int) -> Any:
    """The gradients of the weights of a grouped product, (groups, N, K).

    From that of its result, `d` (rows, N), and `x` (rows, K), both bf16 or f16, of one type, rows that begin at multiples
    of 16 bytes; sizes as in `grouped_matmul`. A group without rows has zeros. Sums are f32. sm_90a, or the simulator.
    Example: ``dw = grouped_weight_gradients(d, x_sorted, counts, 8)``.
    """
    left = info_of("d", d, HALVES)
    right = info_of("x", x, HALVES)
    if len(left.shape) != 2 or len(right.shape) != 2 or left.shape[0] != right.shape[0]:
        raise refused(f"d has shape {left.shape}, x {right.shape}", "pass matrices with the same number of rows")
    if left.dtype_name != right.dtype_name:
        raise refused(f"d is {left.dtype_name}, x is {right.dtype_name}", "pass operands of one element type")
    rows = left.shape[0]
    n = left.shape[1]
    k = right.shape[1]
    result = empty(x, (groups, n, k), left.dtype_name)
    if not has_work(groups, n, k):
        return result
    if rows == 0:
        result[...] = 0
        return result
    for what, info in (("d", left), ("x", right)):
        _require_copyable(what, info)
    sizes = sizes_of(group_sizes, groups, rows, x)
    group_gradients[px.cdiv(n, TILE), px.cdiv(k, TILE), groups](d, x, sizes, result, GROUPS=groups)
    return result


def grouped_bias_gradients(d: Any, group_sizes: Any, groups: int, dtype: str | None = None) -> Any:
    """The gradients of the biases of a grouped product, (groups, N): the sums of each group's rows of `d`, (rows, N).

    Of d's type, or `dtype`; sums are f32. Any GPU from sm_90, or the simulator.
    Example: ``db = grouped_bias_gradients(d, counts, 8)``.
    """
    info = info_of("d", d, FLOATS)
    rows, n = info.shape
    result = empty(d, (groups, n), dtype or info.dtype_name)
    if has_work(groups, n):
        sizes = sizes_of(group_sizes, groups, rows, d)
        group_sums[px.cdiv(n, BIAS_COLUMNS), groups](d, sizes, result, GROUPS=groups)
    return result
