"""The kernel of `px.kernels.matmul`: clusters that share operands by multicast, and a persistent loop over tiles.

One warpgroup fetches, the others multiply 64 or 128 rows each. In a cluster of CM x CN CTAs, those of a row share their
rows of A, those of a column their columns of B: each fetches its share and multicasts it. The result leaves through
shared memory by TMA stores, which run while the next tile is being multiplied. Everything that a call does not ask for
(a batch, scales, a bias, an activation) is left out when the kernel is read.

Where the tiles that are left fill no wave, K of these may be cut into SPLIT parts for as many clusters. Each leaves its sums
in global memory, and whoever finds that the others have been there adds them up, in the order of the parts.

Swapped, the kernel multiplies B.T by A.T and stores the transpose of what it has: rows of the result are then columns of
the tensor cores, of which there may be any multiple of 8, so that tiles fit heights that no multiple of 64 fits.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.products.epilogue import Epilogue, PartialSums, factor_of, of_group, part_width
from phalanx.kernels.products.fetching import FetchedOperand, peers, whole_panels
from phalanx.kernels.products.matmul_cuts import MOST_COUNTED, MatmulConfig
from phalanx.kernels.products.orders import grouped
from phalanx.kernels.products.product_form import ProductForm

FETCHING_REGS, MULTIPLYING_REGS = (None, None, 40, 32), (None, None, 232, 160)
"""Registers of a thread, by the warpgroups that multiply; with one of them all have enough as they are."""
ANNOUNCED, MOST_ANNOUNCED = 15 * 1024, 9 * 1024
"""Bytes that a CTA brings into L2 before the CTAs of its cluster have met, at most; and what its share of a stage may be.
With nothing in L2, 19 products of few rows take 1.2 to 1.5% less with one stage, and as long as before behind a launch like
them (`sweep_early.json`). Where a share has 10 KiB or more they take up to 2% longer there, and with more stages anywhere:
copies wait behind what was asked for."""


@px.struct
class Tiles:
    """The tiles that a cluster takes, one after another, and the ring that their operands come through.

    `x` and `y` are the CTA's place in the cluster, `row` and `column` the masks of those that share rows and columns with
    it. `first`, `count` and `step` number the tiles, of `rows` by `columns` for each matrix of the batch. With SPLIT, those
    from number `whole` on, `rest` of them, come in parts: the first ones of all, then the second ones. The ring is no
    `px.pipe`: a stage is released one product after it was taken, so that a pipe would count at run time how many stages
    it holds, and find its next stage from that count in each step.
    """

    x: Any
    y: Any
    row: Any
    column: Any
    a: Any
    b: Any
    full: Any
    empty: Any
    ring: Any
    steps: Any
    rows: Any
    columns: Any
    first: Any
    count: Any
    step: Any
    whole: Any
    rest: Any
    BM: int
    BN: int
    BK: int
    STAGES: int
    CM: int
    CN: int
    GROUP: int
    A_BY_K: bool
    B_BY_K: bool
    A_BATCH: bool
    B_BATCH: bool
    BATCH: bool
    STREAMED: Any
    HINT: str
    TRIM_ROWS: bool
    TRIM_COLUMNS: bool
    SPLIT: int

    def part(self, number):
        """The tile of a number, which part of it that is, and the steps along K that it takes."""
        tile = number
        part = px.i32(0)
        begin = 0
        end = self.steps
        if self.SPLIT > 1:
            if number >= self.whole:
                part = px.i32(px.u32(number - self.whole) // px.u32(self.rest))
                tile = number - part * self.rest
                begin = part * self.steps // self.SPLIT
                end = (part + 1) * self.steps // self.SPLIT
        return tile, part, begin, end

    def place(self, tile):
        """Matrix of the batch (None without one), row and column of a tile of the output."""
        if self.BATCH:
            z = px.i32(px.u32(tile) // px.u32(self.rows * self.columns))
            i, j = grouped(tile - z * (self.rows * self.columns), self.rows, self.columns, self.GROUP)
        else:
            z = None
            i, j = grouped(tile, self.rows, self.columns, self.GROUP)
        return z, i, j

    def operands(self):
        """A and B as this CTA fetches them."""
        CM = self.CM
        CN = self.CN
        BM = self.BM
        BN = self.BN
        BK = self.BK
        by = self.STREAMED
        row = self.row if CN > 1 else None
        of_rows = self.HINT if by == "rows" else None
        column = self.column if CM > 1 else None
        of_columns = self.HINT if by == "columns" else None
        rows = FetchedOperand(self.a, self.y, row, of_rows, CN, BM, BK, self.A_BY_K, self.A_BATCH, self.TRIM_ROWS)
        columns = FetchedOperand(
            self.b, self.x, column, of_columns, CM, BN, BK, self.B_BY_K, self.B_BATCH, self.TRIM_COLUMNS
        )  # fmt: skip
        return rows, columns

    def announced(self, A, B):
        """How many stages of its first tile a CTA asks for before its peers are there: of products of 16 bits along K."""
        stage = (self.BM // self.CN * A.dtype.bits + self.BN // self.CM * B.dtype.bits) // 8 * self.BK
        plain = self.A_BY_K and self.B_BY_K and not self.BATCH and self.SPLIT == 1
        narrow = A.dtype.bits == 16 and stage <= MOST_ANNOUNCED and self.CM * self.CN > 1
        return ANNOUNCED // stage if plain and narrow else 0

    def announce(self, A, B):
        """Asks L2 for the first stages of this CTA's first tile: they are on their way while the cluster's CTAs meet."""
        STAGES = self.announced(A, B)
        if STAGES > 0:
            rows, columns = self.operands()
            _, i, j = self.place(self.first)
            m = rows.from_place((i * self.CM + self.x) * self.BM)
            n = columns.from_place((j * self.CN + self.y) * self.BN)
            for stage in px.static_range(STAGES):
                rows.announce(A, m, stage * self.BK)
                columns.announce(B, n, stage * self.BK)

    def fetched(self, number):
        """The steps along K of a number's tile, and where that lies: matrix of the batch (0 without one), row and column."""
        tile, _, begin, end = self.part(number)
        z, i, j = self.place(tile)
        return begin, end, z if self.BATCH else 0, i, j

    def fetch_all(self, A, B, start):
        """The role that fills the ring, for all tiles; `start` is what `fetched` says of the first one.

        A small product lasts some 10 us, so what comes before the first copy counts: where its tile lies is known before the
        role begins, and nobody asks whether a stage is free that has not been used.
        """
        CM = self.CM
        CN = self.CN
        BM = self.BM
        BN = self.BN
        BK = self.BK
        STAGES = self.STAGES
        begin, end, z, i, j = start
        rows, columns = self.operands()
        unused = (begin + STAGES) * BK  # where the first tile begins to use stages again
        for number in range(self.first, self.count, self.step):
            m = rows.from_place((i * CM + self.x) * BM)
            n = columns.from_place((j * CN + self.y) * BN)
            for k in range(begin * BK, end * BK, BK):
                s = self.ring.stage
                if k >= unused:
                    self.empty[s].wait(self.ring.parity ^ 1)
                with self.full[s].transaction():
                    rows.fetch(A, z, m, k, s, self.full[s])
                    columns.fetch(B, z, n, k, s, self.full[s])
                self.ring.advance()
            unused = 0
            begin, end, z, i, j = self.fetched(min(number + self.step, self.count - 1))
        for _ in range(STAGES):  # the peers' last releases have arrived: no CTA leaves while one is on its way to it
            self.empty[self.ring.stage].wait(self.ring.parity ^ 1)
            self.ring.advance()

    def multiply(self, epilogue, top, z, m, n, begin, end):
        """The sums of a warpgroup's rows of a tile, from row `top` on; and what its epilogue first reads of the bias."""
        height = epilogue.height
        acc = px.empty((height, self.BN), px.f32)
        last = 0
        for k in range(begin, end):
            s = self.ring.stage
            self.full[s].wait(self.ring.parity)
            left = self.a[s][top : top + height] if self.A_BY_K else self.a[s][:, top : top + height].T
            px.wgmma(left, self.b[s].T if self.B_BY_K else self.b[s][:, : self.BN], acc, accumulate=k > begin)
            px.wgmma_commit()
            px.wgmma_wait(1)
            if k > begin:
                self.release(last)
            last = s
            self.ring.advance()
        bias = epilogue.bias(z, m, n)  # on its way during the last product
        px.wgmma_wait(0)
        self.release(last)
        return acc, bias

    def release(self, stage):
        """Gives a stage back to all CTAs whose copies land in it."""
        self.empty[stage].arrive(ctas=self.row | self.column)


