"""Kernels with collective copies and pipes: the same cases for the simulator and the GPU."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

import phalanx as px
from support.cluster_launches import Case, Shape, cluster_of


@px.kernel(warps=2, cluster=cluster_of)
def balanced(X, Y, *, CLUSTER, BM=64, BN=32):
    """The CTAs of each row of the cluster share a tile; each fetches a part of it."""
    width = px.cluster.size(0)
    tile = px.shared((BM, BN), X.dtype)
    full = px.barrier()
    row = px.cluster.id() * px.cluster.size(1) + px.cluster.rank(1)
    mask = ((1 << width) - 1) << (width * px.cluster.rank(1))
    with full.transaction():
        px.cluster.load(X[row * BM : row * BM + BM, 0:BN], tile, full, ctas=mask)
    full.wait(0)
    px.store(Y[px.cluster.id() * px.cluster.size() + px.cluster.rank(), 0:BM, 0:BN], px.load(tile))


@px.kernel(warps=2, cluster=cluster_of)
def lowest_fetches(X, Y, *, CLUSTER, BM=32, BN=32):
    """All but the last CTA share tile 0; the last one, outside the mask, fetches tile 1 for itself."""
    size, rank = px.cluster.size(), px.cluster.rank()
    tile = px.shared((BM, BN), X.dtype)
    full = px.barrier()
    m = px.where(rank == size - 1, BM, 0)
    with full.transaction():
        px.cluster.copy(X[m : m + BM, 0:BN], tile, full, mask=max(1, (1 << (size - 1)) - 1))
    full.wait(0)
    px.store(Y[px.cluster.id() * size + rank, 0:BM, 0:BN], px.load(tile))


@px.kernel(warps=3, cluster=cluster_of)
def piped(X, Y, *, CLUSTER, BM=32, BN=64, STAGES=3):
    """A balanced multicast through a pipe: stages go back to every CTA that fills them."""
    size = px.cluster.size()
    tiles = px.cdiv(X.shape[0], BM)
    stages = px.shared((STAGES, BM, BN), X.dtype)
    pipe = px.pipe(STAGES, producers=1, consumers=1)
    with px.warps(0, 1):
        for t in range(tiles):
            with pipe.produce() as s:
                px.cluster.load(X[t * BM : t * BM + BM, 0:BN], stages[s], pipe.full[s], ctas=(1 << size) - 1)
    with px.warps(1, 2):
        for t in range(tiles):
            with pipe.consume() as s:
                tile = px.load(stages[s])
            px.store(Y[px.cluster.id() * size + px.cluster.rank(), t * BM : t * BM + BM, 0:BN], tile)


@px.kernel(warps=3, cluster=cluster_of)
def piped_2d(X, Y, Z, *, CLUSTER, BM=16, BN=16, K=5, STAGES=2):
    """A tile of X for each row of the cluster, one of Z for each column: both land in every CTA, from other peers."""
    wide, high = px.cluster.size(0), px.cluster.size(1)
    x, y = px.cluster.rank(0), px.cluster.rank(1)
    a, b = px.shared((STAGES, BM, BN), X.dtype), px.shared((STAGES, BM, BN), X.dtype)
    across = ((1 << wide) - 1) << (wide * y)
    down = 0
    for row in px.static_range(high):
        down = down | 1 << (wide * row + x)
    pipe = px.pipe(STAGES)
    with px.warps(0, 1):
        for k in range(K):
            with pipe.produce() as s:
                if x == 0:
                    px.tma.load(X[y * BM : y * BM + BM, k * BN : k * BN + BN], a[s], pipe.full[s], multicast=across)
                if y == 0:
                    px.tma.load(Z[x * BM : x * BM + BM, k * BN : k * BN + BN], b[s], pipe.full[s], multicast=down)
    with px.warps(1, 2):
        for k in range(K):
            s = pipe.wait()
            tile = px.load(a[s]) + px.load(b[s])
            pipe.release()
            number = px.cluster.id() * px.cluster.size() + px.cluster.rank()
            px.store(Y[number, 0:BM, k * BN : k * BN + BN], tile)


@px.kernel(warps=3, cluster=cluster_of)
def lagging(X, Y, *, CLUSTER, BM=32, BN=64, STAGES=4):
    """Two stages are fetched ahead of their commit, two are read before the older one is given back."""
    size = px.cluster.size()
    tiles = px.cdiv(X.shape[0], BM)
    stages = px.shared((STAGES, BM, BN), X.dtype)
    pipe = px.pipe(STAGES)
    with px.warps(0, 1):
        for t in range(0, tiles, 2):
            for part in px.static_range(2):
                s = pipe.acquire()
                px.tma.load(X[(t + part) * BM : (t + part) * BM + BM, 0:BN], stages[s], pipe.full[s])
            pipe.commit(stages[0].nbytes)
            pipe.commit(stages[0].nbytes)
    with px.warps(1, 2):
        before = pipe.wait()
        for t in range(1, 2 * px.cdiv(tiles, 2)):
            s = pipe.wait()
            tile = px.load(stages[before]) - px.load(stages[s])
            pipe.release()
            px.store(Y[px.cluster.id() * size + px.cluster.rank(), t * BM - BM : t * BM, 0:BN], tile)
            before = s
        pipe.release()


@px.kernel(warps=2, cluster=cluster_of)
def by_run_time_masks(X, Y, M, *, CLUSTER, SHARES=0, BM=32, BN=32):
    """Which CTAs share a tile, and which tile it is, a launch says; twice, by other masks."""
    number = px.cluster.id() * px.cluster.size() + px.cluster.rank()
    tile, full = px.shared((2, BM, BN), X.dtype), px.barrier(2)
    for turn in px.static_range(2):
        mask, m = M[turn, px.cluster.rank(), 0], M[turn, px.cluster.rank(), 1]
        with full[turn].transaction():
            if SHARES == 0:
                px.cluster.copy(X[m : m + BM, 0:BN], tile[turn], full[turn], mask=mask)
            else:
                px.cluster.load(X[m : m + BM, 0:BN], tile[turn], full[turn], ctas=mask, count=SHARES)
        full[turn].wait(0)
    px.store(Y[number, 0:2, 0:BM, 0:BN], px.load(tile))


@px.kernel(warps=3, cluster=cluster_of)
def piped_by_run_time_masks(X, Y, M, *, CLUSTER, SHARES, BM=32, BN=32, STAGES=3):
    """A pipe whose stages go back to the CTAs of a mask that a launch says: those that fill them together."""
    number = px.cluster.id() * px.cluster.size() + px.cluster.rank()
    tiles = px.cdiv(X.shape[0], BM)
    mask, first = M[0, px.cluster.rank(), 0], M[0, px.cluster.rank(), 1]
    stages = px.shared((STAGES, BM, BN), X.dtype)
    pipe = px.pipe(STAGES, ctas=mask, count=SHARES)
    with px.warps(0, 1):
        for t in range(tiles):
            s = pipe.acquire()
            m = first + t * BM
            px.cluster.load(X[m : m + BM, 0:BN], stages[s], pipe.full[s], ctas=mask, count=SHARES)
            pipe.commit(stages[0].nbytes)
    with px.warps(1, 2):
        for t in range(tiles):
            with pipe.consume() as s:
                tile = px.load(stages[s])
            px.store(Y[number, t * BM : t * BM + BM, 0:BN], tile)


@px.kernel(warps=2, cluster=cluster_of)
def runs(X, Y, start, *, CLUSTER, N=592):
    """Runs of one axis that every CTA gets from the first: whole ones, and others that the array's edges cut."""
    number = px.cluster.id() * px.cluster.size() + px.cluster.rank()
    tile, full = px.shared((4, N), X.dtype), px.barrier(4)
    for i in px.static_range(4):
        full[i].arrive_and_expect_tx(tile[i].nbytes)
    px.cluster.sync()
    if px.cluster.rank() == 0:
        for i in px.static_range(4):
            at = (start + i * N) // 16 * 16
            px.tma.load(X[at : at + N], tile[i], full[i], multicast=(1 << px.cluster.size()) - 1)
    for i in px.static_range(4):
        full[i].wait(0)
    px.store(Y[number, 0:4, 0:N], px.load(tile))


