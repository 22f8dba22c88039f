"""v6. The result leaves through shared memory and TMA stores, while the next tile is being multiplied.

The accumulator goes to a swizzled buffer by `stmatrix`, without bank conflicts, and the copy engine writes it out in
the background. Half a tile at a time, so that the buffer leaves room for four stages. Each consumer warpgroup is a
role of its own, with 64 of the rows: neither waits for the other, so that one may store while the other multiplies.
"""

from orders import grouped
from shapes import checked, gemm_case, main

import phalanx as px


@px.kernel(warps=12, cluster=2, exit_sync=False)
def gemm_v6(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4, GROUP=8, PARTS=2):
    rank = px.cluster.rank()
    half = BN // 2
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    out = px.shared((2, BM // 2, BN // PARTS), C.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    steps = px.cdiv(A.shape[1], BK)
    rows, columns = px.cdiv(C.shape[0], 2 * BM), px.cdiv(C.shape[1], BN)
    first, step = px.cluster.id(), px.num_blocks(0) // 2
    ring = px.ring(STAGES)

    with px.warps(0, 4, regs=40):
        for tile in range(first, rows * columns, step):
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
        for _ in range(STAGES):  # the peers' last releases have arrived: no CTA leaves while a signal is on its way to it
            empty[ring.stage].wait(ring.parity ^ 1)
            ring.advance()

    for c in px.static_range(2):
        with px.warps(4 + 4 * c, 4, regs=232):
            top, height, width = c * BM // 2, BM // 2, BN // PARTS
            for tile in range(first, rows * columns, step):
                i, j = grouped(tile, rows, columns, GROUP)
                m, n = (2 * i + rank) * BM + top, j * BN
                acc = px.empty((height, BN), px.f32)
                last = 0
                for k in range(steps):
                    s = ring.stage
                    full[s].wait(ring.parity)
                    px.wgmma(a[s][top : top + height], b[s].T, acc, accumulate=k > 0)
                    px.wgmma_commit()
                    px.wgmma_wait(1)
                    if k > 0:
                        empty[last].arrive(ctas=0b11)
                    last = s
                    ring.advance()
                px.wgmma_wait(0)
                empty[last].arrive(ctas=0b11)
                for part in px.static_range(0, BN, width):
                    px.tma.wait(0, read=True)  # the part before has left the buffer
                    px.store(out[c], acc[:, part : part + width].to(C.dtype))
                    px.fence.async_proxy()
                    px.tma.store(out[c], C[m : m + height, n + part : n + part + width])
                    px.tma.commit()
            px.tma.wait(0)


def launch(m: int, n: int, k: int, BM: int = 128, BN: int = 256, **_: int):
    return gemm_v6[2 * min(px.device().clusters(2), px.cdiv(m, 2 * BM) * px.cdiv(n, BN))]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
