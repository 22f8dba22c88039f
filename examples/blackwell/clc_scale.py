"""A persistent kernel whose blocks the hardware hands out: cluster launch control, in a cluster of any size.

The grid has a block for every tile. Those that fit on the GPU start; each cluster then asks for one that has not started,
while it works on its own, and ends when it is refused. Compiled and simulated, never run on Blackwell.
"""

import numpy as np

import phalanx as px


@px.kernel(warps=5, cluster=lambda CTAS: CTAS)
def clc_scale(X, Y, alpha, *, CTAS=1, BM=32, BN=64):
    across = px.cdiv(X.shape[1], BN)
    result = px.shared((4,), px.i32)
    full, empty = px.barrier(), px.barrier()

    with px.warps(0, 1):  # asks for the next block while the others work on this one
        turn, more = px.ring(1), True
        while more:
            if px.cluster.rank() == 0:
                empty.wait(turn.parity ^ 1)  # every role of every CTA has read the answer before
            with full.transaction():  # each CTA expects its own 16 bytes
                px.clc.try_cancel(result, full)
            full.wait(turn.parity)
            more, _ = px.clc.query(result)
            empty.arrive(ctas=0b1)
            turn.advance()

    with px.warps(1, 4):
        turn, more, block = px.ring(1), True, px.block_id(0)
        while more:
            m, n = block // across * BM, block % across * BN
            px.store(Y[m : m + BM, n : n + BN], px.load(X[m : m + BM, n : n + BN]) * alpha)
            full.wait(turn.parity)
            more, block = px.clc.query(result)
            empty.arrive(ctas=0b1)
            turn.advance()


def blocks(x, CTAS=1, BM=32, BN=64):
    """One for every tile, and as many more as make whole clusters."""
    tiles = px.cdiv(x.shape[0], BM) * px.cdiv(x.shape[1], BN)
    return px.cdiv(tiles, CTAS) * CTAS


X = np.random.default_rng(0).standard_normal((150, 200), np.float32)


@px.example
def alone():
    return clc_scale[blocks(X)], (X, np.zeros_like(X), 3.0)


@px.example
def in_pairs():
    return clc_scale[blocks(X, CTAS=2)], (X, np.zeros_like(X), 3.0), dict(CTAS=2)


if __name__ == "__main__":
    for ctas in (1, 2, 4):
        y = np.zeros_like(X)
        clc_scale[blocks(X, CTAS=ctas)](X, y, 3.0, CTAS=ctas)
        assert np.array_equal(y, X * np.float32(3.0))
        print(f"clusters of {ctas}: right in the simulator")
