"""The gated delta rule: S = exp(g) (1 - b k k^T) S + b k v^T, o = S^T q, chunk by chunk (keys have length 1).

Products in a row, most of them of what was computed: the state, and powers of a triangular matrix, whose inverse says
what the steps of a chunk do to each other.
"""

import numpy as np
from arrays import case, checked, main, normal, recurrence

import phalanx as px


@px.func
def inverse(a, C):
    """(1 + a)^-1 of a strictly lower triangular tile: (1 - a) (1 + a^2) (1 + a^4) and so on."""
    result, power = px.where(px.arange(C)[:, None] == px.arange(C)[None, :], 1.0, -a), -a
    for _ in px.static_range(5):
        power = px.dot(power.to(px.f16), power.to(px.f16))
        result = px.dot(result.to(px.f16), power.to(px.f16), result)
    return result.to(px.bf16)


@px.kernel(warps=4)
def delta_rule(Q, K, V, G, BETA, O, *, C=64, D=128, BV=64):
    h, n, i, j = px.block_id(1), px.block_id(0) * BV, px.arange(C)[:, None], px.arange(C)[None, :]
    state = px.zeros((D, BV), px.f32)
    for t in px.pipelined(range(0, Q.shape[1], C)):
        q, k, beta = px.load(Q[h, t : t + C, 0:D]), px.load(K[h, t : t + C, 0:D]), px.load(BETA[h, t : t + C])[:, None]
        g = px.cumsum(px.load(G[h, t : t + C]), 0)
        rise, end, since = px.exp(g)[:, None], px.min(g), px.where(i >= j, px.exp(g[:, None] - g[None, :]), 0.0)
        solved = inverse(px.where(i > j, px.dot(k, k.T) * since * beta, 0.0), C)
        held = state.to(px.bf16)
        v = beta * (px.load(V[h, t : t + C, n : n + BV]).to(px.f32) - rise * px.dot(k, held))
        v = px.dot(solved, v.to(px.bf16))
        o = px.dot((px.dot(q, k.T) * since).to(px.bf16), v.to(px.bf16), px.dot(q, held) * rise)
        px.store(O[h, t : t + C, n : n + BV], o.to(O.dtype))
        state = px.dot(k.T, (v * px.exp(end - g)[:, None]).to(px.bf16), state * px.exp(end))


def example(rng, heads: int = 2, length: int = 200, dim: int = 128, values: int = 128):
    """Q, K (heads, T, D), V (heads, T, DV) in bf16; G and BETA (heads, T) in f32, G none above 0, BETA below 1."""
    q, k, v = (normal(rng, heads, length, size) for size in (dim, dim, values))
    k = (k.astype(np.float32) / np.linalg.norm(k.astype(np.float32), axis=2, keepdims=True)).astype(k.dtype)
    g, beta = -0.2 * rng.random((heads, length), np.float32), rng.uniform(0.1, 1, (heads, length)).astype(np.float32)
    return case(delta_rule[values // 64, heads], [q, k, v, g, beta], recurrence(q, k, v, g, beta), D=dim)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
