"""v0. One instruction: load a piece of A and B, multiply it into tensor memory, wait, again. C = A @ B.T, a tile per CTA.

The accumulator is not in registers: `px.tcgen05.mma` adds to it in tensor memory, and only a commit's arrival says that it
did. The copy engine and the tensor cores take turns: nothing overlaps. Compiled and simulated, never run on Blackwell.
"""

from operands import checked, gemm_case, main

import phalanx as px


@px.kernel(warps=4)
def blackwell_v0(A, B, C, *, BM=128, BN=128, BK=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    a = px.shared((BM, BK), A.dtype)
    b = px.shared((BN, BK), B.dtype)
    acc = px.tmem((BM, BN), px.f32)
    full, done = px.barrier(), px.barrier()
    parity = 0
    for k in range(0, A.shape[1], BK):
        with full.transaction():
            px.tma.load(A[m : m + BM, k : k + BK], a, full)
            px.tma.load(B[n : n + BN, k : k + BK], b, full)
        full.wait(parity)
        px.tcgen05.mma(a, b.T, acc, accumulate=k > 0)
        px.tcgen05.commit(done)
        done.wait(parity)  # both buffers are free again, and the accumulator is whole
        parity ^= 1
    px.store(C[m : m + BM, n : n + BN], px.tcgen05.load(acc).to(C.dtype))


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 128, **_: int):
    return blackwell_v0[px.cdiv(m, BM), px.cdiv(n, BN)]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
