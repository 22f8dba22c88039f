"""v5. Persistent: as many clusters as fit run at once, and each takes one tile after another in an order that L2 likes.

The producer runs ahead into the next tile while the consumers still store the last one; barriers and descriptors are
set up once. `grouped` lets the tiles in flight form a block of C, so that they read few rows of A and B between them.
"""

from orders import grouped
from shapes import checked, gemm_case, main

import phalanx as px


@px.kernel(warps=12, cluster=2)
def gemm_v5(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4, GROUP=8):
    rank = px.cluster.rank()
    half = BN // 2
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    steps = px.cdiv(A.shape[1], BK)
    rows, columns = px.cdiv(C.shape[0], 2 * BM), px.cdiv(C.shape[1], BN)  # of tiles of a cluster: 2 BM x BN
    tiles = px.persistent(rows * columns)  # dealt to the clusters: cluster c of C takes c, c + C, c + 2 C ...
    ring = px.ring(STAGES)

    with px.warps(0, 4, regs=40):
        for tile in tiles:
            i, j = grouped(tile, rows, columns, GROUP)
            m, n = (2 * i + rank) * BM, j * BN + rank * half
            for k in range(0, steps * BK, BK):
                s = ring.stage
                empty[s].wait(ring.parity ^ 1)
                with full[s].transaction():
                    px.tma.load(A[m : m + BM, k : k + BK], a[s], full[s])
                    mine = b[s][rank * half : rank * half + half]
                    px.tma.load(B[n : n + half, k : k + BK], mine, full[s], multicast=0b11)
                ring.advance()

    with px.warps(4, 8, regs=232):
        for tile in tiles:
            i, j = grouped(tile, rows, columns, GROUP)
            m, n = (2 * i + rank) * BM, j * BN
            acc = px.empty((BM, BN), px.f32)
            last = 0
            for k in range(steps):
                full[ring.stage].wait(ring.parity)
                px.wgmma(a[ring.stage], b[ring.stage].T, acc, accumulate=k > 0)
                px.wgmma_commit()
                px.wgmma_wait(1)
                if k > 0:
                    empty[last].arrive(ctas=0b11)
                last = ring.stage
                ring.advance()
            px.wgmma_wait(0)
            empty[last].arrive(ctas=0b11)
            for c in px.static_range(0, BN, 64):
                px.store(C[m : m + BM, n + c : n + c + 64], acc[:, c : c + 64].to(C.dtype))


def launch(m: int, n: int, k: int, **_: int):
    return gemm_v5[px.auto]  # as many clusters as fit, and no more than there are tiles


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
