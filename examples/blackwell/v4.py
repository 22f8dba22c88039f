"""v4. Two accumulators: the tensor cores begin the next tile while the epilogue reads the last one.

Tensor memory has 512 columns: two accumulators of 256. The pipe between products and epilogue has two stages now, and that
is all that changes for the MMA role. The result leaves through shared memory and TMA stores, in parts and in the
background; the accumulator is given back as soon as its last part is in registers.
"""

from operands import checked, gemm_case, main
from tiles import ask, grouped, next_block

import phalanx as px


@px.kernel(warps=7)
def blackwell_v4(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4, GROUP=8, PART=64):
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    out = px.shared((2, BM, PART), C.dtype)
    acc = px.tmem((2, BM, BN), px.f32)
    answers = px.shared((2, 4), px.i32)
    pipe, accs, tiles = px.pipe(STAGES), px.pipe(2), px.pipe(2)
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
            t = accs.acquire()
            for k in range(steps):
                s = pipe.wait()
                px.tcgen05.mma(a[s], b[s].T, acc[t], accumulate=k > 0)
                px.tcgen05.commit(pipe)
            px.tcgen05.commit(accs)
            more, block = next_block(tiles, answers)

    with px.warps(6, 1):
        ask(tiles, answers)

    with px.warps(0, 4):
        while more:
            i, j = grouped(block, rows, columns, GROUP)
            m, n = i * BM, j * BN
            t = accs.wait()
            for part in px.static_range(BN // PART):
                x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
                if part == BN // PART - 1:
                    accs.release()  # nothing of it is left in tensor memory
                px.tma.wait(1, read=True)  # the part before the last has left its buffer
                px.store(out[part % 2], x.to(C.dtype))
                px.fence.async_proxy()
                px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
                px.tma.commit()
            more, block = next_block(tiles, answers)
        px.tma.wait(0)


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 256, **_: int):
    return blackwell_v4[px.cdiv(m, BM) * px.cdiv(n, BN)]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
