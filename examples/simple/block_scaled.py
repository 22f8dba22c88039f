"""C = (A * SA) @ (B * SB).T in fp8, with a scale for each 128 elements of A's rows and for each 128 x 128 block of B.

The sums of a step are scaled and added in registers of their own, while the tensor cores work on the next step.
"""

import ml_dtypes
import numpy as np
from arrays import case, checked, main, wide

import phalanx as px


@px.kernel(warps=8)
def block_scaled(A, SA, B, SB, C, *, BM=128, BN=128):
    rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
    for t in px.persistent(rows * columns):
        m, n = t // columns * BM, t % columns * BN
        acc = px.zeros((BM, BN), px.f32)
        for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
            a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
            acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
        px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


def example(rng, m: int = 300, n: int = 264, k: int = 400):
    """SA is (K / 128, M), as the copy engine takes it; SB is (N / 128, K / 128)."""
    a, b = (rng.standard_normal((size, k), np.float32).astype(ml_dtypes.float8_e4m3fn) for size in (m, n))
    sa, sb = (rng.uniform(0.5, 2, shape).astype(np.float32) for shape in ((-(-k // 128), m), (-(-n // 128), -(-k // 128))))
    x, y = wide(a, b)
    x, y = x * sa.repeat(128, 0)[:k].T, y * sb.repeat(128, 0)[:n].repeat(128, 1)[:, :k]
    return case(block_scaled[px.auto], [a, sa, b, sb], x @ y.T)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
