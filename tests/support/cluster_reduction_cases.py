"""Folds and gathers over a cluster: kernels, and cases that `cluster_cases` has among its own."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

import phalanx as px
from support.cluster_launches import CLUSTERS, Case, Shape, cluster_of, data, grid_of


@px.kernel(warps=4, cluster=cluster_of)
def softmax(X, Y, *, CLUSTER, N=256, ROWS=3):
    """Each warp's part goes to every CTA."""
    size = px.cluster.size()
    me = px.cluster.id() * size + px.cluster.rank()
    for row in range(ROWS):
        x = px.load(X[me, row, 0:N])
        top = px.cluster.reduce(px.max(x), "max")
        e = px.exp(x - top)
        px.store(Y[me, row, 0:N], e / px.cluster.reduce(px.sum(e), "sum"))


@px.kernel(warps=4, cluster=cluster_of)
def reduced(X, Y, *, CLUSTER, N=48, TURNS=5):
    """Scalars and tiles, in all CTAs and in one, one after the other on the same inboxes."""
    size = px.cluster.size()
    me = px.cluster.id() * size + px.cluster.rank()
    for turn in range(TURNS):
        x = px.load(X[me, turn, 0:N])
        low = px.cluster.reduce(px.min(x) + 1, "min")
        everywhere = px.cluster.reduce(x, "sum")
        at_last = px.cluster.reduce(x, "max", cta=size - 1)
        one = px.cluster.reduce(px.sum(x), "sum", cta=turn % size)
        px.store(Y[me, turn, 0, 0:N], everywhere + low)
        px.store(Y[me, turn, 1, 0:N], at_last + one)


@px.kernel(warps=8, cluster=cluster_of)
def extremes(X, Y, *, CLUSTER, N=256, T=4, TURNS=4):
    """The largest and smallest elements, of tiles and of everything."""
    me = px.cluster.id() * px.cluster.size() + px.cluster.rank()
    for turn in range(TURNS):
        x, tile = px.load(X[me, turn, 0:N]), px.load(X[me, turn, 0:T])
        px.store(Y[me, turn, 0, 0:T], px.cluster.reduce(tile, "max"))
        px.store(Y[me, turn, 1, 0:T], px.cluster.reduce(tile, "min"))
        px.store(Y[me, turn, 2, 0:T], px.zeros((T,), px.f32) + px.cluster.reduce(px.max(x), "max"))
        px.store(Y[me, turn, 3, 0:T], px.zeros((T,), px.f32) + px.cluster.reduce(px.min(x), "min"))


@px.kernel(warps=2, cluster=cluster_of)
def reduced_in_a_role(X, Y, *, CLUSTER, BM=8, BN=12, TURNS=4):
    """Tiles of any type, by a role of one warp."""
    size = px.cluster.size()
    me = px.cluster.id() * size + px.cluster.rank()
    with px.warps(1, 1):
        for turn in range(TURNS):
            x = px.load(X[me, turn, 0:BM, 0:BN])
            px.store(Y[me, turn, 0:BM, 0:BN], px.cluster.reduce(x, "sum") + px.cluster.reduce(x, "max"))


