"""The kernel of `px.kernels.matmul` on Blackwell: products in tensor memory, by single CTAs or pairs, in a persistent loop.

One warp fetches, one thread gives the tensor cores their work, four warps bring results out of tensor memory. With two
accumulators the products of a tile run while the one before it is being stored. A pair of CTAs (CTAS = 2) multiplies
2 x BM rows by BN columns: each CTA has its own rows of A and half of B, and the even one gives the work for both.
CM x CN such units form a cluster: those of a row share rows of A, those of a column columns of B, each CTA fetches its
share and multicasts it. Everything that a call does not ask for (a batch, scales, a bias, an activation) is left out when
the kernel is read. Compiled, checked and simulated; nobody has run it on Blackwell yet.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.products.epilogue import Epilogue, factor_of
from phalanx.kernels.products.fetching import block
from phalanx.kernels.products.orders import grouped
from phalanx.kernels.products.product_form import ProductForm

EPILOGUE_WARPS = 4
"""Warps of the epilogue, from warp 0 on: together they reach all lanes of tensor memory."""
FETCHING_WARP = 4
MULTIPLYING_WARP = 5
WARPS = 6


@px.func
def unit_place(rank, CTAS, CM, CN):
    """A CTA's half of its unit, and the unit's x and y in the cluster: rank = half + CTAS * (x + CM * y)."""
    half = rank % CTAS if CTAS > 1 else 0
    x = rank // CTAS % CM if CM > 1 else 0
    y = rank // (CTAS * CM) if CN > 1 else 0
    return half, x, y


@px.func
def unit_masks(half, x, y, CTAS, CM, CN):
    """Masks of the CTAs with this one's rows of A, with its share of B, and of all whose copies its products read.

    The last one is what the tensor cores signal: both CTAs of each unit of the row and of the column.
    """
    row = 0
    column = 0
    for other in px.static_range(CN):
        row = row | (1 << (half + CTAS * (x + CM * other)))
    for other in px.static_range(CM):
        column = column | (1 << (half + CTAS * (other + CM * y)))
    fillers = 0
    for other in px.static_range(CTAS):
        fillers = fillers | ((row | column) >> half << other)
    return row, column, fillers


@px.func
def out_buffers(parts: int) -> int:
    """Buffers that the parts of a result take in turn on their way out: a tile begins where the one before it did."""
    return 1 if parts % 2 else 2


@px.struct
class Unit:
    """The place of a CTA in its cluster, and the tiles that the cluster takes, one after another.

    `half` is the CTA of the pair, `x` and `y` the unit's place among the CM x CN; the masks are those of `unit_masks`.
    `first`, `count` and `step` number the tiles, of `rows` by `columns` for each matrix of the batch.
    """

    half: Any
    x: Any
    y: Any
    row: Any
    column: Any
    fillers: Any
    steps: Any
    rows: Any
    columns: Any
    first: Any
    count: Any
    step: Any
    BM: int
    BN: int
    BK: int
    CTAS: int
    CM: int
    CN: int
    GROUP: int
    BATCH: bool

    def place(self, tile):
        """Matrix of the batch (None without one), first row of this CTA and first column of its unit."""
        if self.BATCH:
            z = tile // (self.rows * self.columns)
            i, j = grouped(tile - z * (self.rows * self.columns), self.rows, self.columns, self.GROUP)
        else:
            z = None
            i, j = grouped(tile, self.rows, self.columns, self.GROUP)
        return z, ((i * self.CM + self.x) * self.CTAS + self.half) * self.BM, (j * self.CN + self.y) * self.BN


@px.struct
class Ring:
    """The stages that operands come through: those of A and B, and with block scales theirs."""

    a: Any
    b: Any
    scales_a: Any
    scales_b: Any
    full: Any
    empty: Any
    turn: Any
    A_BY_K: bool
    B_BY_K: bool
    A_BATCH: bool
    B_BATCH: bool

    def fetch_all(self, unit, A, B, SCALES_A, SCALES_B):
        """The role that fills the ring, for all tiles."""
        half = unit.BN // unit.CTAS
        high = unit.BM // unit.CN
        wide = half // unit.CM  # this CTA's share of A's rows and B's columns
        for tile in range(unit.first, unit.count, unit.step):
            z, m, n = unit.place(tile)
            for k in range(unit.steps):
                s = self.turn.stage
                self.empty[s].wait(self.turn.parity ^ 1)
                with self.full[s].transaction():
                    self.fetch_rows(unit, A, z, m + unit.y * high, k * unit.BK, s, high)
                    self.fetch_columns(unit, B, z, n + unit.half * half + unit.x * wide, k * unit.BK, s, wide)
                    if self.scales_a is not None:
                        self.fetch_scales(unit, SCALES_A, self.scales_a, m, k, s)
                        self.fetch_scales(unit, SCALES_B, self.scales_b, n, k, s)
                self.turn.advance()

    def fetch_rows(self, unit, A, z, m, k, s, high):
        """This CTA's share of A for one step, for all CTAs with the same rows."""
        first = unit.y * high
        mask = unit.row if unit.CN > 1 else None
        if self.A_BY_K:
            px.tma.load(
                block(A, z if self.A_BATCH else None, m, k, high, unit.BK), self.a[s][first : first + high], self.full[s],
                multicast=mask, two_cta=unit.CTAS == 2,
            )
        else:
            px.tma.load(
                block(A, z if self.A_BATCH else None, k, m, unit.BK, high), self.a[s][:, first : first + high],
                self.full[s], multicast=mask, two_cta=unit.CTAS == 2,
            )

    def fetch_columns(self, unit, B, z, n, k, s, wide):
        """This CTA's share of B for one step, for all CTAs with the same columns."""
        first = unit.x * wide
        mask = unit.column if unit.CM > 1 else None
        if self.B_BY_K:
            px.tma.load(
                block(B, z if self.B_BATCH else None, n, k, wide, unit.BK), self.b[s][first : first + wide], self.full[s],
                multicast=mask, two_cta=unit.CTAS == 2,
            )
        else:
            px.tma.load(
                block(B, z if self.B_BATCH else None, k, n, unit.BK, wide), self.b[s][:, first : first + wide],
                self.full[s], multicast=mask, two_cta=unit.CTAS == 2,
            )

    def fetch_scales(self, unit, SCALES, scales, row, k, s):
        """The block scales of one step from row `row` on, in blocks of 128 rows x 4. Each CTA of a pair has all of B's."""
        high = scales.shape[1]
        deep = scales.shape[2]
        first = row // 128
        px.tma.load(
            SCALES[first : first + high, k * deep : k * deep + deep, 0:32, 0:16], scales[s], self.full[s],
            two_cta=unit.CTAS == 2,
        )

    def multiply_all(self, unit, acc, ready, drained, tensor_a, tensor_b, ACCS):
        """The role that gives the tensor cores their work, for all tiles: of a pair, in its even CTA alone."""
        held = px.ring(ACCS)
        for _ in range(unit.first, unit.count, unit.step):
            t = held.stage
            drained[t].wait(held.parity ^ 1)
            for k in range(unit.steps):
                s = self.turn.stage
                self.full[s].wait(self.turn.parity)
                left = self.a[s] if self.A_BY_K else self.a[s].T
                right = self.b[s].T if self.B_BY_K else self.b[s]
                scale_a = None
                scale_b = None
                if self.scales_a is not None:
                    scale_a = tensor_a[s]
                    scale_b = tensor_b[s]
                    px.tcgen05.copy(self.scales_a[s], scale_a, two_cta=unit.CTAS == 2)
                    px.tcgen05.copy(self.scales_b[s], scale_b, two_cta=unit.CTAS == 2)
                px.tcgen05.mma(
                    left, right, acc[t], accumulate=k > 0, scale_a=scale_a, scale_b=scale_b, two_cta=unit.CTAS == 2
                )
                px.tcgen05.commit(
                    self.empty[s], multicast=unit.fillers if unit.CTAS * unit.CM * unit.CN > 1 else None,
                    two_cta=unit.CTAS == 2,
                )
                self.turn.advance()
            px.tcgen05.commit(
                ready[t], multicast=0b11 << (px.cluster.rank() & ~1) if unit.CTAS == 2 else None, two_cta=unit.CTAS == 2
            )
            held.advance()


