"""Kernels as users write them, under every schedule: the whole way from source to result."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from phalanx.errors import Error
from phalanx.ir.types import I32
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from support.front import array, prepared

SCHEDULES = [Schedule("late"), Schedule("early"), *(Schedule("random", seed) for seed in range(4))]


@px.kernel(warps=8, cluster=2)
def shared_rows(X, Y, *, BM=16, BN=16, STAGES=2):
    """Both CTAs of a cluster get every tile of their rows: each fetches every other one, for both."""
    ring = px.ring(STAGES)
    tiles = px.shared((STAGES, BM, BN), X.dtype)
    full = px.barrier(STAGES)
    empty = px.barrier(STAGES)
    rank = px.cluster.rank()
    row = px.cluster.id() * BM
    steps = px.cdiv(X.shape[1], BN)
    with px.warps(0, 1):
        for step in range(steps):
            empty[ring.stage].wait(ring.parity ^ 1)
            full[ring.stage].arrive_and_expect_tx(BM * BN * 4)
            if step % 2 == rank:
                source = X[row : row + BM, step * BN : step * BN + BN]
                px.tma.load(source, tiles[ring.stage], full[ring.stage], multicast=3)
            ring.advance()
    with px.warps(4, 4):
        for step in range(steps):
            full[ring.stage].wait(ring.parity)
            tile = px.load(tiles[ring.stage])
            empty[ring.stage].arrive(ctas=3)
            px.store(Y[rank, row : row + BM, step * BN : step * BN + BN], tile + rank)
            ring.advance()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_multicast_ring(schedule):
    function = prepared(shared_rows, (array(2), array(3)))
    x = np.random.default_rng(0).standard_normal((30, 84), np.float32)
    y = np.zeros((2, 30, 84), np.float32)
    simulate(function, 4, [x, y], schedule=schedule)
    assert np.array_equal(y, np.stack([x, x + np.float32(1)]))


@px.kernel(warps=4)
def collatz(N, Steps):
    """The number of steps to 1, with an early return for what has none."""
    i = px.block_id(0)
    n = px.load(N[i])
    if n < 1:
        px.store(Steps[i], -1)
        return
    steps = 0
    while True:
        if n == 1:
            break
        if n % 2 == 0:
            n = n // 2
            steps += 1
            continue
        n = 3 * n + 1
        steps += 1
    px.store(Steps[i], steps)


def test_control_flow():
    numbers = np.array([1, 2, 3, 6, 7, 27, 0, -4], np.int32)
    got = np.zeros(8, np.int32)
    simulate(prepared(collatz, (array(1, px.i32), array(1, px.i32))), 8, [numbers, got])
    assert got.tolist() == [0, 1, 7, 8, 16, 111, -1, -1]


@px.kernel(warps=2)
def handoff(Y, parity):
    """A consumer that waits for the parity it is told."""
    ready = px.barrier()
    with px.warps(0, 1):
        ready.arrive()
    with px.warps(1, 1):
        ready.wait(parity)
        px.store(Y[0], 1.0)


def test_a_deadlock_names_the_users_line():
    function = prepared(handoff, (array(1), I32))
    y = np.zeros(1, np.float32)
    simulate(function, 1, [y, 0])
    assert y[0] == 1
    stuck = prepared(never_armed, (array(1),))
    with pytest.raises(Error) as error:
        simulate(stuck, 1, [y])
    assert error.value.kind == "deadlock"
    assert error.value.location.text.strip() == "landed.wait(0)"
    assert "short of 1 arrival" in error.value.details and "waits for landed, parity 0" in error.value.details


@px.kernel(warps=1)
def never_armed(X):
    """Bytes land, but nobody arrives."""
    s = px.shared((4,), X.dtype)
    landed = px.barrier(count=1, checked=False)
    px.tma.load(X[0:4], s, landed)
    landed.wait(0)
