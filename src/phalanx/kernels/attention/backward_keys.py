"""Gradients of keys and values, and the sums that become those of queries: a CTA has some keys and passes over the queries.

Scores are computed transposed, keys by queries, so that powers and their gradients are what the tensor cores take from
registers as their left operand: ``dV += P^T dO`` and ``dK += dS^T Q``. The gradients of scores also go to shared memory,
from where both warpgroups multiply them by all keys of the CTA: ``dQ = dS K``. That product is done one block later, behind
the others of that block: no warpgroup waits for the other's gradients, and the one has its exponentials while the other
multiplies. Its result is added to global memory straight from registers.

Under a bound to the right the CTAs with the first keys have the most queries, and go first. All CTAs begin with the last
block of queries, and take all query heads of a group before the block before it: CTAs that began together read the same
queries at the same time, however many heads share the keys, so that L2 holds what they read. Where there are too few
blocks of keys for all SMs, or their ends are too far apart, several CTAs share a block (`backward_order.py`): each leaves
f32 sums of its own, which `finish_sums` adds up in one order.

Of heads beyond 128 the sums of both gradients do not fit into registers: there is a pass for those of values, which needs
no V, and one for those of keys (`WANT`), and `backward_queries` for those of queries.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.backward_rows import block_order, packed_sequence, parts, powers
from phalanx.kernels.attention.forms import GradientScores, PackedStarts
from phalanx.kernels.attention.tiles import in_bands
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E

FAR = 1 << 29
"""A number that no query has."""
SLOTS = 3
"""Places for gradients of scores: one is written, one read, and one may still be read by a warpgroup that lags behind."""


@px.struct
class KeyBlock:
    """The keys of a CTA: which sequence and head, the first one in its sequence, how many the sequence has; where CTAs share
    them, which of these it is, and the number of the block among those of all sequences and heads."""

    sequence: Any
    first_key: Any
    keys: Any
    head: Any
    start: Any
    part: Any = None
    place: Any = 0


@px.func
def key_block(K, CUK, t, band, shares, sequences, BN):
    """Block number `t`, of which `shares` CTAs follow each other (None: one). With a bound to the right blocks differ in
    length: `band` heads take turns, the first keys, which the most queries see, before later ones. Packed sequences are
    searched for theirs."""
    heads = K.shape[1]
    part = None
    if shares is not None:
        part = t % shares
        t = t // shares
    if CUK is None:
        blocks = px.cdiv(K.shape[2], BN)
        which, block = in_bands(t, blocks, heads * sequences, band)
        found = KeyBlock(which // heads, 0, K.shape[2], which % heads, block * BN, part, which * blocks + block)
    else:
        place = t // heads
        sequence = 0
        before = 0
        rows = px.cdiv(px.load(CUK[1]) - px.load(CUK[0]), BN)
        while sequence < sequences and place >= before + rows:
            before += rows
            sequence += 1
            rows = px.cdiv(px.load(CUK[px.minimum(sequence + 1, sequences)]) - px.load(CUK[sequence]), BN)
        begin = px.load(CUK[sequence])
        keys = px.load(CUK[px.minimum(sequence + 1, sequences)]) - begin
        found = KeyBlock(sequence, begin, keys, t % heads, (place - before) * BN)
    px.assume(found.sequence >= 0)
    px.assume(found.head >= 0)
    px.assume(found.start >= 0)
    return found


@px.func
def query_blocks(start, keys, queries, left, right, BM, BN):
    """The blocks of queries (first, one more than the last) that see any of BN keys from `start` on."""
    ahead = keys - queries
    first = 0
    last = px.cdiv(queries, BM)
    if right is not None:
        first = px.maximum(0, start - ahead - right) // BM
    if left is not None:
        last = px.minimum(last, px.cdiv(px.maximum(0, px.minimum(start + BN, keys) - ahead + left), BM))
    return first, px.maximum(first, last)


@px.struct
class Seen:
    """The queries that see each of a warpgroup's 64 keys: `low` to `high`, (64, 1); None where there is no bound."""

    low: Any
    high: Any

    def masked(self, p, m, BM):
        """Powers of keys (rows) and queries from `m` on (columns), 0 where a query does not see a key."""
        columns = px.arange(BM).reshape(1, BM)
        if self.low is not None:
            p = px.where(columns >= self.low - m, p, 0.0)
        if self.high is not None:
            p = px.where(columns <= self.high - m, p, 0.0)
        return p


