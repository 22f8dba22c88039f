"""v3. Persistent, and the hardware hands out the tiles: cluster launch control.

The grid has a block for every tile, but only those that fit on the GPU start. A role asks for one that has not started
while the others work, and all roles read the answer: the block's number is the next tile. Setup is paid once, copies of the
next tile run during the epilogue of this one, and nobody has to know how many CTAs fit.
"""

from operands import checked, gemm_case, main
from tiles import ask, grouped, next_block

import phalanx as px


@px.kernel(warps=7)
def blackwell_v3(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4, GROUP=8):
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    acc = px.tmem((1, BM, BN), px.f32)
    answers = px.shared((2, 4), px.i32)
    pipe, accs, tiles = px.pipe(STAGES), px.pipe(1), px.pipe(2)
    steps = px.cdiv(A.shape[1], BK)
    rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
    more, block = True, px.block_id(0)

    with px.warps(4, 1):
        while more:
            i, j = grouped(block, rows, columns, GROUP)
            for k in range(0, steps * BK, BK):
                with pipe.produce() as s:
                    px.tma.load(A[i * BM : i * BM + BM, k : k + BK], a[s], pipe.full[s])
                    px.tma.load(B[j * BN : j * BN + BN, k : k + BK], b[s], pipe.full[s])
            more, block = next_block(tiles, answers)

    with px.warps(5, 1):
        while more:
            t = accs.acquire()  # the epilogue has read the accumulator
            for k in range(steps):
                s = pipe.wait()
                px.tcgen05.mma(a[s], b[s].T, acc[t], accumulate=k > 0)
                px.tcgen05.commit(pipe)
            px.tcgen05.commit(accs)  # it is whole when all that is over
            more, block = next_block(tiles, answers)

    with px.warps(6, 1):
        ask(tiles, answers)

    with px.warps(0, 4):
        while more:
            i, j = grouped(block, rows, columns, GROUP)
            m, n = i * BM, j * BN
            with accs.consume() as t:
                for part in px.static_range(0, BN, 64):
                    x = px.tcgen05.load(acc[t][:, part : part + 64])
                    px.store(C[m : m + BM, n + part : n + part + 64], x.to(C.dtype))
            more, block = next_block(tiles, answers)


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 256, **_: int):
    return blackwell_v3[px.cdiv(m, BM) * px.cdiv(n, BN)]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
