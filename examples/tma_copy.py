"""4. TMA copy: one tile in, one tile out. Starting a copy and waiting for it are different statements.

TMA needs rows of a multiple of 16 bytes; the edges of the array are handled by the engine.
"""

import numpy as np
from common import Case, checked, main

import phalanx as px


@px.kernel(warps=4)
def tma_copy(X, Y, *, BM=64, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    s = px.shared((BM, BN), X.dtype)
    arrived = px.barrier()
    arrived.arrive_and_expect_tx(s.nbytes)  # whoever waits is armed first: the copy completes bytes, it never arrives
    px.tma.load(X[m : m + BM, n : n + BN], s, arrived)
    arrived.wait(0)
    px.tma.store(s, Y[m : m + BM, n : n + BN])
    px.tma.commit()
    px.tma.wait(0)


def example(rng: np.random.Generator, rows: int = 300, columns: int = 516) -> Case:
    x = rng.standard_normal((rows, columns), np.float32)
    return Case(tma_copy[px.cdiv(rows, 64), px.cdiv(columns, 64)], [x, np.zeros_like(x)], {1: x})


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
