"""v0. Plain: a warpgroup for 64 queries of a head; load a block of K and V, multiply, softmax, multiply."""

from heads import NONE, attention_case, blocks, checked, divided, main, masked, softmax_step

import phalanx as px


@px.kernel(warps=4)
def attention_v0(Q, K, V, O, scale, *, D=128, ROWS=64, KEYS=64, CAUSAL=False):
    length = K.shape[1]
    rows = px.cdiv(length, ROWS)
    head, row = px.block_id(0) // rows, px.block_id(0) % rows * ROWS
    q = px.shared((ROWS, D), Q.dtype)
    k, v = px.shared((KEYS, D), K.dtype), px.shared((KEYS, D), V.dtype)
    came = px.barrier()

    o = px.zeros((ROWS, D), px.f32)
    top, total = px.full((ROWS,), NONE, px.f32), px.zeros((ROWS,), px.f32)
    px.store(q, px.load(Q[head, row : row + ROWS, 0:D]))
    px.fence.async_proxy()  # what threads wrote is read by the tensor cores
    parity = 0
    for j in range(blocks(row, ROWS, length, KEYS, CAUSAL)):
        key = j * KEYS
        with came.transaction():
            px.tma.load(K[head, key : key + KEYS, 0:D], k, came)
            px.tma.load(V[head, key : key + KEYS, 0:D], v, came)
        came.wait(parity)
        parity ^= 1
        s = masked(px.dot(q, k.T), row, key, length, CAUSAL)
        p, top, total, alpha = softmax_step(s, top, total, scale)
        o = px.dot(p.to(V.dtype), v, o * alpha.reshape(ROWS, 1))
    px.store(O[head, row : row + ROWS, 0:D], divided(o, total).to(O.dtype))


def example(rng, heads: int = 2, length: int = 150, dim: int = 64, **constants):
    return attention_case(attention_v0, lambda h, n: h * px.cdiv(n, 64), rng, heads, length, dim, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
