"""v7. Multicast in two dimensions, for clusters of any shape, launches that overlap, and settings to tune.

In a cluster of CM x CN CTAs, those of a row share their rows of A, those of a column their columns of B: each fetches
its share of both and multicasts it. A stage is free when all that read what lands in it have released it: CM + CN - 1
CTAs, twice, which is what the compiler counts. Wider clusters read L2 less but leave some SMs idle, so that pairs win
where L2 keeps up: (1, 2), which share rows of A, are a little ahead of (2, 1), which share columns of B. With `pdl` a
launch prepares its barriers while the one before it on the stream still stores, and what its first copies need is known
before it waits for that one.
"""

from orders import grouped
from shapes import checked, gemm_case, main

import phalanx as px


@px.func
def peers(x, y, CM, CN):
    """Masks of the CTAs of this one's row and of its column; rank = x + CM * y."""
    row, column = 0, 0
    for other in px.static_range(CN):
        row = row | (1 << (x + CM * other))
    for other in px.static_range(CM):
        column = column | (1 << (other + CM * y))
    return row, column


@px.kernel(warps=12, cluster=lambda CM, CN: (CM, CN), exit_sync=False, pdl=True)
def gemm_v7(A, B, C, *, CM=1, CN=2, BM=128, BN=256, BK=64, STAGES=4, GROUP=16, PARTS=2):
    x, y = px.cluster.rank(0), px.cluster.rank(1)
    row, column = peers(x, y, CM, CN)
    a = px.shared((STAGES, BM, BK), A.dtype)
    b = px.shared((STAGES, BN, BK), B.dtype)
    out = px.shared((2, BM // 2, BN // PARTS), C.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    steps = px.cdiv(A.shape[1], BK)
    rows, columns = px.cdiv(C.shape[0], CM * BM), px.cdiv(C.shape[1], CN * BN)
    first, step = px.cluster.id(), px.num_blocks(0) * px.num_blocks(1) // (CM * CN)
    ring = px.ring(STAGES)
    start = grouped(first, rows, columns, GROUP)  # where the first tile lies is known before anybody waits
    px.wait_prior()  # the launch before is over

    for c in px.static_range(2):
        with px.warps(4 + 4 * c, 4, regs=232):
            if c == 0:  # these warps wait for the first copies anyway
                px.launch_dependents()  # CTAs of the next launch may come where CTAs of this one leave
            top, height, width = c * BM // 2, BM // 2, BN // PARTS
            for tile in range(first, rows * columns, step):
                i, j = grouped(tile, rows, columns, GROUP)
                m, n = (i * CM + x) * BM + top, (j * CN + y) * BN
                acc = px.empty((height, BN), px.f32)
                last = 0
                for k in range(steps):
                    s = ring.stage
                    full[s].wait(ring.parity)
                    px.wgmma(a[s][top : top + height], b[s].T, acc, accumulate=k > 0)
                    px.wgmma_commit()
                    px.wgmma_wait(1)
                    if k > 0:
                        empty[last].arrive(ctas=row | column)
                    last = s
                    ring.advance()
                px.wgmma_wait(0)
                empty[last].arrive(ctas=row | column)
                for part in px.static_range(0, BN, width):
                    px.tma.wait(0, read=True)
                    px.store(out[c], acc[:, part : part + width].to(C.dtype))
                    px.fence.async_proxy()
                    px.tma.store(out[c], C[m : m + height, n + part : n + part + width])
                    px.tma.commit()
            px.tma.wait(0, read=True)

    with px.warps(0, 4, regs=40):  # the code of the last role lies right behind the start: the first copies come soon
        high, wide = BM // CN, BN // CM  # this CTA's share of A's rows and B's columns
        (i, j), unused = start, STAGES * BK
        for tile in range(first, rows * columns, step):
            m, n = (i * CM + x) * BM + y * high, (j * CN + y) * BN + x * wide
            for k in range(0, steps * BK, BK):
                s = ring.stage
                if k >= unused:  # of the first tile: nobody has used the first stages
                    empty[s].wait(ring.parity ^ 1)
                with full[s].transaction():
                    px.tma.load(
                        A[m : m + high, k : k + BK], a[s][y * high : y * high + high], full[s],
                        multicast=row if CN > 1 else None,
                    )
                    px.tma.load(
                        B[n : n + wide, k : k + BK], b[s][x * wide : x * wide + wide], full[s],
                        multicast=column if CM > 1 else None,
                    )
                ring.advance()
            unused = 0
            i, j = grouped(min(tile + step, rows * columns - 1), rows, columns, GROUP)
        for _ in range(STAGES):  # the peers' last releases have arrived: no CTA leaves while a signal is on its way to it
            empty[ring.stage].wait(ring.parity ^ 1)
            ring.advance()


def launch(m: int, n: int, k: int, CM: int = 1, CN: int = 2, BM: int = 128, BN: int = 256, **_: int):
    clusters = min(px.device().clusters(CM * CN), px.cdiv(m, CM * BM) * px.cdiv(n, CN * BN))
    return gemm_v7[CM * clusters, CN]


def example(rng, m: int = 256, n: int = 512, k: int = 192, **constants: int):
    return gemm_case(launch, rng, m, n, k, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
