"""A `px.dot` that Blackwell's tensor cores do: a ring of TMA copies, and a role that multiplies."""

from __future__ import annotations

import phalanx as px


@px.kernel(warps=5)
def dot_ring(A, B, C, *, BM=128, BN=64, BK=64, STAGES=3):
    """C = A @ B.T; the accumulator stays in tensor memory, and stages are given back by commits."""
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    a, b = px.shared((STAGES, BM, BK), A.dtype), px.shared((STAGES, BN, BK), B.dtype)
    pipe = px.pipe(STAGES)
    steps = px.cdiv(A.shape[1], BK)
    with px.warps(4, 1):
        for k in range(steps):
            with pipe.produce() as i:
                px.tma.load(A[m : m + BM, k * BK : k * BK + BK], a[i], pipe.full[i])
                px.tma.load(B[n : n + BN, k * BK : k * BK + BK], b[i], pipe.full[i])
    with px.warps(0, 4):
        acc = px.zeros((BM, BN), px.f32)
        for _ in range(steps):
            with pipe.consume() as i:
                acc = px.dot(a[i], b[i].T, acc)
        px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))
