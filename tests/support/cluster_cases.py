"""Kernels in which the CTAs of a cluster exchange data: the same cases for the simulator, the CUDA text and the GPU.

Every CTA has a number (cluster times size plus rank); X[number] is what it starts with and Y[number] what it ends with.
A push goes to the next rank, so each CTA ends with what the rank before it had.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

import phalanx as px
from support.cluster_launches import CLUSTERS, Case, Shape, cluster_of, data, from_the_left, grid_of
from support.cluster_reduction_cases import REDUCTIONS

# --- pushes
# -------------------------------------------------------------------------------------------------------------


@px.kernel(warps=4, cluster=cluster_of)
def whole(X, Y, *, CLUSTER, BM=16, BN=64):
    """One contiguous run."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox = px.shared((BM, BN), X.dtype), px.shared((BM, BN), X.dtype)
    full = px.barrier()
    px.store(mine, px.load(X[me, 0:BM, 0:BN]))
    px.fence.async_proxy()
    with full.transaction():
        px.cluster.copy(mine, inbox, full, cta=to)
    full.wait(0)
    px.store(Y[me, 0:BM, 0:BN], px.load(inbox))


@px.kernel(warps=4, cluster=cluster_of)
def parts(X, Y, *, CLUSTER, BM=24, BN=64, R=4, H=32):
    """Rows of a part of one buffer into rows of another, elsewhere: a run per row."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox = px.shared((2, BM, BN), X.dtype), px.shared((3, BM + R, BN + H), X.dtype)
    full = px.barrier()
    for half in px.static_range(2):
        px.store(mine[half], px.load(X[me, half * BM : half * BM + BM, 0:BN]))
    px.fence.async_proxy()
    with full.transaction():
        px.cluster.copy(mine[:, :, 0:H], inbox[1:3, R : R + BM, H : 2 * H], full, cta=to)
    full.wait(0)
    for half in px.static_range(2):
        px.store(Y[me, half * BM : half * BM + BM, 0:H], px.load(inbox[1 + half, R : R + BM, H : 2 * H]))


@px.kernel(warps=4, cluster=cluster_of)
def converted(X, Y, *, CLUSTER, BM=16, BN=32):
    """Another element type and shape: stores that complete their bytes."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox = px.shared((BM, BN), X.dtype), px.shared((BN, BM), Y.dtype)
    full = px.barrier()
    px.store(mine, px.load(X[me, 0:BM, 0:BN]))
    px.fence.async_proxy()
    with full.transaction():
        px.cluster.copy(mine, inbox, full, cta=to)
    full.wait(0)
    px.store(Y[me, 0:BN, 0:BM], px.load(inbox))


@px.kernel(warps=2, cluster=cluster_of)
def transposed(X, Y, *, CLUSTER, BM=16, BN=32):
    """Into the transpose of a buffer: 4 bytes at a time for f32; for 2-byte types ordinary stores and a credit."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox = px.shared((BM, BN), X.dtype), px.shared((BN, BM), X.dtype)
    full = px.barrier()
    px.store(mine, px.load(X[me, 0:BM, 0:BN]))
    px.fence.async_proxy()
    with full.transaction():
        px.cluster.copy(mine, inbox.T, full, cta=to)
    full.wait(0)
    px.store(Y[me, 0:BN, 0:BM], px.load(inbox))


@px.kernel(warps=4, cluster=cluster_of)
def swizzled(X, Y, *, CLUSTER, BM=32, BN=32):
    """Buffers that are read transposed get a swizzle; both ends get the same one."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox = px.shared((BM, BN), X.dtype), px.shared((2, BM, BN), X.dtype)
    full = px.barrier()
    px.store(mine, px.load(X[me, 0:BM, 0:BN]))
    px.fence.async_proxy()
    with full.transaction():
        px.cluster.copy(mine, inbox[1], full, cta=to)
    full.wait(0)
    px.store(Y[me, 0:BN, 0:BM], px.load(inbox[1].T))


