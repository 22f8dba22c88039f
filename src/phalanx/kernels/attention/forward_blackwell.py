"""The kernel of `px.kernels.attention` on Blackwell: two tiles of 128 queries in flight, all sums in tensor memory.

Two softmax roles have a tile each: while one of them turns scores into powers, the tensor cores work for the other. A thread
has a row of the scores, in parts; powers go where the scores were, as the operand of the second product. Where the maximum
of a row has grown by more than `LAZY`, what has been summed refers to an old one: a correction role multiplies the results
by the factor, and brings them out at the end of a tile. One thread gives the tensor cores their work, another fetches.

| columns of tensor memory | scores and powers of tile 0, tile 1 | results of tile 0, tile 1 |
| --- | --- | --- |
| heads of 128 | 0-127, 128-255 | 256-383, 384-511 |

A product that writes scores waits for the one that read the powers in their place: nothing else keeps their order. That
costs nothing while the softmax of the other tile runs. Compiled, checked and simulated; nobody has run it on Blackwell yet.

By hand, since a loop over `px.pipelined` waits for each product there and has one tile in flight: by the model of the B200
(4 x 32 heads, 4,096 queries and keys, no mask) the loop of examples/simple/attention.py takes 1.77 times as long with heads
of 128, 2.07 times with heads of 64.
"""

from __future__ import annotations

from typing import Any

import phalanx as px
from phalanx.kernels.attention.arguments import Heads, readable, result_like
from phalanx.kernels.attention.scores import LAZY, NOTHING, Reach, capped
from phalanx.kernels.launches import wait_for_prior_launch
from phalanx.kernels.logarithms import LN2
from phalanx.kernels.matrices import HALVES, empty, refused
from phalanx.kernels.products.targets import Target

DIMS = (64, 128)
"""Sizes of a head for which tensor memory has room for two tiles."""
ROWS, TILES = 128, 2
"""Queries of a tile, all lanes of tensor memory, and the tiles of a CTA."""
KEYS, FEWER_KEYS = 128, 96
"""Keys of a block; fewer where scores have a cap or a bound to the left: what is to be known for it takes registers."""
RING = 3 * 128 * 128
"""Elements of all stages of keys and values together: what shared memory has room for beside queries and results."""
SIMULATED_SMS = 4
GROUP_WARPS = 4
CORRECTING_WARP, MULTIPLYING_WARP, FETCHING_WARP, WARPS = 8, 12, 16, 20
"""Softmax roles begin at warps 0 and 4. Those two and the correction reach all lanes with four warps; of the other fours one
warp works, since registers are moved between fours."""


@px.struct
class Work:
    """The pairs of tiles that a CTA takes, one after another: `count` of all heads and batches, from `first` on.

    With a bound to the right (causal) later rows have more keys: the longest go first. Without one all are equally long, and
    those of a head follow each other, since its keys and values stay in L2.
    """

    first: Any
    count: Any
    step: Any
    rows: Any
    heads: Any
    batches: Any
    reach: Any
    KEYS: int

    def place(self, t):
        """Batch, head and first query of a pair of tiles."""
        if self.reach.right is None:
            m = t % self.rows
            which = t // self.rows
        else:
            wide = self.heads * self.batches
            m = self.rows - 1 - t // wide
            which = t % wide
        return which // self.heads, which % self.heads, px.maximum(m, 0) * (ROWS * TILES)

    def blocks(self, row):
        """The blocks of keys (first, behind the last) of a pair: at least one, even if nobody attends to any key."""
        low, high = self.reach.blocks(row, ROWS * TILES, self.KEYS)
        low = px.maximum(px.minimum(low, high - 1), 0)
        return low, px.maximum(high, low + 1)


@px.func
def work_of(Q, K, left, right, KEYS):
    """What this CTA does. Each role works it out: what is known before roles begin takes registers in all of them."""
    rows = px.cdiv(Q.shape[2], ROWS * TILES)
    return Work(
        px.block_id(0), rows * Q.shape[1] * Q.shape[0], px.num_blocks(0), rows, Q.shape[1], Q.shape[0],
        Reach(Q.shape[2], K.shape[2], left, right), KEYS,
    )


@px.struct
class Signals:
    """Who tells whom, for each tile: `scores` and `summed` are the tensor cores', `ready` the two other roles'.

    `scores[c]`: a block of scores is there. `ready[c]`: its powers are, and the results may be added to. `summed[c]`: they
    have been. `handed[c]` and `taken[c]` hand factors of rows from the softmax to the correction.
    """

    scores: Any
    ready: Any
    summed: Any
    handed: Any
    taken: Any
    queries: Any
    blocks: Any


