"""A small share of the mutated sources, and that the judge sees what it is to see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from fuzz import sources
from fuzz.outcomes import Options
from phalanx.location import Location


@pytest.mark.share(2)
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_some(first: int) -> None:
    problems = [o.problem for o in sources.judge(range(first, first + 10), Options()) if o.problem is not None]
    assert problems == []


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 700, 100))
def test_many(first: int) -> None:
    problems = [o.problem for o in sources.judge(range(first, first + 100), Options()) if o.problem is not None]
    assert problems == []


@pytest.mark.parametrize("count", [12, pytest.param(40, marks=pytest.mark.long)])
def test_a_seed_is_the_same_case_everywhere(count: int) -> None:
    drawn = [sources.case_of(seed) for seed in range(count)]
    assert drawn == [sources.case_of(seed) for seed in range(count)]
    assert len({text for _, text in drawn}) > count * 3 // 4


@pytest.mark.parametrize("name", ["tiles", "ring_copy", "gemm_v0"])
def test_the_ground_is_healthy(name: str, tmp_path: Path) -> None:
    of = sources.ground(name)
    file = tmp_path / f"healthy_{name}.py"
    file.write_text(sources.text_of(of.file))
    module = sources.load(file)
    assert sources.checked(getattr(module, of.kernel)[of.grid], of) in (None, "findings")
    sources.written(getattr(module, of.kernel)[of.grid], of)


def test_what_the_judge_objects_to() -> None:
    file = Path("case.py")
    here = Location("case.py", 3, text="x")
    fine = px.Error("a mistake", location=here, remedy="correct it")
    assert sources.objection(fine, file, "a launch") is None
    for error, reason in (
        (px.Error("internal: KeyError: 3", location=here, remedy="report"), "an internal error"),
        (px.Error("a mistake", remedy="correct it"), "no place"),
        (px.Error("a mistake", location=Location("other.py", 1), remedy="correct it"), "a place elsewhere"),
        (px.Error("a mistake", location=here), "no remedy"),
        (px.Error("<X object at 0x7f>", location=here, remedy="correct it"), "an address"),
    ):
        assert reason in (sources.objection(error, file, "a launch") or "")


def test_a_case_without_end_and_a_bare_exception_are_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def spins(bound: Any, of: Any) -> None:
        while True:
            pass

    def raises(bound: Any, of: Any) -> None:
        raise KeyError("bare")

    monkeypatch.setattr(sources, "SECONDS", 0.2)
    monkeypatch.setattr(sources, "mutated", lambda text, kernel, rng: text)
    monkeypatch.setattr(sources, "launch", spins)
    outcome = sources.judge_one(1, tmp_path)
    assert outcome.verdict == "hang" and outcome.problem is not None
    monkeypatch.setattr(sources, "SECONDS", 60)
    monkeypatch.setattr(sources, "launch", raises)
    outcome = sources.judge_one(1, tmp_path)
    assert outcome.verdict == "wrong" and "KeyError: 'bare'" in (outcome.problem or "")
