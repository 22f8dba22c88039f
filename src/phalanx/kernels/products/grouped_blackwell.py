"""Products of groups of rows on Blackwell: the kernel of `grouped_matmul` and of the products of a mixture of experts there.

The roles, the ring and the accumulators are those of `matmul_blackwell`; which rows belong to which group says the table of
`group_tiles`. Rows of A come as they lie, or are gathered by index straight into the operand; results leave by TMA, the last
ones of a group row by row, or are added to rows by index. Pairs of CTAs take 256 rows of a group; gathered rows are for
single CTAs, since no gather completes on the barrier of a pair. Compiled, checked and simulated; nobody has run it on
Blackwell yet.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import phalanx as px
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.matrices import info_of, refused
from phalanx.kernels.products.activations import activate
from phalanx.kernels.products.group_tiles import clusters_at_once, most_tiles, planned
from phalanx.kernels.products.matmul_blackwell import (
    EPILOGUE_WARPS,
    FETCHING_WARP,
    MULTIPLYING_WARP,
    WARPS,
    Ring,
    Unit,
    out_buffers,
    unit_masks,
    unit_place,
)
from phalanx.kernels.products.matmul_blackwell_config import ROWS, BlackwellConfig, complete, require_fits_blackwell
from phalanx.kernels.products.matmul_config import Problem
from phalanx.kernels.products.orders import grouped
from phalanx.runtime.device.arrays import ITEM_BYTES
from phalanx.runtime.symbolic.choices import chosen_by_sizes


@px.func
def fetch_groups(unit, ring, A, I, W, TABLE, GATHER):
    """The role that fills the ring: rows of A, of which CTAs with the same ones fetch a share each, and the weights."""
    high = unit.BM // unit.CN
    wide = unit.BN // unit.CTAS
    first = unit.y * high
    for tile in range(unit.first, unit.count, unit.step):
        t, j = grouped(tile, unit.rows, unit.columns, unit.GROUP)
        group = px.load(TABLE[0, t])
        m = px.load(TABLE[1, t]) + unit.half * unit.BM + first
        n = (j * unit.CN + unit.y) * unit.BN + unit.half * wide
        if GATHER:
            rows = px.load(I[m : m + high], fill=-1)
        for k in range(0, unit.steps * unit.BK, unit.BK):
            s = ring.turn.stage
            ring.empty[s].wait(ring.turn.parity ^ 1)
            with ring.full[s].transaction():
                mine = ring.a[s][first : first + high]
                if GATHER:
                    px.tma.gather(A, rows, k, mine, ring.full[s], multicast=unit.row if unit.CN > 1 else None)
                else:
                    px.tma.load(
                        A[m : m + high, k : k + unit.BK], mine, ring.full[s],
                        multicast=unit.row if unit.CN > 1 else None, two_cta=unit.CTAS == 2,
                    )
                px.tma.load(W[group, n : n + wide, k : k + unit.BK], ring.b[s], ring.full[s], two_cta=unit.CTAS == 2)
            ring.turn.advance()


@px.func
def add_rows(sums, Y, I, WEIGHT, m, n, end, BM, WIDTH):
    """Adds a part of a tile, row i times WEIGHT[i], to the rows of Y that the index names."""
    token = px.load(I[m : m + BM], fill=-1)
    named = (m + px.arange(BM) < end) & (token >= 0) & (token < Y.shape[0])
    token = px.where(named, token, -1).to(px.i32)  # only now: 64 bits may name a row that 32 would wrap to
    weight = px.load(WEIGHT[m : m + BM]).to(px.f32).reshape(BM, 1)
    px.atomic_add(Y[token, n : n + WIDTH], (sums * weight).to(Y.dtype))


@px.func
def store_rows(sums, buffer, Y, m, n, end, BM, WIDTH):
    """A part of a tile to its rows, as far as they belong to the group, by way of a buffer."""
    px.store(buffer, sums.to(Y.dtype))
    px.fence.async_proxy()
    if m + BM <= end:
        px.tma.store(buffer, Y[m : m + BM, n : n + WIDTH])
    else:  # the next group's rows are not this tile's to write
        place = m + px.arange(BM)
        px.tma.scatter(buffer, px.where(place < end, place, -1), n, Y)
    px.tma.commit()


USUAL = BlackwellConfig(stages=4, ctas=1, group=1)


@px.kernel(warps=WARPS, cluster=lambda config: config.size, pdl=True)
def grouped_blackwell(
    A, I, W, Y, TABLE, BIAS, WEIGHT, *, config=USUAL, BM=ROWS, GATHER=False, SCATTER=False, BIASED=False, ACTIVATION=None
):  # fmt: skip
    """Y[i] = activation(A[i] @ W[g].T + BIAS[g]) for the rows i of every group g; A[I[i]] with GATHER.

    With SCATTER Y[I[i]] += WEIGHT[i] * (A[i] @ W[g].T).
    """
    BN = config.bn
    BK = config.bk
    STAGES = config.stages
    CTAS = config.ctas
    CM, CN = config.cluster
    ACCS = config.accumulators
    PARTS = config.parts
    # Step 1: the place of this CTA in its cluster, shared and tensor memory, and the tiles.
    rank = px.cluster.rank()
    half, x, y = unit_place(rank, CTAS, CM, CN)
    row, column, fillers = unit_masks(half, x, y, CTAS, CM, CN)
    width = BN // PARTS
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN // CTAS, BK), W.dtype)
    acc = px.tmem((ACCS, BM, BN), px.f32)
    if not SCATTER:
        out = px.shared((out_buffers(PARTS), BM, width), Y.dtype)
    if BIASED:
        row_bias = px.shared((1, width), px.f32)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    ready = px.barrier(ACCS)
    drained = px.barrier(ACCS)
    wait_for_prior_launch()
    rows = px.load(TABLE[3, 0])
    columns = px.cdiv(W.shape[1], CN * BN)
    unit = Unit(
        half, x, y, row, column, fillers, px.cdiv(A.shape[1], BK), rows, columns, px.cluster.id(), rows * columns,
        px.num_blocks(0) // (CTAS * CN), BM, BN, BK, CTAS, CM, CN, config.group, False,
    )  # fmt: skip
    ring = Ring(a, b, None, None, full, empty, px.ring(STAGES), True, True, False, False)

    # Step 2: a warp fetches, another one multiplies.
    with px.warps(FETCHING_WARP, 1):
        fetch_groups(unit, ring, A, I, W, TABLE, GATHER)

    with px.warps(MULTIPLYING_WARP, 1):
        if half == 0:
            ring.multiply_all(unit, acc, ready, drained, None, None, ACCS)

    # Step 3: the others store or add what has been multiplied.
    with px.warps(0, EPILOGUE_WARPS):
        held = px.ring(ACCS)
        leader = 1 << (rank & ~1) if CTAS == 2 else None
        for tile in range(unit.first, unit.count, unit.step):
            i, j = grouped(tile, rows, columns, config.group)
            m = px.load(TABLE[1, i]) + half * BM
            n = (j * CN + y) * BN
            end = px.load(TABLE[2, i])
            t = held.stage
            ready[t].wait(held.parity)
            for part in px.static_range(PARTS):
                sums = px.tcgen05.load(acc[t][:, part * width : part * width + width])
                if part + 1 == PARTS:
                    drained[t].arrive(ctas=leader)
                if BIASED:
                    bias = px.load(BIAS[px.load(TABLE[0, i]), n + part * width : n + part * width + width])
                    px.store(row_bias[0], bias.to(px.f32))
                    sums = sums + px.load(row_bias)
                sums = activate(sums, ACTIVATION, Y.dtype == px.bf16)
                if SCATTER:
                    add_rows(sums, Y, I, WEIGHT, m, n + part * width, end, BM, width)
                else:
                    px.tma.wait(out_buffers(PARTS) - 1, read=True)  # the buffer's last part has left it
                    store_rows(sums, out[part % out_buffers(PARTS)], Y, m, n + part * width, end, BM, width)
            held.advance()
        if not SCATTER:
            px.tma.wait(0)


@chosen_by_sizes
@cache
def choose_grouped_blackwell(
    rows: int, groups: int, n: int, k: int, *, gathered: bool = False, out_itemsize: int = 2
) -> BlackwellConfig:
    """The configuration for `rows` rows in `groups` groups, `n` columns and products along `k`, on Blackwell.

    Pairs where the groups have 256 rows or more on average, single CTAs where they have fewer: a tile never has rows of two
    groups, and what it has beyond the end is thrown away. Gathered rows are for single CTAs, two of which take two column
    tiles of the same rows and gather half of them each. 16-bit operands. Simple reasoning, which nobody has measured.
    Anyone may call it; no hardware is involved. Example: ``choose_grouped_blackwell(4096, 8, 4096, 4096).ctas == 2``.
    """
    ctas = 2 if not gathered and rows >= 2 * ROWS * groups else 1
    cut = complete(Problem(rows, n, k, out_itemsize=out_itemsize), ctas, 256 if n > 128 else 128)
    across = 2 if gathered and n > cut.bn else 1
    return BlackwellConfig(cut.bn, cut.bk, cut.stages, ctas, (1, across), cut.accumulators, 1, cut.parts)


def launch_groups(
    x: Any, idx: Any, w: Any, out: Any, sizes: Any, rows: int, config: BlackwellConfig, *, bias: Any = None,
    weight: Any = None, **constants: Any,
) -> None:
    """Launches the kernel for `rows` rows in groups of these `sizes`; a configuration that it can't use is a `px.Error`."""
    groups, n, k = w.shape
    require_fits_blackwell(config, Problem(rows, n, k, out_itemsize=ITEM_BYTES[info_of("out", out).dtype_name]))
    if config.cluster[0] != 1 or (constants.get("GATHER") and config.ctas != 1):
        raise refused(
            f"a cluster of {config.cluster[0]} x {config.cluster[1]} units of {config.ctas} CTAs",
            "groups have clusters of 1 x n units, gathered rows units of one CTA",
        )
    height = ROWS * config.ctas
    table = planned(sizes, x, rows, groups, height)
    tiles = most_tiles(rows, groups, height) * px.cdiv(n, config.bn * config.cluster[1])
    clusters = min(clusters_at_once(x, config.size), tiles)
    grouped_blackwell[config.size * clusters](
        x, idx, w, out, table, bias, weight, BIASED=bias is not None, **config.constants(), **constants
    )


__all__ = ["choose_grouped_blackwell", "grouped_blackwell", "launch_groups"]
