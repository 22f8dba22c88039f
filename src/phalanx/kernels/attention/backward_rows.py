"""What the backward pass of attention does before and after its products: a number per row, and sums that become gradients.

Gradients of the queries are summed over all blocks of keys in f32, in a workspace of blocks of BM queries, whose elements
lie as the tensor cores leave them: each thread adds four neighbours at a time, and a warp 512 bytes in a row. `block_order`
is that order, `row_order` its inverse.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.scores import capped
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LOG2E

NEVER = -float("inf")


@px.func
def block_order(z, M, N):
    """A product of M x N as a vector: four neighbours of a thread, its lanes, what else it holds, warps."""
    return z.reshape(M // 64, 4, 2, 8, N // 8, 4, 2).permute(0, 1, 4, 3, 5, 2, 6).reshape(M * N)


@px.func
def row_order(x, M, N):
    """Turns a vector in the order of `block_order` into M rows of N."""
    return x.reshape(M // 64, 4, N // 8, 8, 4, 2, 2).permute(0, 1, 5, 3, 2, 4, 6).reshape(M, N)


@px.func
def parts(BM, D, c):
    """The part of a block's gradient that warpgroup `c` of two computes: (first row, rows, first column, columns).

    Each has half of the rows where there are 128, else half of the columns, by whole panels of 32 or 64.
    """
    split = px.cdiv(D, 64) // 2 * 64 if D > 64 else D // 2
    if BM == 128:
        return (64 * c, 64, 0, D)
    return (0, 64, split * c, split if 2 * split == D else (D - split if c else split))


def part_size(queries: int, dim: int) -> int:
    """How many numbers of a block's gradient the workspace has for each warpgroup: as many as the first of its `parts`."""
    return 64 * 64 if dim == 96 else queries * dim // 2


@px.struct
class Sequence:
    """One sequence of a batch or of a packed array: where its queries begin, how many there are, and its first block.

    A packed sequence begins a new block of the workspace: block ``first_query // BM + sequence`` is never another's.
    """

    batch: Any
    first_query: Any
    queries: Any
    first_block: Any


@px.func
def packed_sequence(Q, CUQ, number, BM):
    """Sequence `number`."""
    if CUQ is None:
        return Sequence(number, 0, Q.shape[2], 0)
    first = px.load(CUQ[number])
    return Sequence(0, first, px.load(CUQ[number + 1]) - first, first // BM + number)


@px.func
def powers(s, bias, logs, factor, cap):
    """Probabilities from raw scores, and what gradients are multiplied by on their way through the cap (None without one).

    `logs` are the negative logarithms of the rows' sums, `bias` what is added to scores (None: nothing), both in units of
    log2. `factor` is the scale in these units; with a cap, scores are ``cap * tanh(factor * s)``.
    """
    if bias is not None:
        logs = logs + bias
    damped = None
    if cap is None:
        p = px.exp2(px.fma(s, factor, logs))
    else:
        u = capped(s, factor, cap)
        p = px.exp2(px.fma(u, LOG2E, logs))
        u = u * (1.0 / cap)
        damped = 1.0 - u * u
    return p, damped


@px.kernel(warps=lambda D: 4 if D <= 128 else 8, pdl=True)
def prepare_rows(O, DO, LSE, CUQ, STATS, SUMS, *, BM, D):
    """For each query the logarithm of its sum and its ``sum(o * do)``, both negative, in blocks; sums of gradients become 0.

    Beyond a sequence's end, and for queries without keys, the logarithm is -inf: their powers are 0.
    """
    t = px.block_id(0)
    h = px.block_id(1)
    wait_for_prior_launch()
    at = packed_sequence(O, CUQ, px.block_id(2), BM)
    m = t * BM
    if m < at.queries:
        row = at.first_query + m
        rows = px.arange(BM)
        there = rows < at.queries - m
        o = px.load(O[at.batch, h, row : row + BM, 0:D]).to(px.f32)
        g = px.load(DO[at.batch, h, row : row + BM, 0:D]).to(px.f32)
        sums = px.sum(o * g, axis=1)
        logs = px.load(LSE[at.batch, h, row : row + BM])
        block = at.first_block + t
        some = there & (logs != NEVER)
        px.store(STATS[at.batch, h, block, 0, 0:BM], px.where(some, logs * -LOG2E, NEVER))
        px.store(STATS[at.batch, h, block, 1, 0:BM], px.where(some, -sums, 0.0))
        if SUMS is not None:
            place = (at.batch * STATS.shape[1] + h) * STATS.shape[2] + block
            _, M, _, N = parts(BM, D, 0)
            px.store(SUMS[place, 0:2, 0 : M * N], px.zeros((2, M * N), px.f32))


@px.kernel(warps=lambda D: 4 if D <= 128 else 8, pdl=True)
def finish_sums(SUMS, CU, G, scale, blocks, *, BM, D):
    """Gradients from their sums, times scale, in their own type and place: BM rows of a head and sequence.

    SUMS (shares, block, 2, elements): what several CTAs have of the same rows is added up. CU: where packed sequences begin.
    """
    t = px.block_id(0)
    h = px.block_id(1)
    wait_for_prior_launch()
    at = packed_sequence(G, CU, px.block_id(2), BM)
    m = t * BM
    if m < at.queries:
        place = (at.batch * G.shape[1] + h) * blocks + at.first_block + t
        for c in px.static_range(2):
            top, M, left, N = parts(BM, D, c)
            x = px.load(SUMS[0, place, c, 0 : M * N])
            for share in range(1, SUMS.shape[0]):
                x = x + px.load(SUMS[share, place, c, 0 : M * N])
            rows = top + px.arange(M)
            to = px.where(rows < at.queries - m, at.first_query + m + rows, -1)
            px.store(G[at.batch, h, to, left : left + N], (row_order(x, M, N) * scale).to(G.dtype))
