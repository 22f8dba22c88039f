"""9. Split K: the CTAs of a cluster take parts of K, share what they load by multicast, and add up SM to SM.

A cluster makes CN tiles of C side by side, each by SPLIT CTAs. Rank (s, y) computes part s of K of tile y: the rows of A
of that part are the same for all y, so each of those CTAs fetches a share and sends it to the others. At the end the
partial sums go through distributed shared memory to the CTA with s = 0: none of them touches global memory.
"""

import ml_dtypes
import numpy as np
from common import Case, checked, main

import phalanx as px


@px.kernel(warps=5, cluster=lambda SPLIT, CN: (SPLIT, CN))
def split_k(A, B, C, *, BM=64, BN=64, BK=64, STAGES=3, SPLIT=2, CN=2):
    """C = A @ B.T"""
    s, y = px.cluster.rank(0), px.cluster.rank(1)
    m, n = px.block_id(2) * BM, px.block_id(1) * BN
    steps = px.cdiv(A.shape[1], BK * SPLIT)  # beyond the end of K there are zeros
    same_rows = 0
    for other in px.static_range(CN):
        same_rows = same_rows | 1 << (s + SPLIT * other)
    a, b = px.shared((STAGES, BM, BK), A.dtype), px.shared((STAGES, BN, BK), B.dtype)
    inbox = px.shared((SPLIT - 1, BM, BN), px.f32)
    pipe, landed = px.pipe(STAGES), px.barrier()

    with px.warps(4, 1):
        for t in range(steps):
            k = (s * steps + t) * BK
            with pipe.produce() as i:
                px.cluster.load(A[m : m + BM, k : k + BK], a[i], pipe.full[i], ctas=same_rows)
                px.tma.load(B[n : n + BN, k : k + BK], b[i], pipe.full[i])

    with px.warps(0, 4):
        acc = px.zeros((BM, BN), px.f32)
        for _ in range(steps):
            with pipe.consume() as i:
                acc = px.dot(a[i], b[i].T, acc)
        with landed.transaction():  # of SPLIT - 1 tiles where s is 0, of nothing elsewhere
            if s > 0:
                px.cluster.store(inbox[s - 1], acc, landed, cta=SPLIT * y)
        landed.wait(0)
        if s == 0:
            for other in px.static_range(SPLIT - 1):
                acc = acc + px.load(inbox[other])
            px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


def example(rng: np.random.Generator, rows: int = 100, columns: int = 200, depth: int = 328, split: int = 2) -> Case:
    a = rng.standard_normal((rows, depth), np.float32).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((columns, depth), np.float32).astype(ml_dtypes.bfloat16)
    c = np.zeros((rows, columns), np.float32)
    grid = (split, 2 * px.cdiv(columns, 128), px.cdiv(rows, 64))
    want = a.astype(np.float32) @ b.astype(np.float32).T
    return Case(split_k[grid], [a, b, c], {2: want}, {"SPLIT": split}, tolerance=1e-5)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
