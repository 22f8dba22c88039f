"""The kernels of `sparse_attention`: keys and values by index, gathered straight into the operands of the tensor cores.

They are those of `attention_decode` with other roles that fill the rings: whole blocks come by boxes, rows by copies of
threads or by `px.tma.gather`. The copy engine of an SM takes a row of 128 bytes every 13 cycles: with one head for a list
that is the limit, 2,190 GB/s on an H200, where threads reach 5,100 (L2 has some of it). With 128 heads for a list the
products are, and the engine brings a row to two CTAs. A list of indices takes the place of a sequence, and the queries that
share it that of a sequence's tokens.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.decode_terms import Results, Softmax, attend, queries_of
from phalanx.kernels.attention.forms import ListForm
from phalanx.kernels.attention.latent_ring import score_and_sum, sum_rest
from phalanx.kernels.attention.scores import NOTHING
from phalanx.kernels.launches import wait_for_prior_launch

SMALLEST_BOX = 16
"""Tokens of an entry of a list from which on each is copied as a box, not row by row."""
GATHER_REGISTERS, SCORE_REGISTERS, SUM_REGISTERS = 96, 224, 184
"""Registers of the roles of `sparse_latent`: gathering warps hold rows of two blocks, summing ones no scores."""


@px.struct
class Listed:
    """The keys of one list, in blocks of BN, `first` to `end` of which this CTA has; `there` says which of a stage exist.

    With a pipe `named` it has stages of its own, of one block each; else those of the values.
    """

    first: Any
    end: Any
    there: Any
    named: Any = None

    def masked(self, x, v, block, stage, clears):
        """The scores of a block as softmax takes them: -inf for keys that the list does not name. Their values are 0."""
        if self.named is not None:
            stage = self.named.wait()
        found = px.load(self.there[stage]) >= 0
        x = px.where(found.reshape(1, x.shape[1]), x, NOTHING)
        if self.named is not None:
            self.named.release()
        return x


@px.struct
class Source:
    """Where keys and values come from: list `number` of INDICES, (lists, heads of lists, n), of the sequence `batch`.

    An index names BLOCK tokens, from BLOCK times it on; a sequence has `tokens`.
    """

    INDICES: Any
    number: Any
    batch: Any
    h: Any
    tokens: Any
    kv_heads: Any
    BLOCK: int
    BN: int

    def head_of_list(self):
        """The head whose list this tile reads: heads may share one list."""
        return px.minimum(self.h, self.INDICES.shape[1] - 1)

    def index_at(self, entry):
        """The entries of the list, -1 behind its end."""
        return px.load(self.INDICES[self.number, self.head_of_list(), entry], fill=-1).to(px.i32)

    def tokens_of(self, block, first, count):
        """The tokens at `count` places of a block from `first` on, -1 where the list has none."""
        place = first + px.arange(count)
        if self.BLOCK > self.BN:
            place = block * self.BN + place
            entry = place // self.BLOCK
        else:  # entries of a block as a number and something small: neighbours are seen to have the same
            entry = block * (self.BN // self.BLOCK) + (place // self.BLOCK if self.BLOCK > 1 else place)
        index = self.index_at(entry)
        token = index * self.BLOCK + place % self.BLOCK if self.BLOCK > 1 else index
        return px.where((index >= 0) & (token < self.tokens), token, -1)

    def rows_of(self, token):
        """The rows of tokens in arrays (sequence, token, head), -1 for none."""
        return px.where(token >= 0, (self.batch * self.tokens + token) * self.kv_heads + self.h, -1)

    def ahead(self, block, PAIR):
        """What is to be known of a block before its copies can start, read while those of the block before it wait.

        The tokens of its places; then, if it is something else, what this CTA copies: the entries that come as boxes, or
        with PAIR the tokens of its half.
        """
        known: Any = (self.tokens_of(block, 0, self.BN),)
        if self.BLOCK >= SMALLEST_BOX:
            boxes: Any = ()
            for place in px.static_range(0, self.BN, min(self.BLOCK, self.BN)):
                boxes = boxes + (self.index_at((block * self.BN + place) // self.BLOCK),)  # noqa: RUF005
            known = known + (boxes,)  # noqa: RUF005
        elif PAIR:
            known = known + (self.tokens_of(block, px.cluster.rank() * (self.BN // 2), self.BN // 2),)  # noqa: RUF005
        return known

    def fill(self, X, block, known, ring, left, pipe, there, PAIR):
        """Fills the next stage of a ring with the rows, or boxes, of a block, columns from `left` on.

        `there`, if it is given, gets 0 for the tokens that there are, and -1 for the others.

        With PAIR two CTAs, which have the same list, gather one half each for both.
        """
        tokens = known[0]
        mine = known[-1]
        stage = pipe.acquire()
        bar = pipe.full[stage]
        size = ring.shape[2]
        if there is not None:
            px.store(there[stage], px.where(tokens >= 0, 0, -1).to(there.dtype))
        if self.BLOCK >= SMALLEST_BOX:
            box = min(self.BLOCK, self.BN)
            for place in px.static_range(0, self.BN, box):
                index = mine[place // box]
                start = index * self.BLOCK + (block * self.BN + place) % self.BLOCK
                page = px.where(index >= 0, self.batch, -1)
                px.tma.load(X[page, start : start + box, self.h, left : left + size], ring[stage][place : place + box], bar)
        elif PAIR:
            half = self.BN // 2
            first = px.cluster.rank() * half
            px.tma.gather(X, self.rows_of(mine), left, ring[stage][first : first + half], bar, multicast=0b11)
        else:
            px.tma.gather(X, self.rows_of(mine), left, ring[stage], bar)
        pipe.commit(ring[stage].nbytes)

    def fill_by_threads(self, X, first, end, ring, pipe, there, named):
        """`fill_all` by copies that the threads of this role begin, 16 bytes each; `there` goes by the pipe `named`."""
        following = self.tokens_of(first, 0, self.BN)
        for block in range(first, end):
            tokens = following
            following = self.tokens_of(block + 1, 0, self.BN)
            if there is not None:
                stage = named.acquire()
                px.store(there[stage], px.where(tokens >= 0, 0, -1).to(there.dtype))
                named.commit()
            stage = pipe.acquire()
            px.cp_async.load(X[self.rows_of(tokens), 0 : ring.shape[2]], ring[stage])
            px.cp_async.commit(pipe)

    def fill_all(self, X, first, end, parts, there, PAIR):
        """The role that fills rings with the blocks `first` to `end`: (ring, first column, pipe) of each part of a row."""
        following = self.ahead(first, PAIR)
        for block in range(first, end):
            known = following
            following = self.ahead(block + 1, PAIR)
            for part in px.static_range(len(parts)):
                ring, left, pipe = parts[part]
                self.fill(X, block, known, ring, left, pipe, there if part == 0 else None, PAIR)


@px.func
def source_of(INDICES, tokens, kv_heads, rows, lists, BLOCK, BN):
    """The `Source` of a CTA's rows: `lists` lists belong to one sequence."""
    return Source(INDICES, rows.b, rows.b // lists, rows.h, tokens, kv_heads, BLOCK, BN)


FORM = ListForm()
LATENT_FORM = ListForm(576, 512, group=64)


@px.kernel(warps=6, cluster=lambda C: C, ctas_per_sm=lambda CTAS: CTAS, pdl=True)
def sparse_ring(
    Q, K, V, INDICES, O, LSE, factor, tokens, kv_heads, lists, heads,
    *, form=FORM, C=1, CTAS=2, STAGES=3,
):  # fmt: skip
    """64 rows of queries that share a list and a KV head, over the blocks of the list that this CTA of C has."""
    BM = form.rows
    BN = form.block
    BY_THREADS = form.entry < SMALLEST_BOX
    wait_for_prior_launch()
    rows = queries_of(px.block_id(0) // C, heads, 0, form, BM)
    count = px.cdiv(INDICES.shape[2] * form.entry, BN)
    rank = px.cluster.rank()
    there = px.shared((STAGES, BN), px.i16)
    named = px.pipe(STAGES) if BY_THREADS else None
    mine = Listed(rank * count // C, (rank + 1) * count // C, there, named)
    source = source_of(INDICES, tokens, kv_heads, rows, lists, form.entry, BN)
    results = Results(O, LSE, rows, 1.0)
    softmax = Softmax(factor, None, None)
    q = px.shared((BM, form.dim), Q.dtype)
    k = px.shared((STAGES, BN, form.dim), K.dtype)
    v = px.shared((STAGES, BN, form.wide), V.dtype)
    keys = px.pipe(STAGES)
    values = px.pipe(STAGES)
    part = None
    tops = None
    masses = None
    if C > 1:
        part = px.shared((BM, form.wide), px.f32, reuse=k)
        tops = px.shared((BM,), px.f32)
        masses = px.shared((BM,), px.f32)

    with px.warps(4, 1):
        if BY_THREADS:
            source.fill_by_threads(K, mine.first, mine.end, k, keys, None, None)
        else:
            source.fill_all(K, mine.first, mine.end, ((k, 0, keys),), None, False)

    with px.warps(5, 1):
        if BY_THREADS:
            source.fill_by_threads(V, mine.first, mine.end, v, values, there, named)
        else:
            source.fill_all(V, mine.first, mine.end, ((v, 0, values),), there, False)

    with px.warps(0, 4):
        rows.load(Q, q)
        sums, top, total = attend(q, k, v, keys, values, mine, softmax, None, BY_THREADS)
        results.leave(sums, top, total, k, part, tops, masses)

    if C > 1:
        px.cluster.sync()
        with px.warps(0, 4):
            results.join(part, 0, form.wide, tops, masses, C)


@px.kernel(warps=12, cluster=lambda PAIR: (1, 2 if PAIR else 1, 1), pdl=True)
def sparse_latent(
    Q, K, INDICES, O, LSE, factor, tokens, kv_heads, lists, heads,
    *, form=LATENT_FORM, STAGES=2, PAIR=False,
):  # fmt: skip
    """64 rows of queries that share a list, over a latent cache. With PAIR two CTAs, of 128 rows, gather for each other."""
    BM = form.rows
    BN = form.block
    HERE = form.wide // 2
    wait_for_prior_launch()
    rows = queries_of(px.block_id(0), heads, 0, form, BM)
    there = px.shared((STAGES, BN), px.i16)
    mine = Listed(0, px.cdiv(INDICES.shape[2] * form.entry, BN), there)
    source = source_of(INDICES, tokens, kv_heads, rows, lists, form.entry, BN)
    results = Results(O, LSE, rows, 1.0)
    softmax = Softmax(factor, None, None)
    q = px.shared((BM, form.dim), Q.dtype)
    k = px.shared((STAGES, BN, form.dim), K.dtype)
    handed = px.shared((BM, BN), K.dtype)
    factors = px.shared((BM,), px.f32)
    masses = px.shared((BM,), px.f32)
    near = px.pipe(STAGES)
    far = px.pipe(STAGES)
    hand = px.pipe(1)
    done = px.barrier()
    out = px.shared((BM, form.wide), O.dtype, reuse=q)

    with px.warps(8, 4, regs=GATHER_REGISTERS):
        parts = ((k[:, :, 0:HERE], 0, near), (k[:, :, HERE : form.dim], HERE, far))
        source.fill_all(K, mine.first, mine.end, parts, there, PAIR)

    with px.warps(0, 4, regs=SCORE_REGISTERS):
        rows.load(Q, q)
        sums, top, total = score_and_sum(q, k, near, far, handed, factors, hand, mine, softmax, HERE, form.wide)
        px.store(masses, total)
        done.arrive()
        results.store(0, sums, total, out)
        results.store_logs(0, top, total)

    with px.warps(4, 4, regs=SUM_REGISTERS):
        sums = sum_rest(k, far, handed, factors, hand, mine, HERE, form.wide)
        done.wait(0)
        results.store(HERE, sums, px.load(masses), out)
