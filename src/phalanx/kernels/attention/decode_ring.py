"""The kernel of `attention_decode`: a ring of keys, a ring of values, and a cluster that joins what its CTAs found.

A CTA has up to 64 rows of queries (the heads of a group times the tokens) of one sequence and one KV head, and a part of
that sequence's keys. Keys and values stream through two rings, block by block; one warpgroup multiplies. Two CTAs share an
SM, so that one loads and multiplies while the other begins or ends. The CTAs of a cluster have the parts of one sequence:
each leaves its sums in its own shared memory, and takes some rows of all of them to join.
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


@px.kernel(warps=5, cluster=lambda C: C, ctas_per_sm=lambda CTAS: CTAS, pdl=True)
def decode_ring(
    Q, K, V, LENGTHS, TABLE, O, LSE, scale, v_scale, inner, outer, window, capacity, heads,
    *, C=1, CTAS=2, STAGES=3, BN=64, BOX=16, HINT="evict_first", D=128, DV=128, T=1, G=4, PAGE=0, CAUSAL=True, WINDOW=False, CAPPED=False, WANT_LSE=False
):
    """Up to 64 rows of queries of one sequence and KV head, over the keys that this CTA of C has."""
    wait_for_prior_launch()
    rank, b = px.cluster.rank(), px.block_id(2)
    tiles = px.cdiv(T * G, ROWS)
    h, row = px.block_id(1) // tiles, px.block_id(1) % tiles * ROWS
    q = px.shared((ROWS, D), Q.dtype)
    k, v = px.shared((STAGES, BN, D), K.dtype), px.shared((STAGES, BN, DV), V.dtype)
    keys, values = px.pipe(STAGES), px.pipe(STAGES)
    mine = sequence_of(LENGTHS, b, window, capacity, rank, C, T, G, BN, CAUSAL, WINDOW)
    if C > 1:
        part, tops, masses = px.shared((ROWS, DV), px.f32, reuse=k), px.shared((ROWS,), px.f32), px.shared((ROWS,), px.f32)

    with px.warps(4, 1):
        if PAGE > 0:
            following = pages_of(TABLE, b, mine.first, BN, PAGE)
        for block in range(mine.first, mine.end):
            pages: tuple[Any, ...] = ()
            if PAGE > 0:
                pages = following
                following = pages_of(TABLE, b, block + 1, BN, PAGE)
            fetch(K, pages, b, h, block, k, keys, BN, D, PAGE, BOX, HINT)
            fetch(V, pages, b, h, block, v, values, BN, DV, PAGE, BOX, HINT)

    with px.warps(0, 4):
        px.store(q, px.load(Q[row_numbers(b, h, row, ROWS, heads, T, G), 0:D]))
        px.fence.async_proxy()
        sums = px.zeros((ROWS, DV), px.f32)
        top, mass = px.full((ROWS,), NEVER, px.f32), px.zeros((ROWS, 8), px.f32)
        for block in range(mine.first, mine.end):
            with keys.consume() as s:
                x = px.dot(q, k[s].T)
            if CAPPED:
                x = capped(x, inner, outer)
            whole = mine.whole(block)
            if not whole:
                x = mine.mask(x, block, row)
            p, top, mass, factor = softmax_step(x, top, mass, scale, BN)
            sums = sums * factor.reshape(ROWS, 1)
            with values.consume() as s:
                if not whole:  # 0 times what lies behind the last token would be NaN where that is
                    px.store(v[s], px.where(mine.filled(block), px.load(v[s]), 0.0))
                    px.fence.async_proxy()
                sums = px.dot(p.to(V.dtype), v[s], sums)
        total = px.sum(mass, axis=1)
        if C == 1:
            rows = row_numbers(b, h, row, ROWS, heads, T, G)
            store_results(O, rows, 0, sums, total, v_scale, px.shared((ROWS, DV), O.dtype, reuse=k))
            if WANT_LSE:
                store_logs(LSE, rows, top, total, scale)
        else:
            px.store(part, sums)
            px.store(tops, top)
            px.store(masses, total)

    if C > 1:
        px.cluster.sync()
        with px.warps(0, 4):
            join(part, 0, DV, tops, masses, O, LSE, rank, b, h, row, heads, scale, v_scale, C, T, G, WANT_LSE)
