"""Exchanges over the cluster, send by send: the same values under every schedule, inboxes, bytes and phases as declared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from mutation.mutation import mutants
from phalanx.errors import Error
from phalanx.ir import effects as fx
from phalanx.ir.core import Op
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.engines import Copy
from phalanx.sim.monitor import Monitor
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Hold, Schedule
from support.front import array, prepared

SCHEDULES = [
    Schedule("late"), Schedule("early"), *(Schedule("random", seed) for seed in range(6)),
    *(Schedule("starve", held=(Hold((rank, 0)),)) for rank in range(3)),
]  # fmt: skip
TURNS = 5


@px.kernel(warps=2, cluster=3)
def turns(X, Y, *, N=8):
    """Each turn depends on the one before; no CTA waits for another elsewhere."""
    rank = px.cluster.rank()
    x = px.load(X[rank, 0:N])
    for turn in range(5):
        a, b, c = px.cluster.gather((x, x + 1, x * 2))
        x = px.max(a, axis=0) + px.sum(b * c, axis=0) % 7 + rank
        px.store(Y[rank, turn, 0:N], x + px.cluster.reduce(px.sum(x), "min", cta=1))


def run(schedule: Schedule, monitor: Any = None) -> np.ndarray:
    function = prepared(turns, (array(2), array(3)))
    x = np.arange(24, dtype=np.float32).reshape(3, 8) % 5
    y = np.zeros((3, TURNS, 8), np.float32)
    simulate(function, 3, [x, y], schedule=schedule, monitor=monitor)
    return y


def expected() -> np.ndarray:
    x = np.arange(24, dtype=np.float32).reshape(3, 8) % 5
    y = np.zeros((3, TURNS, 8), np.float32)
    for turn in range(TURNS):
        x = x.max(0) + ((x + 1) * (x * 2)).sum(0) % 7 + np.arange(3)[:, None].astype(np.float32)
        y[:, turn] = x + x.sum(1, keepdims=True)
        y[1, turn] = x[1] + x.sum(1).min()
    return y


@pytest.mark.share(7)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_values_are_the_same_under_every_schedule(schedule: Schedule) -> None:
    np.testing.assert_array_equal(run(schedule), expected())


class Log(Monitor):
    """Counts what happens to the barriers and inboxes of CTA 0."""

    def __init__(self) -> None:
        self.landed = self.expected = self.arrivals = self.waits = self.reads = 0
        self.stages: list[int] = []

    def complete(self, copy: Copy, barrier: MBarrier | None) -> None:
        if barrier is not None and barrier.cta.rank == 0:
            self.landed += copy.nbytes  # type: ignore[attr-defined]

    def expect(self, agent: Agent, op: Op, barrier: MBarrier, nbytes: int) -> None:
        if barrier.cta.rank == 0:
            self.expected += nbytes
            self.stages.append(barrier.index)

    def arrive(self, agent: Agent, op: Op, barrier: MBarrier, count: int) -> None:
        self.arrivals += (barrier.cta.rank == 0) * count

    def wait_passed(self, agent: Agent, op: Op, barrier: MBarrier, phase: int) -> None:
        self.waits += barrier.cta.rank == 0

    def access(self, agent: Agent, op: Op, access: fx.Access, place: Any, ranks: list[int] | None) -> None:
        self.reads += access.exchange and agent.cta.rank == 0


def test_bytes_arrivals_and_waits_are_those_of_the_protocol() -> None:
    log = Log()
    run(Schedule("random", 1), log)
    gathers = 3 * 8 * 16 * TURNS  # from 3 CTAs 8 records of 16 bytes, in each turn
    thanks = 4 * TURNS  # CTA 1 receives the reduction, and says that it has
    assert log.landed == log.expected == gathers + thanks
    assert log.arrivals == log.waits == 2 * TURNS and log.reads == TURNS  # its own reads are those of the gathers
    assert log.stages == [0, 1] * TURNS


def test_a_changed_protocol_never_hangs_a_plain_run() -> None:
    """Whatever of it is changed, a run ends; what it lacks is a deadlock with the waits listed."""
    function = prepared(turns, (array(2), array(3)))
    seen = set()
    for mutant in mutants(function):
        x, y = np.zeros((3, 8), np.float32), np.zeros((3, TURNS, 8), np.float32)
        try:
            simulate(mutant.function, 3, [x, y])
        except Error as error:
            seen.add(error.kind)
    assert "deadlock" in seen


@px.kernel(warps=2, cluster=2)
def in_two_roles(X, Y):
    """An odd number of exchanges in a role, and more in later roles, one of them of the same warps."""
    rank = px.cluster.rank()
    with px.warps(0, 1):
        for _ in range(5):
            px.store(Y[0, rank, 0:8], px.cluster.reduce(px.load(X[rank, 0:8]), "sum"))
    px.sync()
    with px.warps(0, 1):
        for _ in range(3):
            px.store(Y[1, rank, 0:8], px.cluster.reduce(px.load(X[rank, 0:8]), "sum"))
    with px.warps(1, 1):
        px.store(Y[2, rank, 0:8], px.cluster.reduce(px.load(X[rank, 0:8]), "sum"))


def test_a_later_role_of_the_same_warps_goes_on_with_their_turns() -> None:
    x, y = np.arange(16, dtype=np.float32).reshape(2, 8), np.zeros((3, 2, 8), np.float32)
    in_two_roles[2](x, y)
    assert (y == x.sum(0)).all()
    assert px.check(in_two_roles[2], x, np.zeros_like(y)).ok