@px.func
def fetch(Q, K, V, work, signals, q, kv, group, DIM):
    """The role that fetches: keys and values in the order in which they are multiplied, queries behind the first keys."""
    KEYS = work.KEYS
    for t in range(work.first, work.count, work.step):
        batch, head, row = work.place(t)
        low, high = work.blocks(row)
        source = head // group
        with signals.blocks.produce() as s:
            px.tma.load(K[batch, source, low * KEYS : low * KEYS + KEYS, 0:DIM], kv[s], signals.blocks.full[s])
        for c in px.static_range(TILES):
            with signals.queries.produce() as slot:
                at = row + c * ROWS
                px.tma.load(Q[batch, head, at : at + ROWS, 0:DIM], q[slot], signals.queries.full[slot])
        for j in range(low, high - 1):
            with signals.blocks.produce() as s:
                px.tma.load(V[batch, source, j * KEYS : j * KEYS + KEYS, 0:DIM], kv[s], signals.blocks.full[s])
            with signals.blocks.produce() as s:
                key = (j + 1) * KEYS
                px.tma.load(K[batch, source, key : key + KEYS, 0:DIM], kv[s], signals.blocks.full[s])
        with signals.blocks.produce() as s:
            key = (high - 1) * KEYS
            px.tma.load(V[batch, source, key : key + KEYS, 0:DIM], kv[s], signals.blocks.full[s])


@px.func
def multiply(work, signals, q, kv, scores, powers, results):
    """The role that gives the tensor cores their work: scores of the next block behind the results of this one."""
    turn = 0
    for t in range(work.first, work.count, work.step):
        _, _, row = work.place(t)
        low, high = work.blocks(row)
        k = signals.blocks.wait()
        for c in px.static_range(TILES):
            slot = signals.queries.wait()
            signals.summed[c].wait(turn ^ 1)  # the powers of the tile before, in the place of scores, have been read
            px.tcgen05.mma(q[slot], kv[k].T, scores[c], accumulate=False)
            px.tcgen05.commit(signals.scores[c])
        px.tcgen05.commit(signals.blocks)
        for j in range(low, high - 1):
            v = signals.blocks.wait()
            k = signals.blocks.wait()
            for c in px.static_range(TILES):
                signals.ready[c].wait(turn)
                px.tcgen05.mma(powers[c][:, 0 : work.KEYS], kv[v], results[c], accumulate=j > low)
                px.tcgen05.commit(signals.summed[c])
                if c == TILES - 1:
                    px.tcgen05.commit(signals.blocks)
                signals.summed[c].wait(turn)
                px.tcgen05.mma(q[c], kv[k].T, scores[c], accumulate=False)
                px.tcgen05.commit(signals.scores[c])
            px.tcgen05.commit(signals.blocks)
            turn = turn ^ 1
        for _ in px.static_range(TILES):
            px.tcgen05.commit(signals.queries)
        v = signals.blocks.wait()
        for c in px.static_range(TILES):
            signals.ready[c].wait(turn)
            px.tcgen05.mma(powers[c][:, 0 : work.KEYS], kv[v], results[c], accumulate=high - 1 > low)
            if c == TILES - 1:
                px.tcgen05.commit(signals.blocks)  # before the signal that is waited for to the end
            px.tcgen05.commit(signals.summed[c])
        turn = turn ^ 1


