"""Cluster launch control: every block runs exactly once, whoever gets it and whenever; refusals; which clusters start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.ir import types as ty
from phalanx.ir.core import Function
from phalanx.sim.machine import HELD
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from support.front import array, prepared

SCHEDULES = (
    Schedule("late"), Schedule("early"), Schedule("starve"), *(Schedule("random", seed) for seed in range(12)),
)


@px.kernel(warps=1, cluster=lambda CLUSTER: CLUSTER)
def counted(RUNS, STARTS, WHO, *, CLUSTER):
    """Adds one to every block that is run, and to every cluster that starts; WHO has the cluster that ran a block."""
    result = px.shared((4,), px.i32)
    full, empty = px.barrier(), px.barrier()
    turn, more = px.ring(1), True
    block = px.block_id(0) + px.num_blocks(0) * (px.block_id(1) + px.num_blocks(1) * px.block_id(2))
    if px.cluster.rank() == 0:
        px.atomic_add(STARTS[px.cluster.id()], 1)
    while more:
        if px.cluster.rank() == 0:
            empty.wait(turn.parity ^ 1)
        with full.transaction():
            px.clc.try_cancel(result, full)
        px.atomic_add(RUNS[block], 1)
        px.store(WHO[block], px.cluster.id())
        full.wait(turn.parity)
        more, block = px.clc.query(result)
        empty.arrive(ctas=1)
        turn.advance()


def function(cluster: Any) -> Function:
    return prepared(counted, (array(1, ty.i32), array(1, ty.i32), array(1, ty.i32)), CLUSTER=cluster)


def run(cluster: Any, grid: tuple[int, ...], schedule: Schedule, clusters: int | None = None) -> tuple[np.ndarray, ...]:
    made = function(cluster)
    blocks = int(np.prod(grid))
    runs, starts = np.zeros(blocks, np.int32), np.zeros(blocks // made.cluster_size, np.int32)
    who = np.full(blocks, -1, np.int32)
    simulate(made, grid, [runs, starts, who], schedule=schedule, clusters=clusters)
    return runs, starts, who


@pytest.mark.share(9)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s.kind}{s.seed}")
@pytest.mark.parametrize(
    ("cluster", "grid"),
    [(1, (7,)), (2, (10,)), (4, (20,)), ((2, 2), (4, 6)), ((1, 2, 2), (3, 2, 4)), (1, (2, 3, 2))], ids=str,
)
def test_every_block_runs_exactly_once(cluster: Any, grid: tuple[int, ...], schedule: Schedule) -> None:
    runs, starts, who = run(cluster, grid, schedule)
    assert (runs == 1).all(), runs
    assert starts.max() == 1 and (starts[:HELD] == 1).all()
    ran = set(np.flatnonzero(starts))
    assert set(who) == ran, "only clusters that started run blocks, and each its own"


@pytest.mark.parametrize("kind", ["late", "early"])
@pytest.mark.parametrize("held", [1, 2, 3, 6])
def test_as_many_clusters_start_as_the_device_holds(kind: str, held: int) -> None:
    _, starts, who = run(2, (12,), Schedule(kind), held)
    assert starts.tolist() == [1] * held + [0] * (6 - held)
    assert (who[: 2 * held] == np.arange(2 * held) // 2).all(), "a cluster runs the blocks that it started with"


def test_a_grid_that_fits_is_refused_at_once() -> None:
    runs, starts, who = run(1, (2,), Schedule("late"), 5)
    assert runs.tolist() == [1, 1] and starts.tolist() == [1, 1] and who.tolist() == [0, 1]


def test_a_request_may_be_refused_while_clusters_wait_and_those_start_then() -> None:
    started = [int(run(1, (9,), Schedule("random", seed))[1].sum()) for seed in range(20)]
    assert min(started) == HELD, "in some orders all others are taken over"
    assert max(started) > HELD, "in some a cluster ends before that, and another one starts in its place"


def test_who_gets_a_block_depends_on_the_order() -> None:
    assert len({tuple(run(1, (6,), Schedule("random", seed))[2]) for seed in range(20)}) > 3


def test_the_same_seed_gives_the_same_run() -> None:
    one, two = (run(2, (12,), Schedule("random", 5)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two))


def test_the_environment_says_how_many_clusters_the_device_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_CLUSTERS", "4")
    assert run(1, (6,), Schedule("late"))[1].tolist() == [1, 1, 1, 1, 0, 0]
    monkeypatch.setenv("PHALANX_CLUSTERS", "none")
    with pytest.raises(px.Error, match="PHALANX_CLUSTERS='none' is no number of clusters"):
        run(1, (6,), Schedule("late"))


def test_what_is_refused_has_no_block() -> None:
    @px.kernel(warps=1)
    def once(Y):
        result = px.shared((4,), px.i32)
        full = px.barrier()
        with full.transaction():
            px.clc.try_cancel(result, full)
        full.wait(0)
        granted, block = px.clc.query(result)
        px.store(Y[px.block_id(0), 0], px.where(granted, 1, 0))
        px.store(Y[px.block_id(0), 1], block)

    y = np.zeros((3, 2), np.int32)
    once[3](y)
    assert y.tolist() == [[1, 2], [0, -1], [0, 0]], "block 2 was taken over, and never started"


def test_responses_in_a_ring_of_results() -> None:
    """Two requests on their way at once: the second is refused where the first is, so that no block is lost."""

    @px.kernel(warps=1, cluster=2)
    def ahead(RUNS):
        results = px.shared((2, 4), px.i32)
        full, empty = px.barrier(2), px.barrier(2)
        ask, take, more, block = px.ring(2), px.ring(2), True, px.block_id(0)
        for i in px.static_range(2):
            with full[i].transaction():
                px.clc.try_cancel(results[i], full[i])
            ask.advance()
        while more:
            px.atomic_add(RUNS[block], 1)
            full[take.stage].wait(take.parity)
            more, block = px.clc.query(results[take.stage])
            empty[take.stage].arrive(ctas=1)
            take.advance()
            if more:
                if px.cluster.rank() == 0:
                    empty[ask.stage].wait(ask.parity ^ 1)
                with full[ask.stage].transaction():
                    px.clc.try_cancel(results[ask.stage], full[ask.stage])
                ask.advance()
        full[take.stage].wait(take.parity)

    runs = np.zeros(14, np.int32)
    report = px.check(ahead[14], runs, schedules=8)
    assert report.ok, report
    made = prepared(ahead, (array(1, ty.i32),))
    for schedule in SCHEDULES:
        runs[:] = 0
        simulate(made, 14, [runs], schedule=schedule)
        assert (runs == 1).all(), (schedule, runs)


@px.func
def works(role, RUNS, results, full, empty):
    """A role that runs every block of its CTA, at its own pace."""
    at, more = px.ring(STAGES), True
    block = px.block_id(0) + px.num_blocks(0) * px.block_id(1)
    while more:
        px.atomic_add(RUNS[block, role], 1)
        full[at.stage].wait(at.parity)
        more, block = px.clc.query(results[at.stage])
        empty[at.stage].arrive(ctas=1)
        at.advance()


STAGES = 3


@px.kernel(warps=3, cluster=lambda CLUSTER: CLUSTER)
def ring_of_results(RUNS, *, CLUSTER):
    """One role asks, up to three answers before the slower of two others has read them."""
    results = px.shared((STAGES, 4), px.i32)
    full, empty = px.barrier(STAGES), px.barrier(STAGES)
    with px.warps(0, 1):
        at, more = px.ring(STAGES), True
        while more:
            if px.cluster.rank() == 0:
                empty[at.stage].wait(at.parity ^ 1)
            with full[at.stage].transaction():
                px.clc.try_cancel(results[at.stage], full[at.stage])
            full[at.stage].wait(at.parity)
            more, _ = px.clc.query(results[at.stage])
            empty[at.stage].arrive(ctas=1)
            at.advance()
    with px.warps(1, 1):
        works(0, RUNS, results, full, empty)
    with px.warps(2, 1):
        works(1, RUNS, results, full, empty)


@pytest.mark.share(14)
@pytest.mark.parametrize("seed", range(8))
def test_roles_of_random_clusters_see_the_same_blocks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = [1, 2, 4, (2, 2), (1, 3)][seed % 5]
    sizes = (cluster, 1) if isinstance(cluster, int) else cluster
    grid = (int(sizes[0] * rng.integers(1, 6)), int(sizes[1] * rng.integers(1, 3)))
    made = prepared(ring_of_results, (array(2, ty.i32),), CLUSTER=cluster)
    runs = np.zeros((grid[0] * grid[1], 2), np.int32)
    held = int(rng.integers(1, 5))
    for schedule in SCHEDULES:
        runs[:] = 0
        simulate(made, grid, [runs], schedule=schedule, clusters=held)
        assert (runs == 1).all(), (schedule, runs)
    report = px.check(ring_of_results[grid], runs, CLUSTER=cluster, schedules=4, strict=True)
    assert report.ok, report


def test_all_orders_end_alike_and_a_block_goes_to_either() -> None:
    runs, starts, who = np.zeros(4, np.int32), np.zeros(4, np.int32), np.zeros(4, np.int32)
    found = px.explore(counted[3], runs, starts, who, CLUSTER=1)
    assert found.complete and not found.deadlocks and not found.errors
    assert found.outcomes == 2, "the third block goes to the first cluster or to the second"


@px.kernel(warps=1, cluster=lambda CLUSTER: CLUSTER)
def doubled(X, *, CLUSTER):
    result = px.shared((4,), px.i32)
    full, empty = px.barrier(), px.barrier()
    turn, more, block = px.ring(1), True, px.block_id(0)
    while more:
        if px.cluster.rank() == 0:
            empty.wait(turn.parity ^ 1)
        with full.transaction():
            px.clc.try_cancel(result, full)
        px.store(X[block], px.load(X[block]) * 2)
        full.wait(turn.parity)
        more, block = px.clc.query(result)
        empty.arrive(ctas=1)
        turn.advance()


@pytest.mark.share(7)
@pytest.mark.parametrize(("cluster", "grid"), [(1, 1), (1, 2), (1, 5), (2, 2), (2, 4), (2, 8)])
def test_exploration_knows_grants(cluster: int, grid: int) -> None:
    found = px.explore(doubled[grid], np.ones(grid, np.int32), CLUSTER=cluster)
    assert found.complete and not found.deadlocks and not found.errors and found.outcomes == 1
