"""Rows that clusters have, class by class or side by side: every row once, as many of each cluster, together in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.rowwise.deals import classes_of, deal


@px.kernel(warps=1)
def tell_deals(ROWS, TURNS, rows, clusters, *, PERIOD, SIDES):
    """For each row which cluster has it and in which of its turns, or -1 twice where more than one has it."""
    number, turn = px.block_id(0), 0
    first, last = classes_of(rows, PERIOD, number, clusters, SIDES)
    for which in range(first, last):
        dealt = deal(which, rows, PERIOD, number, clusters, SIDES)
        for place in range(dealt.turns):
            row = dealt.row(place)
            px.atomic_add(ROWS[row], number + 1)
            px.atomic_add(TURNS[row], turn + 1)
            turn = turn + 1


def dealt(rows: int, clusters: int, period: int, sides: bool) -> tuple[np.ndarray, np.ndarray]:
    who, when = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    tell_deals[clusters](who, when, rows, clusters, PERIOD=period, SIDES=sides)
    return who - 1, when - 1


@pytest.mark.share(30)
@pytest.mark.parametrize("sides", (False, True))
@pytest.mark.parametrize("period", (1, 2, 4, 8))
@pytest.mark.parametrize("rows, clusters", ((1, 8), (37, 9), (200, 15), (201, 30), (403, 66), (264, 66), (97, 8)))
def test_every_row_once_and_as_many_of_each(rows: int, clusters: int, period: int, sides: bool) -> None:
    who, when = dealt(rows, clusters, period, sides)
    assert who.min() >= 0 and who.max() < clusters
    for number in range(clusters):
        mine = np.sort(when[who == number])
        assert (mine == np.arange(mine.size)).all()
        assert mine.size <= px.cdiv(px.cdiv(rows, period) * period, clusters)


@pytest.mark.parametrize("clusters, period", ((66, 8), (30, 8), (15, 8), (15, 4)))
def test_side_by_side_rows_are_near_at_a_time(clusters: int, period: int) -> None:
    """And few clusters have more than one class."""
    rows = 40 * clusters
    who, when = dealt(rows, clusters, period, True)
    at = np.arange(rows) / rows - when / when.max()
    assert np.abs(at).max() < 0.25 and np.abs(at).mean() < 0.08
    of_class: Any = [set(np.arange(rows)[who == number] % period) for number in range(clusters)]
    assert all(len(found) == 1 for found in of_class[: clusters // period * period])
    assert all(len(found) <= 1 + px.cdiv(period, clusters % period) for found in of_class)
