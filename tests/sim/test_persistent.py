"""`px.persistent`: every tile is somebody's, once, and all roles and CTAs of a cluster see the same sequence."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px


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
