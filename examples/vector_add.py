"""1. Vector add: the smallest kernel. Tiles live in registers; the last, partial block is masked."""

import numpy as np
from common import Case, checked, main

import phalanx as px


@px.kernel(warps=4)
def add(X, Y, Z, *, BLOCK=1024):
    i = px.block_id(0) * BLOCK
    x = px.load(X[i : i + BLOCK])
    y = px.load(Y[i : i + BLOCK])
    px.store(Z[i : i + BLOCK], x + y)


def example(rng: np.random.Generator, n: int = 100_003, block: int = 1024) -> Case:
    x, y = rng.standard_normal(n, np.float32), rng.standard_normal(n, np.float32)
    return Case(add[px.cdiv(n, block)], [x, y, np.zeros(n, np.float32)], {2: x + y}, {"BLOCK": block})


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
