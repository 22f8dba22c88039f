"""Y = layer_norm(X) @ W.T: a loop for mean and variance, another one that normalises what it multiplies."""

from arrays import case, checked, main, normal, normalised, wide

import phalanx as px


@px.kernel(warps=4)
def norm_matmul(X, GAMMA, W, Y, *, BM=64, BN=128, BK=64):
    m, n, size = px.block_id(0) * BM, px.block_id(1) * BN, X.shape[1]
    total, squares, acc = px.zeros((BM,), px.f32), px.zeros((BM,), px.f32), px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, size, BK)):
        x = px.load(X[m : m + BM, k : k + BK]).to(px.f32)
        total, squares = total + px.sum(x, 1), squares + px.sum(x * x, 1)
    mean = total / size
    factor = px.rsqrt(squares / size - mean * mean + 1e-5)
    for k in px.pipelined(range(0, size, BK)):
        x, gamma = px.load(X[m : m + BM, k : k + BK]).to(px.f32), px.load(GAMMA[k : k + BK]).to(px.f32)
        h = (x - mean[:, None]) * factor[:, None] * gamma[None, :]
        acc = px.dot(h.to(W.dtype), px.load(W[n : n + BN, k : k + BK]).T, acc)
    px.store(Y[m : m + BM, n : n + BN], acc.to(Y.dtype))


def example(rng, m: int = 100, n: int = 136, k: int = 200):
    x, gamma, w = normal(rng, m, k), normal(rng, k), normal(rng, n, k)
    return case(norm_matmul[px.cdiv(m, 64), px.cdiv(n, 128)], [x, gamma, w], normalised(x, gamma) @ wide(w)[0].T)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
