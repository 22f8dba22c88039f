"""A page of user code that mypy --strict and pyright find nothing in, and that runs in the simulator."""

from __future__ import annotations

import numpy as np

import phalanx as px
from phalanx.types import Array, Barrier, Launch, Tile, View


@px.struct
class Span:
    start: int
    stop: int

    def size(self) -> int:
        return self.stop - self.start


@px.func
def sums(x: Tile) -> Tile:
    return px.sum(x.to(px.f32), 1)


@px.func
def fetch(source: View, stage: View, full: Barrier) -> None:
    with full.transaction():
        px.tma.load(source, stage, full)


@px.kernel(warps=2)
def copy(X: Array, Y: Array, alpha: float, *, BM: int = 64, BN: int = 64, STAGES: int = 4) -> None:
    stages = px.shared((STAGES, BM, BN), X.dtype)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    tiles = px.cdiv(X.shape[1], BN)
    m = px.block_id(0) * BM
    ring = px.ring(STAGES)
    with px.warps(0, 1):
        for t in range(tiles):
            empty[ring.stage].wait(ring.parity ^ 1)
            fetch(X[m:m+BM, t*BN:t*BN+BN], stages[ring.stage], full[ring.stage])
            ring.advance()
    with px.warps(1, 1):
        for t in range(tiles):
            full[ring.stage].wait(ring.parity)
            tile = px.load(stages[ring.stage])
            empty[ring.stage].arrive()
            px.store(Y[m:m+BM, t*BN:t*BN+BN], (2 * alpha * tile - tile).to(Y.dtype))
            ring.advance()


@px.kernel
def rows(X: Array, Y: Array, *, BM: int = 64, BK: int = 64) -> None:
    span = Span(0, BM)
    total = px.zeros((BM,), px.f32)
    for k in px.pipelined(range(0, X.shape[1], BK), stages=2):
        total += sums(px.load(X[0:span.size(), k:k+BK]))
    best = px.where(total > 0, total, 0.0)
    px.store(Y[0:BM], -best)


@px.kernel(warps=lambda BM: BM // 32, cluster=2)
def across(Y: Array, *, BM: int = 64) -> None:
    px.store(Y[px.cluster.rank()], 1.0 * BM)


def report_on(launch: Launch[...], *arrays: object) -> str:
    return str(px.check(launch, *arrays))


x = np.ones((64, 128), np.float32)
y = np.zeros(64, np.float32)
config = {"BM": 64, "BN": 64}
copy[1](x, np.zeros_like(x), 2.0)
copy[1](x, x, 2.0, **config, STAGES=2)
rows[1](x, y, arch="sm_90a")
rows[1](*(x, y), BK=32, pipelined=False)
across[2](y, BM=32)
made = px.compile(rows[1], px.spec((64, 64), px.f32), px.spec((64,), px.f32), arch="sm_90a")
assert px.check(rows[1], x, y, BK=64).ok and made.source and report_on(copy[1], x, x, 2.0)
