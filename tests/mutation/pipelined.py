"""Small launches of loops that pipeline themselves, for the mutants of what the compiler wrote: rings of 2, which wrap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import phalanx as px
from mutation.launches import Case


@px.kernel(warps=4, cluster=lambda CTAS: CTAS)
def matmul(A, B, C, *, BM=64, BN=32, BK=32, CTAS=2, PRODUCER=True):
    rows, columns = px.cdiv(C.shape[0], CTAS * BM), px.cdiv(C.shape[1], BN)
    for t in px.persistent(rows * columns):
        m, n = (t // columns * CTAS + px.cluster.rank()) * BM, t % columns * BN
        acc = px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2, producer=PRODUCER):
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
        px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))


@px.kernel(warps=4)
def attention(Q, K, V, ENDS, O, *, D=32, ROWS=64, KEYS=32):
    for h in px.persistent(K.shape[0]):
        q, o = px.load(Q[h, 0:ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
        top, total = px.full((ROWS,), -float("inf"), px.f32), px.zeros((ROWS,), px.f32)
        for j in px.pipelined(range(0, ENDS[h], KEYS), stages=2):
            k, v = px.load(K[h, j : j + KEYS, 0:D]), px.load(V[h, j : j + KEYS, 0:D])
            s = px.dot(q, k.T)
            new = px.maximum(top, px.max(s, axis=1))
            p, faded = px.exp2(s - new[:, None]), px.exp2(top - new)
            total, top = total * faded + px.sum(p, axis=1), new
            o = px.dot(p.to(V.dtype), v, o * faded[:, None])
        px.store(O[h, 0:ROWS, 0:D], o / px.maximum(total, 1.0)[:, None])


@px.kernel(warps=4)
def two_loops(X, W, Y, *, BM=64, BN=32, BK=32):
    """One loop's sums decide what the other multiplies."""
    total, acc = px.zeros((BM,), px.f32), px.zeros((BM, BN), px.f32)
    for k in px.pipelined(range(0, X.shape[1], BK), stages=2):
        total = total + px.sum(px.load(X[0:BM, k : k + BK]).to(px.f32), 1)
    for k in px.pipelined(range(0, X.shape[1], BK), stages=2):
        x = px.load(X[0:BM, k : k + BK]).to(px.f32) - total[:, None]
        acc = px.dot(x.to(W.dtype), px.load(W[0:BN, k : k + BK]).T, acc)
    px.store(Y[0:BM, 0:BN], acc)


@px.kernel(warps=4)
def by_threads(X, Y, Z, *, BM=64, BK=32):
    """Rows that TMA can't describe, and a load under a condition."""
    total = px.zeros((BM,), px.f32)
    for k in px.pipelined(range(0, X.shape[1], BK), stages=2):
        total = total + px.sum(px.load(X[0:BM, k : k + BK]).to(px.f32), 1)
        if k != BK:
            total = total - px.load(Y[k : k + BM])
    px.store(Z[0:BM], total)


@px.kernel(warps=4, cluster=2)
def split(A, B, C, *, BM=64, BN=32, BK=32, HOW="reduce"):
    """The steps of a tile dealt to two CTAs, whose sums meet behind the loop: two tiles, one after the other."""
    r, box = px.cluster.rank(), px.shared((BM, BN), px.f32)
    for t in px.persistent(px.cdiv(C.shape[0], BM)):
        m, acc = t * BM, px.zeros((BM, BN), px.f32)
        for i in px.pipelined(range(px.cdiv(A.shape[1], 2 * BK)), stages=2):
            k = (2 * i + r) * BK
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[0:BN, k : k + BK]).T, acc)
        if HOW == "reduce":
            acc = px.cluster.reduce(acc, "sum", cta=0)
        else:
            if r == 1:
                px.store(box.at(0), acc)
            px.cluster.sync()
            if r == 0:
                acc = acc + px.load(box)
            px.cluster.sync()
        if r == 0:
            px.store(C[m : m + BM, 0:BN], acc)


