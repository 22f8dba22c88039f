"""7. Distributed shared memory: each CTA stores its tile into its neighbour's shared memory and adds what it received."""

import numpy as np
from common import Case, checked, main

import phalanx as px


@px.kernel(warps=4, cluster=2)
def exchange(X, Y, *, BM=32, BN=64):
    m, n = px.block_id(0) * BM, px.block_id(1) * BN
    rank = px.cluster.rank()
    inbox = px.shared((BM, BN), X.dtype)
    mine = px.load(X[m : m + BM, n : n + BN])
    px.cluster.sync()  # the neighbour has started: its shared memory exists
    px.store(inbox.at(rank ^ 1), mine)
    px.cluster.sync()  # both tiles have arrived
    theirs = px.load(inbox)
    px.store(Y[m : m + BM, n : n + BN], mine + theirs)


def reference(x: np.ndarray, bm: int) -> np.ndarray:
    pair = 2 * bm
    rows = -(-x.shape[0] // pair) * pair
    padded = np.zeros((rows, x.shape[1]), x.dtype)
    padded[: x.shape[0]] = x
    blocks = padded.reshape(rows // pair, 2, bm, x.shape[1])
    return (blocks + blocks[:, ::-1]).reshape(rows, x.shape[1])[: x.shape[0]]


def example(rng: np.random.Generator, rows: int = 300, columns: int = 517) -> Case:
    x = rng.standard_normal((rows, columns), np.float32)
    grid = (2 * px.cdiv(rows, 64), px.cdiv(columns, 64))
    return Case(exchange[grid], [x, np.zeros_like(x)], {1: reference(x, 32)})


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
