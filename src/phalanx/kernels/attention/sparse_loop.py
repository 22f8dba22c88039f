"""The kernel of `sparse_attention` where there is no `wgmma`: one loop that pipelines itself, the same for every target.

Keys and values come by index, a row for each token that a list names: on sm_100a and sm_120a by `gather4`. Products are
`px.dot`, so `tcgen05` on sm_100a and `mma.sync` on sm_120a. A CTA has some columns of the values: where they are too wide
for one accumulator, as those of a latent cache, several CTAs share them, and each makes the scores. Compiled, checked and
simulated, and its text run on the CPU; nobody has run it on Blackwell yet.
"""

from __future__ import annotations

import phalanx as px
from phalanx.kernels.attention.decode_terms import queries_of
from phalanx.kernels.attention.forms import ListForm
from phalanx.kernels.attention.scores import LAZY, NOTHING, log_sums, softmax_step
from phalanx.kernels.attention.sparse_ring import source_of
from phalanx.kernels.launches import wait_for_prior_launch

FORM = ListForm()
COLUMNS = 64
"""Columns of a result that are stored at once."""


@px.kernel(warps=4, pdl=True)
def sparse_loop(
    Q, K, V, INDICES, O, LSE, factor, tokens, kv_heads, lists, heads,
    *, form=FORM, STAGES=2,
):  # fmt: skip
    """Some rows of queries that share a list and a KV head, over all blocks of the list, for `form.wide` columns of values.

    Without V the values are columns of the keys.
    """
    BM = form.rows
    BN = form.block
    DV = form.wide
    wait_for_prior_launch()
    rows = queries_of(px.block_id(0), heads, 0, form, BM)
    source = source_of(INDICES, tokens, kv_heads, rows, lists, form.entry, BN)
    left = px.block_id(2) * DV
    q = px.load(Q[rows.numbers(0, BM), 0 : form.dim])
    sums = px.zeros((BM, DV), px.f32)
    top = px.full((BM,), NOTHING, px.f32)
    mass = px.zeros((BM, 4), px.f32)
    for block in px.pipelined(range(px.cdiv(INDICES.shape[2] * form.entry, BN)), stages=STAGES):
        at = source.rows_of(source.tokens_of(block, 0, BN))
        k = px.load(K[at, 0 : form.dim])
        v = px.load(K[at, left : left + DV] if V is None else V[at, left : left + DV])
        x = px.where((at >= 0).reshape(1, BN), px.dot(q, k.T), NOTHING)
        p, top, mass, faded = softmax_step(x, top, mass, factor, BM, BN, True, LAZY)
        sums = px.dot(p.to(K.dtype), v, px.multiply(sums, faded.reshape(BM, 1), skip_ones=True))
    total = px.sum(mass, axis=1)
    inverse = px.where(total == 0.0, 0.0, px.reciprocal(total))
    result = (sums * inverse.reshape(BM, 1)).to(O.dtype)
    targets = rows.targets(0, BM)
    for column in px.static_range(0, DV, COLUMNS):
        px.store(O[targets, left + column : left + column + COLUMNS], result[:, column : column + COLUMNS])
    if LSE is not None:
        if px.block_id(2) == 0:
            px.store(LSE[targets], log_sums(top, total))