@px.kernel(warps=8)
def computed(A, W, S, ENDS, C, *, BM=128, BN=16, BK=32):
    """The right operand is written by two warpgroups, into places of two steps in turn; the left one stays in registers."""
    for t in px.persistent(ENDS.shape[0]):
        acc = px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
            a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
            w = px.load(W[0:BN, k : k + BK]).to(px.f32) * px.load(S[t, k : k + BK])[None, :]
            acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
        px.store(C[t, 0:BM, 0:BN], acc)


@px.kernel(warps=4)
def promoted(A, B, S, ENDS, C, *, BM=64, BN=16, BK=32):
    """A product for each step, which is scaled and added while the next one runs."""
    for t in px.persistent(ENDS.shape[0]):
        acc = px.zeros((BM, BN), px.f32)
        for i in px.pipelined(range(ENDS[t] // BK), stages=2):
            a, b = px.load(A[0:BM, i * BK : i * BK + BK]), px.load(B[0:BN, i * BK : i * BK + BK])
            acc = acc + px.dot(a, b.T) * px.load(S[i, 0:BM])[:, None]
        px.store(C[t, 0:BM, 0:BN], acc)


@px.kernel(warps=8)
def skipped(A, B, ON, C, *, BM=128, BN=16, BK=32, HOW="break"):
    """Steps that end before their product, or a loop that does, and a product under a condition."""
    for t in px.persistent(ON.shape[0]):
        acc = px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            a, b, on = px.load(A[0:BM, k : k + BK]), px.load(B[0:BN, k : k + BK]), ON[t, k // BK]
            if HOW == "break":
                if on == 0:
                    break
                acc = px.dot(a, b.T, acc)
            else:
                if on == 0:
                    continue
                if on == 1:
                    acc = px.dot(a, b.T, acc)
        px.store(C[t, 0:BM, 0:BN], acc)


@px.kernel(warps=4)
def recurrent(K, V, Y, *, C=64, D=64, N=16):
    """The state is the right operand of one product, and the sum of another one."""
    state = px.zeros((D, N), px.f32)
    for t in px.pipelined(range(0, K.shape[0], C), stages=2):
        k, v = px.load(K[t : t + C, 0:D]), px.load(V[t : t + C, 0:N])
        seen = px.minimum(px.dot(k, state.to(K.dtype)), 1.0)
        state = px.dot(k.T, (v.to(px.f32) - seen).to(K.dtype), state * 0.5)
    px.store(Y[0:D, 0:N], state)


@px.kernel(warps=4, cluster=2)
def tensor_tiles(A, B, BIAS, C, *, BM=128, BN=32, BK=32):
    """Where there is tensor memory: a role multiplies for a pair of CTAs, and sums have two places."""
    m = px.cluster.rank() * BM
    for t in px.persistent(px.cdiv(C.shape[1], BN)):
        acc = px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, A.shape[1], BK), stages=2):
            acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[t * BN : t * BN + BN, k : k + BK]).T, acc)
        px.store(C[m : m + BM, t * BN : t * BN + BN], acc + px.load(BIAS[t * BN : t * BN + BN])[None, :])


def whole(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-2, 3, shape).astype(ml_dtypes.bfloat16)


def multiplying(ctas: int, **constants: Any) -> Callable[[], Case]:
    """Two tiles on one cluster, 3 steps along K."""

    def make() -> Case:
        a, b, c = whole(64 * ctas, 96), whole(64, 96), np.zeros((64 * ctas, 64), ml_dtypes.bfloat16)
        return Case("matmul", matmul[ctas], [a, b, c], {"CTAS": ctas, **constants})

    return make


def attending() -> Case:
    """Three heads on one CTA: 3 steps, none, 3."""
    q, k, v, o = whole(3, 64, 32), whole(3, 96, 32), whole(3, 96, 32), np.zeros((3, 64, 32), np.float32)
    return Case("attention", attention[1], [q, k, v, np.array([96, 0, 96], np.int32), o], {})


def in_two_loops() -> Case:
    return Case("two_loops", two_loops[1], [whole(64, 96), whole(32, 96), np.zeros((64, 32), np.float32)], {})


