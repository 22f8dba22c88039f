"""The kernel of `px.kernels.matmul`: clusters that share operands by multicast, and a persistent loop over tiles.

One warpgroup fetches, the others multiply 64 or 128 rows each. In a cluster of CM x CN CTAs, those of a row share their
rows of A, those of a column their columns of B: each fetches its share and multicasts it. The result leaves through
shared memory by TMA stores, which run while the next tile is being multiplied. Everything that a call does not ask for
(a batch, scales, a bias, an activation) is left out when the kernel is read.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.products.activations import activate
from phalanx.kernels.products.orders import grouped


@px.func
def peers(x, y, CM, CN):
    """Masks of the CTAs of this one's row and of its column; rank = x + CM * y."""
    row, column = 0, 0
    for other in px.static_range(CN):
        row = row | (1 << (x + CM * other))
    for other in px.static_range(CM):
        column = column | (1 << (other + CM * y))
    return row, column


@px.func
def block(X, z, i, j, HEIGHT, WIDTH):
    """A block of a matrix, or of matrix `z` of a batch."""
    if z is None:
        view = X[i : i + HEIGHT, j : j + WIDTH]
    else:
        view = X[z, i : i + HEIGHT, j : j + WIDTH]
    return view


@px.func
def place(tile, rows, columns, GROUP, BATCH):
    """Matrix of the batch (None without one), row and column of a tile of the output."""
    if BATCH:
        z = tile // (rows * columns)
        i, j = grouped(tile - z * (rows * columns), rows, columns, GROUP)
    else:
        z = None
        i, j = grouped(tile, rows, columns, GROUP)
    return z, i, j


@px.func
def factor_of(alpha, SCALE_A, SCALE_B, SCALE_ROWS, SCALE_COLUMNS):
    """The product of the scales that are one number for the whole result, or None."""
    factor = alpha
    if SCALE_A is not None and not SCALE_ROWS:
        factor = px.load(SCALE_A[0]) if factor is None else factor * px.load(SCALE_A[0])
    if SCALE_B is not None and not SCALE_COLUMNS:
        factor = px.load(SCALE_B[0]) if factor is None else factor * px.load(SCALE_B[0])
    return factor


@px.func
def scales_of(m, n, SCALE_A, SCALE_B, HEIGHT, WIDTH, PARTS, SCALE_ROWS, SCALE_COLUMNS):
    """A tile's scales of rows, and of columns for each part of the epilogue: a few registers; None where there are none."""
    rows = px.load(SCALE_A[m : m + HEIGHT]) if SCALE_ROWS else None
    columns: tuple[Any, ...] = ()
    for part in px.static_range(PARTS if SCALE_COLUMNS else 0):
        columns = (*columns, px.load(SCALE_B[n + part * WIDTH : n + part * WIDTH + WIDTH]))
    return rows, columns


@px.func
def ahead(z, m, n, BIAS, HEIGHT, WIDTH, BIAS_KIND):
    """What a part of the epilogue reads of the bias; None where there is none."""
    if BIAS_KIND == "row":
        bias = px.load(BIAS[n : n + WIDTH])
    elif BIAS_KIND == "matrix":
        bias = px.load(block(BIAS, None, m, n, HEIGHT, WIDTH))
    elif BIAS_KIND == "batch":
        bias = px.load(block(BIAS, z, m, n, HEIGHT, WIDTH))
    else:
        bias = None
    return bias


@px.func
def finish(acc, factor, rows, columns, bias, WIDTH, BIAS_KIND, ACTIVATION, COARSE):
    """What is done to a part of the product before it is stored: scales, bias, activation."""
    y = acc
    if factor is not None:
        y = y * factor
    if rows is not None:
        y = y * rows
    if columns is not None:
        y = y * columns
    if BIAS_KIND == "row":
        y = y + (bias if len(bias.shape) == 2 else bias.reshape(1, WIDTH)).to(px.f32)
    elif BIAS_KIND is not None:
        y = y + bias.to(px.f32)
    return activate(y, ACTIVATION, COARSE)