@px.func
def store_tile(epilogue, acc, drained, leader, z, m, n):
    """Brings an accumulator out of tensor memory, part by part; `drained` hears when its last part is in registers."""
    width = epilogue.width
    BUFFERS = 1 if epilogue.out is None else epilogue.out.shape[0]
    rows_ahead, columns_ahead = epilogue.scales(m, n)
    by_row = None
    by_column = None
    for part in px.static_range(0, epilogue.BN, width):
        bias = epilogue.bias(z, m, n + part)
        sums = px.tcgen05.load(acc[:, part : part + width])
        if part + width == epilogue.BN:
            drained.arrive(ctas=leader)
        if epilogue.out is not None:
            px.tma.wait(BUFFERS - 1, read=True)  # the buffer's last part has left it
        # Vectors pass through shared memory into the sums' layout.
        if epilogue.row_scales is not None and part == 0:
            px.store(epilogue.row_scales[:, 0], rows_ahead)
            by_row = px.load(epilogue.row_scales)
        if epilogue.column_scales is not None:
            px.store(epilogue.column_scales[0], columns_ahead[part // width])
            by_column = px.load(epilogue.column_scales)
        if epilogue.row_bias is not None:
            px.store(epilogue.row_bias[0], bias.to(px.f32))
            bias = px.load(epilogue.row_bias)
        result = epilogue.finish(sums, by_row, by_column, bias).to(epilogue.C.dtype)
        if epilogue.out is not None:
            buffer = epilogue.out[part // width % BUFFERS]
            px.store(buffer, result)
            px.fence.async_proxy()
            px.tma.store(buffer, block(epilogue.C, z, m, n + part, epilogue.height, width))
            px.tma.commit()
        else:
            px.store(block(epilogue.C, z, m, n + part, epilogue.height, width), result)


PLAIN = ProductForm()


@px.kernel(warps=WARPS, cluster=lambda config: config.size, pdl=True)
def matmul_blackwell(
    A, B, C, BIAS, SCALE_A, SCALE_B, alpha, SCALES_A, SCALES_B, *, config, form=PLAIN, BM=128, BLOCK=0
):  # fmt: skip
    """C = activation(scales * A @ B + BIAS), as `form` says; arrays with three axes are batches of matrices.

    With BLOCK, which then divides a quarter of a stage's K, elements of A and B that follow each other along K share a
    scale of SCALES_A and SCALES_B, in blocks of 128 rows: (rows / 128, scales / 4, 32, 16).
    """
    BN = config.bn
    BK = config.bk
    STAGES = config.stages
    CTAS = config.ctas
    CM, CN = config.cluster
    ACCS = config.accumulators
    PARTS = config.parts
    A_BY_K = form.a_by_k
    B_BY_K = form.b_by_k
    # Step 1: the place of this CTA in its cluster, shared and tensor memory.
    rank = px.cluster.rank()
    half, x, y = unit_place(rank, CTAS, CM, CN)
    row, column, fillers = unit_masks(half, x, y, CTAS, CM, CN)
    width = BN // PARTS
    a = px.shared((STAGES, BM, BK) if A_BY_K else (STAGES, BK, BM), A.dtype)
    b = px.shared((STAGES, BN // CTAS, BK) if B_BY_K else (STAGES, BK, BN // CTAS), B.dtype)
    acc = px.tmem((ACCS, BM, BN), px.f32)
    out = None
    row_scales = None
    column_scales = None
    row_bias = None
    scales_a = None
    scales_b = None
    tensor_a = None
    tensor_b = None
    if BLOCK:
        deep = BK // BLOCK
        scales_a = px.shared((STAGES, BM // 128, deep // 4, 32, 16), SCALES_A.dtype)
        scales_b = px.shared((STAGES, px.cdiv(BN, 128), deep // 4, 32, 16), SCALES_B.dtype)
        tensor_a = px.tmem((STAGES, BM, deep), SCALES_A.dtype)  # columns for each stage: they are free when it is
        tensor_b = px.tmem((STAGES, BN, deep), SCALES_B.dtype)
    if form.tma_store:
        out = px.shared((out_buffers(PARTS), BM, width), C.dtype)
    if form.scale_rows:
        row_scales = px.shared((BM, 1), px.f32)  # as a column, so that it is read as the sums lie
    if form.scale_columns:
        column_scales = px.shared((1, width), px.f32)
    if form.bias_kind == "row":
        row_bias = px.shared((1, width), px.f32)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    ready = px.barrier(ACCS)
    drained = px.barrier(ACCS)
    # Step 2: the tiles of this cluster.
    A_BATCH = len(A.shape) == 3
    B_BATCH = len(B.shape) == 3
    BATCH = len(C.shape) == 3
    axis = 1 if BATCH else 0  # of C's rows
    steps = px.cdiv(A.shape[(1 if A_BATCH else 0) + (1 if A_BY_K else 0)], BK)
    rows = px.cdiv(C.shape[axis], CTAS * CM * BM)
    columns = px.cdiv(C.shape[axis + 1], CN * BN)
    tiles = rows * columns * (C.shape[0] if BATCH else 1)
    first = px.cluster.id()
    step = px.num_blocks(0) // (CTAS * CM * CN)
    unit = Unit(
        half, x, y, row, column, fillers, steps, rows, columns, first, tiles, step, BM, BN, BK, CTAS, CM, CN,
        config.group, BATCH,
    )  # fmt: skip
    ring = Ring(a, b, scales_a, scales_b, full, empty, px.ring(STAGES), A_BY_K, B_BY_K, A_BATCH, B_BATCH)
    wait_for_prior_launch()

    # Step 3: a warp fetches, another one multiplies.
    with px.warps(FETCHING_WARP, 1):
        ring.fetch_all(unit, A, B, SCALES_A, SCALES_B)

    with px.warps(MULTIPLYING_WARP, 1):
        if half == 0:
            ring.multiply_all(unit, acc, ready, drained, tensor_a, tensor_b, ACCS)

    # Step 4: the others store what has been multiplied.
    with px.warps(0, EPILOGUE_WARPS):
        factor = factor_of(alpha, SCALE_A, SCALE_B, form.scale_rows, form.scale_columns)
        epilogue = Epilogue(
            C, BIAS, SCALE_A, SCALE_B, factor, out, row_scales, column_scales, row_bias, BM, width, BN, form.bias_kind,
            form.activation, False,
        )
        held = px.ring(ACCS)
        leader = 1 << (rank & ~1) if CTAS == 2 else None
        for tile in range(first, tiles, step):
            z, m, n = unit.place(tile)
            t = held.stage
            ready[t].wait(held.parity)
            store_tile(epilogue, acc[t], drained[t], leader, z, m, n)
            held.advance()
        if form.tma_store:
            px.tma.wait(0)
