"""`benchmarks/timeline.py`: recorded launches are traced as they were launched, and figures are computed right."""

from __future__ import annotations

import itertools

import pytest

from benchmarks import timeline


def test_a_ring_copy_is_near_what_was_measured() -> None:
    case = next(timeline.ring_copies())
    assert case.name == "copy 4096x4096 64 64 4 1" and case.measured == pytest.approx(38.5, abs=0.1)
    assert 0.7 < case.trace().microseconds / case.measured < 1.4


def test_a_product_of_the_library_is_launched_as_on_the_card() -> None:
    case = next(case for case in timeline.drawn_products() if case.name.startswith("product 13808,1616,144"))
    assert 0.5 < case.trace().microseconds / case.measured < 2


def test_every_kind_has_cases_and_those_fitted_are_among_them() -> None:
    kinds = {name: list(itertools.islice(make(), 40)) for name, make in timeline.KINDS.items()}
    assert all(kinds.values())
    names = {case.name for cases in kinds.values() for case in cases}
    assert set(timeline.FITTED) <= names
    assert all(case.measured > 1 for cases in kinds.values() for case in cases)


def test_figures() -> None:
    assert timeline.correlation([(1, 10), (2, 30), (3, 20), (4, 40)]) == pytest.approx(0.8)
    rows = [{"name": name, "ratio": ratio} for name, ratio in (("a", 1.1), ("b", 0.95), ("c", 1.0))]
    line = timeline.told(rows, "all")
    assert line.split() == ["all", "3", "5.0%", "5.0%", "10.0%", "1.017", "a"]
