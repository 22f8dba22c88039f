"""v6. Pairs with multicast: CM x CN pairs in a cluster, 1 x 2 in a cluster of 4.

Pairs of a row need the same rows of A, pairs of a column the same columns of B: each CTA fetches its share of both for all
that need it, and the copy engine delivers it to the same place in each. CTAs of one pair never share: they have different
rows, and different halves of B. A stage is free when the products of every pair that reads what this CTA copies are over,
so that commits go along the row and the column of the pair; the compiler enumerates which ranks those are.
"""

from operands import checked, gemm_case, main
from tiles import ask, grouped, next_block

import phalanx as px


@px.func
def peers(half, x, y, CM, CN):
    """Masks of the CTAs with the same rows of A and with the same half of B; rank = half + 2 * (x + CM * y)."""
    row, column = 0, 0
    for other in px.static_range(CN):
        row = row | (1 << (half + 2 * (x + CM * other)))
    for other in px.static_range(CM):
        column = column | (1 << (half + 2 * (other + CM * y)))
    return row, column


@px.kernel(warps=7, cluster=lambda CM, CN: 2 * CM * CN)
def blackwell_v6(A, B, C, *, CM=1, CN=2, BM=128, BN=256, BK=64, STAGES=6, GROUP=8, PART=64):
    rank = px.cluster.rank()
    half, x, y = rank % 2, rank // 2 % CM, rank // (2 * CM)
    row, column = peers(half, x, y, CM, CN)
    high, wide = BM // CN, BN // 2 // CM  # this CTA's share of A's rows and of its half of B's columns
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN // 2, BK), B.dtype)
    out = px.shared((2, BM, PART), C.dtype)
    acc = px.tmem((2, BM, BN), px.f32)
    answers = px.shared((2, 4), px.i32)
    pipe, accs, tiles = px.pipe(STAGES), px.pipe(2), px.pipe(2)
    steps = px.cdiv(A.shape[1], BK)
    rows, columns = px.cdiv(C.shape[0], 2 * CM * BM), px.cdiv(C.shape[1], CN * BN)
    more, block = True, px.block_id(0)

    with px.warps(4, 1):
        while more:
            i, j = grouped(block // (2 * CM * CN), rows, columns, GROUP)
            m, n = (2 * (i * CM + x) + half) * BM + y * high, (j * CN + y) * BN + half * (BN // 2) + x * wide
            for k in range(0, steps * BK, BK):
                with pipe.produce() as s:
                    px.tma.load(
                        A[m : m + high, k : k + BK], a[s][y * high : y * high + high], pipe.full[s],
                        multicast=row if CN > 1 else None, two_cta=True,
                    )
                    px.tma.load(
                        B[n : n + wide, k : k + BK], b[s][x * wide : x * wide + wide], pipe.full[s],
                        multicast=column if CM > 1 else None, two_cta=True,
                    )
            more, block = next_block(tiles, answers)

    with px.warps(5, 1):
        while more:
            if half == 0:
                t = accs.acquire()
                for k in range(steps):
                    s = pipe.wait()
                    px.tcgen05.mma(a[s], b[s].T, acc[t], accumulate=k > 0, two_cta=True)
                    px.tcgen05.commit(pipe, two_cta=True)  # to both CTAs of every pair that fills this stage
                px.tcgen05.commit(accs, two_cta=True)
            more, block = next_block(tiles, answers)

    with px.warps(6, 1):
        ask(tiles, answers)

    with px.warps(0, 4):
        while more:
            i, j = grouped(block // (2 * CM * CN), rows, columns, GROUP)
            m, n = (2 * (i * CM + x) + half) * BM, (j * CN + y) * BN
            t = accs.wait()
            for part in px.static_range(BN // PART):
                tile = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
                if part == BN // PART - 1:
                    accs.release()
                px.tma.wait(1, read=True)
                px.store(out[part % 2], tile.to(C.dtype))
                px.fence.async_proxy()
                px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
                px.tma.commit()
            more, block = next_block(tiles, answers)
        px.tma.wait(0)


def launch(m: int, n: int, k: int, CM: int = 1, CN: int = 2, BM: int = 128, BN: int = 256, **_: int):
    return blackwell_v6[2 * CM * CN * px.cdiv(m, 2 * CM * BM) * px.cdiv(n, CN * BN)]


def example(rng, m: int = 512, n: int = 1024, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
