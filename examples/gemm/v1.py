"""v1. A ring of stages: while the tensor cores work on one stage, copies fill the others.

One role does everything, so it must issue the next copy between two products; `px.wgmma_wait(1)` leaves the newest
product running and tells that the stage before it is free.
"""

from shapes import checked, gemm_case, main

import phalanx as px


@px.kernel(warps=4)
def gemm_v1(A, B, C, *, BM=128, BN=128, BK=64, STAGES=4):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    full = px.barrier(STAGES)
    steps = px.cdiv(A.shape[1], BK)
    load, use = px.ring(STAGES), px.ring(STAGES)

    for k in range(0, min(STAGES - 1, steps)):
        with full[load.stage].transaction():
            px.tma.load(A[m : m + BM, k * BK : k * BK + BK], a[load.stage], full[load.stage])
            px.tma.load(B[n : n + BN, k * BK : k * BK + BK], b[load.stage], full[load.stage])
        load.advance()

    acc = px.empty((BM, BN), px.f32)
    for k in range(steps):
        full[use.stage].wait(use.parity)
        px.wgmma(a[use.stage], b[use.stage].T, acc, accumulate=k > 0)
        px.wgmma_commit()
        px.wgmma_wait(1)  # the stage used one step ago is free
        use.advance()
        if k + STAGES - 1 < steps:
            j = (k + STAGES - 1) * BK
            with full[load.stage].transaction():
                px.tma.load(A[m : m + BM, j : j + BK], a[load.stage], full[load.stage])
                px.tma.load(B[n : n + BN, j : j + BK], b[load.stage], full[load.stage])
            load.advance()
    px.wgmma_wait(0)
    px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 128, **_: int):
    return gemm_v1[px.cdiv(m, BM), px.cdiv(n, BN)]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
