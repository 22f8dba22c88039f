"""Which measurements are of launches that are made otherwise now: each line has calls, and what differs is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from benchmarks import readme
from benchmarks import same_launches as same
from benchmarks import same_table as table

ROOT = Path(__file__).resolve().parents[2]
LINES = [line for line in readme.lines() if line.script not in table.NOT_COMPARED]
CALLS = {name: call for line in LINES for name, call in table.calls_of(line).items()}


@pytest.fixture
def calls() -> Iterator[Any]:
    """The calls of the table, with the folders of the examples on the path meanwhile."""
    path, before = list(sys.path), set(sys.modules)
    yield table.Calls(ROOT)
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(ROOT / "examples") in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_every_line_of_ours_has_calls() -> None:
    peers = [line.what for line in LINES if not table.calls_of(line)]
    assert peers and all(what.startswith(("(Triton", "(TileLang")) for what in peers)
    ways = {name for name in vars(table.Calls) if not name.startswith("_") and name != "example"}
    assert {call[0].replace(" ", "_") for call in CALLS.values()} == ways, "each is called by a line"


def test_every_call_launches_something(calls: Any) -> None:
    with patch.object(same.Launches, "text", lambda *_: "text"):
        found = same.collect(CALLS, calls)
    assert found.keys() == CALLS.keys() and len(found) > 80
    assert [name for name, launches in found.items() if isinstance(launches, str) or not launches] == []


def test_what_differs_is_told_of_its_line(calls: Any) -> None:
    """Another kernel for one length of softmax, and a product that fails."""
    lines = [line for line in LINES if line.what.startswith(("softmax", "`px.kernels.matmul`, fp8"))]
    chosen = {name: call for line in lines for name, call in table.calls_of(line).items()}
    with patch.object(same.Launches, "text", lambda *_: "text"):
        before = same.collect(chosen, calls)
    (rows, *_), (product, *_) = (list(table.calls_of(line)) for line in lines)
    kernel, *rest = before[rows][0]
    after = before | {rows: [[f"another_{kernel}", *rest]], product: "Error: no such tile\n  at a line"}
    assert list(table.told_of(lines, table.wrong_calls(before, before))) == [
        "softmax, bf16, 4,096 to 262,144 columns, device copy's bandwidth: 5 calls, 0 launched otherwise",
        "`px.kernels.matmul`, fp8, `torch._scaled_mm`, fast accumulation: 3 calls, 0 launched otherwise",
    ]
    assert list(table.told_of(lines, table.wrong_calls(before, after))) == [
        "softmax, bf16, 4,096 to 262,144 columns, device copy's bandwidth: 5 calls, 1 launched otherwise",
        "    rows softmax 32768 4096: kernel",
        "`px.kernels.matmul`, fp8, `torch._scaled_mm`, fast accumulation: 3 calls, 1 launched otherwise",
        "    fp8 4096 4096 4096: Error: no such tile",
    ]
