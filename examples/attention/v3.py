"""v3. Ping-pong and lazy rescaling: warpgroups take turns at the tensor cores, so that one multiplies while another does its
softmax; and results are only multiplied by a new factor where a row's scores have grown by more than 2^8."""

from heads import NONE, attention_case, blocks, checked, divided, main, masked, softmax_step

import phalanx as px


@px.kernel(warps=lambda GROUPS: 4 + 4 * GROUPS)
def attention_v3(Q, K, V, O, scale, *, D=128, KEYS=128, GROUPS=2, STAGES=2, SLACK=8.0, CAUSAL=False):
    ROWS, length = 64, K.shape[1]
    rows = px.cdiv(length, GROUPS * ROWS)
    head, first = px.block_id(0) // rows, px.block_id(0) % rows * (GROUPS * ROWS)
    q = px.shared((GROUPS, ROWS, D), Q.dtype)
    k = px.shared((STAGES, KEYS, D), K.dtype)
    v = px.shared((STAGES, KEYS, D), V.dtype)
    queries, keys, values = px.barrier(), px.pipe(STAGES), px.pipe(STAGES)
    turns = px.barrier(GROUPS)
    count = blocks(first, GROUPS * ROWS, length, KEYS, CAUSAL)

    with px.warps(0, 1, regs=24):
        with queries.transaction():
            for c in px.static_range(GROUPS):
                row = first + c * ROWS
                px.tma.load(Q[head, row : row + ROWS, 0:D], q[c], queries)
        for j in range(count + 1):  # from the last block to the first; K is one block ahead of V
            key = (count - 1 - j) * KEYS
            if j < count:
                with keys.produce() as stage:
                    px.tma.load(K[head, key : key + KEYS, 0:D], k[stage], keys.full[stage])
            if j > 0:
                with values.produce() as stage:
                    px.tma.load(V[head, key + KEYS : key + 2 * KEYS, 0:D], v[stage], values.full[stage])

    with px.warps(4, 4, regs=240, copies=GROUPS) as c:
        row, following = first + c * ROWS, (c + 1) % GROUPS
        mine = px.where(c == 0, 1, 0)  # the first turn is group 0's
        o = px.zeros((ROWS, D), px.f32)
        queries.wait(0)
        with keys.consume() as stage:
            s = px.dot(q[c], k[stage].T)
        s = masked(s, row, (count - 1) * KEYS, length, CAUSAL)
        p, top, total, _ = softmax_step(s, px.full((ROWS,), NONE, px.f32), px.zeros((ROWS,), px.f32), scale)
        powers = p.to(V.dtype)
        edge = px.minimum(count, px.maximum(1, count - row // KEYS)) if CAUSAL else 1  # blocks that need a mask
        for part in px.static_range(2):
            for j in range(1 if part == 0 else edge, edge if part == 0 else count):
                s = px.empty((ROWS, KEYS), px.f32)
                turns[c].wait(mine)
                mine ^= 1
                stage = keys.wait()
                px.wgmma(q[c], k[stage].T, s, accumulate=False)
                px.wgmma_commit()
                stage = values.wait()
                px.wgmma(powers, v[stage], o)
                px.wgmma_commit()
                turns[following].arrive()
                px.wgmma_wait(1)  # the scores are there, the other product still runs
                keys.release()
                if part == 0:
                    s = masked(s, row, (count - 1 - j) * KEYS, length, CAUSAL)
                p, top, total, alpha = softmax_step(s, top, total, scale, SLACK)
                px.wgmma_wait(0)
                values.release()
                o = px.multiply(o, alpha.reshape(ROWS, 1), skip_ones=SLACK > 0)
                powers = p.to(V.dtype)
        with values.consume() as stage:
            o = px.dot(powers, v[stage], o)
        px.store(O[head, row : row + ROWS, 0:D], divided(o, total).to(O.dtype))


def example(rng, heads: int = 2, length: int = 150, dim: int = 64, **constants):
    groups = constants.get("GROUPS", 2)
    return attention_case(attention_v3, lambda h, n: h * px.cdiv(n, 64 * groups), rng, heads, length, dim, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
