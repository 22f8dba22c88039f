"""`px.persistent`: every tile is somebody's, once, and all roles and CTAs of a cluster see the same sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from support.front import prepared
from support.host_cuda import type_of


@px.kernel(warps=2, cluster=lambda CTAS: CTAS)
def deal(OWNER, SEEN, n, *, CTAS=1, SCHEDULE=None):
    """Who got which tile: its cluster, and how many came before it there."""
    rank = px.cluster.rank()
    place = 0
    for t in px.persistent(n, schedule=SCHEDULE):
        px.store(OWNER[rank, t], px.cluster.id())
        px.store(SEEN[rank, t], place)
        place = place + 1


@px.kernel(warps=3)
def two_roles(A, B, n, *, SCHEDULE=None):
    with px.warps(0, 1):
        place = 0
        for t in px.persistent(n, schedule=SCHEDULE):
            px.store(A[px.block_id(0), place], t)
            place = place + 1
    with px.warps(1, 2):
        place = 0
        for t in px.persistent(n, schedule=SCHEDULE):
            if t % 3 == 1:
                place = place + 1
                continue
            px.store(B[px.block_id(0), place], t)
            place = place + 1


@pytest.mark.parametrize("n, clusters, ctas", [(7, 3, 1), (2, 5, 1), (8, 2, 2), (0, 2, 1), (9, 1, 4)])
def test_static_deals_in_turn(n: int, clusters: int, ctas: int) -> None:
    owner, seen = np.full((ctas, max(n, 1)), -1, np.int32), np.full((ctas, max(n, 1)), -1, np.int32)
    deal[clusters * ctas](owner, seen, n, CTAS=ctas)
    for rank in range(ctas):
        assert owner[rank, :n].tolist() == [t % clusters for t in range(n)]
        assert seen[rank, :n].tolist() == [t // clusters for t in range(n)]


@pytest.mark.parametrize("grid", [(2, 3), (2, 1, 4), (6, 2)])
def test_a_grid_of_several_dimensions_is_counted_as_a_whole(grid: tuple[int, ...]) -> None:
    owner, seen = np.full((2, 40), -1, np.int32), np.zeros((2, 40), np.int32)
    deal[grid](owner, seen, 40, CTAS=2)
    clusters = int(np.prod(grid)) // 2
    assert owner[1].tolist() == [t % clusters for t in range(40)]


def test_roles_see_the_same_sequence_and_may_go_on_early() -> None:
    a, b = np.full((2, 4), -1, np.int32), np.full((2, 4), -1, np.int32)
    assert px.check(two_roles[2], a, b, 7).ok
    two_roles[2](a, b, 7)
    assert a.tolist() == [[0, 2, 4, 6], [1, 3, 5, -1]]
    assert b.tolist() == [[0, 2, -1, 6], [-1, 3, 5, -1]]


def test_what_hopper_has_not_is_prepared_for_blackwell() -> None:
    array = px.spec((2, 2, 9), px.i32)
    made = px.compile(taken[px.auto], array, array, 9, CTAS=2, arch="sm_100a")
    assert "clusterlaunchcontrol.try_cancel" in made.ptx and made.signature.counters == 0


def test_the_choice_is_in_the_notes() -> None:
    array = px.spec((2, 16), px.i32)
    notes = px.compile(two_roles[px.auto], array, array, 7).notes
    assert sum('schedule="static"' in note for note in notes) == 2  # a note for each line
    assert not any("persistent" in note for note in px.compile(two_roles[px.auto], array, array, 7, SCHEDULE="static").notes)


def test_the_count_of_clusters() -> None:
    @px.kernel(warps=1, cluster=(2, 1, 2))
    def counted(OUT):
        px.store(OUT[px.cluster.id()], px.cluster.count())

    out = np.zeros(6, np.int32)
    counted[4, 3, 2](out)
    assert out.tolist() == [6] * 6


# The schedule that draws from a counter.


@px.kernel(warps=5, cluster=lambda CTAS: CTAS)
def told(SEEN, n, *, CTAS=1):
    """Three roles of every CTA, each of which writes down the tiles that it gets."""
    for role in px.static_range(3):
        first, count = ((0, 1), (1, 3), (4, 1))[role]
        with px.warps(first, count):
            place = 0
            for t in px.persistent(n, schedule="counter"):
                if t >= 0:
                    px.store(SEEN[px.cluster.id(), px.cluster.rank(), role, place], t)
                place = place + 1


@px.kernel(warps=4, cluster=lambda CTAS: CTAS)
def taken(OWNER, TIMES, n, *, CTAS=1):
    """Clusters that have not started are taken over, tile by tile; who runs a tile in each role of each CTA."""
    for role in px.static_range(2):
        with px.warps(role, 1 + 2 * role):
            for t in px.persistent(n, schedule="clc"):
                px.store(OWNER[px.cluster.rank(), role, t], px.cluster.id())
                px.atomic_add(TIMES[px.cluster.rank(), role, t], 1)


@px.kernel(warps=6, cluster=lambda CTAS: CTAS)
def told_copies(SEEN, n, *, CTAS=1, ALONE=False):
    """Roles with copies: each copy is an agent of its own. Where all roles have some, the first one of a copy draws."""
    with px.warps(0, 2, copies=2) as c:
        place = 0
        for t in px.persistent(n, schedule="counter"):
            px.store(SEEN[px.cluster.id(), px.cluster.rank(), c, place], t)
            place = place + 1
    if not ALONE:
        with px.warps(4, 2):
            place = 0
            for t in px.persistent(n, schedule="counter"):
                px.store(SEEN[px.cluster.id(), px.cluster.rank(), 2, place], t)
                place = place + 1


@px.kernel(warps=2)
def twice(X, n):
    for t in px.persistent(n, schedule="counter"):
        px.atomic_add(X[0, t], 1)
    with px.warps(0, 1):
        for t in px.persistent(n + 1, schedule="counter"):
            px.atomic_add(X[1, t], 1)
    with px.warps(1, 1):
        for t in px.persistent(n + 1, schedule="counter"):
            px.atomic_add(X[2, t], 1)


def run(kernel: Any, grid: Any, args: list[Any], schedule: Schedule, **constants: Any) -> None:
    """A run under a schedule, which leaves the counters as it found them."""
    function = prepared(kernel, tuple(type_of(value) for value in args), **constants)
    counters = np.zeros(function.counters, np.int32)
    simulate(function, grid, [*args, counters] if counters.size else args, schedule=schedule)
    assert not counters.any()


SCHEDULES = [Schedule("late"), Schedule("early"), *(Schedule("random", seed) for seed in range(3))]


@pytest.mark.share(2)
@pytest.mark.parametrize("n, clusters, ctas", [(7, 3, 1), (2, 4, 1), (1, 1, 1), (8, 2, 2), (0, 2, 2), (5, 1, 4)])
def test_every_tile_is_drawn_once_and_all_are_told(n: int, clusters: int, ctas: int) -> None:
    dealt = set()
    for schedule in SCHEDULES:
        seen = np.full((clusters, ctas, 3, n + 1), -1, np.int32)
        run(told, clusters * ctas, [seen, n], schedule, CTAS=ctas)
        assert (seen == seen[:, :1, :1]).all(), "every role of every CTA of a cluster sees the same"
        mine = seen[:, 0, 0]
        assert sorted(mine[mine >= 0].tolist()) == list(range(n))
        assert all(row[row >= 0].tolist() == sorted(row[row >= 0].tolist()) for row in mine), "in order"
        assert mine[:, 0].tolist() == [c if c < n else -1 for c in range(clusters)], "the first one is the cluster's number"
        dealt.add(mine.tobytes())
    assert len(dealt) > 1 or n <= clusters or clusters == 1, "who draws what depends on the order of events"


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("ctas", [1, 2])
def test_copies_of_a_role_are_told_too(ctas: int, alone: bool) -> None:
    for schedule in SCHEDULES[:3]:
        seen = np.full((2, ctas, 2 if alone else 3, 8), -1, np.int32)
        run(told_copies, 2 * ctas, [seen, 7], schedule, CTAS=ctas, ALONE=alone)
        assert (seen == seen[:, :1, :1]).all()
        mine = seen[:, 0, 0]
        assert sorted(mine[mine >= 0].tolist()) == list(range(7))
    assert px.check(told_copies[2 * ctas], seen, 5, CTAS=ctas, ALONE=alone).ok


@pytest.mark.parametrize("ctas", [1, 2])
def test_no_finding(ctas: int) -> None:
    seen = np.full((2, ctas, 3, 6), -1, np.int32)
    report = px.check(told[2 * ctas], seen, 5, CTAS=ctas, schedules=6)
    assert report.ok, report
    assert px.check(told[px.auto], seen, 5, CTAS=ctas).ok


def test_several_loops_have_counters_of_their_own() -> None:
    for schedule in SCHEDULES:
        x = np.zeros((3, 8), np.int32)
        run(twice, 3, [x, 6], schedule)
        assert x.tolist() == [[1] * 6 + [0] * 2, [1] * 7 + [0], [1] * 7 + [0]]
    assert px.check(twice[2], np.zeros((3, 8), np.int32), 5).ok


@px.kernel(warps=2)
def small(X):
    with px.warps(0, 1):
        for t in px.persistent(4, schedule="counter"):
            px.store(X[0, t], 1)
    with px.warps(1, 1):
        for t in px.persistent(4, schedule="counter"):
            px.store(X[1, t], 1)


def test_all_orders_of_events_of_a_small_one() -> None:
    seen = px.explore(small[2], np.zeros((2, 4), np.int32))
    assert seen.ok and seen.explored > 1, seen


def test_a_launch_that_fails_leaves_the_next_one_clean() -> None:
    @px.kernel(warps=1)
    def stops(X, bad):
        for t in px.persistent(6, schedule="counter"):
            px.device_assert(t != bad, "stopped")
            px.store(X[t], t)

    x = np.full(6, -1, np.int32)
    with pytest.raises(px.Error, match="stopped"):
        stops[2](x, 3)
    stops[2](x, -1)
    assert x.tolist() == list(range(6))


def test_counters_are_no_concern_of_other_launches() -> None:
    """A kernel that begins early may draw before it waits for its predecessor, and only that goes without a note."""

    @px.kernel(warps=1, pdl=True)
    def early(X, Y):
        for t in px.persistent(3, schedule="counter"):
            x = X[t]
            px.wait_prior()
            px.store(Y[t], x)

    report = px.check(early[1], np.zeros(3, np.float32), np.zeros(3, np.float32))
    assert report.ok and len(report.notes) == 1 and "X" in report.notes[0], report.notes


# The schedule in which clusters are taken over.

TAKEN = [(7, 7, 1), (7, 3, 1), (3, 7, 1), (0, 2, 1), (9, 9, 2), (9, 4, 2), (6, 3, (2, 1, 2))]
"""Tiles, clusters of the grid, and the cluster: as many clusters as tiles, fewer, and more."""


def taken_case(n: int, clusters: int, cluster: Any) -> tuple[tuple[int, ...], list[Any]]:
    """A grid of so many clusters, and arrays to note in who ran which tile."""
    x, y, z = (cluster, 1, 1) if isinstance(cluster, int) else cluster
    shape = (x * y * z, 2, max(n, 1))
    return (x * clusters, y, z), [np.full(shape, -1, np.int32), np.zeros(shape, np.int32), n]


def assert_taken(owner: np.ndarray, times: np.ndarray, n: int) -> None:
    assert (times[:, :, :n] == 1).all() and not times[:, :, n:].any(), "every tile once"
    assert (owner == owner[:1, :1]).all(), "by one cluster in all its CTAs and roles"


@pytest.mark.share(7)
@pytest.mark.parametrize("n, clusters, cluster", TAKEN)
def test_clusters_that_have_not_started_are_taken_over(n: int, clusters: int, cluster: Any) -> None:
    grid, args = taken_case(n, clusters, cluster)
    assert px.check(taken[grid], *args, CTAS=cluster, schedules=4).ok
    for schedule in SCHEDULES:
        owner, times = (arg.copy() for arg in args[:2])
        run(taken, grid, [owner, times, n], schedule, CTAS=cluster)
        assert_taken(owner, times, n)


def test_a_grid_for_the_compiler_has_a_cluster_for_each_tile() -> None:
    owner, times, n = taken_case(9, 9, 1)[1]
    taken[px.auto](owner, times, n)
    assert_taken(owner, times, n)
    assert len(set(owner.flatten().tolist())) == 2, "of which those start that fit"
