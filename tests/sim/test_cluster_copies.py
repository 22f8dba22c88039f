"""Pushes, collective copies, pipes and reductions in the simulator: right under every schedule, in every shape."""

from __future__ import annotations

from typing import Any

import pytest

import support.cluster_cases as cluster_cases
import support.collective_cases as collective_cases
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule
from support.cluster_cases import label
from support.cluster_launches import SHAPES, Shape
from support.front import prepared
from support.host_cuda import type_of

SCHEDULES = [Schedule("late"), Schedule("early"), Schedule("random", 1), Schedule("random", 2)]


CASES = [(module, name) for module in (cluster_cases, collective_cases) for name in module.MAKERS]


@pytest.mark.share(34)
@pytest.mark.parametrize("shape", SHAPES, ids=label)
@pytest.mark.parametrize(("module", "name"), CASES, ids=lambda part: part if isinstance(part, str) else "")
def test_is_right_under_every_schedule(module: Any, name: str, shape: Shape) -> None:
    for schedule in SCHEDULES:
        made = module.case(name, shape)
        function = prepared(made.kernel, tuple(map(type_of, made.args)), **made.constants)
        simulate(function, made.grid, made.args, schedule=schedule)
        made.check(made.args[1])
