"""v0. TMA and wgmma, one tile: load a piece of A and B, multiply, wait, again. C = A @ B.T, one CTA per tile of C.

The copy engine and the tensor cores take turns: nothing overlaps.
"""

from shapes import checked, gemm_case, main

import phalanx as px


@px.kernel(warps=4)
def gemm_v0(A, B, C, *, BM=128, BN=128, BK=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    a = px.shared((BM, BK), A.dtype)
    b = px.shared((BN, BK), B.dtype)
    full = px.barrier()
    acc = px.empty((BM, BN), px.f32)
    parity = 0
    for k in range(0, A.shape[1], BK):
        with full.transaction():
            px.tma.load(A[m : m + BM, k : k + BK], a, full)
            px.tma.load(B[n : n + BN, k : k + BK], b, full)
        full.wait(parity)
        parity ^= 1
        px.wgmma(a, b.T, acc, accumulate=k > 0)
        px.wgmma_commit()
        px.wgmma_wait(0)  # both buffers are free again
    px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 128, **_: int):
    return gemm_v0[px.cdiv(m, BM), px.cdiv(n, BN)]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
