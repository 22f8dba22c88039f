"""The kernel of `attention_decode` over a latent cache (MLA): values are the first columns of the keys, and come once.

64 rows of 512 sums fill the registers of two warpgroups. One of them makes the scores and the exponentials of a block and
sums up the first columns, the near ones; it hands the exponentials over, and the other one sums up the rest, the far ones.
Each block of keys serves both products, in two stages, beside the queries; near and far columns come, and leave, on
their own. It is the tensor cores that limit it: 64 rows of a 576-wide key are 2 x 64 x (576 + 512) operations for 1,152
bytes.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.decode_config import DecodeConfig
from phalanx.kernels.attention.decode_terms import Results, Softmax, fetch_all, part_of_cta
from phalanx.kernels.attention.forms import CacheForm, CachePlace
from phalanx.kernels.attention.scores import NOTHING
from phalanx.kernels.launches import wait_for_prior_launch

PRODUCER_REGISTERS = 56
CONSUMER_REGISTERS = 224
LEAST = 16
"""Rows that a CTA joins at least. With fewer ptxas serialises the products before (C7511, C7514)."""


@px.func
def begin_scores(q, k, near, far, HERE):
    """Begins the scores of the next block, with the columns that are there first; and says in which stage it is."""
    x = px.empty((q.shape[0], k.shape[1]), px.f32)
    s = near.wait()
    px.wgmma(q[:, 0:HERE], k[s][:, 0:HERE].T, x, accumulate=False)
    far.wait()
    px.wgmma(q[:, HERE : q.shape[1]], k[s][:, HERE : q.shape[1]].T, x)
    px.wgmma_commit()
    return x, s


@px.func
def score_and_sum(q, k, near, far, handed, factors, hand, mine, softmax, HERE, DV):
    """The first role: scores, exponentials, which it hands over, and the first HERE columns of the sums.

    The scores of the next block follow the sums of this one without a gap. Only then are the exponentials handed over: the
    other role multiplies while this one is at the exponentials of the next block, and the tensor cores rest less.
    """
    BM = q.shape[0]
    BN = k.shape[1]
    values = k[:, :, 0:DV]
    sums = px.zeros((BM, HERE), px.f32)
    x = px.empty((BM, BN), px.f32)
    s = 0
    top = px.full((BM,), NOTHING, px.f32)
    mass = px.zeros((BM, 4), px.f32)
    if mine.first < mine.end:
        x, s = begin_scores(q, k, near, far, HERE)
        px.wgmma_wait(0)
    for block in range(mine.first, mine.end):
        x = mine.masked(softmax.capped(x), values, block, s, True)
        far.release()
        p, top, mass, factor = softmax.step(x, top, mass)
        p = p.to(k.dtype)
        hand.acquire()
        px.store(handed, p)
        px.store(factors, factor)
        px.fence.async_proxy()
        sums = px.multiply(sums, factor.reshape(BM, 1), skip_ones=True)
        px.wgmma(p, k[s][:, 0:HERE], sums)
        px.wgmma_commit()
        if block + 1 < mine.end:
            x, s = begin_scores(q, k, near, far, HERE)
            px.wgmma_wait(1)
            near.release()
            px.wgmma_wait(0)
            hand.commit()
        else:
            px.wgmma_wait(0)
            near.release()
            hand.commit()
    return sums, top, px.sum(mass, axis=1)


@px.func
def sum_rest(k, far, handed, factors, hand, mine, HERE, DV):
    """The second role: the columns of the sums from HERE on, by the exponentials that it is handed."""
    BM = handed.shape[0]
    sums = px.zeros((BM, DV - HERE), px.f32)
    for _ in range(mine.first, mine.end):
        with far.consume() as s:
            with hand.consume():
                sums = px.multiply(sums, px.load(factors).reshape(BM, 1), skip_ones=True)
                sums = px.dot(handed, k[s][:, HERE:DV], sums)
    return sums


USUAL = DecodeConfig(1, 2, ctas=1)
FORM = CacheForm(576, 512, group=64)


@px.kernel(warps=12, cluster=lambda config: config.cluster, pdl=True)
def latent_ring(
    Q, K, LENGTHS, TABLE, O, LSE, softmax: Softmax, place: CachePlace, *, config=USUAL, form=FORM
):  # fmt: skip
    """64 rows of queries of one sequence, over the keys that this CTA of all that share the sequence has."""
    BM = config.rows
    DV = form.wide
    C = config.cluster
    HERE = DV // 2
    # Step 1: which queries and keys this CTA has, and its shared memory.
    assert form.page == 0 or form.page % config.box == 0
    wait_for_prior_launch()
    rows, mine = part_of_cta(LENGTHS, place, config, form)
    results = Results(O, LSE, rows, 1.0)
    q = px.shared((BM, form.dim), Q.dtype)
    k = px.shared((config.stages, form.block, form.dim), K.dtype)
    handed = px.shared((BM, form.block), K.dtype)
    factors = px.shared((BM,), px.f32)
    tops = px.shared((BM,), px.f32)
    masses = px.shared((BM,), px.f32)
    near = px.pipe(config.stages)
    far = px.pipe(config.stages)
    hand = px.pipe(1)
    done = px.barrier()
    out: Any = None
    part: Any = None
    if C == 1:
        out = px.shared((BM, DV), O.dtype, reuse=q)
    else:
        part = px.shared((BM, DV), px.f32, reuse=k)

    # Step 2: a warpgroup fills the ring, near columns and far ones.
    with px.warps(8, 4, regs=PRODUCER_REGISTERS):
        parts = ((K, k[:, :, 0:HERE], 0, near), (K, k[:, :, HERE : form.dim], HERE, far))
        fetch_all(TABLE, rows, mine, parts, form.block, form.page, config.box)
        if C > 1:
            px.cluster.sync()

    # Step 3: a warpgroup makes scores, and sums up the near columns.
    with px.warps(0, 4, regs=CONSUMER_REGISTERS):
        rows.load(Q, q)
        sums, top, total = score_and_sum(q, k, near, far, handed, factors, hand, mine, softmax, HERE, DV)
        px.store(tops, top)
        px.store(masses, total)
        done.arrive()
        if C == 1:
            results.store(0, sums, total, out)
            results.store_logs(0, top, total)
        else:  # the ring has had its last use when both roles are there
            done.wait(0)
            px.store(part[:, 0:HERE], sums)
            px.cluster.sync()
            results.join(part, 0, HERE, tops, masses, C, LEAST)

    # Step 4: another one sums up the far columns.
    with px.warps(4, 4, regs=CONSUMER_REGISTERS):
        sums = sum_rest(k, far, handed, factors, hand, mine, HERE, DV)
        if C > 1:
            done.arrive()
        done.wait(0)
        if C == 1:
            results.store(HERE, sums, px.load(masses), out)
        else:
            px.store(part[:, HERE:DV], sums)
            px.cluster.sync()
            results.join(part, HERE, DV, tops, masses, C, LEAST)
