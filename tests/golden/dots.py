"""`px.dot` on Blackwell: by tensor memory from a ring of TMA copies, and block-scaled by warps."""

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


@px.kernel(warps=4)
def scaled_dot(A, B, SA, SB, C, *, BM=64, BN=64, BK=128, BLOCK=32):
    """C = (A * SA) @ (B * SB).T; every BLOCK elements along K share a scale, and warps multiply."""
    m = px.block_id(0) * BM
    a, b = px.shared((BM, BK), A.dtype), px.shared((BN, BK), B.dtype)
    full = px.barrier()
    acc = px.zeros((BM, BN), px.f32)
    for k in range(px.cdiv(A.shape[1], BK)):
        with full.transaction():
            px.tma.load(A[m : m + BM, k * BK : k * BK + BK], a, full)
            px.tma.load(B[0:BN, k * BK : k * BK + BK], b, full)
        scale = k * (BK // BLOCK)
        left = px.load(SA[m : m + BM, scale : scale + BK // BLOCK])
        right = px.load(SB[0:BN, scale : scale + BK // BLOCK])
        full.wait(k % 2)
        acc = px.dot(a, b.T, acc, scale_a=left, scale_b=right)
        px.sync()
    px.store(C[m : m + BM, 0:BN], acc.to(C.dtype))
