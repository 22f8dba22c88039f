"""The second half of a product whose K is split between CTAs that share nothing: the sums of its parts become the result."""

from __future__ import annotations

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.products.activations import activate

ROWS, COLUMNS = 8, 256
"""Of the result, what a CTA adds up: eight elements a thread, two vectors of each part."""


@px.kernel(warps=8, pdl=True)
def add_parts(P, C, BIAS, *, SPLIT, BIASED=False, ACTIVATION=None):
    """C = activation(P[0] + P[1] + ... + BIAS), in f32; the parts are f32 and lie in L2 since `matmul_tiles` wrote them."""
    m, n = px.block_id(1) * ROWS, px.block_id(0) * COLUMNS
    wait_for_prior_launch()
    total = px.load(P[0, m : m + ROWS, n : n + COLUMNS])
    for part in px.static_range(1, SPLIT):
        total = total + px.load(P[part, m : m + ROWS, n : n + COLUMNS])
    if BIASED:
        total = total + px.load(BIAS[n : n + COLUMNS]).to(px.f32).reshape(1, COLUMNS)
    px.store(C[m : m + ROWS, n : n + COLUMNS], activate(total, ACTIVATION, C.dtype == px.bf16).to(C.dtype))


def grid(m: int, n: int) -> tuple[int, int]:
    """CTAs for a result of `m` rows and `n` columns."""
    return px.cdiv(n, COLUMNS), px.cdiv(m, ROWS)
