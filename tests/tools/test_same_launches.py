"""Which drawn cases another commit launches otherwise: every operation can be called, and what differs is named."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from benchmarks import same_launches as same


@pytest.mark.parametrize("op", list(same.DRAWS))
def test_every_operation_is_called(op: str) -> None:
    with patch.object(same.Launches, "text", lambda *_: "text"):
        found = same.collect(same.cases_of([op], ["3"], 2))
    assert [name.startswith(f"{op}, seed 3, {number}: ") for number, name in enumerate(found)] == [True, True]
    assert all(isinstance(launches, list) and launches for launches in found.values()), found


def test_what_differs_is_named() -> None:
    cases = same.cases_of(["rms_norm"], ["3"], 2)
    first, second = cases
    before = same.collect(cases)
    assert same.differing(before, same.collect(cases)) == []
    one: list[Any] = before[first][0]
    assert [type(part) for part in one] == [str, str, dict, list, str]
    assert same.differing(before, before | {first: [[*one[:1], "(1,)", *one[2:4], "other"]]}) == [(first, "grid, text")]
    assert same.differing(before, before | {second: "Error: no"}) == [(second, "other launches")]
    assert same.differing(before, before | {second: []}) == [(second, "other launches")]


def test_a_text_is_compared_without_the_lines_of_python() -> None:
    assert same.COMMENT.sub("", "a;  // done at line 5\n// rows.py:12\nb;") == "a;\nb;"


def test_a_call_that_fails_is_told() -> None:
    cases = same.cases_of(["softmax"], ["3"], 1)
    with patch.object(same, "call", side_effect=ValueError("no rows")):
        assert list(same.collect(cases).values()) == ["ValueError: no rows"]