@px.func
def seen_from(keys, here, queries, left, right, BOUND):
    """Keys as numbers (64, 1). With BOUND some may lie beyond the end, where no query sees them."""
    ahead = here.keys - queries
    low = keys - ahead - right if right is not None else None
    if BOUND:
        low = px.where(keys < here.keys, 0 if low is None else low, FAR)
    return Seen(low, keys - ahead + left if left is not None else None)


@px.func
def is_crossed(m, top, ahead, keys, left, right, BM, BOUND):
    """Whether a bound crosses a block: some of the BM queries from `m` on do not see some of the 64 keys from `top` on."""
    crossed = top + 64 > keys if BOUND else False
    if right is not None:
        crossed = crossed | (m < top + 63 - ahead - right)
    if left is not None:
        crossed = crossed | (m + BM - 1 > top - ahead + left)
    return crossed


@px.func
def bias_of_keys(BIAS, b, h, sequence, m, top, ahead, BM, KIND):
    """What is added to the scores of 64 keys from `top` on (rows) and queries from `m` on (columns), in units of log2."""
    if KIND is None:
        return None
    if KIND == "slopes":
        return distances_of(m, top, ahead, BM) * (BIAS[sequence, h] * -LOG2E)
    return px.load(BIAS[b, h, m : m + BM, top : top + 64]).T.to(px.f32) * LOG2E


@px.func
def distances_of(m, top, ahead, BM):
    """How far the keys (rows) are from the places beside the queries (columns)."""
    return px.abs((m + ahead - top + px.arange(BM).reshape(1, BM) - px.arange(64).reshape(64, 1)).to(px.f32))


@px.struct
class Shared:
    """What the roles of a CTA have in common: keys and values; rings of queries, of the result's gradients, of what is known
    of rows; gradients of scores; who has done what."""

    k: Any
    v: Any
    q: Any
    g: Any
    st: Any
    ds: Any
    kv: Any
    done: Any
    qp: Any
    gp: Any


@px.kernel(warps=12, pdl=True)
def backward_keys(
    Q, K, V, DO, STATS, BIAS, packed: PackedStarts, SUMS, DK, DV, scores: GradientScores, group, band, shares, sequences,
    *, form,
):  # fmt: skip
    """A CTA has 128 keys of one head, half of them in each of two warpgroups; a third loads. `group` query heads pass by.

    BIAS, SUMS (no gradients of queries then) and `shares` may be None. With `shares` as many CTAs share the keys, and DK
    and DV are sums in f32 (share, block, warpgroup, elements in `block_order`). `form` is a `KeyGradients`; where it wants
    one kind of gradients alone there are no SUMS.
    """
    BM = form.queries
    BN = form.keys
    D = form.dim
    STAGES = form.stages
    # Step 1: shared memory and pipes, the keys of this CTA, and the blocks of queries that see them.
    use = Shared(
        px.shared((1, BN, D), K.dtype), px.shared((1, BN, D), V.dtype) if form.want != "values" else None,
        px.shared((STAGES, BM, D), Q.dtype), px.shared((STAGES, BM, D), DO.dtype), px.shared((STAGES, 2, BM), px.f32),
        px.shared((SLOTS, BN, BM), Q.dtype) if SUMS is not None else None, px.barrier(), px.barrier(SLOTS),
        px.pipe(STAGES), px.pipe(STAGES),
    )
    wait_for_prior_launch()
    here = key_block(K, packed.CUK, px.block_id(0), band, shares, sequences, BN)
    at = packed_sequence(Q, packed.CUQ, here.sequence, BM)
    if SUMS is not None:
        _, M, _, N = parts(BM, D, 0)
        px.assume(SUMS.shape[2] == M * N)
    first, last = query_blocks(here.start, here.keys, at.queries, scores.left, scores.right, BM, BN)
    count = px.where(here.start < here.keys, last - first, 0)
    begin = 0
    end = count * group
    if shares is not None:
        begin = end * here.part // shares
        end = end * (here.part + 1) // shares
    steps = (last, begin, end)
    arrays = Q, STATS, BIAS, packed.CUK, SUMS, DK, DV

    # Step 2: a warpgroup brings the keys and values once, then the queries of all heads that share them.
    with px.warps(0, 4, regs=form.loader_regs):
        row = here.first_key + here.start
        with use.kv.transaction():
            px.tma.load(K[at.batch, here.head, row : row + BN, 0:D], use.k[0], use.kv)
            if form.want != "values":
                px.tma.load(V[at.batch, here.head, row : row + BN, 0:D], use.v[0], use.kv)
        t = last - 1 - begin // group
        member = begin % group
        for _i in range(begin, end):
            h = here.head * group + member
            m = at.first_query + t * BM
            with use.qp.produce() as s:
                px.tma.load(Q[at.batch, h, m : m + BM, 0:D], use.q[s], use.qp.full[s])
                px.tma.load(STATS[at.batch, h, at.first_block + t, 0:2, 0:BM], use.st[s], use.qp.full[s])
            with use.gp.produce() as s:
                px.tma.load(DO[at.batch, h, m : m + BM, 0:D], use.g[s], use.gp.full[s])
            member += 1
            if member == group:
                member = 0
                t -= 1

    # Step 3: two warpgroups add up the gradients.
    if BM < 128 and D < 128:  # halves of columns that are not equal, or no whole panels: known when the text is written
        for c in px.static_range(2):
            with px.warps(4 + 4 * c, 4, regs=form.regs):
                pass_queries(use, c, arrays, here, at, steps, scores, group, form)
    else:
        with px.warps(4, 4, regs=form.regs, copies=2) as c:
            pass_queries(use, c, arrays, here, at, steps, scores, group, form)


