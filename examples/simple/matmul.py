"""C = A @ B.T. The CTAs of a cluster have A's tile in common: each fetches a half, and sends it to the other.

With `pdl=True` a launch begins while the one before it on the stream ends, and waits for it before it reads anything.
"""

from arrays import case, checked, main, normal, wide

import phalanx as px


@px.kernel(warps=8, cluster=(1, 2), pdl=True)
def matmul(A, B, C, *, BM=128, BN=256, BK=64):
    px.wait_prior()
    px.launch_dependents()
    rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], 2 * BN)
    for t in px.persistent(rows * columns):
        m, n = t // columns * BM, (t % columns * 2 + px.cluster.rank()) * BN
        acc = px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK)):
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
        px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


def example(rng, m: int = 300, n: int = 520, k: int = 200):
    a, b = normal(rng, m, k), normal(rng, n, k)
    return case(matmul[px.auto], [a, b], wide(a)[0] @ wide(b)[0].T)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
