"""The checks against exploration: small random programs, run in every order of events."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import phalanx as px
from phalanx.runtime.specialise import read_arguments, specialise
from phalanx.sanitizer.exploration import Search, Start
from phalanx.sim.events import Process
from phalanx.sim.steps import Steps
from sanitizer.choreographies import arguments, load, programs

LIMIT = 1500
OUTSIDE = {"proxy"}
"""Kinds that no order of events shows."""
_QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("choreographies")


def compare(text: str, folder: Path) -> str:
    """Asserts that the report and the exploration of a program agree; says what the report was."""
    program = load(text, folder)
    x, y = arguments()
    grid = 2 if "cluster=2" in text else 1
    try:
        report = px.check(program[grid], x, y)
    except px.Error as error:
        return f"refused: {error.message}"
    seen = px.explore(program[grid], x, y, limit=LIMIT)
    if not seen.complete and not seen.deadlocks and not seen.errors:
        return "too large"
    story = f"{text}\n{report}\n{seen}"
    findings = [finding for finding in report.findings if finding.kind not in OUTSIDE]
    if not findings:
        assert seen.outcomes == 1 and not seen.deadlocks and not seen.errors, f"missed:\n{story}"
        return "clean"
    for finding in findings:
        if finding.kind == "race":
            assert finding.other is not None
            pair = frozenset((place.file, place.line) for place in (finding.location, finding.other))
            assert pair in seen.clashes or not seen.complete, f"never at the same time:\n{story}"
        if finding.kind == "deadlock":
            assert seen.deadlocks, f"never stuck:\n{story}"
    return findings[0].kind


@settings(max_examples=100, derandomize=True, **_QUIET)
@given(programs())
def test_agrees_with_exploration(folder: Path, text: str) -> None:
    compare(text, folder)


@pytest.mark.long
@settings(max_examples=2000, **_QUIET)
@given(programs())
def test_agrees_with_exploration_on_many_programs(folder: Path, text: str) -> None:
    compare(text, folder)


# --- the exploration itself, against all interleavings ----------------------------------------------------------------


def everything(steps: Steps, limit: int) -> tuple[set[bytes], bool] | None:
    """The outcomes of all interleavings, and whether one of them gets stuck; None where there are too many."""
    outcomes: set[bytes] = set()
    stuck, runs = False, 0
    todo: list[tuple[Process, ...]] = [()]
    while todo:
        choices = list(todo.pop())
        steps.reset()
        for process in choices:
            steps.step(process)
        while enabled := steps.enabled():
            todo += [(*choices, other) for other in enabled[1:]]
            choices.append(enabled[0])
            steps.step(enabled[0])
        runs += 1
        if runs > limit:
            return None
        if steps.problems or steps.error is not None:
            continue
        if steps.done:
            outcomes.add(steps.outcome())
        else:
            stuck = True
    return outcomes, stuck


def compare_with_everything(text: str, folder: Path, limit: int = 200) -> bool:
    """Whether the program was small enough to run it in all interleavings."""
    program = load(text, folder)
    args = list(arguments())
    function = specialise(program, read_arguments(program, tuple(args)), {}).prepared
    steps = Steps(function, 2 if "cluster=2" in text else 1, args)
    seen = everything(steps, limit)
    if seen is None:
        return False
    found = Search(steps, Start(), limit).run()
    assert found.complete, text
    assert (set(found.outcomes), bool(found.deadlocks)) == seen, text
    return True


@settings(max_examples=15, derandomize=True, **_QUIET)
@given(programs())
def test_exploration_misses_nothing(folder: Path, text: str) -> None:
    compare_with_everything(text, folder)


@pytest.mark.long
@settings(max_examples=400, **_QUIET)
@given(programs())
def test_exploration_misses_nothing_in_many_programs(folder: Path, text: str) -> None:
    compare_with_everything(text, folder, 3000)


TOO_MANY_BYTES = """import phalanx as px


@px.kernel(warps=2)
def program(X, Y):
    s = px.shared((3, 4), px.f32)
    b = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        b.wait(0)
        px.store(Y[0, 0:4], px.full((4,), 1.0, px.f32))
    with px.warps(1, 1):
        px.tma.load(X[0, 0:4], s[0], b)
        px.tma.load(X[1, 0:{half}], s[1, 0:{half}], b)
        px.tma.load(X[2, 0:{half}], s[2, 0:{half}], b)
        b.arrive_and_expect_tx(16)
"""
"""More bytes than expected: whether the wait passes depends on which have come when the arrival does, or after it."""


@pytest.mark.parametrize("half", [2, 4])
def test_which_bytes_complete_a_phase_that_gets_too_many(folder: Path, half: int) -> None:
    text = TOO_MANY_BYTES.format(half=half)
    assert compare_with_everything(text, folder, 3000)
    program = load(text, folder)
    x, y = arguments()
    seen = px.explore(program[1], x, y)
    assert seen.complete and seen.deadlocks and seen.outcomes == 1


RAN_AHEAD = """import phalanx as px


@px.kernel(warps=2)
def program(X, Y):
    bar, own = px.barrier(count=1, checked=False), px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        bar.arrive()
        bar.arrive()
        bar.arrive()
    with px.warps(1, 1):
        bar.wait(0)
        own.arrive()
        own.wait(0)
        bar.wait(1)
"""


def test_exploration_goes_back_to_a_phase_that_ran_ahead(folder: Path) -> None:
    """The third arrival may come before the second wait (a deadlock) or after it, both times after the first wait."""
    assert compare_with_everything(RAN_AHEAD, folder, 3000)
