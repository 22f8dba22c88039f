"""v2. Roles: one warp copies, one gives the tensor cores work, four take the result out of tensor memory.

A single thread issues a product of 128 x 256, so that a warp is enough for it; four warps are needed to read 128 rows,
since each reaches 32 lanes of tensor memory. `px.tcgen05.commit(pipe)` lets the tensor cores give the stage back.
"""

from operands import checked, gemm_case, main

import phalanx as px


@px.kernel(warps=6)
def blackwell_v2(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    acc = px.tmem((BM, BN), px.f32)
    pipe, done = px.pipe(STAGES), px.barrier()
    steps = px.cdiv(A.shape[1], BK)

    with px.warps(4, 1):
        for k in range(0, steps * BK, BK):
            with pipe.produce() as s:
                px.tma.load(A[m : m + BM, k : k + BK], a[s], pipe.full[s])
                px.tma.load(B[n : n + BN, k : k + BK], b[s], pipe.full[s])

    with px.warps(5, 1):
        for k in range(steps):
            s = pipe.wait()
            px.tcgen05.mma(a[s], b[s].T, acc, accumulate=k > 0)
            px.tcgen05.commit(pipe)  # when this product is over
        px.tcgen05.commit(done)

    with px.warps(0, 4):
        done.wait(0)
        for j in px.static_range(0, BN, 64):  # in parts, so that few registers are in use at once
            px.store(C[m : m + BM, n + j : n + j + 64], px.tcgen05.load(acc[:, j : j + 64]).to(C.dtype))


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 256, **_: int):
    return blackwell_v2[px.cdiv(m, BM), px.cdiv(n, BN)]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