@px.struct
class Softmax:
    """The role that turns the scores of tile `c` into powers, a row in each thread."""

    work: Any
    signals: Any
    scores: Any
    powers: Any
    factors: Any
    factor: Any
    cap: Any
    slope: Any
    LSE: Any
    c: Any
    sent: Any
    PART: int
    TYPE: Any

    def part(self, first, row, key, MASKED):
        """Some columns of the scores, as they count: capped, and -inf where there is to be no attention."""
        x = px.tcgen05.load(self.scores[:, first : first + self.PART])
        if self.cap is not None:
            x = capped(x, self.slope, self.cap)
        if MASKED:
            x = self.work.reach.masked(x, row, px.keep(key + first), ROWS, self.PART)
        return x

    def block(self, row, key, MASKED):
        """The scores of a block, part by part, and the largest of each row, in units of log2."""
        parts: tuple[Any, ...] = ()
        highest = px.full((ROWS,), NOTHING, px.f32)
        for first in px.static_range(0, self.work.KEYS, self.PART):
            part = self.part(first, row, key, MASKED)
            highest = px.maximum(highest, px.max(part, axis=1))
            parts = (*parts, part)
        return parts, highest * self.factor

    def write_powers(self, parts, top, MASKED):
        """Puts powers in the place of the scores; gives their sums."""
        base = (px.where(top == NOTHING, 0.0, top) if MASKED else top).reshape(ROWS, 1)
        total = px.zeros((ROWS,), px.f32)
        for n in px.static_range(len(parts)):
            p = px.exp2(px.fma(parts[n], self.factor, -base))
            total = total + px.sum(p, axis=1)
            px.tcgen05.store(self.powers[:, n * self.PART : (n + 1) * self.PART], p.to(self.TYPE))
        return total

    def hand_on(self, factors):
        """Tells the correction what to multiply rows of the results by."""
        self.signals.taken[self.c].wait(self.sent ^ 1)
        px.store(self.factors, factors.reshape(ROWS, 1))
        self.signals.handed[self.c].arrive()
        self.sent = self.sent ^ 1

    def step(self, top, total, row, key, first, MASKED):
        """Powers of a block, with rows that have grown much referred to their new maximum. Before the first is nothing."""
        parts, highest = self.block(row, key, MASKED)
        new = px.where(highest <= top + LAZY, top, highest)
        alpha = px.exp2(top - (px.where(new == NOTHING, 0.0, new) if MASKED else new))
        if not first:
            self.hand_on(alpha)
        return new, total * alpha + self.write_powers(parts, new, MASKED)

    def attend(self):
        """Attends for all tiles of this CTA."""
        work = self.work
        signals = self.signals
        turn = 0
        for t in range(work.first, work.count, work.step):
            _, _, row = work.place(t)
            low, high = work.blocks(row)
            row = row + self.c * ROWS
            whole_low, whole_high = work.reach.whole_blocks(row, ROWS, work.KEYS)
            top = px.full((ROWS,), NOTHING, px.f32)
            total = px.zeros((ROWS,), px.f32)
            for j in range(low, high):
                signals.scores[self.c].wait(turn)
                if j >= whole_low and j < whole_high:
                    top, total = self.step(top, total, row, j * work.KEYS, j == low, False)
                else:
                    top, total = self.step(top, total, row, j * work.KEYS, j == low, True)
                signals.ready[self.c].arrive()
                turn = turn ^ 1
            self.hand_on(px.where(total == 0.0, 0.0, px.reciprocal(total)))
            if self.LSE is not None:
                logs = px.where(total == 0.0, NOTHING, (top + px.log2(total)) * LN2)
                batch, head, _ = work.place(px.keep(t))  # once more: registers are needed in between
                px.store(self.LSE[batch, head, row : row + ROWS], logs)


@px.func
def correct(work, signals, factors, results, out, O, DIM, PART):
    """The role that multiplies results by the factors of their rows: as the softmax goes on, and at the end of a tile."""
    turn = 0
    for t in range(work.first, work.count, work.step):
        batch, head, row = work.place(t)
        low, high = work.blocks(row)
        for c in px.static_range(TILES):
            signals.ready[c].arrive()  # what was summed before is out
        for _ in range(low + 1, high):
            for c in px.static_range(TILES):
                signals.handed[c].wait(turn)
                alpha = px.load(factors[c])
                signals.taken[c].arrive()
                signals.summed[c].wait(turn)
                if px.any(alpha != 1.0):
                    for first in px.static_range(0, DIM, PART):
                        part = px.tcgen05.load(results[c][:, first : first + PART])
                        px.tcgen05.store(results[c][:, first : first + PART], part * alpha)
                signals.ready[c].arrive()
            turn = turn ^ 1
        for c in px.static_range(TILES):
            signals.handed[c].wait(turn)
            inverse = px.load(factors[c])
            signals.taken[c].arrive()
            signals.summed[c].wait(turn)
            px.tma.wait(1, read=True)  # the result before the last has left its buffer
            for first in px.static_range(0, DIM, PART):
                part = px.tcgen05.load(results[c][:, first : first + PART])
                px.store(out[c][:, first : first + PART], px.where(inverse == 0.0, 0.0, part * inverse).to(O.dtype))
            px.fence.async_proxy()
            at = row + c * ROWS
            px.tma.store(out[c], O[batch, head, at : at + ROWS, 0:DIM])
            px.tma.commit()
        turn = turn ^ 1
    px.tma.wait(0)


SOFTMAX_REGS = 176
"""Registers of the warpgroups that make exponentials of scores."""
CORRECTING_REGS = 80
"""Registers of the warpgroup that corrects and stores results."""
ISSUING_REGS = 24
"""Registers of the warps that issue products and copies."""