@px.kernel(warps=4, cluster=cluster_of)
def gathered(X, Y, *, CLUSTER, N=48, TURNS=5):
    """Scalars and tiles, one to five together, large and small, between reductions on the same inboxes."""
    size = px.cluster.size()
    me = px.cluster.id() * size + px.cluster.rank()
    for turn in range(TURNS):
        x = px.load(X[me, turn, 0:N])
        tiles = px.cluster.gather(x)  # (size, N)
        sums, least = px.cluster.gather((px.sum(x), px.min(x)))
        total = px.cluster.reduce(x, "sum")
        a, b, c = px.cluster.gather((x, x + 1, x * 2))
        five = px.cluster.gather((total, x, x - 1, x - 2, x - 3))
        part = px.cluster.gather(px.sum(x.reshape(4, N // 4), axis=1))  # (size, 4): an element of each warp
        weight = (px.arange(size) + 1).reshape(size, 1).to(px.f32)
        px.store(Y[me, turn, 0, 0:N], px.sum(tiles * weight, axis=0) + px.sum(sums * weight.reshape(size)))
        px.store(Y[me, turn, 1, 0:N], px.max(a + b * c, axis=0) + px.max(least))
        px.store(Y[me, turn, 2, 0:N], px.sum((five[0] + five[1] - five[2] + five[3] * five[4]) * weight, axis=0))
        px.store(Y[me, turn, 3, 0:N], px.sum(part * weight) + x)


@px.kernel(warps=8, cluster=cluster_of)
def online_softmax(X, Y, *, CLUSTER, W=8, N=1024, ROWS=3):
    """One exchange: each warp's maximum, and its sum relative to that; every warp folds those of all."""
    size = px.cluster.size()
    me = px.cluster.id() * size + px.cluster.rank()
    for row in range(ROWS):
        x = px.load(X[me, row, 0:N]).reshape(W, N // W)
        peak = px.max(x, axis=1, keepdims=True)
        peaks, masses = px.cluster.gather((peak, px.sum(px.exp(x - peak), axis=1, keepdims=True)))
        top = px.max(peaks)
        total = px.sum(masses * px.exp(peaks - top))
        px.store(Y[me, row, 0:N], (px.exp(x - top) / total).reshape(N))


@px.kernel(warps=3, cluster=cluster_of)
def gathered_in_a_role(X, Y, *, CLUSTER, BM=3, BN=20, TURNS=4):
    """Integers and odd shapes, by a role of one warp and by two warps."""
    size = px.cluster.size()
    me = px.cluster.id() * size + px.cluster.rank()
    with px.warps(0, 1):
        for turn in range(TURNS):
            x = px.load(X[me, turn, 0:BM, 0:BN])
            px.store(Y[me, turn, 0, 0:BM, 0:BN], px.sum(px.cluster.gather(x), axis=0))
    with px.warps(1, 2):
        for turn in range(TURNS):
            x = px.load(X[me, turn, 0:BM, 0:BN])
            a, b = px.cluster.gather((px.max(x), px.sum(x)))
            px.store(Y[me, turn, 1, 0:BM, 0:BN], x + px.max(a) * px.min(b))


def _softmax(rng: np.random.Generator, shape: Shape) -> Case:
    size = prod(shape)
    x = rng.standard_normal((CLUSTERS, size, 3, 256)).astype(np.float32)
    e = np.exp(x - x.max((1, 3), keepdims=True))
    want = (e / e.sum((1, 3), keepdims=True)).reshape(-1, 3, 256)
    flat = x.reshape(want.shape)
    return Case(softmax, grid_of(shape), [flat, np.zeros_like(flat)], want, {"CLUSTER": shape}, 1e-5)


def _reduced(rng: np.random.Generator, shape: Shape) -> Case:
    size = prod(shape)
    x = data(rng, shape, 5, 48)
    c = x.reshape(CLUSTERS, size, 5, 48)
    want = np.zeros((CLUSTERS, size, 5, 2, 48), np.float32)
    want[:, :, :, 0] = c.sum(1, keepdims=True) + (c.min((1, 3)) + 1)[:, None, :, None]
    for rank in range(size):
        for turn in range(5):
            largest = c[:, :, turn].max(1) if rank == size - 1 else c[:, rank, turn]
            total = c[:, :, turn].sum((1, 2)) if rank == turn % size else c[:, rank, turn].sum(1)
            want[:, rank, turn, 1] = largest + total[:, None]
    want = want.reshape(-1, 5, 2, 48)
    return Case(reduced, grid_of(shape), [x, np.zeros_like(want)], want, {"CLUSTER": shape})


def _extremes(rng: np.random.Generator, shape: Shape) -> Case:
    """The turns have no NaN, one in one CTA, some in all of them, nothing else in the last CTA."""
    size = prod(shape)
    x = data(rng, shape, 4, 256).reshape(CLUSTERS, size, 4, 256) - 50
    chosen = np.zeros(x.shape, bool)
    chosen[:, 0, 1, 2] = True
    chosen[:, :, 2] = rng.random((CLUSTERS, size, 256)) < 0.3
    chosen[:, -1, 3] = True
    x = np.where(chosen, np.where(rng.random(x.shape) < 0.5, np.float32(np.nan), -np.float32(np.nan)), x)
    want = np.zeros((CLUSTERS, size, 4, 4, 4), np.float32)
    want[..., 0, :], want[..., 1, :] = x[..., :4].max(1, keepdims=True), x[..., :4].min(1, keepdims=True)
    want[..., 2, :], want[..., 3, :] = x.max((1, 3))[:, None, :, None], x.min((1, 3))[:, None, :, None]
    want = want.reshape(-1, 4, 4, 4)
    return Case(extremes, grid_of(shape), [x.reshape(-1, 4, 256), np.zeros_like(want)], want, {"CLUSTER": shape})


def _gathered(rng: np.random.Generator, shape: Shape) -> Case:
    size = prod(shape)
    x = data(rng, shape, 5, 48)
    c = x.reshape(CLUSTERS, size, 5, 48)
    weight = np.arange(1, size + 1, dtype=np.float32)[:, None, None]
    total = c.sum(1, keepdims=True)
    want = np.zeros((CLUSTERS, size, 5, 4, 48), np.float32)
    want[..., 0, :] = (c * weight).sum(1, keepdims=True) + (c.sum(3, keepdims=True) * weight).sum(1, keepdims=True)
    want[..., 1, :] = (c + (c + 1) * c * 2).max(1, keepdims=True) + c.min(3, keepdims=True).max(1, keepdims=True)
    want[..., 2, :] = ((total + c - (c - 1) + (c - 2) * (c - 3)) * weight).sum(1, keepdims=True)
    want[..., 3, :] = (c.sum(3, keepdims=True) * weight).sum(1, keepdims=True) + c
    want = want.reshape(-1, 5, 4, 48)
    return Case(gathered, grid_of(shape), [x, np.zeros_like(want)], want, {"CLUSTER": shape}, 1e-5)


def _online_softmax(rng: np.random.Generator, shape: Shape) -> Case:
    size = prod(shape)
    x = rng.standard_normal((CLUSTERS, size, 3, 1024)).astype(np.float32)
    e = np.exp(x - x.max((1, 3), keepdims=True))
    want = (e / e.sum((1, 3), keepdims=True)).reshape(-1, 3, 1024)
    flat = x.reshape(want.shape)
    return Case(online_softmax, grid_of(shape), [flat, np.zeros_like(flat)], want, {"CLUSTER": shape}, 1e-5)


def _gathered_role(dtype: Any) -> Callable[[np.random.Generator, Shape], Case]:
    def make(rng: np.random.Generator, shape: Shape) -> Case:
        x = (data(rng, shape, 4, 3, 20) % 8).astype(dtype)
        c = x.reshape(CLUSTERS, prod(shape), 4, 3, 20)
        largest, least = c.max((3, 4)).max(1), c.sum((3, 4)).min(1)
        want = np.stack(
            [np.broadcast_to(c.sum(1, keepdims=True), c.shape), c + (largest * least)[:, None, :, None, None]], axis=3
        )
        want = want.reshape(-1, 4, 2, 3, 20).astype(dtype)
        return Case(gathered_in_a_role, grid_of(shape), [x, np.zeros_like(want)], want, {"CLUSTER": shape})

    return make


def _reduced_role(dtype: Any) -> Callable[[np.random.Generator, Shape], Case]:
    def make(rng: np.random.Generator, shape: Shape) -> Case:
        size = prod(shape)
        x = (data(rng, shape, 4, 8, 12) % 8).astype(dtype)
        c = x.reshape(CLUSTERS, size, 4, 8, 12).astype(np.float64)
        want = (
            np.broadcast_to(c.sum(1, keepdims=True) + c.max(1, keepdims=True), c.shape).reshape(x.shape).astype(dtype)
        )
        return Case(reduced_in_a_role, grid_of(shape), [x, np.zeros_like(x)], want, {"CLUSTER": shape})

    return make


REDUCTIONS: dict[str, Callable[[np.random.Generator, Shape], Case]] = {
    "softmax": _softmax,
    "reduced": _reduced,
    "extremes": _extremes,
    "gathered": _gathered,
    "online_softmax": _online_softmax,
    "gathered_i32": _gathered_role(np.int32),
    "gathered_u32": _gathered_role(np.uint32),
    "reduced_f32": _reduced_role(np.float32),
    "reduced_bf16": _reduced_role(ml_dtypes.bfloat16),
    "reduced_i8": _reduced_role(np.int8),
    "reduced_f64": _reduced_role(np.float64),
    "reduced_i64": _reduced_role(np.int64),
}
