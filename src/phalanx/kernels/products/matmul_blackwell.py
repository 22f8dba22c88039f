"""The kernel of `px.kernels.matmul` where there is tensor memory: a loop over tiles around a loop along K.

The compiler gives it a warp that fetches, one that gives the tensor cores their work, two accumulators in turn, and pairs
of CTAs, where the rows of a cluster are a multiple of two: CTAs of a row of the cluster share rows of A, those of a column
columns of B. Everything that a call does not ask for (a batch, scales, a bias, an activation) is left out when the kernel is
read. Compiled, checked and simulated; nobody has run it on Blackwell yet.
"""

from __future__ import annotations

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.products.epilogue import Epilogue, factor_of
from phalanx.kernels.products.fetching import block
from phalanx.kernels.products.orders import grouped
from phalanx.kernels.products.product_form import ProductForm

WARPS = 4
"""Warps of the epilogue: together they reach all lanes of tensor memory."""
GROUPED_ROWS = 2048
"""Rows of the result that are worked on at a time, for the sake of L2: as on Hopper."""


@px.func
def operand(X, z, i, k, HEIGHT, DEPTH, BY_K):
    """A tile of an operand, (HEIGHT, DEPTH): rows of A or columns of B from `i` on, K from `k` on."""
    which = z if len(X.shape) == 3 else None
    return px.load(block(X, which, i, k, HEIGHT, DEPTH)) if BY_K else px.load(block(X, which, k, i, DEPTH, HEIGHT)).T


@px.func
def block_scales(X, i, step, HEIGHT, DEEP):
    """The scales of such a tile, (HEIGHT, DEEP), of memory in blocks of 128 rows by 4: (rows / 128, scales / 4, 32, 16)."""
    high = HEIGHT // 128
    wide = DEEP // 4
    blocks = px.load(X[i // 128 : i // 128 + high, step * wide : step * wide + wide, 0:32, 0:16])
    return blocks.reshape(high, wide, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(HEIGHT, DEEP)


PLAIN = ProductForm()


@px.kernel(warps=WARPS, cluster=lambda config: config.cluster, pdl=True)
def matmul_blackwell(
    A, B, C, BIAS, SCALE_A, SCALE_B, alpha, SCALES_A, SCALES_B, *, config, form=PLAIN, BM=128, BLOCK=0
):  # fmt: skip
    """C = activation(scales * A @ B + BIAS), as `form` says; arrays with three axes are batches of matrices.

    With BLOCK elements of A and B that follow each other along K share a scale of SCALES_A and SCALES_B.
    """
    wait_for_prior_launch()
    BN = config.bn
    BK = config.bk
    CM, CN = config.cluster
    BATCH = len(C.shape) == 3
    axis = 1 if BATCH else 0  # of C's rows
    rows = px.cdiv(C.shape[axis], CM * BM)
    columns = px.cdiv(C.shape[axis + 1], CN * BN)
    steps = px.cdiv(A.shape[len(A.shape) - (1 if form.a_by_k else 2)], BK)
    factor = factor_of(alpha, SCALE_A, SCALE_B, form.scale_rows, form.scale_columns)
    epilogue = Epilogue(
        C, BIAS, SCALE_A, SCALE_B, factor, None, None, None, None, BM, BN, BN, form.bias_kind, form.activation, False
    )
    for tile in px.persistent(rows * columns * (C.shape[0] if BATCH else 1)):
        z = tile // (rows * columns) if BATCH else None
        i, j = grouped(tile % (rows * columns) if BATCH else tile, rows, columns, GROUPED_ROWS // (CM * BM))
        m = (i * CM + px.cluster.rank(0)) * BM
        n = (j * CN + px.cluster.rank(1)) * BN
        acc = px.zeros((BM, BN), px.f32)
        for step in px.pipelined(range(steps)):
            a = operand(A, z, m, step * BK, BM, BK, form.a_by_k)
            b = operand(B, z, n, step * BK, BN, BK, form.b_by_k)
            if BLOCK:
                by_a = block_scales(SCALES_A, m, step, BM, BK // BLOCK)
                by_b = block_scales(SCALES_B, n, step, BN, BK // BLOCK)
                acc = px.dot(a, b.T, acc, scale_a=by_a, scale_b=by_b)
            else:
                acc = px.dot(a, b.T, acc)
        by_row = px.load(SCALE_A[m : m + BM]).reshape(BM, 1) if form.scale_rows else None
        by_column = px.load(SCALE_B[n : n + BN]).reshape(1, BN) if form.scale_columns else None
        result = epilogue.finish(acc, by_row, by_column, epilogue.bias(z, m, n))
        px.store(block(C, z, m, n, BM, BN), result.to(C.dtype))