@px.kernel(warps=4, cluster=cluster_of)
def read_by_an_engine(X, Y, *, CLUSTER, BM=16, BN=32):
    """Stores into memory that TMA reads afterwards: fenced for it, and credited."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox = px.shared((BN, BM), X.dtype), px.shared((BM, BN), X.dtype)
    full = px.barrier()
    px.store(mine, px.load(X[me, 0:BN, 0:BM]))
    px.fence.async_proxy()
    with full.transaction():
        px.cluster.copy(mine, inbox.T, full, cta=to)
    full.wait(0)
    px.tma.store(inbox, Y[me, 0:BM, 0:BN])
    px.tma.commit()
    px.tma.wait(0)


@px.kernel(warps=2, cluster=cluster_of)
def no_barrier(X, Y, *, CLUSTER, BM=8, BN=16):
    """Ordered by the cluster's barrier."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox = px.shared((BM, BN), X.dtype), px.shared((BM, BN), X.dtype)
    px.store(mine, px.load(X[me, 0:BM, 0:BN]))
    px.fence.async_proxy()
    px.cluster.sync()
    px.cluster.copy(mine, inbox, cta=to)
    px.cluster.sync()
    px.store(Y[me, 0:BM, 0:BN], px.load(inbox))


@px.kernel(warps=2, cluster=cluster_of)
def armed(X, Y, *, CLUSTER, N=96):
    """The sender arms the receiver's barrier; an element, a row and the rest."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox = px.shared(N, X.dtype), px.shared(N, X.dtype)
    full = px.barrier()
    px.store(mine, px.load(X[me, 0:N]))
    px.fence.async_proxy()
    px.cluster.copy(mine[0], inbox[0], full, cta=to, arm=True)
    px.cluster.copy(mine[1:32], inbox[1:32], full, cta=to, arm=True)
    px.cluster.copy(mine[32:N], inbox[32:N], full, cta=to, arm=True)
    full.wait(0)
    px.store(Y[me, 0:N], px.load(inbox))


@px.kernel(warps=3, cluster=cluster_of)
def relay(X, Y, *, CLUSTER, N=64, STAGES=2, TURNS=7):
    """A ring of stages around the cluster: each stage is released to the rank that fills it."""
    size = px.cluster.size()
    rank = px.cluster.rank()
    me, to, before = px.cluster.id() * size + rank, (rank + 1) % size, (rank + size - 1) % size
    mine, inbox = px.shared((STAGES, N), X.dtype), px.shared((STAGES, N), X.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    ring = px.ring(STAGES)
    with px.warps(0, 1):
        for turn in range(TURNS):
            empty[ring.stage].wait(ring.parity ^ 1)
            px.store(mine[ring.stage], px.load(X[me, turn, 0:N]))
            px.fence.async_proxy()
            px.cluster.copy(mine[ring.stage], inbox[ring.stage], full[ring.stage], cta=to, arm=True)
            ring.advance()
    with px.warps(1, 2):
        for turn in range(TURNS):
            full[ring.stage].wait(ring.parity)
            px.store(Y[me, turn, 0:N], px.load(inbox[ring.stage]))
            empty[ring.stage].arrive(ctas=1 << before)
            ring.advance()


@px.kernel(warps=1, cluster=cluster_of)
def to_itself(X, Y, to_self, *, CLUSTER, N=32):
    """A rank known only at run time: this CTA's own."""
    me = px.cluster.id() * px.cluster.size() + px.cluster.rank()
    mine, inbox = px.shared(N, X.dtype), px.shared(N, X.dtype)
    full = px.barrier(count=1)
    px.store(mine, px.load(X[me, 0:N]))
    px.fence.async_proxy()
    full.arrive_and_expect_tx(inbox.nbytes)
    px.cluster.copy(mine, inbox, full, cta=px.cluster.rank() + to_self)
    full.wait(0)
    px.store(Y[me, 0:N], px.load(inbox))


# --- the cases
# ----------------------------------------------------------------------------------------------------------


def _push(kernel: Any, *extents: int, out: Callable[[np.ndarray], np.ndarray] = lambda x: x, dtype: Any = np.float32):
    def make(rng: np.random.Generator, shape: Shape) -> Case:
        x = data(rng, shape, *extents, dtype=dtype)
        want = out(from_the_left(x, shape))
        return Case(kernel, grid_of(shape), [x, np.zeros_like(want)], want, {"CLUSTER": shape})

    return make


def _to_itself(rng: np.random.Generator, shape: Shape) -> Case:
    x = data(rng, shape, 32)
    return Case(to_itself, grid_of(shape), [x, np.zeros_like(x), 0], x, {"CLUSTER": shape})


def _turned(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.swapaxes(x, 1, 2))


