"""softmax(Q K^T / sqrt(D)) V for each head: two products a step, with the softmax between them."""

from arrays import attended, case, checked, main, normal

import phalanx as px


@px.kernel(warps=lambda ROWS: ROWS // 16)
def attention(Q, K, V, O, *, D=128, ROWS=128, KEYS=128):
    rows = px.cdiv(Q.shape[1], ROWS)
    for t in px.persistent(Q.shape[0] * rows):
        head, row = t // rows, t % rows * ROWS
        q, o = px.load(Q[head, row : row + ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
        top, total, scale = px.full((ROWS,), -float("inf"), px.f32), px.zeros((ROWS,), px.f32), 1.4427 * D**-0.5
        for j in px.pipelined(range(0, K.shape[1], KEYS)):
            k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
            s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
            new = px.maximum(top, px.max(s, axis=1))
            p, faded = px.exp2(s * scale - (new * scale)[:, None]), px.exp2((top - new) * scale)
            total, top = total * faded + px.sum(p, axis=1), new
            o = px.dot(p.to(V.dtype), v, o * faded[:, None])
        px.store(O[head, row : row + ROWS, 0:D], (o * (1.0 / total)[:, None]).to(O.dtype))


def example(rng, heads: int = 2, length: int = 250, dim: int = 64):
    q, k, v = (normal(rng, heads, length, dim) for _ in range(3))
    return case(attention[px.auto], [q, k, v], attended(q, k, v), D=dim, KEYS=64)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
