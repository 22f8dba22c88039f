"""Gradients of queries, and of a bias, by a pass of their own: the same bit for bit on every run.

`backward_keys` adds up the gradients of queries in the order in which its CTAs happen to come. Here a CTA has the queries
and passes over the keys, in one order: it computes scores and their gradients once more, seven products instead of five,
and needs no workspace. Waiting for turns at each block of queries instead would keep the five, but bind the CTAs of a head
to each other: each would run at the pace of the slowest before it. And here registers are left for what comes with a cap
or a bias: scores are as many, sums of gradients half of what they are there.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.backward_rows import packed_sequence, powers
from phalanx.kernels.attention.forms import GradientScores, PackedStarts
from phalanx.kernels.attention.scores import Reach, distances
from phalanx.kernels.attention.tiles import in_bands
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E

ROWS = 64
"""Queries of a warpgroup."""


@px.func
def add_to_bias(DB, y, b, h, row, key, M, N):
    """Adds gradients of scores to those of the bias: along axes of size 1 they are summed."""
    batch = px.where(DB.shape[0] == 1, 0, b)
    head = px.where(DB.shape[1] == 1, 0, h)
    if DB.shape[2] == 1 and DB.shape[3] == 1:
        px.atomic_add(DB[batch, head, 0, 0], px.sum(y))
    elif DB.shape[2] == 1:
        px.atomic_add(DB[batch, head, 0, key : key + N], px.sum(y, axis=0))
    elif DB.shape[3] == 1:
        px.atomic_add(DB[batch, head, row : row + M, 0], px.sum(y, axis=1))
    else:
        px.atomic_add(DB[batch, head, row : row + M, key : key + N], y)


@px.func
def bias_of_queries(BIAS, reach, batch, sequence, h, top, key, BN, KIND):
    """What is added to the scores of 64 queries from `top` on (rows) and keys from `key` on (columns), in units of log2."""
    bias = None
    if KIND == "slopes":
        bias = distances(reach, top, key, ROWS, BN) * (BIAS[sequence, h] * -LOG2E)
    elif KIND == "tile":
        bias = px.load(BIAS[batch, h, top : top + ROWS, key : key + BN]).to(px.f32) * LOG2E
    return bias


@px.func
def seen_by_queries(reach, top, key, keys, rows, columns, scores):
    """Whether the queries from `top` on (`rows`) see the keys from `key` on (`columns`), of `keys` that there are."""
    if scores.right is None:
        ok = columns < keys - key
    else:
        ok = columns < px.minimum(keys - key, reach.beside(top) + scores.right + 1 - key + rows)
    if scores.left is not None:
        ok = ok & (columns >= reach.beside(top) - scores.left - key + rows)
    return ok


@px.kernel(warps=12, pdl=True)
def backward_queries(
    Q, K, V, DO, STATS, BIAS, packed: PackedStarts, DQ, DB, scores: GradientScores, group, band, *, form
):  # fmt: skip
    """A CTA has 128 queries of one head, half of them in each of two warpgroups; a third loads keys and values.

    Those of all sequences and heads are numbered along one axis of the grid. Without a bound to the right head after head;
    with one `band` heads take turns, their last queries, which see the most keys, first. `form` is a `QueryGradients`. BIAS
    and DB (gradients of the bias are added to it) may be None.
    """
    BN = form.keys
    D = form.dim
    # Step 1: shared memory and pipes, the queries of this CTA, and the blocks of keys that they see.
    q = px.shared((2, ROWS, D), Q.dtype)
    g = px.shared((2, ROWS, D), DO.dtype)
    k = px.shared((form.stages, BN, D), K.dtype)
    v = px.shared((form.stages, BN, D), V.dtype)
    full = px.barrier(2)
    kp = px.pipe(form.stages)
    vp = px.pipe(form.stages)
    wait_for_prior_launch()
    heads = Q.shape[1]
    tiles = px.cdiv(Q.shape[2], 2 * ROWS)
    sequences = Q.shape[0] if packed.CUQ is None else packed.CUQ.shape[0] - 1
    which, tile = in_bands(px.block_id(0), tiles, heads * sequences, band)
    sequence = which // heads
    h = which % heads
    px.assume(sequence >= 0)
    px.assume(h >= 0)
    px.assume(tile >= 0)
    at = packed_sequence(Q, packed.CUQ, sequence, form.queries)
    first_key: Any = 0
    keys = K.shape[2]
    if packed.CUK is not None:
        first_key = px.load(packed.CUK[sequence])
        keys = px.load(packed.CUK[sequence + 1]) - first_key
    reach = Reach(at.queries, keys, scores.left, scores.right)
    if scores.right is not None:
        tile = tiles - 1 - tile
    m = tile * (2 * ROWS)
    low, high = reach.blocks(m, 2 * ROWS, BN)
    high = px.where(m < at.queries, high, low)

    # Step 2: a warpgroup brings the queries once, then keys and values.
    with px.warps(0, 4, regs=form.loader_regs):
        for c in px.static_range(2):
            row = at.first_query + m + c * ROWS
            with full[c].transaction():
                px.tma.load(Q[at.batch, h, row : row + ROWS, 0:D], q[c], full[c])
                px.tma.load(DO[at.batch, h, row : row + ROWS, 0:D], g[c], full[c])
        for j in range(low, high):
            row = first_key + j * BN
            with kp.produce() as stage:
                px.tma.load(K[at.batch, h // group, row : row + BN, 0:D], k[stage], kp.full[stage])
            with vp.produce() as stage:
                px.tma.load(V[at.batch, h // group, row : row + BN, 0:D], v[stage], vp.full[stage])

    # Step 3: two warpgroups compute scores once more, their gradients, and add up what queries get of them.
    for c in px.static_range(2):
        with px.warps(4 + 4 * c, 4, regs=form.regs):
            top = m + c * ROWS
            dq = px.zeros((ROWS, form.columns), px.f32)
            # A cap or a bias takes the registers of the second product.
            LATE = scores.cap is not None or form.bias_kind is not None
            block = at.first_block + top // form.queries
            within = top % form.queries
            logs = px.load(STATS[at.batch, h, block, 0, within : within + ROWS], fill=-float("inf")).reshape(ROWS, 1)
            sums = px.load(STATS[at.batch, h, block, 1, within : within + ROWS]).reshape(ROWS, 1)
            rows = px.arange(ROWS).reshape(ROWS, 1)
            columns = px.arange(BN).reshape(1, BN)
            some = rows < at.queries - top
            logs = px.where(some, logs, -float("inf"))
            sums = px.where(some, sums, 0.0)
            slopes = px.zeros((ROWS,), px.f32)
            full[c].wait(0)
            # Step 3a: blocks of keys pass by.
            for j in range(low, high):
                key = j * BN
                sk = kp.wait()
                s = px.empty((ROWS, BN), px.f32)
                px.wgmma(q[c], k[sk].T, s, accumulate=False)
                px.wgmma_commit()
                sv = vp.wait()
                x = px.empty((ROWS, BN), px.f32)
                if LATE:
                    px.wgmma_wait(0)
                else:
                    px.wgmma(g[c], v[sv].T, x, accumulate=False)
                    px.wgmma_commit()
                    px.wgmma_wait(1)
                bias = bias_of_queries(BIAS, reach, at.batch, sequence, h, top, key, BN, form.bias_kind)
                p, damped = powers(s, bias, logs, scores.factor, scores.cap)
                p = px.where(seen_by_queries(reach, top, key, keys, rows, columns, scores), p, 0.0)
                if LATE:
                    px.wgmma(g[c], v[sv].T, x, accumulate=False)
                    px.wgmma_commit()
                px.wgmma_wait(0)
                vp.release()
                y = p * (x + sums)
                if DB is not None:
                    if form.bias_kind == "slopes":
                        slopes = slopes - px.sum(y * distances(reach, top, key, ROWS, BN), axis=1)
                    else:
                        add_to_bias(DB, y, at.batch, h, top, key, ROWS, BN)
                if damped is not None:
                    y = y * damped
                px.wgmma(y.to(Q.dtype), k[sk, :, form.first : form.first + form.columns], dq)
                px.wgmma_commit()
                px.wgmma_wait(0)
                kp.release()
            # Step 3b: the sums leave through the place of the queries.
            if DB is not None and form.bias_kind == "slopes":
                px.atomic_add(DB[px.where(DB.shape[0] == 1, 0, sequence), h], px.sum(slopes))
            px.store(q[c, :, 0 : form.columns], (dq * scores.scale).to(DQ.dtype))
            to = px.arange(ROWS)
            to = px.where(to < at.queries - top, at.first_query + top + to, -1)
            px.store(DQ[at.batch, h, to, form.first : form.first + form.columns], px.load(q[c, :, 0 : form.columns]))
