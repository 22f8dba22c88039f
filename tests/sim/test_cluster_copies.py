"""Pushes and reductions in the simulator: right under every schedule, for every cluster shape."""

from __future__ import annotations

import pytest

from cluster_cases import MAKERS, SHAPES, Shape, case, label
from host_cuda import type_of
from front import prepared
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule

SCHEDULES = [Schedule("late"), Schedule("early"), Schedule("random", 1), Schedule("random", 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=label)
@pytest.mark.parametrize("name", MAKERS)
def test_is_right_under_every_schedule(name: str, shape: Shape) -> None:
    for schedule in SCHEDULES:
        made = case(name, shape)
        function = prepared(made.kernel, tuple(map(type_of, made.args)), **made.constants)
        simulate(function, made.grid, made.args, schedule=schedule)
        made.check(made.args[1])
