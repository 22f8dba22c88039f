"""5. A ring of stages between two roles: a producer warp loads tiles ahead, a consumer warp stores them.

`full` says that a stage holds a tile, `empty` that it may be filled again. Nobody writes a count or a byte number: the
compiler counts one arrival per phase on each, and the transaction expects what its copies bring.
"""

import numpy as np
from common import Case, checked, main

import phalanx as px


@px.kernel(warps=2)
def ring_copy(X, Y, *, BM=64, BN=64, STAGES=4):
    stages = px.shared((STAGES, BM, BN), X.dtype)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    across = px.cdiv(X.shape[1], BN)
    tiles = px.cdiv(X.shape[0], BM) * across
    ring = px.ring(STAGES)

    with px.warps(0, 1):
        for tile in range(px.block_id(0), tiles, px.num_blocks(0)):
            m, n = tile // across * BM, tile % across * BN
            empty[ring.stage].wait(ring.parity ^ 1)
            with full[ring.stage].transaction():
                px.tma.load(X[m : m + BM, n : n + BN], stages[ring.stage], full[ring.stage])
            ring.advance()

    with px.warps(1, 1):
        for tile in range(px.block_id(0), tiles, px.num_blocks(0)):
            m, n = tile // across * BM, tile % across * BN
            full[ring.stage].wait(ring.parity)
            px.tma.store(stages[ring.stage], Y[m : m + BM, n : n + BN])
            px.tma.commit()
            px.tma.wait(0, read=True)  # the engine has read the stage
            empty[ring.stage].arrive()
            ring.advance()
        px.tma.wait(0)


def example(rng: np.random.Generator, rows: int = 300, columns: int = 516, ctas: int = 6, **constants: int) -> Case:
    x = rng.standard_normal((rows, columns), np.float32)
    return Case(ring_copy[ctas], [x, np.zeros_like(x)], {1: x}, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
