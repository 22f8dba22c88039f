"""The kernel of `attention_decode` over a latent cache (MLA): values are the first columns of the keys, and come once.

64 rows of 512 sums fill the registers of two warpgroups. One of them makes the scores and the exponentials of a block and
sums up the first columns; it hands the exponentials over, and the other one sums up the rest. Each block of keys serves
both products, in two stages, beside the queries. It is the tensor cores that limit it: 64 rows of a 576-wide key are
2 x 64 x (576 + 512) operations for 1,152 bytes.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.decode_terms import (
    NEVER,
    ROWS,
    capped,
    fetch,
    join,
    pages_of,
    row_numbers,
    sequence_of,
    softmax_step,
    store_logs,
    store_results,
)
from phalanx.kernels.launches import wait_for_prior_launch

PANEL = 64
"""Columns that are moved through registers at once."""
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232


@px.func
def clear(k, there, DV):
    """Zeros in the place of values that no row may see, which may be anything, a panel of columns at a time."""
    for column in px.static_range(0, DV, PANEL):
        values = k[:, column : column + PANEL]
        px.store(values, px.where(there, px.load(values), 0.0))
    px.fence.async_proxy()


@px.kernel(warps=12, cluster=lambda C: C, pdl=True)
def latent_ring(
    Q, K, LENGTHS, TABLE, O, LSE, scale, v_scale, inner, outer, window, capacity, heads,
    *, C=1, STAGES=2, BN=64, BOX=64, HINT=None, D=576, DV=512, HERE=256, T=1, G=64, PAGE=0, CAUSAL=True, WINDOW=False,
    CAPPED=False, WANT_LSE=False
):
    """64 rows of queries of one sequence, over the keys that this CTA of C has; the first warpgroup sums up HERE columns."""
    wait_for_prior_launch()
    rank, b = px.cluster.rank(), px.block_id(2)
    tiles = px.cdiv(T * G, ROWS)
    h, row = px.block_id(1) // tiles, px.block_id(1) % tiles * ROWS
    q, k = px.shared((ROWS, D), Q.dtype), px.shared((STAGES, BN, D), K.dtype)
    handed, factors = px.shared((ROWS, BN), K.dtype), px.shared((ROWS,), px.f32)
    tops, masses = px.shared((ROWS,), px.f32), px.shared((ROWS,), px.f32)
    keys, hand, done = px.pipe(STAGES), px.pipe(1), px.barrier()
    mine = sequence_of(LENGTHS, b, window, capacity, rank, C, T, G, BN, CAUSAL, WINDOW)
    out, part, drained = None, None, None
    if C == 1:
        out = px.shared((ROWS, DV), O.dtype, reuse=q)
    else:
        part, drained = px.shared((ROWS, DV), px.f32, reuse=k), px.barrier()

    with px.warps(8, 4, regs=PRODUCER_REGISTERS):
        if PAGE > 0:
            following = pages_of(TABLE, b, mine.first, BN, PAGE)
        for block in range(mine.first, mine.end):
            pages: tuple[Any, ...] = ()
            if PAGE > 0:
                pages = following
                following = pages_of(TABLE, b, block + 1, BN, PAGE)
            fetch(K, pages, b, h, block, k, keys, BN, D, PAGE, BOX, HINT)
        if C > 1:
            px.cluster.sync()

    with px.warps(0, 4, regs=CONSUMER_REGISTERS):
        for column in px.static_range(0, D, PANEL):
            rows = row_numbers(b, h, row, ROWS, heads, T, G)
            px.store(q[:, column : column + PANEL], px.load(Q[rows, column : column + PANEL]))
        px.fence.async_proxy()
        sums = px.zeros((ROWS, HERE), px.f32)
        top, mass = px.full((ROWS,), NEVER, px.f32), px.zeros((ROWS, 8), px.f32)
        for block in range(mine.first, mine.end):
            s = keys.wait()
            x = px.dot(q, k[s].T)
            if CAPPED:
                x = capped(x, inner, outer)
            if not mine.whole(block):
                x = mine.mask(x, block, row)
                clear(k[s], mine.filled(block), DV)
            p, top, mass, factor = softmax_step(x, top, mass, scale, BN)
            p = p.to(K.dtype)
            hand.acquire()
            px.store(handed, p)
            px.store(factors, factor)
            px.fence.async_proxy()
            hand.commit()
            sums = sums * factor.reshape(ROWS, 1)
            sums = px.dot(p, k[s][:, 0:HERE], sums)
            keys.release()
        total = px.sum(mass, axis=1)
        px.store(tops, top)
        px.store(masses, total)
        if C == 1:
            done.arrive()
            rows = row_numbers(b, h, row, ROWS, heads, T, G)
            store_results(O, rows, 0, sums, total, v_scale, out)
            if WANT_LSE:
                store_logs(LSE, rows, top, total, scale)
        else:
            drained.arrive()
            drained.wait(0)
            px.store(part[:, 0:HERE], sums)
            px.cluster.sync()
            join(part, 0, HERE, tops, masses, O, LSE, rank, b, h, row, heads, scale, v_scale, C, T, G, WANT_LSE)

    with px.warps(4, 4, regs=CONSUMER_REGISTERS):
        sums = px.zeros((ROWS, DV - HERE), px.f32)
        for block in range(mine.first, mine.end):
            s = keys.wait()
            with hand.consume():
                sums = sums * px.load(factors).reshape(ROWS, 1)
                sums = px.dot(handed, k[s][:, HERE:DV], sums)
            keys.release()
        if C == 1:
            done.wait(0)
            rows = row_numbers(b, h, row, ROWS, heads, T, G)
            store_results(O, rows, HERE, sums, px.load(masses), v_scale, out)
        else:
            drained.arrive()
            drained.wait(0)
            px.store(part[:, HERE:DV], sums)
            px.cluster.sync()
            join(part, HERE, DV, tops, masses, O, LSE, rank, b, h, row, heads, scale, v_scale, C, T, G, False)
