"""Timelines of real launches: agents wait where the model says, results are those of a plain launch, stamps have times."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.stamps import Case, loop, outcome, rung
from phalanx.runtime.launch.stamping import stamped
from phalanx.runtime.timeline.stamps import trace_of_stamps

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
CASES = {
    "v2": lambda: rung("v2", 2048),
    "v4": lambda: rung("v4", 2048),
    "v6": lambda: rung("v6", 2048),
    "loop": lambda: loop(2048),
}


def real(case: Case) -> tuple[Any, bool]:
    """The timeline of a case, and whether its result is that of a plain launch."""
    args = case.make(torch)
    want = outcome(args, case.call(*args)).clone()
    with stamped(4) as taken:
        got = outcome(args, case.call(*args))
    return trace_of_stamps(taken.runs[-1], 1980.0), bool(torch.equal(got, want))


@pytest.mark.parametrize("name", CASES)
def test_the_same_waits_block_in_model_and_gpu(name: str) -> None:
    case = CASES[name]()
    trace, right = real(case)
    assert right and trace.lost == 0
    assert case.modelled is not None
    beside = case.modelled().compare(trace)
    assert not beside.differing(), str(beside)


def test_times_are_in_order_and_releases_come_before_the_ends_of_waits() -> None:
    trace, _ = real(CASES["v6"]())
    assert 0 < trace.stamp_cycles < 200 and 1000 < trace.clock < 2100
    waits = [event for event in trace.events if event.kind == "wait" and event.barrier and event.released_by >= 0]
    assert len(waits) > 100
    late = [event for event in waits if trace.events[event.released_by].start > event.end + 128]
    assert len(late) < 0.01 * len(waits)
    released = sum(event.kind == "wait" and event.released_by >= 0 for event in trace.events)
    assert released > 0.9 * sum(event.kind == "wait" for event in trace.events)
