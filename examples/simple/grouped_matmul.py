"""Rows that are sorted by group, each group by a matrix of its own: Y[rows of g] = X[rows of g] @ W[g].T."""

import numpy as np
from arrays import case, checked, main, normal, wide

import phalanx as px


@px.kernel(warps=8)
def grouped_matmul(X, W, STARTS, Y, *, BM=128, BN=128, BK=64):
    for t, g in px.persistent(px.cdiv(Y.shape[1], BN), groups=STARTS, tile=BM):
        n, acc = g.column * BN, px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, X.shape[1], BK)):
            acc = px.dot(px.load(X[t : t + BM, k : k + BK]), px.load(W[g.index, n : n + BN, k : k + BK]).T, acc)
        px.store(Y[g.rows, n : n + BN], acc.to(Y.dtype))  # the next group's rows stay


def example(rng, sizes: tuple[int, ...] = (150, 0, 1, 128), n: int = 136, k: int = 200):
    x, w, starts = normal(rng, sum(sizes), k), normal(rng, len(sizes), n, k), np.cumsum([0, *sizes]).astype(np.int32)
    want = [rows @ m.T for rows, m in zip(np.split(wide(x)[0], starts[1:-1]), wide(w)[0], strict=True)]
    return case(grouped_matmul[px.auto], [x, w, starts], np.concatenate(want))


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
