"""The kernel of `attention_decode`: a ring of keys, a ring of values, and a cluster that joins what its CTAs found.

A CTA has up to 64 or 128 rows of queries (the heads of a group times the tokens) of one sequence and one KV head, and a
part of that sequence's keys. Keys and values stream through two rings, block by block; a warpgroup multiplies for each
64 rows, and two of them take turns at the tensor cores: while the products of one are made the other is at its
exponentials. The CTAs of a cluster have the parts of one sequence: each leaves its sums in its own shared memory, and
takes some rows of all of them to join.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.decode_config import DecodeConfig
from phalanx.kernels.attention.decode_terms import (
    Queries,
    Results,
    Sequence,
    Softmax,
    Turns,
    attend,
    attend_narrow,
    fetch_all,
    part_of_cta,
    scale_of,
    softmax_of,
)
from phalanx.kernels.attention.forms import CacheForm, CachePlace
from phalanx.kernels.attention.scores import NOTHING
from phalanx.kernels.launches import wait_for_prior_launch

USUAL = DecodeConfig(1, 3)
FORM = CacheForm()


@px.kernel(
    warps=lambda config: config.rows // 16 + 1, cluster=lambda config: config.cluster,
    ctas_per_sm=lambda config: config.ctas, pdl=True,
)  # fmt: skip
def decode_ring(
    Q, K, V, LENGTHS, TABLE, K_SCALE, V_SCALE, O, LSE, scores: Softmax, v_factor, place: CachePlace,
    *, config=USUAL, form=FORM,
):  # fmt: skip
    """Some rows of queries of one sequence and KV head, over the keys that this CTA of all that share a sequence has.

    With splits the results of each cluster go to rows of their own, for `join_splits`. Rings may have memory for more
    stages than they use (`DecodeConfig.room`): it keeps a second CTA off the SM, since more bytes on their way at once
    than some 64 KB an SM make the memory slower.
    """
    BM = config.rows
    BN = form.block
    C = config.cluster
    # Step 1: which queries and keys this CTA has, and its shared memory.
    assert form.page == 0 or form.page % config.box == 0
    wait_for_prior_launch()
    rows, mine = part_of_cta(LENGTHS, place, config, form)
    softmax = softmax_of(scores.factor, scores.slope, scores.cap, K_SCALE, rows.h)
    results = Results(O, LSE, rows, v_factor * scale_of(V_SCALE, rows.h))
    q = px.shared((BM, form.dim), Q.dtype)
    room = max(config.stages, config.room)
    k = px.shared((room, BN, form.dim), K.dtype)
    v = px.shared((room, BN, form.wide), V.dtype)
    keys = px.pipe(config.stages)
    values = px.pipe(config.stages)
    part = None
    tops = None
    masses = None
    if C > 1:
        part = px.shared((BM, form.wide), px.f32, reuse=k)
        tops = px.shared((BM,), px.f32)
        masses = px.shared((BM,), px.f32)

    # Step 2: one warp fills the rings.
    with px.warps(BM // 16, 1):
        fetch_all(TABLE, rows, mine, ((K, k, 0, keys), (V, v, 0, values)), BN, form.page, config.box)

    # Step 3: the others multiply, 64 rows to a warpgroup; two warpgroups take turns.
    if BM > 64 and C == 1 and not form.narrow:
        order = px.barrier(2, count=1, checked=False)
        with px.warps(0, 4, copies=2) as c:
            half = Queries(rows.b, rows.h, rows.row + 64 * c, place.heads, rows.shift, form.tokens, form.group, 64)
            queries = q[64 * c : 64 * c + 64]
            half.load(Q, queries)
            sequence = Sequence(mine.reach, half, mine.first, mine.end, BN)
            sums, top, total = attend(queries, k, v, keys, values, sequence, softmax, Turns(order, c))
            Results(O, LSE, half, results.v_scale).store_at_once(sums, top, total)
    else:
        with px.warps(0, BM // 16):
            rows.load(Q, q)
            if form.narrow:
                sums, top, total = attend_narrow(q, k, v, keys, values, mine, softmax)
            else:
                sums, top, total = attend(q, k, v, keys, values, mine, softmax)
            results.leave(sums, top, total, k, part, tops, masses)

    # Step 4: a cluster joins what its CTAs have found.
    if C > 1:
        px.cluster.sync()
        with px.warps(0, BM // 16):
            results.join(part, 0, form.wide, tops, masses, C)


@px.kernel(warps=4, pdl=True)
def join_splits(PARTS, LOGS, O, LSE, count, *, SPLITS, DV=128, R=4):
    """Joins the results of SPLITS clusters, `count` rows of each: results weighed by their sums of exponentials.

    All of them are asked for before the first is looked at.
    """
    wait_for_prior_launch()
    row = px.block_id(0) * R
    rows = row + px.arange(R)
    logs: tuple[Any, ...] = ()
    parts: tuple[Any, ...] = ()
    for split in px.static_range(SPLITS):
        there = px.where(rows < count, rows + split * count, -1)
        logs = logs + (px.load(LOGS[there], fill=NOTHING),)  # noqa: RUF005
        parts = parts + (px.load(PARTS[there, 0:DV]),)  # noqa: RUF005
    top = px.full((R,), NOTHING, px.f32)
    for split in px.static_range(SPLITS):
        top = px.maximum(top, logs[split])
    base = px.where(top == NOTHING, 0.0, top)
    total = px.zeros((R,), px.f32)
    sums = px.zeros((R, DV), px.f32)
    for split in px.static_range(SPLITS):
        weight = px.exp(logs[split] - base)
        total = total + weight
        sums = sums + weight.reshape(R, 1) * parts[split]
    inverse = px.where(total == 0.0, 0.0, px.reciprocal(total))
    px.store(O[row : row + R, 0:DV], (sums * inverse.reshape(R, 1)).to(O.dtype))
    if LSE is not None:
        px.store(LSE[row : row + R], px.where(total == 0.0, NOTHING, base + px.log(total)))