@px.func
def pass_queries(use, c, arrays, here, at, steps, scores, group, form):
    """What warpgroup `c` does: queries pass by its 64 keys, from the last block on, those of all heads of a group in turn.

    `steps`: one more than the last block, and which of all steps, blocks times heads, are this CTA's.
    """
    Q, STATS, BIAS, CUK, SUMS, DK, DV = arrays
    BM = form.queries
    WANT = form.want
    LATE = scores.cap is not None or form.bias_kind is not None  # a cap or a bias takes the registers of the second product
    # Few blocks are crossed by a bound, and the others need no mask. Without EARLY a branch gains less or spills registers;
    # with LATE and blocks of 64 queries it takes longer (`attention_backward_orders.json`).
    BOUND = scores.left is not None or scores.right is not None or form.bound
    BRANCH = BOUND and form.early and (not LATE or BM == 128)
    H = 64
    b = at.batch
    hk = here.head
    last, begin, end = steps
    top = here.start + c * H
    ahead = here.keys - at.queries
    dk = px.zeros((H, form.dim), px.f32) if WANT != "values" else None
    dv = px.zeros((H, form.dim), px.f32) if WANT != "keys" else None
    seen = seen_from(top + px.arange(H).reshape(H, 1), here, at.queries, scores.left, scores.right, form.bound)
    row0, M, left0, N = parts(BM, form.dim, c)
    t = last - 1 - begin // group
    member = begin % group
    place = (b * Q.shape[1] + hk * group + member) * STATS.shape[2] + at.first_block + t
    former = place
    m = t * BM
    # Step 1: gradients of scores of the block before the first are 0.
    if SUMS is not None:
        clear_first(use, SUMS, c, H, BM)
    # Step 2: blocks of queries pass by.
    use.kv.wait(0)
    put = px.ring(SLOTS)
    take = px.ring(SLOTS)
    zero = 0
    put.advance()
    for _i in range(begin, end):
        o = px.keep(zero)  # places of K and V are made here, not held in registers over the loop
        # Step 2a: scores, and what gradients of powers are made of.
        sq = use.qp.wait()
        s = px.empty((H, BM), px.f32)
        px.wgmma(use.k[o, c * H : c * H + H], use.q[sq].T, s, accumulate=False)
        px.wgmma_commit()
        sg = use.gp.wait()
        x = px.empty((H, BM), px.f32) if WANT != "values" else None
        if LATE or WANT == "values":
            px.wgmma_wait(0)
        else:
            px.wgmma(use.v[o, c * H : c * H + H], use.g[sg].T, x, accumulate=False)
            px.wgmma_commit()
            px.wgmma_wait(1)
        # Step 2b: powers, 0 where a query does not see a key.
        bias = bias_of_keys(BIAS, b, hk * group + member, here.sequence, m, top, ahead, BM, form.bias_kind)
        p, damped = powers(s, bias, px.load(use.st[sq][0:1]), scores.factor, scores.cap)
        if not BRANCH or is_crossed(m, top, ahead, here.keys, scores.left, scores.right, BM, form.bound):
            p = seen.masked(p, m, BM)
        # Step 2c: gradients of values, of scores, of keys.
        packed = p.to(use.g.dtype)
        if damped is not None:
            p = p * damped
        if LATE and WANT != "values":
            px.wgmma(use.v[o, c * H : c * H + H], use.g[sg].T, x, accumulate=False)
            px.wgmma_commit()
        if form.early and WANT == "both":
            px.wgmma(packed, use.g[sg], dv)
            px.wgmma_commit()
            px.wgmma_wait(1)
        elif WANT != "values":
            px.wgmma_wait(0)
        y = (p * (x + px.load(use.st[sq][1:2]))).to(Q.dtype) if WANT != "values" else None
        if WANT == "values" or (WANT == "both" and not form.early):
            px.wgmma(packed, use.g[sg], dv)
            px.wgmma_commit()
        if WANT != "values" and not form.ahead:
            px.wgmma(y, use.q[sq], dk)
            px.wgmma_commit()
        # Step 2d: gradients of the queries of the block before, from the gradients that both warpgroups have left.
        if SUMS is not None:
            use.done[take.stage].wait(take.parity)
            z = px.empty((M, N), px.f32)
            px.wgmma(use.ds[take.stage, :, row0 : row0 + M].T, use.k[o, :, left0 : left0 + N], z, accumulate=False)
            px.wgmma_commit()
        if WANT != "values" and form.ahead:
            px.wgmma(y, use.q[sq], dk)
            px.wgmma_commit()
        if SUMS is not None:
            px.store(use.ds[put.stage, c * H : c * H + H], y)
            px.fence.async_proxy()
            use.done[put.stage].arrive()
            if form.ahead:
                px.wgmma_wait(1)
            else:
                px.wgmma_wait(0)
            add_part(SUMS, former, c, z, M, N)
            take.advance()
            put.advance()
        # Step 2e: the next block: another head of the group, or the block before.
        px.wgmma_wait(0)
        use.gp.release()
        use.qp.release()
        former = place
        place += STATS.shape[2]
        member += 1
        if member == group:
            member = 0
            m -= BM
            place -= group * STATS.shape[2] + 1
    # Step 3: what is left of the last block, and the gradients of the keys.
    if SUMS is not None:
        use.done[take.stage].wait(take.parity)
        z = px.empty((M, N), px.f32)
        px.wgmma(use.ds[take.stage, :, row0 : row0 + M].T, use.k[0, :, left0 : left0 + N], z, accumulate=False)
        px.wgmma_commit()
        px.wgmma_wait(0)
        z = px.where(begin < end, z, 0.0)  # no block: 0 is added to any. A branch would cost the loop its uniform registers
        add_part(SUMS, px.maximum(px.minimum(former, SUMS.shape[0] - 1), 0), c, z, M, N)
    leave_gradients(use, dk, dv, DK, DV, b, hk, here, top, c, CUK, scores.scale, WANT)


