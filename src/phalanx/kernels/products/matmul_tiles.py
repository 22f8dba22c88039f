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
from phalanx.kernels.products.activations import activate
from phalanx.kernels.products.matmul_cuts import MOST_COUNTED
from phalanx.kernels.products.orders import grouped

PANEL = 64
"""Elements of 16 bits in a row of the widest swizzle."""
FETCHING_REGS, MULTIPLYING_REGS = (None, None, 40, 32), (None, None, 232, 160)
"""Registers of a thread, by the warpgroups that multiply; with one of them all have enough as they are."""
ANNOUNCED, MOST_ANNOUNCED = 15 * 1024, 9 * 1024
"""Bytes that a CTA brings into L2 before the CTAs of its cluster have met, at most; and what its share of a stage may be.
With nothing in L2, 19 products of few rows take 1.2 to 1.5% less with one stage, and as long as before behind a launch like
them (`sweep_early.json`). Where a share has 10 KiB or more they take up to 2% longer there, and with more stages anywhere:
copies wait behind what was asked for."""


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
def whole_panels(columns):
    """Columns for which there is room in shared memory, of an operand that lies across K: whole panels."""
    return px.cdiv(columns, PANEL) * PANEL


@px.func
def in_panels(columns, ctas):
    """Whether CTAs share the columns of an operand that lies across K in whole panels: else they share its rows of K."""
    return columns % (ctas * PANEL) == 0


