"""6. A cluster of 2 with multicast: each CTA fetches half of a tile and sends it to both, so L2 is read once for two CTAs.

Each CTA of the cluster writes the whole tile to its own half of Y. A stage may be refilled only when both CTAs have
released it, because a refill lands in both: the release goes to both (`ctas=0b11`), and `empty` counts two arrivals.
"""

import numpy as np
from common import Case, checked, main

import phalanx as px


@px.kernel(warps=2, cluster=2)
def multicast_copy(X, Y, *, BM=64, BN=64, STAGES=4):
    rank = px.cluster.rank()
    half = BM // 2
    stages = px.shared((STAGES, BM, BN), X.dtype)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    across = px.cdiv(X.shape[1], BN)
    tiles = px.cdiv(X.shape[0], BM) * across
    first, step = px.cluster.id(), px.num_blocks(0) // 2
    ring = px.ring(STAGES)

    with px.warps(0, 1):
        for tile in range(first, tiles, step):
            m, n = tile // across * BM + rank * half, tile % across * BN
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():  # expects both halves: one of its own, one from the peer
                mine = stages[ring.stage][rank * half : rank * half + half]
                px.tma.load(X[m : m + half, n : n + BN], mine, full[ring.stage], multicast=0b11)
            ring.advance()

    with px.warps(1, 1):
        for tile in range(first, tiles, step):
            m, n = tile // across * BM, tile % across * BN
            full[ring.stage].wait(ring.parity)
            px.tma.store(stages[ring.stage], Y[rank, m : m + BM, n : n + BN])
            px.tma.commit()
            px.tma.wait(0, read=True)
            empty[ring.stage].arrive(ctas=0b11)
            ring.advance()
        px.tma.wait(0)


def example(rng: np.random.Generator, rows: int = 300, columns: int = 516, clusters: int = 3, **constants: int) -> Case:
    x = rng.standard_normal((rows, columns), np.float32)
    y = np.zeros((2, rows, columns), np.float32)
    return Case(multicast_copy[2 * clusters], [x, y], {1: np.stack([x, x])}, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
