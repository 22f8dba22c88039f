"""A run that stops before every instruction is the run that nobody watches, and can be replayed to any tick."""

from __future__ import annotations

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.launch.specialise import read_arguments, specialise
from phalanx.sim.agents import Agent
from phalanx.sim.debug.run import Run, Start, name_of, who
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Hold, Schedule
from sim.debug.kernels import ring, ring_arguments

SCHEDULES = [
    Schedule("late"), Schedule("early"), Schedule("random", 1), Schedule("random", 2),
    Schedule("starve", held=(Hold((0, 1)),)), Schedule("starve", held=(Hold((0, 0, 0), copies=True),)),
]


def prepared(kernel: object, args: tuple[object, ...]) -> object:
    return specialise(kernel, read_arguments(kernel, args), kernel.bind_constants({})).prepared


def events_of(run: Run) -> list[tuple[int, str, int]]:
    """What happens, tick by tick."""
    found = []
    while run.advance():
        now = run.now
        if isinstance(now, Agent):
            found.append((run.tick, who(now), run.seen[name_of(now)].position.line))
        else:
            found.append((run.tick, "copy", now.op.loc.line))
    return found


def begun(schedule: Schedule) -> Run:
    args = ring_arguments()
    return Run(prepared(ring, args), 1, lambda: Start([args[0].copy(), args[1].copy(), args[2]]), schedule)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_the_result_is_the_one_of_a_run_that_nobody_watches(schedule: Schedule) -> None:
    run = begun(schedule)
    assert len(events_of(run)) > 80
    assert run.over and run.error is None
    x, y, n = ring_arguments()
    simulate(run.function, 1, [x, y, n], schedule=schedule)
    assert np.array_equal(run.args[1], y) and y.any()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_replay_has_the_same_events(schedule: Schedule) -> None:
    run = begun(schedule)
    first = events_of(run)
    run.begin()
    assert events_of(run) == first


def test_any_tick_can_be_gone_to() -> None:
    run = begun(Schedule("random", 3))
    seen = {}
    while run.advance():
        seen[run.tick] = ({name: state.position.line for name, state in run.seen.items()}, run.args[1].copy())
    for tick in (70, 5, 90, 1):
        run.replay(tick)
        lines, memory = seen[tick]
        assert run.tick == tick and not run.over
        assert {name: state.position.line for name, state in run.seen.items()} == lines
        assert np.array_equal(run.args[1], memory)


def test_a_run_that_nobody_steps_through_has_no_stops() -> None:
    """What stepping costs, only those pay who step."""
    from phalanx.sim.run import code_of

    function = prepared(ring, ring_arguments())
    assert "yield 5" not in code_of(function).source and "yield 5" in code_of(function, stepped=True).source


def test_clusters_end_and_others_begin_in_their_place() -> None:
    @px.kernel(warps=1)
    def each(X):
        px.store(X[px.block_id(0), 0:4], px.full((4,), 1.0, px.f32))

    x = np.zeros((5, 4), np.float32)
    run = Run(prepared(each, (x,)), 5, lambda: Start([x.copy()]))
    names = set()
    while run.advance():
        names.add(name_of(run.now))
    assert names == {(cluster, 0, 0) for cluster in range(5)} and run.args[0].all()
