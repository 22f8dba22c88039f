"""Probes of what threads do: launches, barriers of threads, arithmetic, loads, atomics, fences."""

from __future__ import annotations

from typing import Any

import numpy as np

import phalanx as px
from phalanx.tools.calibrate.probe import Makes, Probe, every, pair

LINE = 32
"""Elements of i32 in a line of L2."""
PAGE = 1 << 16
"""Bytes from one load out of HBM to the next, so that no row of it, and no line of L2, serves two of them."""


@px.kernel(warps=1)
def chain(X, n, *, LENGTH=256):
    """Multiplications and additions, each of which needs the one before: four cycles each on every card since Volta."""
    x, a, b = px.load(X[0]), px.load(X[1]), px.load(X[2])
    for _ in range(n):
        for _ in px.static_range(LENGTH):
            x = px.fma(x, a, b)
    px.store(X[0], x)


@px.kernel(warps=1)
def nothing(X, n, *, BYTES=131072):
    """CTAs that fill an SM each, and do nothing where `n` is 0."""
    room = px.shared((BYTES // 4,), px.f32)
    if n > 0:
        px.store(room[0:32], px.load(X[0:32]))
        px.store(X[0:32], px.load(room[0:32]))


@px.kernel(warps=4)
def meetings(X, n):
    """Threads wait for each other."""
    for _ in range(n):
        px.sync()


@px.kernel(warps=8)
def multiplied(X, n, *, N=8192):
    """Multiplications that do not need each other."""
    x = px.load(X[0:N])
    for _ in range(n):
        for _ in px.static_range(16):
            x = px.fma(x, 0.5, 1.0)
    px.store(X[0:N], x)


@px.kernel(warps=8)
def powers(X, n, *, N=8192):
    """Powers of two, by the special function units."""
    x = px.load(X[0:N])
    for _ in range(n):
        for _ in px.static_range(4):
            x = px.exp2(x)
    px.store(X[0:N], x)


@px.kernel(warps=1)
def chase(T, Y, n):
    """Loads, each of which says where the next one goes."""
    at = px.load(T[0])
    for _ in range(n):
        at = px.load(T[at])
    px.store(Y[0], at)


@px.kernel(warps=1)
def chase_shared(T, Y, n, *, N=32):
    """Loads from shared memory, each of which says where the next one goes."""
    table = px.shared((N,), px.i32)
    px.store(table, px.load(T[0:N]))
    px.sync()
    at = px.load(table[0])
    for _ in range(n):
        at = px.load(table[at])
    px.store(Y[0], at)


@px.kernel(warps=1)
def count_up(T, n):
    """Atomic additions of nothing, each of which says where the next one goes."""
    at = px.load(T[0])
    for _ in range(n):
        at = px.atomic_add(T[at], 0)
    px.store(T[1], at)


@px.kernel(warps=4)
def proxy_fences(X, n):
    """Fences between ordinary stores and those of the copy engine."""
    for _ in range(n):
        px.fence.async_proxy()


@px.kernel(warps=4, cluster=2)
def cluster_fences(X, n):
    """Fences for the other CTA of a cluster."""
    for _ in range(n):
        px.fence.cluster()


@px.kernel(warps=4, cluster=2)
def cluster_meetings(X, n):
    """Threads of two CTAs wait for each other."""
    for _ in range(n):
        px.cluster.sync()


def word(make: Makes, steps: int) -> tuple[Any, ...]:
    """An array that is hardly used."""
    return (make.zeros((32,), px.f32),)


def row(make: Makes, steps: int) -> tuple[Any, ...]:
    """An array for a tile."""
    return (make.zeros((8192,), px.f32),)


def here(make: Makes, steps: int) -> tuple[Any, ...]:
    """A table whose every entry says: here again."""
    return make.indices(np.zeros(32, np.int32)), make.zeros((1,), px.i32)


def lines(make: Makes, steps: int) -> tuple[Any, ...]:
    """A table that leads from line to line, so that no cache of an SM helps; in the model it stays where it is."""
    if not make.real:
        return here(make, steps)
    places = np.arange(steps + 2, dtype=np.int32) * LINE
    table = np.zeros(LINE * (steps + 2), np.int32)
    table[places[:-1]] = places[1:]
    return make.indices(table), make.zeros((1,), px.i32)


def pages(make: Makes, steps: int) -> tuple[Any, ...]:
    """A table that leads from page to page, each of which has not been read before."""
    stride = PAGE // 4 if make.real else LINE
    table = np.zeros(stride * (steps + 2), np.int32)
    places = np.arange(steps + 2, dtype=np.int32) * stride
    table[places[:-1]] = places[1:]
    return make.indices(table), make.zeros((1,), px.i32)


def counters(make: Makes, steps: int) -> tuple[Any, ...]:
    """A word that stays zero."""
    return (make.indices(np.zeros(32, np.int32)),)


FMA_CYCLES = 4
"""From a multiplication and addition to one that needs its result, on every card since Volta."""
SHORT, LONG = 256, 512
CLOCK = tuple(
    Probe("clock", f"{length} steps of arithmetic", chain, word, (500, 4500), (4, 8), constants=(("LENGTH", length),))
    for length in (SHORT, LONG)
)
"""Two loops, of which a turn of the second has `FMA_CYCLES` times `LONG - SHORT` cycles more."""

PROBES = (
    Probe("cta_start", "a round of CTAs that do nothing", nothing, word, (1, 25), (1, 9), grid=every, by_grid=True),
    Probe("launch", "a launch that does nothing, behind another", nothing, word, (1, 1), (1, 1), grid=every,
          by_grid=True, by_launch=True, by_time=True),
    Probe("sync", "a barrier of 4 warps", meetings, word, (500, 4500), (8, 24)),
    Probe("issue_share", "additions of 8,192 numbers by 8 warps", multiplied, row, (500, 2500), (2, 6)),
    Probe("special_lanes", "exp2 of 8,192 numbers by 8 warps", powers, row, (500, 2500), (2, 6)),
    Probe("shared_latency", "a load from shared memory", chase_shared, here, (500, 4500), (8, 24)),
    Probe("load_latency", "a load out of L2", chase, lines, (500, 4500), (8, 24)),
    Probe("load_latency_hbm", "a load out of HBM", chase, pages, (100, 900), (8, 24), cold=True),
    Probe("atomic_latency", "an atomic addition", count_up, counters, (200, 2200), (8, 24)),
    Probe("fence_proxy", "a fence between proxies", proxy_fences, word, (500, 4500), (8, 24)),
    Probe("fence_cluster", "a fence for the cluster", cluster_fences, word, (200, 2200), (8, 24), grid=pair),
    Probe("cluster_sync", "a barrier of a cluster of two", cluster_meetings, word, (200, 2200), (8, 24), grid=pair),
)  # fmt: skip
