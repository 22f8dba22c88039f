"""3. Tiled transpose through shared memory: written by rows, read by columns; the compiler picks a swizzle for both."""

import numpy as np
from common import Case, checked, main

import phalanx as px


@px.kernel(warps=4)
def transpose(X, Y, *, BM=64, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    s = px.shared((BM, BN), X.dtype)
    px.store(s, px.load(X[m : m + BM, n : n + BN]))
    px.store(Y[n : n + BN, m : m + BM], px.load(s.T))


def example(rng: np.random.Generator, rows: int = 300, columns: int = 517, dtype: type = np.float32) -> Case:
    x = rng.standard_normal((rows, columns)).astype(dtype)
    grid = (px.cdiv(rows, 64), px.cdiv(columns, 64))
    return Case(transpose[grid], [x, np.zeros((columns, rows), dtype)], {1: np.ascontiguousarray(x.T)})


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
