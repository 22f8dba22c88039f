"""v4. Persistent: CTAs stay, and take tile after tile. The last product of a tile runs beside the first of the next one,
results leave by TMA through the place of their queries, causal tiles go longest first. Three warpgroups of 64 queries."""

from heads import NONE, attention_case, blocks, checked, divided, main, masked, softmax_step

import phalanx as px


@px.func
def tile_of(t, c, K, ROWS, KEYS, GROUPS, CAUSAL):
    """Head of tile `t`, first row of group `c`, blocks of keys, and how many of them need a mask."""
    heads, length = K.shape[0], K.shape[1]
    rows = px.cdiv(length, GROUPS * ROWS)
    if CAUSAL:
        head, first = t % heads, (rows - 1 - t // heads) * (GROUPS * ROWS)
    else:
        head, first = t // rows, t % rows * (GROUPS * ROWS)
    row = px.maximum(first, 0) + c * ROWS
    count = blocks(first, GROUPS * ROWS, length, KEYS, CAUSAL)
    edge = px.minimum(count, px.maximum(1, count - row // KEYS)) if CAUSAL else 1
    return head, row, count, edge


@px.func
def both(q, k, v, powers, o, keys, values):
    """Begins the scores of the next block and the product of this one, and waits for the scores."""
    s = px.empty((q.shape[0], k.shape[1]), px.f32)
    stage = keys.wait()
    px.wgmma(q, k[stage].T, s, accumulate=False)
    px.wgmma_commit()
    stage = values.wait()
    px.wgmma(powers, v[stage], o)
    px.wgmma_commit()
    px.wgmma_wait(1)
    keys.release()
    return s, o


@px.func
def leave(o, total, out, O, head, row, queries):
    """Stores a tile through the place of its queries, which is free for others then."""
    ROWS, D = out.shape
    px.store(out, divided(o, total).to(O.dtype))
    px.fence.async_proxy()
    px.tma.store(out, O[head, row : row + ROWS, 0:D])
    px.tma.commit()
    px.tma.wait(0, read=True)
    queries.release()


@px.kernel(warps=lambda GROUPS: 4 + 4 * GROUPS)
def attention_v4(Q, K, V, O, scale, *, D=128, KEYS=80, GROUPS=3, STAGES=2, SLACK=8.0, CAUSAL=False):
    ROWS, length = 64, K.shape[1]
    tiles = px.cdiv(length, GROUPS * ROWS) * K.shape[0]
    q = px.shared((2, GROUPS, ROWS, D), Q.dtype)
    k = px.shared((STAGES, KEYS, D), K.dtype)
    v = px.shared((STAGES, KEYS, D), V.dtype)
    queries, keys, values = px.pipe(2), px.pipe(STAGES), px.pipe(STAGES)

    with px.warps(0, 1, regs=32):
        for t in range(px.block_id(0), tiles, px.num_blocks(0)):
            head, first, count, _ = tile_of(t, 0, K, ROWS, KEYS, GROUPS, CAUSAL)
            with queries.produce() as slot:
                for c in px.static_range(GROUPS):
                    row = first + c * ROWS
                    px.tma.load(Q[head, row : row + ROWS, 0:D], q[slot, c], queries.full[slot])
            for j in range(count + 1):
                key = (count - 1 - j) * KEYS
                if j < count:
                    with keys.produce() as stage:
                        px.tma.load(K[head, key : key + KEYS, 0:D], k[stage], keys.full[stage])
                if j > 0:
                    with values.produce() as stage:
                        px.tma.load(V[head, key + KEYS : key + 2 * KEYS, 0:D], v[stage], values.full[stage])

    with px.warps(4, 4, regs=160, copies=GROUPS) as c:
        t = px.block_id(0)
        nothing = px.full((ROWS,), NONE, px.f32), px.zeros((ROWS,), px.f32)
        head, row, count, edge = tile_of(t, c, K, ROWS, KEYS, GROUPS, CAUSAL)
        slot = queries.wait()
        with keys.consume() as stage:
            s = px.dot(q[slot, c], k[stage].T)
        s = masked(s, row, (count - 1) * KEYS, length, CAUSAL)
        p, top, total, _ = softmax_step(s, nothing[0], nothing[1], scale)
        o, powers = px.zeros((ROWS, D), px.f32), p.to(V.dtype)
        while True:
            for part in px.static_range(2):
                for j in range(1 if part == 0 else edge, edge if part == 0 else count):
                    s, o = both(q[slot, c], k, v, powers, o, keys, values)
                    if part == 0:
                        s = masked(s, row, (count - 1 - j) * KEYS, length, CAUSAL)
                    p, top, total, alpha = softmax_step(s, top, total, scale, SLACK)
                    px.wgmma_wait(0)
                    values.release()
                    o = px.multiply(o, alpha.reshape(ROWS, 1), skip_ones=SLACK > 0)
                    powers = p.to(V.dtype)
            done, done_slot, done_total = (head, row), slot, total
            t += px.num_blocks(0)
            if t >= tiles:
                break
            head, row, count, edge = tile_of(t, c, K, ROWS, KEYS, GROUPS, CAUSAL)
            slot = queries.wait()
            s, o = both(q[slot, c], k, v, powers, o, keys, values)  # the next tile's first scores, this one's last product
            s = masked(s, row, (count - 1) * KEYS, length, CAUSAL)
            p, top, total, _ = softmax_step(s, nothing[0], nothing[1], scale)
            px.wgmma_wait(0)
            values.release()
            powers = p.to(V.dtype)
            leave(o, done_total, q[done_slot, c], O, done[0], done[1], queries)
            o = px.zeros((ROWS, D), px.f32)
        with values.consume() as stage:
            o = px.dot(powers, v[stage], o)
        leave(o, done_total, q[done_slot, c], O, done[0], done[1], queries)
        px.tma.wait(0)


def example(rng, heads: int = 2, length: int = 250, dim: int = 64, **constants):
    return attention_case(attention_v4, lambda h, n: min(3, h * px.cdiv(n, 192)), rng, heads, length, dim, constants)


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