@px.kernel(warps=4, cluster=cluster_of)
def from_registers(X, Y, *, CLUSTER, BM=16, BN=64):
    """All threads send what they hold."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    inbox, full = px.shared((2, BM, BN), X.dtype), px.barrier()
    with full.transaction():
        px.cluster.store(inbox[1], px.load(X[me, 0:BM, 0:BN]), full, cta=to)
    full.wait(0)
    px.store(Y[me, 0:BM, 0:BN], px.load(inbox[1]))


@px.kernel(warps=5, cluster=cluster_of)
def from_a_role(X, Y, *, CLUSTER, BM=16, BN=64):
    """A role sends to the next rank, twice through the same memory, another role takes it and says so."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    before = (px.cluster.rank() + size - 1) % size
    inbox, full, empty = px.shared((BM // 2, BN), X.dtype), px.barrier(2), px.barrier()
    with px.warps(0, 4):
        for turn in px.static_range(2):
            if turn > 0:
                empty.wait(turn - 1)
            with full[turn].transaction():
                top = turn * BM // 2
                px.cluster.store(inbox.at(to), px.load(X[me, top : top + BM // 2, 0:BN]), full[turn])
    with px.warps(4, 1):
        for turn in px.static_range(2):
            full[turn].wait(0)
            top = turn * BM // 2
            px.store(Y[me, top : top + BM // 2, 0:BN], px.load(inbox))
            empty.arrive(ctas=1 << before)


@px.kernel(warps=2, cluster=cluster_of)
def announced(X, Y, *, CLUSTER, N=96):
    """The sender tells the receiver's barrier how many bytes come, in two parts, and arrives there when all are sent."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox = px.shared(N, X.dtype), px.shared(N, X.dtype)
    full = px.barrier()
    px.store(mine, px.load(X[me, 0:N]))
    px.fence.async_proxy()
    for start in px.static_range(0, N, N // 2):
        full.expect_tx(inbox.nbytes // 2, ctas=1 << to)
        px.cluster.copy(mine[start : start + N // 2], inbox[start : start + N // 2], full, cta=to)
    full.arrive(ctas=1 << to)
    full.wait(0)
    px.store(Y[me, 0:N], px.load(inbox))


@px.kernel(warps=2, cluster=cluster_of)
def some_rows(X, Y, n, *, CLUSTER, BM=24, BN=32):
    """As many rows as the launch says, twice: the receiver knows how many bytes come, or is told by the sender."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox, full = px.shared((BM, BN), X.dtype), px.shared((2, BM, BN), X.dtype), px.barrier(2)
    px.store(mine, px.load(X[me, 0:BM, 0:BN]))
    px.store(inbox, 0)
    px.fence.async_proxy()
    px.cluster.sync()
    full[0].arrive_and_expect_tx(n * (inbox.nbytes // (2 * BM)))
    px.cluster.copy(mine[0:n], inbox[0, 0:n], full[0], cta=to)
    px.cluster.copy(mine[n:BM], inbox[1, n:BM], full[1], cta=to, arm=True)
    full[0].wait(0)
    full[1].wait(0)
    px.store(Y[me, 0:BM, 0:BN], px.load(inbox[0]) + px.load(inbox[1]))


@px.kernel(warps=2, cluster=cluster_of)
def some_of_each(X, Y, n, m, *, CLUSTER, BM=6, BN=48, PARTS=2, STEP=1, W=32):
    """Extents of several axes as the launch says: planes, rows and columns, and what `W` leaves of each row."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox = px.shared((PARTS, BM, BN), X.dtype), px.shared((PARTS + 1, BM, BN), Y.dtype)
    full = px.barrier(3)
    px.store(mine, px.load(X[me, 0:PARTS, 0:BM, 0:BN]))
    px.store(inbox, 0)
    px.fence.async_proxy()
    px.cluster.sync()
    px.cluster.copy(mine[0:m, 0:n, 0:W], inbox[0:m, 0:n, 0:W], full[0], cta=to, arm=True)
    px.cluster.copy(mine[0, 0:BM, W : W + n * STEP], inbox[PARTS, 0:BM, 0 : n * STEP], full[1], cta=to, arm=True)
    px.cluster.copy(mine[1, n:BM, W : W + m * STEP], inbox[1, n:BM, W : W + m * STEP], full[2], cta=to, arm=True)
    for i in px.static_range(3):
        full[i].wait(0)
    px.store(Y[me, 0 : PARTS + 1, 0:BM, 0:BN], px.load(inbox))


@px.kernel(warps=2, cluster=cluster_of)
def some_elements(X, Y, n, *, CLUSTER, N=96, STEP=1):
    """A run of elements from the start of a buffer: STEP makes its bytes a multiple, or not."""
    size = px.cluster.size()
    me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
    mine, inbox, full = px.shared((N,), X.dtype), px.shared((N,), px.f32), px.barrier()
    px.store(mine, px.load(X[me, 0:N]))
    px.store(inbox, 0)
    px.fence.async_proxy()
    px.cluster.sync()
    px.cluster.copy(mine[0 : n * STEP], inbox[0 : n * STEP], full, cta=to, arm=True)
    full.wait(0)
    px.store(Y[me, 0:N], px.load(inbox))


def _some_rows(n: int, dtype: Any = np.float32) -> Callable[[np.random.Generator, Shape], Case]:
    def make(rng: np.random.Generator, shape: Shape) -> Case:
        x = rng.integers(-9, 9, (CLUSTERS * prod(shape), 24, 32)).astype(dtype)
        return Case(some_rows, grid_of(shape), [x, np.zeros_like(x), n], from_the_left(x, shape), {"CLUSTER": shape})

    return make


def _some_of_each(n: int, m: int, step: int, dtype: Any = np.float32) -> Callable[[np.random.Generator, Shape], Case]:
    def make(rng: np.random.Generator, shape: Shape) -> Case:
        x = rng.integers(-9, 9, (CLUSTERS * prod(shape), 2, 6, 48)).astype(dtype)
        sent = from_the_left(x, shape).astype(np.float32)
        want = np.zeros((len(x), 3, 6, 48), np.float32)
        want[:, :m, :n, :32] = sent[:, :m, :n, :32]
        want[:, 2, :, : n * step] = sent[:, 0, :, 32 : 32 + n * step]
        want[:, 1, n:, 32 : 32 + m * step] = sent[:, 1, n:, 32 : 32 + m * step]
        constants = {"CLUSTER": shape, "STEP": step}
        return Case(some_of_each, grid_of(shape), [x, np.zeros_like(want), n, m], want, constants)

    return make


def _some_elements(n: int, step: int, dtype: Any = np.float32) -> Callable[[np.random.Generator, Shape], Case]:
    def make(rng: np.random.Generator, shape: Shape) -> Case:
        x = rng.integers(-9, 9, (CLUSTERS * prod(shape), 96)).astype(dtype)
        want = from_the_left(x, shape).astype(np.float32)
        want[:, n * step :] = 0
        constants = {"CLUSTER": shape, "STEP": step}
        return Case(some_elements, grid_of(shape), [x, np.zeros_like(want), n], want, constants)

    return make


MAKERS: dict[str, Callable[[np.random.Generator, Shape], Case]] = {
    "whole": _push(whole, 16, 64),
    "from_registers": _push(from_registers, 16, 64),
    "from_registers_narrow": _push(from_registers, 16, 64, dtype=np.float16),
    "from_a_role": _push(from_a_role, 16, 64),
    "parts": _push(parts, 48, 64, out=lambda x: np.ascontiguousarray(x[:, :, :32])),
    "converted": _push(converted, 16, 32, out=lambda x: x.reshape(-1, 32, 16).astype(ml_dtypes.bfloat16)),
    "transposed": _push(transposed, 16, 32, out=_turned),
    "transposed_narrow": _push(transposed, 16, 32, out=_turned, dtype=np.float16),
    "swizzled": _push(swizzled, 32, 32, out=_turned),
    "read_by_an_engine": _push(read_by_an_engine, 32, 16, out=_turned),
    "no_barrier": _push(no_barrier, 8, 16),
    "armed": _push(armed, 96),
    "announced": _push(announced, 96),
    "some_rows": _some_rows(7),
    "some_rows_narrow": _some_rows(5, np.float16),
    "no_rows": _some_rows(0),
    "some_of_each": _some_of_each(3, 2, 1),
    "some_of_each_in_pieces": _some_of_each(3, 1, 4),
    "some_of_each_converted": _some_of_each(2, 2, 4, np.float16),
    "none_of_each": _some_of_each(0, 0, 4),
    "some_elements": _some_elements(37, 1),
    "some_elements_in_pieces": _some_elements(5, 8),
    "some_elements_converted": _some_elements(37, 1, np.float16),
    "relay": _push(relay, 7, 64),
    "to_itself": _to_itself,
    **REDUCTIONS,
}


def case(name: str, shape: Shape, seed: int = 0) -> Case:
    return MAKERS[name](np.random.default_rng(seed), shape)


def label(shape: Shape) -> str:
    return "x".join(map(str, shape))
