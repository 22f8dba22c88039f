"""Exchanges over the cluster under the checks: one order of events, and what one turn of inboxes would allow."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import phalanx as px
from phalanx.ir.core import Function, Op, rewrite
from phalanx.ir.ops.cluster import ClusterTurn
from phalanx.sanitizer.exploration import Search, Start
from phalanx.sanitizer.runs import run_checked
from phalanx.sim.scheduler import Schedule
from phalanx.sim.steps import Steps
from support.front import array, prepared


@px.kernel(warps=2, cluster=2)
def three_turns(X, Y, *, N=4):
    rank = px.cluster.rank()
    for turn in range(3):
        x = px.load(X[rank, turn, 0:N])
        px.store(Y[rank, turn, 0:N], px.sum(px.cluster.gather(x), axis=0))


def arrays() -> list[np.ndarray]:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    return [x, np.zeros_like(x)]


def with_turns(number: int) -> Function:
    function = prepared(three_turns, (array(3), array(3)))

    def visit(op: Op) -> list[Op] | None:
        return [dataclasses.replace(op, turns=number)] if isinstance(op, ClusterTurn) else None

    return dataclasses.replace(function, body=rewrite(function.body, visit))


def test_nothing_in_an_exchange_can_happen_in_another_order() -> None:
    seen = px.explore(three_turns[2], *arrays())
    assert seen.ok and seen.explored == 1 and not seen.clashes


@pytest.mark.long
def test_one_turn_of_inboxes_is_a_race_and_some_order_gives_another_result() -> None:
    assert not run_checked(with_turns(2), (2, 1, 1), arrays(), Schedule("late"), quiet=True)
    findings = run_checked(with_turns(1), (2, 1, 1), arrays(), Schedule("late"), quiet=True)
    assert [finding.kind for finding in findings] == ["race"]
    found = Search(Steps(with_turns(1), (2, 1, 1), arrays()), Start(), 500).run()
    assert found.clashes and (len(found.outcomes) > 1 or found.deadlocks or found.errors)