CLUSTERS = 2


def _grid(shape: Shape) -> Shape:
    return shape[0] * CLUSTERS, shape[1], shape[2]


def _balanced(rng: np.random.Generator, shape: Shape) -> Case:
    x = rng.standard_normal((CLUSTERS * shape[1] * 64, 32)).astype(np.float32)
    rows = x.reshape(CLUSTERS, shape[1], 64, 32)
    want = np.repeat(rows[:, :, None], shape[0], axis=2).reshape(-1, 64, 32)
    return Case(balanced, _grid(shape), [x, np.zeros_like(want)], want, {"CLUSTER": shape})


def _lowest(rng: np.random.Generator, shape: Shape) -> Case:
    size = prod(shape)
    x = rng.standard_normal((64, 32)).astype(np.float32)
    ranks = [x[:32]] * (size - 1) + [x[32:]]
    want = np.stack(ranks * CLUSTERS)
    return Case(lowest_fetches, _grid(shape), [x, np.zeros_like(want)], want, {"CLUSTER": shape})


def _piped(rng: np.random.Generator, shape: Shape) -> Case:
    x = rng.standard_normal((7 * 32 + 5, 64)).astype(np.float32)
    want = np.stack([x] * (CLUSTERS * prod(shape)))
    return Case(piped, _grid(shape), [x, np.zeros_like(want)], want, {"CLUSTER": shape})


