"""Linear attention with a decay for each head and step, as in Mamba-2: S = exp(g) S + k v^T, o = S^T q, chunk by chunk.

The state is carried: it is the right operand of one product, and another one adds to it.
"""

import numpy as np
from arrays import case, checked, main, normal, recurrence

import phalanx as px


@px.kernel(warps=4)
def state_space(Q, K, V, G, O, *, C=64, D=128, BV=64):
    h, n, i, j = px.block_id(1), px.block_id(0) * BV, px.arange(C)[:, None], px.arange(C)[None, :]
    state = px.zeros((D, BV), px.f32)
    for t in px.pipelined(range(0, Q.shape[1], C)):
        q, k, v = px.load(Q[h, t : t + C, 0:D]), px.load(K[h, t : t + C, 0:D]), px.load(V[h, t : t + C, n : n + BV])
        g = px.cumsum(px.load(G[h, t : t + C]), 0)
        end, since = px.min(g), px.where(i >= j, px.exp(g[:, None] - g[None, :]), 0.0)
        o = px.dot(q, state.to(px.bf16)) * px.exp(g)[:, None]
        o = px.dot((px.dot(q, k.T) * since).to(px.bf16), v, o)
        px.store(O[h, t : t + C, n : n + BV], o.to(O.dtype))
        faded = v.to(px.f32) * px.exp(end - g)[:, None]
        state = px.dot(k.T, faded.to(px.bf16), state * px.exp(end))


def example(rng, heads: int = 2, length: int = 200, dim: int = 128, values: int = 128):
    """Q, K (heads, T, D), V (heads, T, DV) in bf16; G (heads, T), logarithms of the decay, none above 0."""
    q, k, v = (normal(rng, heads, length, size) for size in (dim, dim, values))
    g = -0.2 * rng.random((heads, length), np.float32)
    return case(state_space[values // 64, heads], [q, k, v, g], recurrence(q, k, v, g), D=dim)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
