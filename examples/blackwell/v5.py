"""v5. Pairs: two CTAs multiply a tile of 256 x 256 together, and each has only half of B in its shared memory.

Each CTA of a pair (ranks that differ in bit 0) copies its own rows of A and its own half of B's columns; the even one issues
the products, which read the shared memory of both and write the tensor memory of both. With `two_cta=True` the bytes of both
arrive on the even CTA's barrier, which alone is waited for. `px.tcgen05.commit(pipe)` gives a stage back in both CTAs,
`px.tcgen05.commit(accs)` tells the epilogues of both; those give the accumulator back to the even one. Nobody writes a mask.
"""

from operands import checked, gemm_case, main
from tiles import ask, grouped, next_block

import phalanx as px


@px.kernel(warps=7, cluster=2)
def blackwell_v5(A, B, C, *, BM=128, BN=256, BK=64, STAGES=6, GROUP=8, PART=64):
    rank = px.cluster.rank()
    half = BN // 2
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, half, BK), B.dtype)
    out = px.shared((2, BM, PART), C.dtype)
    acc = px.tmem((2, BM, BN), px.f32)
    answers = px.shared((2, 4), px.i32)
    pipe, accs, tiles = px.pipe(STAGES), px.pipe(2), px.pipe(2)
    steps = px.cdiv(A.shape[1], BK)
    rows, columns = px.cdiv(C.shape[0], 2 * BM), px.cdiv(C.shape[1], BN)
    more, block = True, px.block_id(0)  # two blocks are a tile

    with px.warps(4, 1):
        while more:
            i, j = grouped(block // 2, rows, columns, GROUP)
            m, n = (2 * i + rank) * BM, j * BN + rank * half
            for k in range(0, steps * BK, BK):
                with pipe.produce() as s:  # the even CTA expects the bytes of both, the odd one nothing
                    px.tma.load(A[m : m + BM, k : k + BK], a[s], pipe.full[s], two_cta=True)
                    px.tma.load(B[n : n + half, k : k + BK], b[s], pipe.full[s], two_cta=True)
            more, block = next_block(tiles, answers)

    with px.warps(5, 1):
        while more:
            if rank == 0:
                t = accs.acquire()  # the epilogues of both CTAs have read it
                for k in range(steps):
                    s = pipe.wait()
                    px.tcgen05.mma(a[s], b[s].T, acc[t], accumulate=k > 0, two_cta=True)
                    px.tcgen05.commit(pipe, two_cta=True)
                px.tcgen05.commit(accs, two_cta=True)
            more, block = next_block(tiles, answers)

    with px.warps(6, 1):
        ask(tiles, answers)

    with px.warps(0, 4):
        while more:
            i, j = grouped(block // 2, rows, columns, GROUP)
            m, n = (2 * i + rank) * BM, j * BN
            t = accs.wait()
            for part in px.static_range(BN // PART):
                x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
                if part == BN // PART - 1:
                    accs.release()
                px.tma.wait(1, read=True)
                px.store(out[part % 2], x.to(C.dtype))
                px.fence.async_proxy()
                px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
                px.tma.commit()
            more, block = next_block(tiles, answers)
        px.tma.wait(0)


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 256, **_: int):
    return blackwell_v5[2 * px.cdiv(m, 2 * BM) * px.cdiv(n, BN)]


def example(rng, m: int = 512, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