def _lagging(rng: np.random.Generator, shape: Shape) -> Case:
    x = rng.integers(-9, 9, (7 * 32, 64)).astype(np.float32)
    following = np.concatenate([x[32:], np.zeros((32, 64), np.float32)])
    want = np.stack([x - following] * (CLUSTERS * prod(shape)))
    return Case(lagging, _grid(shape), [x, np.zeros_like(want)], want, {"CLUSTER": shape})


def _piped_2d(rng: np.random.Generator, shape: Shape) -> Case:
    x = rng.standard_normal((shape[1] * 16, 80)).astype(np.float32)
    z = rng.standard_normal((shape[0] * 16, 80)).astype(np.float32)
    ranks = [x[16 * (r // shape[0]) :][:16] + z[16 * (r % shape[0]) :][:16] for r in range(prod(shape))]
    want = np.stack(ranks * CLUSTERS)
    return Case(piped_2d, _grid(shape), [x, np.zeros_like(want), z], want, {"CLUSTER": shape})


def _masks(size: int, share: int, turn: int) -> np.ndarray:
    """For each rank the mask of those with which it shares, `share` neighbours or every other one, and a row."""
    groups = [r // share for r in range(size)] if turn == 0 else [r % (size // share) for r in range(size)]
    return np.array([[sum(1 << r for r in range(size) if groups[r] == g), 16 * g] for g in groups], np.int32)


def _by_run_time_masks(copies: bool) -> Callable[[np.random.Generator, Shape], Case]:
    def make(rng: np.random.Generator, shape: Shape) -> Case:
        size = prod(shape)
        share = max(1, size // 2)
        x = rng.standard_normal((32 + 16 * size, 32)).astype(np.float32)
        masks = np.stack([_masks(size, share, turn) for turn in range(2)])
        if copies:
            masks[1, 0] = [0 if size == 1 else 1 << size - 1, 16]  # outside its own mask: it fetches for itself
            masks[1, 1:, 0] &= ~1
        want = np.stack([[x[masks[turn, r, 1] :][:32] for turn in range(2)] for r in range(size)] * CLUSTERS)
        constants = {"CLUSTER": shape, "SHARES": 0 if copies else share}
        return Case(by_run_time_masks, _grid(shape), [x, np.zeros_like(want), masks], want, constants)

    return make


def _piped_by_run_time_masks(rng: np.random.Generator, shape: Shape) -> Case:
    size = prod(shape)
    share = max(1, size // 2)
    x = rng.standard_normal((6 * 32, 32)).astype(np.float32)
    masks = _masks(size, share, 1)
    shifted = [np.concatenate([x[first:], np.zeros((first, 32), np.float32)]) for first in masks[:, 1]]
    want = np.stack(shifted * CLUSTERS)
    constants = {"CLUSTER": shape, "SHARES": share}
    return Case(piped_by_run_time_masks, _grid(shape), [x, np.zeros_like(want), masks[None]], want, constants)


def _runs(start: int, size: int, dtype: type = np.float32) -> Callable[[np.random.Generator, Shape], Case]:
    def make(rng: np.random.Generator, shape: Shape) -> Case:
        x = rng.integers(-9, 9, size).astype(dtype)
        padded = np.concatenate([np.zeros(4000, dtype), x, np.zeros(4000, dtype)])
        tiles = [padded[4000 + (start + i * 592) // 16 * 16 :][:592] for i in range(4)]
        want = np.stack([np.stack(tiles)] * (CLUSTERS * prod(shape)))
        return Case(runs, _grid(shape), [x, np.zeros_like(want), start], want, {"CLUSTER": shape})

    return make


MAKERS: dict[str, Callable[[np.random.Generator, Shape], Case]] = {
    "balanced": _balanced,
    "lowest_fetches": _lowest,
    "piped": _piped,
    "piped_2d": _piped_2d,
    "lagging": _lagging,
    "runs": _runs(-104, 1801),
    "runs_of_odd_ends": _runs(-8, 1203, np.float16),
    "runs_of_bytes": _runs(-608, 601, np.uint8),
    "copied_by_run_time_masks": _by_run_time_masks(True),
    "shared_by_run_time_masks": _by_run_time_masks(False),
    "piped_by_run_time_masks": _piped_by_run_time_masks,
}


def case(name: str, shape: Shape, seed: int = 0) -> Case:
    return MAKERS[name](np.random.default_rng(seed), shape)