@px.kernel(warps=WARPS, pdl=True)
def attention_blackwell(
    Q, K, V, O, LSE, factor, slope, cap, left, right, group, *, DIM=128, KEYS=128, STAGES=3, PART=32, OUT_PART=16,
):  # fmt: skip
    """O = softmax(scores) V. Q (batch, heads, queries, DIM), K and V (batch, heads // group, keys, DIM).

    Scores, in units of log2, are ``factor * Q K^T``, or with `cap` ``cap * tanh(slope * Q K^T)`` and `factor` 1. LSE,
    `cap`, `left` and `right` are None where there are none.
    """
    q = px.shared((TILES, ROWS, DIM), Q.dtype)
    kv = px.shared((STAGES, KEYS, DIM), K.dtype)
    out = px.shared((TILES, ROWS, DIM), O.dtype)
    factors = px.shared((TILES, ROWS, 1), px.f32)
    scores = px.tmem((TILES, ROWS, KEYS), px.f32)
    results = px.tmem((TILES, ROWS, DIM), px.f32)
    powers = px.tmem((TILES, ROWS, 2 * KEYS), V.dtype, reuse=scores)  # half of them, where their tile's scores begin
    scored = px.barrier(TILES)
    ready = px.barrier(TILES)
    summed = px.barrier(TILES)
    handed = px.barrier(TILES)
    taken = px.barrier(TILES)
    queries = px.pipe(TILES)
    blocks = px.pipe(STAGES)
    signals = Signals(scored, ready, summed, handed, taken, queries, blocks)
    wait_for_prior_launch()

    with px.warps(0, GROUP_WARPS, regs=SOFTMAX_REGS, copies=TILES) as c:
        work = work_of(Q, K, left, right, KEYS)
        role = Softmax(work, signals, scores[c], powers[c], factors[c], factor, cap, slope, LSE, c, 0, PART, V.dtype)
        role.attend()

    with px.warps(CORRECTING_WARP, GROUP_WARPS, regs=CORRECTING_REGS):
        work = work_of(Q, K, left, right, KEYS)
        correct(work, signals, factors, results, out, O, DIM, OUT_PART)

    with px.warps(MULTIPLYING_WARP, 1, regs=ISSUING_REGS):
        work = work_of(Q, K, left, right, KEYS)
        multiply(work, signals, q, kv, scores, powers, results)

    with px.warps(FETCHING_WARP, 1, regs=ISSUING_REGS):
        work = work_of(Q, K, left, right, KEYS)
        fetch(Q, K, V, work, signals, q, kv, group, DIM)


def require_blackwell(heads: Heads, sequences: int, bias: str | None, scaled: bool, config: Any) -> None:
    """Refuses what this kernel does not have, with what does."""
    if heads.dim not in DIMS or heads.value_dim != heads.dim:
        raise refused(
            f"heads of {heads.dim} elements with values of {heads.value_dim} on Blackwell",
            f"pad q, k and v with zeros to one of {', '.join(map(str, DIMS))}",
        )
    elsewhere = "sm_90a has it"
    if heads.dtype not in HALVES or scaled:
        what = "scales of operands" if scaled else heads.dtype
        raise refused(f"{what} in tensor memory", f"pass {' or '.join(HALVES)}; {elsewhere}")
    if sequences:
        raise refused("packed sequences in tensor memory", f"pass sequences of one length; {elsewhere}")
    if bias is not None:
        raise refused("a bias in tensor memory", f"leave it out; {elsewhere}")
    if config is not None:
        raise refused("config= of attention in tensor memory", "leave it out: it is for sm_90a's kernel")


def attend_blackwell(
    q: Any, k: Any, v: Any, heads: Heads, factors: tuple[float | None, float | None, float | None],
    reach: tuple[int | None, int | None], lse: bool, target: Target,
) -> Any:
    """The result of `px.kernels.attention`, with logarithms where asked for: a CTA for each SM, or each pair of tiles."""
    result = result_like(q, heads.value_dim, heads.out_dtype)
    logs = empty(q, (heads.batch, heads.heads, heads.queries), "f32") if lse else None
    pairs = px.cdiv(heads.queries, ROWS * TILES) * heads.heads * heads.batch
    if pairs and heads.keys == 0:
        result[...] = 0
        if logs is not None:
            logs[...] = NOTHING
    elif pairs:
        factor, slope, cap = factors
        operands = [readable(what, x, "attention") for what, x in zip("qkv", (q, k, v))]
        sms = target.device.sms if target.on_gpu else SIMULATED_SMS
        keys = FEWER_KEYS if cap is not None or reach[0] is not None else KEYS
        attention_blackwell[min(sms, pairs)](
            *operands, result, logs, 1.0 if factor is None else factor, slope, cap, *reach, heads.group, DIM=heads.dim,
            KEYS=keys, STAGES=RING // (keys * heads.dim), **target.named,
        )
    return (result, logs) if lse else result
