"""v4. A cluster of 2: the CTAs work on neighbouring rows of C and share B. Each fetches half of a piece of B for both.

A stage may be refilled only when both CTAs have released it, because a refill lands in both: the release goes to both.
Nobody writes a count: `empty` gets one arrival of each CTA's consumers.
"""

from shapes import checked, gemm_case, main

import phalanx as px


@px.kernel(warps=12, cluster=2)
def gemm_v4(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4):
    rank = px.cluster.rank()
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    half = BN // 2
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    steps = px.cdiv(A.shape[1], BK)
    ring = px.ring(STAGES)

    with px.warps(0, 4, regs=40):
        for k in range(steps):
            s, j = ring.stage, k * BK
            empty[s].wait(ring.parity ^ 1)
            with full[s].transaction():  # expects A, and both halves of B
                px.tma.load(A[m : m + BM, j : j + BK], a[s], full[s])
                mine = b[s][rank * half : rank * half + half]
                px.tma.load(B[n + rank * half : n + rank * half + half, j : j + BK], mine, full[s], multicast=0b11)
            ring.advance()

    with px.warps(4, 8, regs=232):
        acc = px.empty((BM, BN), px.f32)
        last = 0
        for k in range(steps):
            full[ring.stage].wait(ring.parity)
            px.wgmma(a[ring.stage], b[ring.stage].T, acc, accumulate=k > 0)
            px.wgmma_commit()
            px.wgmma_wait(1)
            if k > 0:
                empty[last].arrive(ctas=0b11)
            last = ring.stage
            ring.advance()
        px.wgmma_wait(0)
        for j in px.static_range(0, BN, 64):
            px.store(C[m : m + BM, n + j : n + j + 64], acc[:, j : j + 64].to(C.dtype))


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 256, **_: int):
    return gemm_v4[2 * px.cdiv(m, 2 * BM), px.cdiv(n, BN)]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
