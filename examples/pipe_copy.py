"""8. `px.pipe`: the ring of stages as one object, here with a balanced multicast in a cluster of any size.

The pipe owns both barrier arrays and every role's place in the ring. A stage that peers fill is given back to all of
them: the compiler finds out who they are from the copies.
"""

import numpy as np
from common import Case, checked, main

import phalanx as px


@px.kernel(warps=2, cluster=lambda CTAS: CTAS)
def pipe_copy(X, Y, *, CTAS=2, BM=64, BN=64, STAGES=4):
    rank = px.cluster.rank()
    stages = px.shared((STAGES, BM, BN), X.dtype)
    pipe = px.pipe(STAGES)
    across = px.cdiv(X.shape[1], BN)
    tiles = px.cdiv(X.shape[0], BM) * across
    first, step = px.cluster.id(), px.num_blocks(0) // CTAS

    with px.warps(0, 1):
        for tile in range(first, tiles, step):
            m, n = tile // across * BM, tile % across * BN
            with pipe.produce() as s:  # stage s is free; it expects what the copies inside bring
                px.cluster.load(X[m : m + BM, n : n + BN], stages[s], pipe.full[s], ctas=(1 << CTAS) - 1)

    with px.warps(1, 1):
        for tile in range(first, tiles, step):
            m, n = tile // across * BM, tile % across * BN
            with pipe.consume() as s:  # stage s is full; it is given back at the end of the block
                px.tma.store(stages[s], Y[rank, m : m + BM, n : n + BN])
                px.tma.commit()
                px.tma.wait(0, read=True)
        px.tma.wait(0)


def example(
    rng: np.random.Generator, rows: int = 300, columns: int = 516, clusters: int = 3, ctas: int = 2, **constants: int
) -> Case:
    x = rng.standard_normal((rows, columns), np.float32)
    y = np.zeros((ctas, rows, columns), np.float32)
    return Case(pipe_copy[ctas * clusters], [x, y], {1: np.stack([x] * ctas)}, {"CTAS": ctas, **constants})


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