def fetched_by_threads() -> Case:
    return Case("by_threads", by_threads[1], [whole(64, 131), np.ones(192, np.float32), np.zeros(64, np.float32)], {})


@px.kernel(warps=4)
def grouped(X, W, STARTS, Y, *, BM=64, BN=32, BK=32):
    """Rows in groups, each times a matrix of its own: two columns of tiles."""
    for t, g in px.persistent(px.cdiv(Y.shape[1], BN), groups=STARTS, tile=BM):
        n, acc = g.column * BN, px.zeros((BM, BN), px.f32)
        for k in px.pipelined(range(0, X.shape[1], BK), stages=2):
            acc = px.dot(px.load(X[t : t + BM, k : k + BK]), px.load(W[g.index, n : n + BN, k : k + BK]).T, acc)
        px.store(Y[g.rows, n : n + BN], acc)


def in_groups() -> Case:
    """Two groups, an empty one between them, on one CTA: four tiles of three steps."""
    arrays = [whole(70, 96), whole(3, 64, 96), np.array([0, 40, 40, 70], np.int32), np.zeros((70, 64), np.float32)]
    return Case("grouped", grouped[1], arrays, {})


def in_parts(how: str) -> Callable[[], Case]:
    """Two tiles on a cluster of two, three steps in each CTA."""

    def make() -> Case:
        a, b, c = whole(128, 192), whole(32, 192), np.zeros((128, 32), np.float32)
        return Case("split", split[2], [a, b, c], {"HOW": how})

    return make


def in_tensor_memory() -> Case:
    """Three tiles of three steps on a pair."""
    args = [whole(256, 96), whole(96, 96), np.arange(96, dtype=np.float32), np.zeros((256, 96), np.float32)]
    return Case("tensor_tiles", tensor_tiles[2], args, {}, arch="sm_100a")


STEPS = np.array([128, 0, 160], np.int32)
"""Of three tiles on one CTA: a turn with a step on either side, no step, and two turns behind the first step."""


def computing() -> Case:
    a, w, c = whole(128, 160), whole(16, 160), np.zeros((3, 128, 16), np.float32)
    scales = np.arange(1, 481, dtype=np.float32).reshape(3, 160) % 3
    return Case("computed", computed[1], [a, w, scales, STEPS, c], {})


def promoting() -> Case:
    a, b, c = whole(64, 160), whole(16, 160), np.zeros((3, 64, 16), np.float32)
    return Case("promoted", promoted[1], [a, b, np.ones((5, 64), np.float32), STEPS, c], {})


def skipping(how: str, *flags: list[int]) -> Callable[[], Case]:
    """A tile of five steps for each list of flags, on one CTA."""

    def make() -> Case:
        a, b, c = whole(128, 160), whole(16, 160), np.zeros((len(flags), 128, 16), np.float32)
        return Case("skipped", skipped[1], [a, b, np.array(flags, np.int32), c], {"HOW": how})

    return make


def recurring() -> Case:
    return Case("recurrent", recurrent[1], [whole(192, 64), whole(192, 16), np.zeros((64, 16), np.float32)], {})


PIPELINED: dict[str, Callable[[], Case]] = {
    "pipelined matmul": multiplying(2), "pipelined matmul, one CTA": multiplying(1), "pipelined attention": attending,
    "pipelined matmul, without a producer": multiplying(1, PRODUCER=False), "pipelined twice": in_two_loops,
    "pipelined by threads": fetched_by_threads, "pipelined parts, reduced": in_parts("reduce"),
    "pipelined parts, at a barrier": in_parts("sync"), "pipelined groups": in_groups,
    "pipelined operands": computing, "pipelined pair": in_tensor_memory,
    "pipelined promotion": promoting, "pipelined recurrence": recurring,
    "pipelined, left early": skipping("break", [1, 1, 1, 0, 1], [0] * 5, [1] * 5),
    "pipelined, steps left early": skipping("continue", [1, 0, 2, 1, 1], [0, 0, 2, 2, 1], [1] * 5),
}  # fmt: skip
