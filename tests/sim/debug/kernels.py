"""Kernels that sessions step through: a ring that is right, and three with one mistake each."""

from __future__ import annotations

import numpy as np

import phalanx as px


@px.func
def scaled(x, a):
    y = x * a
    return y + 1.0


@px.kernel(warps=5)
def ring(X, Y, n, *, BM=8):
    s = px.shared((2, BM, 32), px.f32)
    full, empty = px.barrier(2), px.barrier(2)
    with px.warps(4, 1):
        r = px.ring(2)
        for k in range(n):
            empty[r.stage].wait(r.parity ^ 1)
            full[r.stage].arrive_and_expect_tx(s[0].nbytes)
            px.tma.load(X[k * BM : k * BM + BM, 0:32], s[r.stage], full[r.stage])
            r.advance()
    with px.warps(0, 4):
        r = px.ring(2)
        acc = px.zeros((BM, 32), px.f32)
        for k in range(n):  # noqa: B007  (its number is looked at in sessions)
            full[r.stage].wait(r.parity)
            acc += scaled(px.load(s[r.stage]), 2.0)
            empty[r.stage].arrive()
            r.advance()
        px.store(Y[0:BM, 0:32], acc)


@px.kernel(warps=2)
def stuck(X):
    """Two roles that wait for each other."""
    here, there = px.barrier(), px.barrier()
    with px.warps(0, 1):
        here.wait(0)
        there.arrive()
    with px.warps(1, 1):
        there.wait(0)
        here.arrive()


@px.kernel(warps=2)
def racing(X):
    """A tile is written and read without a word in between."""
    s = px.shared((32,), px.f32)
    with px.warps(0, 1):
        px.store(s, px.load(X[0:32]))
    with px.warps(1, 1):
        px.store(X[32:64], px.load(s))


@px.kernel(warps=1, cluster=2)
def pair(X):
    """Each CTA writes into the other one's memory."""
    s = px.shared((4,), px.f32)
    rank = px.cluster.rank()
    px.store(s.at(rank ^ 1), px.full((4,), 1.0, px.f32) * rank)
    px.cluster.sync()
    px.store(X[rank, 0:4], px.load(s))


def ring_arguments() -> tuple[np.ndarray, np.ndarray, int]:
    return np.arange(32 * 32, dtype=np.float32).reshape(32, 32), np.zeros((8, 32), np.float32), 4


@px.kernel(warps=2)
def piped(X, Y):
    """A pipe, whose barriers have names with a dot."""
    s, pipe = px.shared((2, 32), px.f32), px.pipe(2)
    with px.warps(0, 1):
        for k in range(3):
            with pipe.produce() as stage:
                px.tma.load(X[k, 0:32], s[stage], pipe.full[stage])
    with px.warps(1, 1):
        for k in range(3):
            with pipe.consume() as stage:
                px.store(Y[k, 0:32], px.load(s[stage]))