@px.kernel(
    warps=lambda GROUPS: 4 + 4 * GROUPS, cluster=lambda CM, CN: (CM, CN), exit_sync=False, pdl=True
)
def matmul_tiles(
    A, B, C, BIAS, SCALE_A, SCALE_B, alpha, *, BM=128, BN=256, BK=64, STAGES=4, CM=1, CN=2, GROUP=16, PARTS=2, GROUPS=2,
    A_BY_K=True, B_BY_K=True, A_BATCH=False, B_BATCH=False, BATCH=False, TMA_STORE=True,
    BIAS_KIND=None, SCALE_ROWS=False, SCALE_COLUMNS=False, ACTIVATION=None,
):  # fmt: skip
    """C = activation(scales * A @ B + BIAS). A is (M, K) with A_BY_K, else (K, M); B is (N, K) with B_BY_K, else (K, N)."""
    x, y = px.cluster.rank(0), px.cluster.rank(1)
    row, column = peers(x, y, CM, CN)
    a = px.shared((STAGES, BM, BK) if A_BY_K else (STAGES, BK, BM), A.dtype)
    b = px.shared((STAGES, BN, BK) if B_BY_K else (STAGES, BK, BN), B.dtype)
    if TMA_STORE:
        out = px.shared((GROUPS, BM // GROUPS, BN // PARTS), C.dtype)
    if SCALE_ROWS:
        row_scales = px.shared((GROUPS, BM // GROUPS, 1), px.f32)  # as a column, so that it is read as the sums lie
    if SCALE_COLUMNS:
        column_scales = px.shared((GROUPS, 1, BN // PARTS), px.f32)
    if BIAS_KIND == "row" and TMA_STORE:
        row_bias = px.shared((GROUPS, 1, BN // PARTS), px.f32)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    axis = 1 if BATCH else 0  # of C's rows
    steps = px.cdiv(A.shape[(1 if A_BATCH else 0) + (1 if A_BY_K else 0)], BK)
    rows, columns = px.cdiv(C.shape[axis], CM * BM), px.cdiv(C.shape[axis + 1], CN * BN)
    tiles = rows * columns * (C.shape[0] if BATCH else 1)
    first, step = px.cluster.id(), px.num_blocks(0) * px.num_blocks(1) // (CM * CN)
    ring = px.ring(STAGES)
    wait_for_prior_launch()

    with px.warps(0, 4, regs=40 if GROUPS == 2 else None):
        high, wide = BM // CN, BN // CM  # this CTA's share of A's rows and B's columns
        for tile in range(first, tiles, step):
            z, i, j = place(tile, rows, columns, GROUP, BATCH)
            m, n = (i * CM + x) * BM + y * high, (j * CN + y) * BN + x * wide
            for k in range(0, steps * BK, BK):
                s = ring.stage
                empty[s].wait(ring.parity ^ 1)
                with full[s].transaction():
                    if A_BY_K:
                        px.tma.load(
                            block(A, z if A_BATCH else None, m, k, high, BK), a[s][y * high : y * high + high], full[s],
                            multicast=row if CN > 1 else None,
                        )
                    else:
                        px.tma.load(
                            block(A, z if A_BATCH else None, k, m, BK, high), a[s][:, y * high : y * high + high], full[s],
                            multicast=row if CN > 1 else None,
                        )
                    if B_BY_K:
                        px.tma.load(
                            block(B, z if B_BATCH else None, n, k, wide, BK), b[s][x * wide : x * wide + wide], full[s],
                            multicast=column if CM > 1 else None,
                        )
                    else:
                        px.tma.load(
                            block(B, z if B_BATCH else None, k, n, BK, wide), b[s][:, x * wide : x * wide + wide], full[s],
                            multicast=column if CM > 1 else None,
                        )
                ring.advance()
        for _ in range(STAGES):  # the peers' last releases have arrived: no CTA leaves while a signal is on its way to it
            empty[ring.stage].wait(ring.parity ^ 1)
            ring.advance()

    for c in px.static_range(GROUPS):
        with px.warps(4 + 4 * c, 4, regs=232 if GROUPS == 2 else None):
            height, width = BM // GROUPS, BN // PARTS
            top = c * height
            factor = factor_of(alpha, SCALE_A, SCALE_B, SCALE_ROWS, SCALE_COLUMNS)
            for tile in range(first, tiles, step):
                z, i, j = place(tile, rows, columns, GROUP, BATCH)
                m, n = (i * CM + x) * BM + top, (j * CN + y) * BN
                rows_ahead, columns_ahead = scales_of(  # held in the loads' own layout during the products
                    m, n, SCALE_A, SCALE_B, height, width, PARTS, SCALE_ROWS, SCALE_COLUMNS
                )
                acc = px.empty((height, BN), px.f32)
                last = 0
                for k in range(steps):
                    s = ring.stage
                    full[s].wait(ring.parity)
                    left = a[s][top : top + height] if A_BY_K else a[s][:, top : top + height].T
                    px.wgmma(left, b[s].T if B_BY_K else b[s], acc, accumulate=k > 0)
                    px.wgmma_commit()
                    px.wgmma_wait(1)
                    if k > 0:
                        empty[last].arrive(ctas=row | column)
                    last = s
                    ring.advance()
                bias = ahead(z, m, n, BIAS, height, width, BIAS_KIND)  # on its way during the last product
                by_row, by_column = None, None
                px.wgmma_wait(0)
                empty[last].arrive(ctas=row | column)
                for part in px.static_range(0, BN, width):
                    if TMA_STORE:
                        px.tma.wait(0, read=True)  # the part before has left the buffer
                    # Vectors pass through shared memory into the sums' layout, behind the same barrier as the buffer.
                    if SCALE_ROWS and part == 0:
                        px.store(row_scales[c, :, 0], rows_ahead)
                    if SCALE_COLUMNS:
                        px.store(column_scales[c, 0], columns_ahead[part // width])
                        by_column = px.load(column_scales[c])
                    if BIAS_KIND == "row" and TMA_STORE:
                        px.store(row_bias[c, 0], bias.to(px.f32))
                        bias = px.load(row_bias[c])
                    if SCALE_ROWS and part == 0:
                        by_row = px.load(row_scales[c])
                    result = finish(
                        acc[:, part : part + width], factor, by_row, by_column, bias, width, BIAS_KIND, ACTIVATION,
                        C.dtype == px.bf16,
                    ).to(C.dtype)
                    if part + width < BN:
                        bias = ahead(z, m, n + part + width, BIAS, height, width, BIAS_KIND)
                    if TMA_STORE:
                        px.store(out[c], result)
                        px.fence.async_proxy()
                        px.tma.store(out[c], block(C, z, m, n + part, height, width))
                        px.tma.commit()
                    else:
                        px.store(block(C, z, m, n + part, height, width), result)
            if TMA_STORE:
                px.tma.wait(0)
