"""v7. Block scales: mxfp8 (a scale for 32 elements of a row) and nvfp4 (for 16), pairs, multicast, launch control.

Scales travel with the operands: TMA brings them in the order of blocks (512 bytes for 128 rows and 4 scales each), the
tensor cores' own copy takes them from shared to tensor memory, and the product behind it reads them there. A CTA needs
the scales of its own rows of A, but of all columns of B: both CTAs of a pair compute with all of B. So the scales of A
are shared like A, along the row of pairs, and those of B by every CTA of the column, each of which fetches some of the
32 lanes of a block. Scales have columns of their own for each stage: those are free when the stage is.
"""

import ml_dtypes
from operands import checked, main, scaled_case
from tiles import ask, grouped, next_block

import phalanx as px


@px.func
def peers(half, x, y, CM, CN):
    """Masks of the CTAs with the same rows of A, with the same half of B, and with the same columns of C; rank = half +
    2 * (x + CM * y)."""
    row, column = 0, 0
    for other in px.static_range(CN):
        row = row | (1 << (half + 2 * (x + CM * other)))
    for other in px.static_range(CM):
        column = column | (1 << (half + 2 * (other + CM * y)))
    return row, column, ((1 << 2 * CM) - 1) << (2 * CM * y)


@px.kernel(warps=7, cluster=lambda CM, CN: 2 * CM * CN)
def blackwell_v7(A, B, SFA, SFB, C, *, BLOCK=32, CM=1, CN=2, BN=128, BK=128, STAGES=6, GROUP=8, PART=64):
    BM, SCALES = 128, BK // BLOCK
    rank = px.cluster.rank()
    half, x, y = rank % 2, rank // 2 % CM, rank // (2 * CM)
    row, column, both = peers(half, x, y, CM, CN)
    high, wide = BM // CN, BN // 2 // CM  # this CTA's share of A's rows and of its half of B's columns,
    some, few = 32 // CN, 32 // (2 * CM)  # and of the lanes of their scales
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN // 2, BK), B.dtype)
    sfa = px.shared((STAGES, 1, SCALES // 4, 32, 4, 4), SFA.dtype)
    sfb = px.shared((STAGES, BN // 128, SCALES // 4, 32, 4, 4), SFB.dtype)
    out = px.shared((2, BM, PART), C.dtype)
    acc = px.tmem((2, BM, BN), px.f32)
    scale_a = px.tmem((STAGES, BM, SCALES), SFA.dtype)
    scale_b = px.tmem((STAGES, BN, SCALES), SFB.dtype)
    answers = px.shared((2, 4), px.i32)
    pipe, accs, tiles = px.pipe(STAGES), px.pipe(2), px.pipe(2)
    steps = px.cdiv(A.shape[1], BK)
    rows, columns = px.cdiv(C.shape[0], 2 * CM * BM), px.cdiv(C.shape[1], CN * BN)
    more, block = True, px.block_id(0)

    with px.warps(4, 1):
        while more:
            i, j = grouped(block // (2 * CM * CN), rows, columns, GROUP)
            p, q = 2 * (i * CM + x) + half, j * CN + y  # this CTA's tile of C
            m, n = p * BM + y * high, q * BN + half * (BN // 2) + x * wide
            u, v, w = q * (BN // 128), y * some, (2 * x + half) * few
            for step in range(steps):
                k, g = step * BK, step * (SCALES // 4)
                with pipe.produce() as s:
                    px.tma.load(
                        A[m : m + high, k : k + BK], a[s][y * high : y * high + high], pipe.full[s],
                        multicast=row if CN > 1 else None, two_cta=True,
                    )
                    px.tma.load(
                        B[n : n + wide, k : k + BK], b[s][x * wide : x * wide + wide], pipe.full[s],
                        multicast=column if CM > 1 else None, two_cta=True,
                    )
                    px.tma.load(
                        SFA[p : p + 1, g : g + SCALES // 4, v : v + some, 0:4, 0:4], sfa[s][:, :, v : v + some],
                        pipe.full[s], multicast=row if CN > 1 else None, two_cta=True,
                    )
                    px.tma.load(
                        SFB[u : u + BN // 128, g : g + SCALES // 4, w : w + few, 0:4, 0:4], sfb[s][:, :, w : w + few],
                        pipe.full[s], multicast=both, two_cta=True,
                    )
            more, block = next_block(tiles, answers)

    with px.warps(5, 1):
        while more:
            if half == 0:
                t = accs.acquire()
                for k in range(steps):
                    s = pipe.wait()
                    px.tcgen05.copy(sfa[s], scale_a[s], two_cta=True)  # in both CTAs, each its own
                    px.tcgen05.copy(sfb[s], scale_b[s], two_cta=True)
                    px.tcgen05.mma(
                        a[s], b[s].T, acc[t], accumulate=k > 0, scale_a=scale_a[s], scale_b=scale_b[s], two_cta=True
                    )
                    px.tcgen05.commit(pipe, two_cta=True)
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


def launch(m: int, n: int, k: int, CM: int = 1, CN: int = 2, BN: int = 128, **_: int):
    return blackwell_v7[2 * CM * CN * px.cdiv(m, 2 * CM * 128) * px.cdiv(n, CN * BN)]


def example(rng, m: int = 512, n: int = 512, k: int = 384, **constants: int):
    """mxfp8: e4m3 with a power of two for 32 elements."""
    return scaled_case(
        launch, rng, m, n, k, constants, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, block=32
    )


def nvfp4(rng, m: int = 512, n: int = 512, k: int = 768, **constants: int):
    """nvfp4: e2m1 with an e4m3 for 16 elements; 256 of them are the 128 bytes of a row of a stage."""
    constants = {"BLOCK": 16, "BK": 256, "STAGES": 5, **constants}
    return scaled_case(
        launch, rng, m, n, k, constants, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, block=16
    )


@px.example
def small():
    return checked(example)


@px.example
def small_nvfp4():
    return checked(nvfp4)


if __name__ == "__main__":
    main(example)
    main(nvfp4)
