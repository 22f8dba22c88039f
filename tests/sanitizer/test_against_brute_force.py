"""The checks against exploration: small random programs, run in every order of events."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import phalanx as px
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