@px.func
def leave_gradients(use, dk, dv, DK, DV, b, hk, here, top, c, CUK, scale, WANT):
    """Lets go the gradients of a warpgroup's 64 keys, by way of the place of its keys or values."""
    H = 64
    half = use.v[0, c * H : c * H + H] if WANT != "values" else use.k[0, c * H : c * H + H]
    if WANT != "keys":
        leave_keys(half, dv, DV, b, hk, here, top, c, CUK)
    if WANT != "values":
        leave_keys(half, dk if here.part is not None else dk * scale, DK, b, hk, here, top, c, CUK)


@px.func
def clear_first(use, SUMS, c, H, BM):
    """Leaves zeros as the gradients of the scores of a block before the first one."""
    px.assume(c >= 0)
    px.assume(c < SUMS.shape[1])
    px.store(use.ds[0, c * H : c * H + H], px.zeros((H, BM), use.ds.dtype))
    px.fence.async_proxy()
    use.done[0].arrive()


@px.func
def add_part(SUMS, block, c, z, M, N):
    """Adds what warpgroup `c` has of the gradients of a block of queries. Nothing is asked: what is assumed is so."""
    px.assume(block >= 0)
    px.assume(block < SUMS.shape[0])
    px.atomic_add(SUMS[block, c, 0 : M * N], block_order(z, M, N))


@px.func
def leave_keys(half, x, G, b, h, here, top, c, CUK):
    """Gradients of 64 keys over shared memory to global memory; those beyond the sequence's end are left out. Of shared keys
    the sums of this CTA, from registers."""
    D = half.shape[1]
    row = here.first_key + top
    if here.part is not None:
        px.store(G[here.part, here.place, c, 0 : 64 * D], block_order(x, 64, D))
    elif CUK is None:
        px.store(half, x.to(G.dtype))
        px.assume(row >= 0)
        px.fence.async_proxy()
        px.tma.store(half, G[b, h, row : row + 64, 0:D])
        px.tma.commit()
        px.tma.wait(0, read=True)  # nobody in this kernel reads what was written
    else:  # others' keys follow
        px.store(half, x.to(G.dtype))
        rows = px.arange(64)
        px.store(G[b, h, px.where(rows < here.keys - top, row + rows, -1), 0:D], px.load(half))
