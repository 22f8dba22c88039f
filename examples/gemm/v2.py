"""v2. Roles: one warp only copies, a warpgroup only multiplies; `full` and `empty` barriers pass the stages between
them."""

from shapes import checked, gemm_case, main

import phalanx as px


@px.kernel(warps=8)
def gemm_v2(A, B, C, *, BM=128, BN=128, BK=64, STAGES=5):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    steps = px.cdiv(A.shape[1], BK)
    ring = px.ring(STAGES)

    with px.warps(0, 1):
        for k in range(steps):
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.tma.load(A[m : m + BM, k * BK : k * BK + BK], a[ring.stage], full[ring.stage])
                px.tma.load(B[n : n + BN, k * BK : k * BK + BK], b[ring.stage], full[ring.stage])
            ring.advance()

    with px.warps(4, 4):
        acc = px.empty((BM, BN), px.f32)
        last = 0
        for k in range(steps):
            full[ring.stage].wait(ring.parity)
            px.wgmma(a[ring.stage], b[ring.stage].T, acc, accumulate=k > 0)
            px.wgmma_commit()
            px.wgmma_wait(1)
            if k > 0:
                empty[last].arrive()
            last = ring.stage
            ring.advance()
        px.wgmma_wait(0)
        px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 128, **_: int):
    return gemm_v2[px.cdiv(m, BM), px.cdiv(n, BN)]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
