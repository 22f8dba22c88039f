"""`benchmarks/choosing.py`: recorded configurations are found and modelled, and figures are computed right."""

from __future__ import annotations

import pytest

from benchmarks import choosing, timeline


def test_problems_of_the_sweeps_have_several_configurations() -> None:
    found = choosing.problems("sweep_ragged.json")
    assert len(found) > 10 and all(len(case["rows"]) >= choosing.LEAST for case in found)


def test_a_configuration_is_timed_as_the_library_launches_it() -> None:
    case = next(case for case in choosing.problems("sweep_ragged.json") if case["problem"]["m"] == 96)
    row = case["rows"][0]
    assert 0.3 < choosing.modelled(case["problem"], row["config"]) / row["us"] < 3


def test_a_glimpse_is_near_the_whole_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(timeline.ring_copies())
    whole = case.trace().microseconds
    monkeypatch.setattr(choosing.px, "trace", choosing.quick)
    assert case.trace().microseconds == pytest.approx(whole, rel=0.05)


def test_figures() -> None:
    found = choosing.judged({"file": "f", "problem": "p", "pairs": [(2.0, 5.0), (1.0, 6.0), (4.0, 7.0)]})
    assert found is not None and found["speed"] == 0.5, "the model takes the first, the second is twice as fast"
    assert found["correlation"] == pytest.approx(0.5) and found["first"] == 0.5
    assert found["random"] == pytest.approx((0.5 + 1 + 0.25) / 3)
    assert choosing.judged({"file": "f", "problem": "p", "pairs": [(2.0, 5.0)]}) is None
    text = choosing.told([found])
    assert "1 problems, 3 configurations" in text and "mean 0.50" in text