@px.func
def within(start, extent):
    """Where a copy begins: at `start`, or at the array's last panel that is whole if all of it would lie outside.

    What it brings is multiplied into results that nobody stores. Zeros would do as well, but to fill them in takes the
    copy engine longer than to bring what a neighbour has asked for, and the whole wave waits for its last tile.
    """
    return start if start < extent else max(extent // PANEL - 1, 0) * PANEL


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
def of_group(buffers, c):
    """The buffer of warpgroup `c`; None where there are none."""
    return None if buffers is None else buffers[c]


@px.func
def part_width(BN, PARTS, SWAPPED):
    """Columns of each of PARTS parts of BN: as many in each; swapped a power of two, but for the last ones."""
    width = px.cdiv(BN, PARTS)
    if PARTS > 1 and SWAPPED:
        for power in px.static_range(3, 8):
            width = 1 << power if 1 << (power - 1) < width <= 1 << power else width
    return width


@px.func
def cuts(BN, WIDTH):
    """Where the parts of BN columns begin, and how wide they are: WIDTH each, and powers of two for what is left."""
    found: tuple[Any, ...] = ()
    for whole in px.static_range(BN // WIDTH):
        found = (*found, (whole * WIDTH, WIDTH))
    left = BN % WIDTH
    for halvings in px.static_range(1, 6):
        size = WIDTH >> halvings
        if left & size:
            found = (*found, (BN - left % (2 * size), size))
    return found


@px.func
def pieces(start, width, BN):
    """What threads can cut from BN columns of sums for a part: all of them, or powers of two that begin at multiples."""
    found: tuple[Any, ...] = ()
    low = start
    for _ in px.static_range(2 * 5):
        size = BN if width == BN and low == 0 else 0
        for power in px.static_range(3, 8):
            size = 1 << power if width < BN and low % (1 << power) == 0 and low + (1 << power) <= start + width else size
        found = (*found, (low, size)) if size > 0 else found
        low = low + size
    return found


@px.struct
class Operand:
    """A or B as the role that fetches sees it: stages of SPAN rows of A, or columns of B, by BK, shared by CTAS of a row.

    Each of these fetches its share for all that `mask` names, `place` says which. `hint` is what L2 is told of it. BY_K: the
    operand lies along K, so that a share is some of the span. Across K it is so, too, where shares are whole panels of a
    swizzle; else some rows of K, of the whole span. With TRIM, panels beyond the operand's end are not fetched.
    """

    stages: Any
    place: Any
    mask: Any
    hint: Any
    CTAS: int
    SPAN: int
    BK: int
    BY_K: bool
    BATCHED: bool
    TRIM: bool

    def shares_rows_of_k(self):
        """Whether a share is rows of K."""
        return not self.BY_K and not in_panels(self.SPAN, self.CTAS)

    def from_place(self, first):
        """Where this CTA's share begins, of a tile's rows or columns from `first` on."""
        return first if self.shares_rows_of_k() else first + self.place * (self.SPAN // self.CTAS)

    def fetch(self, X, z, first, k, s, full):
        """This CTA's share of stage `s`, from `first` and `k` on, of matrix `z` of a batch."""
        of, across = z if self.BATCHED else None, not self.BY_K
        extent = X.shape[(1 if self.BATCHED else 0) + (1 if across else 0)]
        if self.shares_rows_of_k():
            self.fetch_rows_of_k(X, of, extent, first, k, self.stages[s], full)
        else:
            self.fetch_span(X, of, extent, first, k, self.stages[s], full)

    def announce(self, X, first, k):
        """Brings this CTA's share of a stage into L2, of an operand that lies along K, in the boxes of `fetch_span`."""
        share, wide = self.boxes()
        for start in px.static_range(0, share, wide):
            px.tma.prefetch(block(X, None, first + start, k, min(share - start, wide), self.BK), cache=self.hint)

    def fetch_rows_of_k(self, X, z, extent, first, k, stage, full):
        """Some rows of K, of the whole span. Its last panel may be a part of one: what is not multiplied is not fetched."""
        depth, SPAN = self.BK // self.CTAS, self.SPAN
        top, wide = self.place * depth, PANEL if self.TRIM or SPAN < PANEL else SPAN // PANEL * PANEL
        for start in px.static_range(0, SPAN, wide):
            size, here = min(SPAN - start, wide), first + start
            if self.TRIM:
                here = within(here, extent)
            px.tma.load(
                block(X, z, k + top, here, depth, size), stage[top : top + depth, start : start + size], full,
                multicast=self.mask, cache=self.hint,
            )

    def boxes(self):
        """What a CTA fetches of the span, and what one copy brings of that: a panel where the tile is trimmed, else all."""
        share = self.SPAN // self.CTAS
        return share, PANEL if self.TRIM else share

    def fetch_span(self, X, z, extent, first, k, stage, full):
        """Some of the span, along all of the stage's K."""
        BK, (share, wide) = self.BK, self.boxes()
        at = self.place * share
        for start in px.static_range(0, share, wide):
            size, here, there = min(share - start, wide), first + start, at + start
            if self.TRIM:
                here = within(here, extent)
            if self.BY_K:
                source, target = block(X, z, here, k, size, BK), stage[there : there + size]
            else:
                source, target = block(X, z, k, here, BK, size), stage[:, there : there + size]
            px.tma.load(source, target, full, multicast=self.mask, cache=self.hint)


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
        tile, part, begin, end = number, px.i32(0), 0, self.steps
        if self.SPLIT > 1:
            if number >= self.whole:
                part = px.i32(px.u32(number - self.whole) // px.u32(self.rest))
                tile = number - part * self.rest
                begin, end = part * self.steps // self.SPLIT, (part + 1) * self.steps // self.SPLIT
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
        CM, CN, BM, BN, BK, by = self.CM, self.CN, self.BM, self.BN, self.BK, self.STREAMED
        row, of_rows = self.row if CN > 1 else None, self.HINT if by == "rows" else None
        column, of_columns = self.column if CM > 1 else None, self.HINT if by == "columns" else None
        rows = Operand(self.a, self.y, row, of_rows, CN, BM, BK, self.A_BY_K, self.A_BATCH, self.TRIM_ROWS)
        columns = Operand(self.b, self.x, column, of_columns, CM, BN, BK, self.B_BY_K, self.B_BATCH, self.TRIM_COLUMNS)
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
            m, n = rows.from_place((i * self.CM + self.x) * self.BM), columns.from_place((j * self.CN + self.y) * self.BN)
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
        CM, CN, BM, BN, BK, STAGES = self.CM, self.CN, self.BM, self.BN, self.BK, self.STAGES
        (begin, end, z, i, j), (rows, columns) = start, self.operands()
        unused = (begin + STAGES) * BK  # where the first tile begins to use stages again
        for number in range(self.first, self.count, self.step):
            m, n = rows.from_place((i * CM + self.x) * BM), columns.from_place((j * CN + self.y) * BN)
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


@px.struct
class Epilogue:
    """What is done to sums before they are stored, by one warpgroup: scales, bias, activation, one part after another.

    `out` is where a part waits for its TMA store; without it threads store. `row_scales`, `column_scales` and `row_bias`
    bring vectors from the layout in which they were loaded into that of the sums. SWAPPED: the sums are the transpose of a
    part of C, so that a bias with an element for each column of C has one for each row here.
    """

    C: Any
    BIAS: Any
    SCALE_A: Any
    SCALE_B: Any
    factor: Any
    out: Any
    row_scales: Any
    column_scales: Any
    row_bias: Any
    height: int
    width: int
    BN: int
    BIAS_KIND: Any
    ACTIVATION: Any
    SWAPPED: bool

    def scales(self, m, n):
        """A tile's scales of rows, and of columns for each part: a few registers; None where there are none."""
        rows = px.load(self.SCALE_A[m : m + self.height]) if self.row_scales is not None else None
        columns: tuple[Any, ...] = ()
        parts = cuts(self.BN, self.width) if self.column_scales is not None else ()
        for part in px.static_range(len(parts)):
            start, width = parts[part]
            columns = (*columns, px.load(self.SCALE_B[n + start : n + start + width]))
        return rows, columns

    def bias(self, z, m, n):
        """What a part reads of the bias; None where there is none."""
        if self.BIAS_KIND == "row" and self.SWAPPED:
            bias = px.load(self.BIAS[m : m + self.height])
        elif self.BIAS_KIND == "row":
            bias = px.load(self.BIAS[n : n + self.width])
        elif self.BIAS_KIND == "matrix":
            bias = px.load(block(self.BIAS, None, m, n, self.height, self.width))
        elif self.BIAS_KIND == "batch":
            bias = px.load(block(self.BIAS, z, m, n, self.height, self.width))
        else:
            bias = None
        return bias

    def finish(self, acc, rows, columns, bias):
        """A part of the result, in f32."""
        y = acc
        if self.factor is not None:
            y = y * self.factor
        if rows is not None:
            y = y * rows
        if columns is not None:
            y = y * columns
        if self.BIAS_KIND == "row":
            along = (self.height, 1) if self.SWAPPED else (1, self.width)
            y = y + (bias if len(bias.shape) == 2 else bias.reshape(*along)).to(px.f32)
        elif self.BIAS_KIND is not None:
            y = y + bias.to(px.f32)
        return activate(y, self.ACTIVATION, self.C.dtype == px.bf16)

    def store(self, acc, bias, rows_ahead, columns_ahead, z, m, n, sums=None):
        """All parts of a tile, of which the first one's bias was loaded before; `sums` may have more to add."""
        by_row, by_column = None, None
        parts = cuts(self.BN, self.width)
        for part in px.static_range(len(parts)):
            start, width = parts[part]
            if self.out is not None:
                px.tma.wait(0, read=True)  # the part before has left the buffer
            # Vectors pass through shared memory into the sums' layout, behind the same barrier as the buffer.
            if self.row_scales is not None and part == 0:
                px.store(self.row_scales[:, 0], rows_ahead)
            if self.column_scales is not None:
                px.store(self.column_scales[0, :width], columns_ahead[part])
                by_column = px.load(self.column_scales[:, :width])
            if self.row_bias is not None and (part == 0 or not self.SWAPPED):
                px.store(self.row_bias[:, 0] if self.SWAPPED else self.row_bias[0], bias.to(px.f32))
                bias = px.load(self.row_bias)
            if self.row_scales is not None and part == 0:
                by_row = px.load(self.row_scales)
            several = pieces(start, width, self.BN)
            result = None
            if len(several) == 1:
                total = acc[:, start : start + width]
                if sums is not None:
                    total = sums.total(total, start)
                result = self.finish(total, by_row, by_column, bias).to(self.C.dtype)
            else:
                self.place(acc, by_row, several)
            if part + 1 < len(parts) and not self.SWAPPED:
                bias = self.bias(z, m, n + start + width)
            if self.out is not None and self.SWAPPED:
                px.store(self.out[:width].T, result)
                px.fence.async_proxy()
                px.tma.store(self.out[:width], block(self.C, z, n + start, m, width, self.height))
                px.tma.commit()
            elif self.out is not None:
                if result is not None:
                    px.store(self.out, result)
                px.fence.async_proxy()
                px.tma.store(self.out, block(self.C, z, m, n + start, self.height, width))
                px.tma.commit()
            else:
                px.store(block(self.C, z, m, n + start, self.height, width), result)

    def place(self, acc, by_row, several):
        """A part into the buffer of its store, piece by piece; what vectors hold for each of them is in shared memory."""
        first, _ = several[0]
        for piece in px.static_range(len(several)):
            low, size = several[piece]
            start, end = low - first, low - first + size
            by_column = None if self.column_scales is None else px.load(self.column_scales[:, start:end])
            added = None if self.row_bias is None else px.load(self.row_bias[:, start:end])
            result = self.finish(acc[:, low : low + size], by_row, by_column, added)
            px.store(self.out[:, start:end], result.to(self.C.dtype))


@px.func
def by_thread(tile):
    """Sums in the order in which threads hold them: 16 bytes of each next to those of its neighbour."""
    rows, columns = tile.shape
    pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2)
    return pieces.permute(3, 0, 2, 4, 1, 5).reshape(rows * columns)


@px.func
def by_place(pieces, rows, columns):
    """The inverse of `by_thread`."""
    tile = pieces.reshape(columns // 8, rows // 16, 8, 4, 2, 2)
    return tile.permute(1, 4, 2, 0, 3, 5).reshape(rows, columns)


@px.struct
class Sums:
    """The sums of the SPLIT parts of a tile, of one warpgroup, one after the other in W; `place` numbers the warpgroups.

    `part` is this CTA's own. `done` counts the parts that are there.
    """

    W: Any
    done: Any
    place: Any
    part: Any
    height: int
    BN: int
    width: int
    SPLIT: int

    def leave(self, acc):
        """Leaves this part's sums; gives whether all others had done so, so that this CTA is to add them up."""
        parts = cuts(self.BN, self.width)
        for piece in px.static_range(len(parts)):
            start, width = parts[piece]
            px.store(self.piece(self.part, start, width), by_thread(acc[:, start : start + width]))
        last = px.atomic_add(self.done[self.place], 1, order="acq_rel") == self.SPLIT - 1
        if last:
            px.atomic_exch(self.done[self.place], 0)
        return last

    def piece(self, part, start, width):
        """Where the sums of some columns are."""
        first = ((self.place * self.SPLIT + part) * self.BN + start) * self.height
        return self.W[first : first + width * self.height]

    def total(self, own, start):
        """The sums of all parts, of the columns from `start` on, of which this CTA has its own in registers.

        They are added up in the order of the parts, whoever does it: the same call has the same result. Of two parts the
        order does not matter.
        """
        height, width = own.shape
        mine = by_thread(own)
        if self.SPLIT == 2:
            added = mine + px.load(self.piece(1 - self.part, start, width))
        else:
            added = px.full(mine.shape, 0.0, px.f32)
            for part in range(self.SPLIT):
                there = px.load(self.piece(part, start, width))
                added = added + px.where(part == self.part, mine, there)
        return by_place(added, height, width)


@px.kernel(
    warps=lambda GROUPS: 4 + 4 * GROUPS, cluster=lambda CM, CN: (CM, CN), exit_sync=False, pdl=True
)
def matmul_tiles(
    A, B, C, BIAS, SCALE_A, SCALE_B, alpha, W, *, BM=128, BN=256, BK=64, STAGES=4, CM=1, CN=2, GROUP=16, PARTS=2, GROUPS=2,
    A_BY_K=True, B_BY_K=True, A_BATCH=False, B_BATCH=False, BATCH=False, TMA_STORE=True,
    BIAS_KIND=None, SCALE_ROWS=False, SCALE_COLUMNS=False, ACTIVATION=None, SWAPPED=False, STREAMED=None, HINT="evict_first",
    TRIM_ROWS=False, TRIM_COLUMNS=False, SPLIT=1,
):  # fmt: skip
    """C = activation(scales * A @ B + BIAS). A is (M, K) with A_BY_K, else (K, M); B is (N, K) with B_BY_K, else (K, N).

    With SWAPPED C is (N, M), and gets the transpose; a bias then has an element for each of the M rows of A. That needs
    TMA_STORE and a bias that is no matrix. STREAMED names the operand that passes L2 by, A's "rows" or B's "columns",
    as HINT says.
    TRIM_ROWS, TRIM_COLUMNS: A's rows, B's columns come in pieces, none of which is all outside the array.
    SPLIT: parts of K of the tiles that fill no wave. Their sums are left in W, BM * BN of f32 for each part and CTA of such
    a tile.
    """
    x, y = px.cluster.rank(0), px.cluster.rank(1)
    row, column = peers(x, y, CM, CN)
    height, width = BM // GROUPS, part_width(BN, PARTS, SWAPPED)
    a = px.shared((STAGES, BM, BK) if A_BY_K else (STAGES, BK, BM), A.dtype)
    b = px.shared((STAGES, BN, BK) if B_BY_K else (STAGES, BK, whole_panels(BN)), B.dtype)
    out, row_scales, column_scales, row_bias = None, None, None, None
    if TMA_STORE:
        out = px.shared((GROUPS, width, height) if SWAPPED else (GROUPS, height, width), C.dtype)
    if SCALE_ROWS:
        row_scales = px.shared((GROUPS, height, 1), px.f32)  # as a column, so that it is read as the sums lie
    if SCALE_COLUMNS:
        column_scales = px.shared((GROUPS, 1, width), px.f32)
    if BIAS_KIND == "row" and TMA_STORE:
        row_bias = px.shared((GROUPS, height, 1) if SWAPPED else (GROUPS, 1, width), px.f32)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    axis = 1 if BATCH else 0  # of C's rows
    steps = px.cdiv(A.shape[(1 if A_BATCH else 0) + (1 if A_BY_K else 0)], BK)
    high, wide = (axis + 1, axis) if SWAPPED else (axis, axis + 1)
    rows, columns = px.cdiv(C.shape[high], CM * BM), px.cdiv(C.shape[wide], CN * BN)
    tiles = rows * columns * (C.shape[0] if BATCH else 1)
    first, step = px.cluster.id(), px.num_blocks(0) * px.num_blocks(1) // (CM * CN)
    whole, rest, done = tiles, 0, None
    if SPLIT > 1:
        whole = px.i32(px.u32(tiles) // px.u32(step)) * step
        rest = tiles - whole
        done = px.counters(MOST_COUNTED)
    count = whole + rest * SPLIT
    work = Tiles(
        x, y, row, column, a, b, full, empty, px.ring(STAGES), steps, rows, columns, first, count, step,
        whole, rest, BM, BN, BK, STAGES, CM, CN, GROUP, A_BY_K, B_BY_K, A_BATCH, B_BATCH, BATCH, STREAMED,
        HINT, TRIM_ROWS, TRIM_COLUMNS, SPLIT,
    )  # fmt: skip
    work.announce(A, B)
    start = work.fetched(first)
    px.wait_prior()

    for c in px.static_range(GROUPS):
        with px.warps(4 + 4 * c, 4, regs=MULTIPLYING_REGS[GROUPS]):
            if c == 0:  # warps that have to wait for the first copies anyway
                px.launch_dependents()
            top = c * height
            factor = factor_of(alpha, SCALE_A, SCALE_B, SCALE_ROWS, SCALE_COLUMNS)
            epilogue = Epilogue(
                C, BIAS, SCALE_A, SCALE_B, factor, of_group(out, c), of_group(row_scales, c), of_group(column_scales, c),
                of_group(row_bias, c), height, width, BN, BIAS_KIND, ACTIVATION, SWAPPED,
            )  # fmt: skip
            for number in range(first, count, step):
                tile, part, begin, end = work.part(number)
                z, i, j = work.place(tile)
                m, n = (i * CM + x) * BM + top, (j * CN + y) * BN
                rows_ahead, columns_ahead = epilogue.scales(m, n)  # held in the loads' own layout during the products
                acc, bias = work.multiply(epilogue, top, z, m, n, begin, end)
                if SPLIT > 1:
                    if number >= whole:
                        place = ((tile - whole) * CM * CN + y * CM + x) * GROUPS + c
                        sums = Sums(W, done, place, part, height, BN, width, SPLIT)
                        if sums.leave(acc):
                            epilogue.store(acc, bias, rows_ahead, columns_ahead, z, m, n, sums)
                    else:
                        epilogue.store(acc, bias, rows_ahead, columns_ahead, z, m, n)
                else:
                    epilogue.store(acc, bias, rows_ahead, columns_ahead, z, m, n)
            if TMA_STORE:
                px.tma.wait(0, read=True)

    with px.warps(0, 4, regs=FETCHING_REGS[GROUPS]):  # the last role lies right behind the start: its code comes first
        work.fetch_all(A, B, start)
