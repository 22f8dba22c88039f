"""No false alarm: every example is clean under many schedules, for shapes that do not divide the tiles."""

from __future__ import annotations

import pytest

import phalanx as px
from examples.cases import EXAMPLES, random_case


def check(name: str, seed: int, schedules: int) -> None:
    case = random_case(name, seed)
    report = px.check(case.launch, *case.args, schedules=schedules, seed=seed, **case.constants)
    assert report.ok, report
    assert len(report.schedules) == schedules


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_clean(name: str) -> None:
    check(name, 0, 5)


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_clean_under_fifty_schedules(name: str) -> None:
    check(name, 1, 50)


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("seed", range(2, 12))
def test_examples_are_clean_for_other_shapes(name: str, seed: int) -> None:
    check(name, seed, 3)
