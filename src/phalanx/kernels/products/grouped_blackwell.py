"""Products of groups of rows on Blackwell: the kernel of `grouped_matmul` and of the products of a mixture of experts there.

A loop as that of `matmul_blackwell`; which rows belong to which group says the table of `group_tiles`. Rows of A come as
they lie, or by index; results go to the rows of their group, or are added to rows by index. Two CTAs take 256 rows of a
group as a pair. Compiled, checked and simulated; nobody has run it on Blackwell yet.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import info_of
from phalanx.kernels.products.activations import activate
from phalanx.kernels.products.group_tiles import clusters_at_once, most_tiles, planned
from phalanx.kernels.products.matmul_blackwell import WARPS
from phalanx.kernels.products.matmul_blackwell_config import ROWS, BlackwellConfig, require_fits_blackwell
from phalanx.kernels.products.matmul_config import Problem
from phalanx.runtime.device.arrays import ITEM_BYTES
from phalanx.runtime.symbolic.choices import chosen_by_sizes

USUAL = BlackwellConfig(cluster=(1, 1))


@px.kernel(warps=WARPS, cluster=lambda config: config.cluster, pdl=True)
def grouped_blackwell(
    A, I, W, Y, TABLE, BIAS, WEIGHT, *, config=USUAL, BM=ROWS, GATHER=False, SCATTER=False, BIASED=False, ACTIVATION=None
):  # fmt: skip
    """Y[i] = activation(A[i] @ W[g].T + BIAS[g]) for the rows i of every group g; A[I[i]] with GATHER.

    With SCATTER Y[I[i]] += WEIGHT[i] * (A[i] @ W[g].T).
    """
    wait_for_prior_launch()
    BN = config.bn
    BK = config.bk
    columns = px.cdiv(W.shape[1], config.cluster[1] * BN)
    for tile in px.persistent(px.load(TABLE[3, 0]) * columns):
        t = tile // columns
        group = px.load(TABLE[0, t])
        m = px.load(TABLE[1, t]) + px.cluster.rank(0) * BM
        n = (tile % columns * config.cluster[1] + px.cluster.rank(1)) * BN
        acc = px.zeros((BM, BN), px.f32)
        rows = px.load(I[m : m + BM], fill=-1) if GATHER else m
        for k in px.pipelined(range(0, A.shape[1], BK)):
            a = px.load(A[rows, k : k + BK]) if GATHER else px.load(A[m : m + BM, k : k + BK])
            acc = px.dot(a, px.load(W[group, n : n + BN, k : k + BK]).T, acc)
        place = m + px.arange(BM)
        mine = place < px.load(TABLE[2, t])  # the next group's rows are not this tile's to write
        if BIASED:
            acc = acc + px.load(BIAS[group, n : n + BN]).to(px.f32).reshape(1, BN)
        result = activate(acc, ACTIVATION, Y.dtype == px.bf16)
        if SCATTER:
            token = px.load(I[m : m + BM], fill=-1)
            named = mine & (token >= 0) & (token < Y.shape[0])
            token = px.where(named, token, -1).to(px.i32)  # only now: 64 bits may name a row that 32 would wrap to
            weight = px.load(WEIGHT[m : m + BM]).to(px.f32).reshape(BM, 1)
            px.atomic_add(Y[token, n : n + BN], (result * weight).to(Y.dtype))
        else:
            px.store(Y[px.where(mine, place, -1), n : n + BN], result.to(Y.dtype))


@chosen_by_sizes
@cache
def choose_grouped_blackwell(rows: int, groups: int, n: int) -> BlackwellConfig:
    """The configuration for `rows` rows in `groups` groups and `n` columns, on Blackwell.

    Pairs where the groups have 256 rows or more on average, single CTAs where they have fewer: a tile never has rows of two
    groups, and what it has beyond the end is thrown away. 16-bit operands. Simple reasoning, which nobody has measured.
    Anyone may call it; no hardware is involved.
    Example: ``choose_grouped_blackwell(4096, 8, 4096).pair == 2``.
    """
    high = 2 if rows >= 2 * ROWS * groups else 1
    return BlackwellConfig(256 if n > 128 else 128, cluster=(high, 1))


def launch_groups(
    x: Any, idx: Any, w: Any, out: Any, sizes: Any, rows: int, config: BlackwellConfig, *, bias: Any = None,
    weight: Any = None, **constants: Any,
) -> None:
    """Launches the kernel for `rows` rows in groups of these `sizes`; a configuration that it can't use is a `px.Error`."""
    groups, n, k = w.shape
    require_fits_blackwell(config, Problem(rows, n, k, out_itemsize=ITEM_BYTES[info_of("out", out).dtype_name]))
    height = ROWS * config.cluster[0]
    table = planned(sizes, x, rows, groups, height)
    tiles = most_tiles(rows, groups, height) * px.cdiv(n, config.bn * config.cluster[1])
    clusters = min(clusters_at_once(x, config.size), tiles)
    grouped_blackwell[config.cluster[0] * clusters, config.cluster[1]](
        x, idx, w, out, table, bias, weight, BIASED=bias is not None, **config.constants(), **constants
    )
