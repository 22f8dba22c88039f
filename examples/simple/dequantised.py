"""C = X @ ((W - Z) * S).T with weights of 4 bits, a zero point and a scale for each 128 of them.

The transposed product: weights are converted in registers, from which the tensor cores take their left operand, while
they work on the step before.
"""

import numpy as np
from arrays import case, checked, main, normal, wide

import phalanx as px


@px.kernel(warps=8)
def dequantised(X, W, S, Z, C, *, BM=256, BN=128, BK=64):
    rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
    for t in px.persistent(rows * columns):
        m, n = t // columns * BM, t % columns * BN
        acc = px.zeros((BN, BM), px.f32)
        for k in px.pipelined(range(0, X.shape[1], BK)):
            s, z = px.load(S[k // 128, n : n + BN]), px.load(Z[k // 128, n : n + BN])
            w = (px.load(W[n : n + BN, k : k + BK]).to(px.bf16) - z[:, None]) * s[:, None]
            acc = px.dot(w, px.load(X[m : m + BM, k : k + BK]).T, acc)
        px.store(C[m : m + BM, n : n + BN], acc.T.to(C.dtype))


def example(rng, m: int = 200, n: int = 264, k: int = 512):
    """S and Z are (K / 128, N), as the copy engine takes them."""
    x, s = normal(rng, m, k), normal(rng, k // 128, n)
    z = rng.integers(4, 12, (k // 128, n)).astype(x.dtype)
    codes = rng.integers(0, 256, (n, k // 2)).astype(np.uint8)
    weights = np.stack([codes & 15, codes >> 4], -1).reshape(n, k) - wide(z)[0].repeat(128, 0).T
    weights = (weights * wide(s)[0].repeat(128, 0).T).astype(x.dtype)
    return case(dequantised[px.auto], [x, px.packed(codes, px.u4), s, z], wide(x)[0] @ wide(weights)[0].T)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
