"""v1. Roles: a warp that only copies, through rings for K and V; two warpgroups of 64 queries that share what it brings."""

from heads import NONE, attention_case, blocks, checked, divided, main, masked, softmax_step

import phalanx as px


@px.kernel(warps=lambda GROUPS: 4 + 4 * GROUPS)
def attention_v1(Q, K, V, O, scale, *, D=128, KEYS=128, GROUPS=2, STAGES=2, CAUSAL=False):
    ROWS, length = 64, K.shape[1]
    rows = px.cdiv(length, GROUPS * ROWS)
    head, first = px.block_id(0) // rows, px.block_id(0) % rows * (GROUPS * ROWS)
    q = px.shared((GROUPS, ROWS, D), Q.dtype)
    k = px.shared((STAGES, KEYS, D), K.dtype)
    v = px.shared((STAGES, KEYS, D), V.dtype)
    queries, keys, values = px.barrier(), px.pipe(STAGES), px.pipe(STAGES)
    count = blocks(first, GROUPS * ROWS, length, KEYS, CAUSAL)

    with px.warps(0, 1, regs=24):
        with queries.transaction():
            for c in px.static_range(GROUPS):
                row = first + c * ROWS
                px.tma.load(Q[head, row : row + ROWS, 0:D], q[c], queries)
        for j in range(count):
            key = j * KEYS
            with keys.produce() as stage:
                px.tma.load(K[head, key : key + KEYS, 0:D], k[stage], keys.full[stage])
            with values.produce() as stage:
                px.tma.load(V[head, key : key + KEYS, 0:D], v[stage], values.full[stage])

    with px.warps(4, 4, regs=240, copies=GROUPS) as c:
        row = first + c * ROWS
        o = px.zeros((ROWS, D), px.f32)
        top, total = px.full((ROWS,), NONE, px.f32), px.zeros((ROWS,), px.f32)
        queries.wait(0)
        for j in range(count):
            with keys.consume() as stage:
                s = px.dot(q[c], k[stage].T)
            p, top, total, alpha = softmax_step(masked(s, row, j * KEYS, length, CAUSAL), top, total, scale)
            with values.consume() as stage:
                o = px.dot(p.to(V.dtype), v[stage], o * alpha.reshape(ROWS, 1))
        px.store(O[head, row : row + ROWS, 0:D], divided(o, total).to(O.dtype))


def example(rng, heads: int = 2, length: int = 150, dim: int = 64, **constants):
    groups = constants.get("GROUPS", 2)
    return attention_case(attention_v1, lambda h, n: h * px.cdiv(n, 64 * groups), rng, heads, length, dim, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