USUAL = MatmulConfig()
PLAIN = ProductForm()


@px.kernel(
    warps=lambda config: 4 + 4 * config.groups, cluster=lambda config: config.cluster, exit_sync=False, pdl=True
)
def matmul_tiles(A, B, C, BIAS, SCALE_A, SCALE_B, alpha, W, *, config=USUAL, form=PLAIN):
    """C = activation(scales * A @ B + BIAS), as `form` says; arrays with three axes are batches of matrices.

    Swapped (`config.swapped`), C is (N, M), and gets the transpose; a bias then has an element for each of the M rows of
    A. That needs results that the copy engine stores, and a bias that is no matrix. Where K is split, sums are left in W:
    BM * BN of f32 for each part and CTA of a tile that is.
    """
    BM = config.bm
    BN = config.bn
    BK = config.bk
    STAGES = config.stages
    CM, CN = config.cluster
    GROUPS = config.groups
    SWAPPED = config.swapped
    SPLIT = config.split
    A_BY_K = form.a_by_k
    B_BY_K = form.b_by_k
    # Step 1: the place of this CTA in its cluster, and shared memory.
    x = px.cluster.rank(0)
    y = px.cluster.rank(1)
    row, column = peers(x, y, CM, CN)
    height = BM // GROUPS
    width = part_width(BN, config.parts, SWAPPED)
    a = px.shared((STAGES, BM, BK) if A_BY_K else (STAGES, BK, BM), A.dtype)
    b = px.shared((STAGES, BN, BK) if B_BY_K else (STAGES, BK, whole_panels(BN)), B.dtype)
    out = None
    row_scales = None
    column_scales = None
    row_bias = None
    if form.tma_store:
        out = px.shared((GROUPS, width, height) if SWAPPED else (GROUPS, height, width), C.dtype)
    if form.scale_rows:
        row_scales = px.shared((GROUPS, height, 1), px.f32)  # as a column, so that it is read as the sums lie
    if form.scale_columns:
        column_scales = px.shared((GROUPS, 1, width), px.f32)
    if form.bias_kind == "row" and form.tma_store:
        row_bias = px.shared((GROUPS, height, 1) if SWAPPED else (GROUPS, 1, width), px.f32)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    # Step 2: the tiles of this cluster.
    A_BATCH = len(A.shape) == 3
    B_BATCH = len(B.shape) == 3
    BATCH = len(C.shape) == 3
    axis = 1 if BATCH else 0  # of C's rows
    steps = px.cdiv(A.shape[(1 if A_BATCH else 0) + (1 if A_BY_K else 0)], BK)
    high, wide = (axis + 1, axis) if SWAPPED else (axis, axis + 1)
    rows = px.cdiv(C.shape[high], CM * BM)
    columns = px.cdiv(C.shape[wide], CN * BN)
    tiles = rows * columns * (C.shape[0] if BATCH else 1)
    first = px.cluster.id()
    step = px.num_blocks(0) * px.num_blocks(1) // (CM * CN)
    whole = tiles
    rest = 0
    done = None
    if SPLIT > 1:
        whole = px.i32(px.u32(tiles) // px.u32(step)) * step
        rest = tiles - whole
        done = px.counters(MOST_COUNTED)
    count = whole + rest * SPLIT
    work = Tiles(
        x, y, row, column, a, b, full, empty, px.ring(STAGES), steps, rows, columns, first, count, step,
        whole, rest, BM, BN, BK, STAGES, CM, CN, config.group, A_BY_K, B_BY_K, A_BATCH, B_BATCH, BATCH, config.streamed,
        config.hint, config.trimmed[0], config.trimmed[1], SPLIT,
    )  # fmt: skip
    # Step 3: the first copies are asked for before the launch before this one is over.
    work.announce(A, B)
    start = work.fetched(first)
    px.wait_prior()

    # Step 4: warpgroups multiply tile after tile; results leave beside the next one's products.
    for c in px.static_range(GROUPS):
        with px.warps(4 + 4 * c, 4, regs=MULTIPLYING_REGS[GROUPS]):
            if c == 0:  # warps that have to wait for the first copies anyway
                px.launch_dependents()
            top = c * height
            factor = factor_of(alpha, SCALE_A, SCALE_B, form.scale_rows, form.scale_columns)
            epilogue = Epilogue(
                C, BIAS, SCALE_A, SCALE_B, factor, of_group(out, c), of_group(row_scales, c), of_group(column_scales, c),
                of_group(row_bias, c), height, width, BN, form.bias_kind, form.activation, SWAPPED,
            )  # fmt: skip
            for number in range(first, count, step):
                tile, part, begin, end = work.part(number)
                z, i, j = work.place(tile)
                m = (i * CM + x) * BM + top
                n = (j * CN + y) * BN
                rows_ahead, columns_ahead = epilogue.scales(m, n)  # held in the loads' own layout during the products
                acc, bias = work.multiply(epilogue, top, z, m, n, begin, end)
                if SPLIT > 1:
                    if number >= whole:
                        place = ((tile - whole) * CM * CN + y * CM + x) * GROUPS + c
                        sums = PartialSums(W, done, place, part, height, BN, width, SPLIT)
                        if sums.leave(acc):
                            epilogue.store(acc, bias, rows_ahead, columns_ahead, z, m, n, sums)
                    else:
                        epilogue.store(acc, bias, rows_ahead, columns_ahead, z, m, n)
                else:
                    epilogue.store(acc, bias, rows_ahead, columns_ahead, z, m, n)
            if form.tma_store:
                px.tma.wait(0, read=True)

    # Step 5: a warpgroup fetches.
    with px.warps(0, 4, regs=FETCHING_REGS[GROUPS]):  # the last role lies right behind the start: its code comes first
        work.fetch_all(A, B, start)
