"""What the kernels over a cache share: which keys a row sees, how blocks of keys come, the two products, the join.

All of it runs inside kernels. A CTA has BM rows of queries of one sequence and one KV head: the heads of a group times
the tokens.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.scores import LAZY, NOTHING, Reach, capped, log_sums, softmax_step

PANEL = 64
"""Columns that pass through registers at once."""
JOINED = 128
"""Columns that are joined at once."""
AHEAD = 4
"""Blocks whose pages are looked up before they are asked for."""
HINT = "evict_first"
"""What L2 is told of keys and values: they are read once, or by CTAs side by side. Copies with it bring what they ask for
and no whole lines of 256 bytes, which cost 6% of the bandwidth."""


@px.struct
class Queries:
    """The rows of queries of a CTA: row r of a sequence and KV head is head r % G of the group for token r // G of T.

    `row` is the first one; results go `shift` rows further than queries lie.
    """

    b: Any
    h: Any
    row: Any
    heads: Any
    shift: Any
    T: int
    G: int
    BM: int

    def numbers(self, first, count):
        """The places of `count` rows from `first` on among all rows (sequence, token, head); -1 beyond the last one."""
        r = self.row + first + px.arange(count)
        return px.where(r < self.T * self.G, (self.b * self.T + r // self.G) * self.heads + self.h * self.G + r % self.G, -1)

    def targets(self, first, count):
        """The rows of results where `count` rows from `first` on go; -1 for those beyond the last."""
        numbers = self.numbers(first, count)
        return px.where(numbers >= 0, numbers + self.shift, -1)

    def load(self, Q, q):
        """The queries into shared memory, a panel of columns at a time; rows that are not there are 0."""
        size = q.shape[1]
        numbers = self.numbers(0, self.BM)
        for column in px.static_range(0, size, PANEL):
            wide = min(PANEL, size - column)
            px.store(q[:, column : column + wide], px.load(Q[numbers, column : column + wide]))
        px.fence.async_proxy()


@px.func
def queries_of(b, heads, shift, form, BM):
    """The `Queries` of this CTA: along dimension 1 of the grid, the tiles of BM rows of one KV head, then the next head.

    `form` is a `CacheForm` or a `ListForm`.
    """
    tiles = px.cdiv(form.tokens * form.group, BM)
    return Queries(
        b, px.block_id(1) // tiles, px.block_id(1) % tiles * BM, heads, shift, form.tokens, form.group, BM
    )  # fmt: skip


@px.struct
class Sequence:
    """The keys of one sequence that its tokens see; this CTA has the blocks of BN keys from `first` to `end`.

    Where keys of several KV heads lie in turn, HEADS of them, a block has BN // HEADS tokens; `only` is then the head
    whose values count, -1 for all.
    """

    reach: Any
    rows: Any
    first: Any
    end: Any
    BN: int
    HEADS: int = 1
    only: Any = None

    def is_whole(self, block):
        """Whether every row sees every key of a block, and all values count."""
        last = self.rows.T - 1
        tokens = self.BN // self.HEADS
        whole = (block * tokens >= self.reach.begin(last)) & ((block + 1) * tokens <= self.reach.end(0))
        if self.only is not None:
            whole = whole & (self.only < 0)
        return whole

    def tokens(self, block):
        """The token of each key of a block."""
        return block * (self.BN // self.HEADS) + px.arange(self.BN) // self.HEADS

    def seen(self, x, block):
        """The scores `x` of a block of keys, with those that a row does not see at -inf."""
        BM = self.rows.BM
        keys = self.tokens(block).reshape(1, self.BN)
        token = ((self.rows.row + px.arange(BM)) // self.rows.G).reshape(BM, 1)
        return px.where((keys >= self.reach.begin(token)) & (keys < self.reach.end(token)), x, NOTHING)

    def clear(self, v, block):
        """Zeros in the place of values that no row may see: they may be anything, and 0 times NaN is NaN."""
        keys = self.tokens(block).reshape(self.BN, 1)
        there = (keys >= self.reach.begin(0)) & (keys < self.reach.end(self.rows.T - 1))
        if self.only is not None:
            there = there & ((self.only < 0) | (px.arange(self.BN).reshape(self.BN, 1) % self.HEADS == self.only))
        size = v.shape[1]
        for column in px.static_range(0, size, PANEL):
            values = v[:, column : column + min(PANEL, size - column)]
            px.store(values, px.where(there, px.load(values), 0.0))
        px.fence.async_proxy()
        px.sync()  # here, and not before the product of every block

    def masked(self, x, v, block, stage, clears):
        """The scores of a block as softmax takes them; and the values of the block become such as may be multiplied by 0.

        Where several roles multiply by them, one `clears` them, for the others, too.
        """
        if not self.is_whole(block):
            x = self.seen(x, block)
            if clears:
                self.clear(v[stage], block)
        return x


@px.func
def part_of_cta(LENGTHS, place, config, form):
    """The `Queries` of this CTA, and its part of their `Sequence`: all that share one have equal parts, to one block.

    `place` is a `CachePlace`. The results of each split go behind those of the one before.
    """
    split = px.block_id(0) // config.cluster
    b = px.block_id(2)
    rows = queries_of(b, place.heads, split * px.num_blocks(2) * form.tokens * place.heads, form, config.rows)
    length = px.minimum(px.maximum(LENGTHS[rows.b].to(px.i32), 0), place.capacity)
    reach = Reach(rows.T, length, place.left, place.right)
    low, high = reach.blocks(0, rows.T, form.block)
    parts = config.cluster * config.splits
    first = low + px.block_id(0) * (high - low) // parts
    end = low + (px.block_id(0) + 1) * (high - low) // parts
    return rows, Sequence(reach, rows, first, end, form.block)


@px.func
def pages_of(TABLE, b, block, BN, PAGE):
    """The pages that hold a block of keys, -1 beyond the table's end: several small ones, or a part of a large one."""
    found: tuple[Any, ...] = ()
    for part in px.static_range(max(1, BN // PAGE)):
        found = found + (px.load(TABLE[b, block * BN // PAGE + part], fill=-1).to(px.i32),)  # noqa: RUF005
    return found


@px.func
def fetch(CACHE, pages, rows, block, ring, left, pipe, BN, PAGE, BOX):
    """Fills the next stage of a ring with the keys, or values, of one block, columns from `left` on, BOX tokens a copy."""
    size = ring.shape[2]
    with pipe.produce() as stage:
        for token in px.static_range(0, BN, BOX):
            if PAGE == 0:
                page = rows.b
                start = block * BN + token
            elif PAGE >= BN:
                page = pages[0]
                start = block * BN % PAGE + token
            else:
                page = pages[token // PAGE]
                start = token % PAGE
            there = ring[stage][token : token + BOX]
            source = CACHE[page, start : start + BOX, rows.h, left : left + size]
            px.tma.load(source, there, pipe.full[stage], cache=HINT)


@px.func
def fetch_all(TABLE, rows, mine, parts, BN, PAGE, BOX):
    """The role that fills rings with the blocks of a sequence: (cache, ring, first column, pipe) of each part of a block.

    Pages are looked up AHEAD blocks ahead: behind as many bytes as are on their way, an entry of the table that is not in
    L2 takes as long as two blocks.
    """
    pages: tuple[Any, ...] = ()
    following: tuple[Any, ...] = ()
    if PAGE > 0:
        for block in px.static_range(AHEAD):
            following = following + (pages_of(TABLE, rows.b, mine.first + block, BN, PAGE),)  # noqa: RUF005
    for block in range(mine.first, mine.end):
        if PAGE > 0:
            pages = following[0]
            following = following[1:] + (pages_of(TABLE, rows.b, block + AHEAD, BN, PAGE),)  # noqa: RUF005
        for part in px.static_range(len(parts)):
            cache, ring, left, pipe = parts[part]
            fetch(cache, pages, rows, block, ring, left, pipe, BN, PAGE, BOX)


@px.struct
class Softmax:
    """What makes scores of products: ``cap * tanh(slope * x)``, if there is a cap; then a `factor`, to units of log2.

    Sums are multiplied by a factor only where a row's maximum has grown by more than `LAZY`.
    """

    factor: Any
    slope: Any
    cap: Any

    def capped(self, x):
        """The scores under the cap."""
        if self.cap is not None:
            x = capped(x, self.slope, self.cap)
        return x

    def step(self, x, top, sums):
        """Powers of 2 of a block's scores, the new maxima and sums, and the factor of what was summed before."""
        return softmax_step(x, top, sums, self.factor, x.shape[0], x.shape[1], True, LAZY)


@px.func
def scale_of(SCALES, h):
    """The scale of a KV head: one of its own, the one of all, or 1."""
    scale = 1.0
    if SCALES is not None:
        scale = SCALES[px.minimum(h, SCALES.shape[0] - 1)]
    return scale


@px.func
def softmax_of(factor, slope, cap, SCALES, h):
    """The `Softmax` for keys of a head that are multiplied by a scale."""
    scale = scale_of(SCALES, h)
    if cap is None:
        return Softmax(factor * scale, slope, cap)
    return Softmax(factor, slope * scale, cap)


@px.struct
class Results:
    """The target of results: O, rows of them, and LSE, the logarithms of the sums of exponentials, or None."""

    O: Any
    LSE: Any
    rows: Any
    v_scale: Any

    def scaled(self, sums, total):
        """The results of some rows from their sums: 0 where a row saw nothing."""
        inverse = px.where(total == 0.0, 0.0, self.v_scale * px.reciprocal(total))
        return (sums * inverse.reshape(sums.shape[0], 1)).to(self.O.dtype)

    def store(self, column, sums, total, out):
        """Stores some columns of all rows, by way of the shared buffer `out`: from there they go in whole vectors."""
        width = sums.shape[1]
        px.store(out[:, column : column + width], self.scaled(sums, total))
        targets = self.rows.targets(0, self.rows.BM)
        for left in px.static_range(column, column + width, JOINED):
            wide = min(JOINED, column + width - left)
            px.store(self.O[targets, left : left + wide], px.load(out[:, left : left + wide]))

    def store_logs(self, first, top, total):
        """The logarithms of rows from `first` on: -inf where a row saw nothing."""
        if self.LSE is not None:
            px.store(self.LSE[self.rows.targets(first, top.shape[0])], log_sums(top, total))

    def store_at_once(self, sums, top, total):
        """Stores all columns of all rows as the tensor cores left them in registers, and the logarithms."""
        width = sums.shape[1]
        found = self.scaled(sums, total)
        targets = self.rows.targets(0, self.rows.BM)
        for column in px.static_range(0, width, PANEL):
            wide = min(PANEL, width - column)
            px.store(self.O[targets, column : column + wide], found[:, column : column + wide])
        self.store_logs(0, top, total)

    def leave(self, sums, top, total, ring, part, tops, masses):
        """Lets go what this CTA has summed up: as results, through memory of the `ring`; in a cluster, for `join`."""
        if part is None:
            self.store(0, sums, total, px.shared(sums.shape, self.O.dtype, reuse=ring))
            self.store_logs(0, top, total)
        else:
            px.store(part, sums)
            px.store(tops, top)
            px.store(masses, total)

    def join(self, part, left, right, tops, masses, C, LEAST=1):
        """Columns `left` to `right` of the rows that this CTA joins: sums, maxima and masses lie in each of the C CTAs.

        Each has a power of two of rows, LEAST or more, or none.
        """
        count = min(self.rows.BM, self.rows.T * self.rows.G)
        each = LEAST
        for _ in px.static_range(7):  # a power of two: all CTAs have some, or some have one
            if each * C < count:
                each = 2 * each
        first = px.cluster.rank() * each
        if first < count:
            top = px.full((each,), NOTHING, px.f32)
            total = px.zeros((each,), px.f32)
            for other in px.static_range(C):
                top = px.maximum(top, px.load(tops.at(other)[first : first + each]))
            base = px.where(top == NOTHING, 0.0, top)
            factors: Any = ()
            for other in px.static_range(C):
                factor = px.exp2(px.load(tops.at(other)[first : first + each]) - base)
                total = total + factor * px.load(masses.at(other)[first : first + each])
                factors = factors + (factor,)  # noqa: RUF005
            targets = self.rows.targets(first, each)
            for column in px.static_range(left, right, JOINED):
                sums = px.zeros((each, min(JOINED, right - column)), px.f32)
                for other in px.static_range(C):
                    there = part.at(other)[first : first + each, column : column + sums.shape[1]]
                    sums = sums + factors[other].reshape(each, 1) * px.load(there)
                px.store(self.O[targets, column : column + sums.shape[1]], self.scaled(sums, total))
            if left == 0:
                self.store_logs(first, top, total)


@px.struct
class Turns:
    """Whose turn it is to give the tensor cores work, of two roles: `which` is this one. Role 0 begins.

    While the products of one are made the other is at its exponentials. What role 0 has done before its products, role 1
    sees before its own.
    """

    barriers: Any
    which: Any

    def wait(self, round):
        """Waits for this role's turn, in round 0, 1, 2 ..."""
        self.barriers[self.which].wait((round + 1 + self.which) % 2)

    def pass_on(self):
        """Lets the other role have its turn."""
        self.barriers[1 - self.which].arrive()


@px.func
def attend(q, k, v, keys, values, mine, softmax, turns=None, BY_THREADS=False):
    """The role that multiplies: sums of values, maxima and masses of the rows over the blocks that this CTA has.

    The scores of the next block follow the sums of this one without a gap. With `turns` two roles take turns. BY_THREADS
    says that threads have copied keys and values: tensor cores see those behind a fence.
    """
    BM = q.shape[0]
    BN = k.shape[1]
    DV = v.shape[2]
    sums = px.zeros((BM, DV), px.f32)
    x = px.empty((BM, BN), px.f32)
    top = px.full((BM,), NOTHING, px.f32)
    mass = px.zeros((BM, 4), px.f32)
    if mine.first < mine.end:
        with keys.consume() as s:
            if BY_THREADS:
                px.fence.async_proxy()
            x = px.dot(q, k[s].T)
    for block in range(mine.first, mine.end):
        at = values.wait()
        x = mine.masked(softmax.capped(x), v, block, at, True if turns is None else turns.which == 0)
        p, top, mass, factor = softmax.step(x, top, mass)
        sums = px.multiply(sums, factor.reshape(BM, 1), skip_ones=True)
        if BY_THREADS:
            px.fence.async_proxy()
        if turns is not None:
            turns.wait(block - mine.first)
        px.wgmma(p.to(v.dtype), v[at], sums)
        px.wgmma_commit()
        if block + 1 < mine.end:
            s = keys.wait()
            if BY_THREADS:
                px.fence.async_proxy()
            x = px.empty((BM, BN), px.f32)
            px.wgmma(q, k[s].T, x, accumulate=False)
            px.wgmma_commit()
            if turns is not None:
                turns.pass_on()
            px.wgmma_wait(1)
            values.release()
            px.wgmma_wait(0)
            keys.release()
        else:
            if turns is not None:
                turns.pass_on()
            px.wgmma_wait(0)
            values.release()
    return sums, top, px.sum(mass, axis=1)


@px.func
def widen(narrow, wide):
    """Elements of 8 bits into a buffer of the tensor cores' operands, a panel of columns at a time."""
    size = wide.shape[1]
    for column in px.static_range(0, size, PANEL):
        panel = min(PANEL, size - column)
        px.store(wide[:, column : column + panel], px.load(narrow[:, column : column + panel]).to(wide.dtype))
    px.fence.async_proxy()


@px.func
def attend_narrow(q, k, v, keys, values, mine, softmax):
    """`attend` over a cache of 8-bit floats: its elements become those of the queries on their way to the tensor cores.

    Keys are converted while the sums before them are made, values while their scores are.
    """
    BM = q.shape[0]
    BN = k.shape[1]
    D = k.shape[2]
    DV = v.shape[2]
    wide_k = px.shared((BN, D), q.dtype)
    wide_v = px.shared((1, BN, DV), q.dtype)
    sums = px.zeros((BM, DV), px.f32)
    x = px.empty((BM, BN), px.f32)
    top = px.full((BM,), NOTHING, px.f32)
    mass = px.zeros((BM, 4), px.f32)
    if mine.first < mine.end:
        with keys.consume() as s:
            widen(k[s], wide_k)
        px.wgmma(q, wide_k.T, x, accumulate=False)
        px.wgmma_commit()
        with values.consume() as s:
            widen(v[s], wide_v[0])
        px.wgmma_wait(0)
    for block in range(mine.first, mine.end):
        x = mine.masked(softmax.capped(x), wide_v, block, 0, True)
        p, top, mass, factor = softmax.step(x, top, mass)
        sums = px.multiply(sums, factor.reshape(BM, 1), skip_ones=True)
        px.wgmma(p.to(q.dtype), wide_v[0], sums)
        px.wgmma_commit()
        if block + 1 < mine.end:
            with keys.consume() as s:
                widen(k[s], wide_k)
            x = px.empty((BM, BN), px.f32)
            px.wgmma(q, wide_k.T, x, accumulate=False)
            px.wgmma_commit()
            px.wgmma_wait(1)
            with values.consume() as s:
                widen(v[s], wide_v[0])
            px.wgmma_wait(0)
        else:
            px.wgmma_wait(0)
    return sums, top, px.sum(mass, axis=1)
