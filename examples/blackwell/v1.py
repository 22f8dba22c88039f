"""v1. A ring of stages: while the tensor cores work on one stage, copies fill the others.

The tensor cores themselves say when a stage may be filled again: each product is followed by a commit that arrives on the
stage's `empty` barrier. Nobody waits for a product on the way, only for the stage that is needed next.
"""

from operands import checked, gemm_case, main

import phalanx as px


@px.kernel(warps=4)
def blackwell_v1(A, B, C, *, BM=128, BN=128, BK=64, STAGES=4):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    acc = px.tmem((BM, BN), px.f32)
    full, empty, done = px.barrier(STAGES), px.barrier(STAGES), px.barrier()
    steps = px.cdiv(A.shape[1], BK)
    load, use = px.ring(STAGES), px.ring(STAGES)

    for k in range(1 - STAGES, steps):  # the copies are STAGES - 1 steps ahead of the products
        ahead = k + STAGES - 1
        if ahead < steps:
            s = load.stage
            empty[s].wait(load.parity ^ 1)
            with full[s].transaction():
                px.tma.load(A[m : m + BM, ahead * BK : ahead * BK + BK], a[s], full[s])
                px.tma.load(B[n : n + BN, ahead * BK : ahead * BK + BK], b[s], full[s])
            load.advance()
        if k >= 0:
            s = use.stage
            full[s].wait(use.parity)
            px.tcgen05.mma(a[s], b[s].T, acc, accumulate=k > 0)
            px.tcgen05.commit(empty[s])
            use.advance()
    px.tcgen05.commit(done)
    done.wait(0)
    px.store(C[m : m + BM, n : n + BN], px.tcgen05.load(acc).to(C.dtype))


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 128, **_: int):
    return blackwell_v1[px.cdiv(m, BM), px.cdiv(n, BN)]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
