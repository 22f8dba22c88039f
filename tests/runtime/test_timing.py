"""Turns, blocks and medians with clocks made of Python; the driver's events on a fake library."""

from __future__ import annotations

import math
from itertools import pairwise, permutations
from typing import Any

import pytest

from phalanx.errors import Error
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device.timing import (
    MODES,
    MOST_FLUSHED,
    MOST_REPEATS,
    EventTimer,
    Mode,
    geometric_mean,
    in_turns,
    median_ratio,
    mode_named,
    repeats_for,
    take_turns,
    there_and_back,
    turns,
)


class Clock:
    """Each contender costs what it says, in milliseconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[tuple[str, int]] = []

    def contender(self, name: str, ms: float) -> Any:
        def run() -> None:
            self.now += ms
            self.last = name

        return run

    def __call__(self, run: Any, repeats: int) -> float:
        before = self.now
        for _ in range(repeats):
            run()
        self.log.append((self.last, repeats))
        return (self.now - before) / repeats


def test_everyone_runs_once_a_round_after_everyone() -> None:
    taken = list(turns(4, 60))
    for turn in range(60):
        assert sorted(who for number, who in taken if number == turn) == [0, 1, 2, 3]
    order = [who for _, who in taken]
    assert {(a, b) for a, b in pairwise(order) if a != b} == set(permutations(range(4), 2))
    assert taken == list(turns(4, 60)), "the same each time"


def test_whatever_is_measured_in_turns() -> None:
    asked: list[str] = []

    def measure(name: str) -> tuple[str, int]:
        asked.append(name)
        return name, len(asked)

    found = in_turns(["a", "b", "c"], 5, measure)
    assert asked == ["abc"[who] for _, who in turns(3, 5)]
    assert {name: [number for _, number in values] for name, values in found.items()} == {
        name: [n for n, who in enumerate(asked, 1) if who == name] for name in "abc"
    }
    assert in_turns([], 5, measure) == {}


def test_blocks_are_as_long_as_the_mode_says() -> None:
    clock, rests = Clock(), []
    contenders = {"slow": clock.contender("slow", 4.0), "quick": clock.contender("quick", 0.5)}
    mode = Mode("test", 20.0, 0.25, 2)
    times = take_turns(contenders, clock, mode, rest=rests.append)
    assert times == {"slow": [4.0, 4.0], "quick": [0.5, 0.5]}
    assert sorted(clock.log[2:]) == [("quick", 40), ("quick", 40), ("slow", 5), ("slow", 5)]
    assert rests == [0.25] * 4, "the card rests before each block"
    take_turns(contenders, clock, MODES["turns"], rounds=1, rest=rests.append)
    assert len(rests) == 4, "not where the mode has no rest"


def test_steady_is_each_alone_there_and_back() -> None:
    assert list(there_and_back(3, 3)) == [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0), (2, 0), (2, 1), (2, 2)]
    clock = Clock()
    contenders = {"slow": clock.contender("slow", 5.0), "quick": clock.contender("quick", 2.5)}
    times = take_turns(contenders, clock, MODES["steady"], rounds=2)
    assert times == {"slow": [5.0, 5.0], "quick": [2.5, 2.5]}
    alone_then_timed = {"slow": [("slow", 60), ("slow", 70)], "quick": [("quick", 120), ("quick", 140)]}
    assert clock.log[2:] == [
        block for name in ("slow", "quick", "quick", "slow") for block in alone_then_timed[name]
    ], "0.3 s untimed, 0.35 s timed, the order reversed in the second round"


def test_a_mode_that_there_was_and_one_that_never_was() -> None:
    assert mode_named("steady", "px.tune").alone_ms == 300
    with pytest.raises(Error) as error:
        mode_named("sustained", "px.tune")
    assert error.value.message == "px.tune has no mode 'sustained'"
    assert error.value.remedy == (
        'what was called "sustained" is mode="turns": blocks that alternate, where a contender pays for its neighbour\'s'
        ' power; mode="steady" runs each alone'
    )
    with pytest.raises(Error) as error:
        mode_named(3, "px.tune")  # type: ignore[arg-type]
    assert error.value.remedy == "the modes are turns, steady, burst, cold"


def test_a_block_has_at_least_one_launch_and_not_too_many() -> None:
    clock = Clock()
    assert repeats_for(clock.contender("x", 100.0), clock, MODES["burst"]) == 1
    assert repeats_for(clock.contender("x", 0.0), clock, MODES["burst"]) == 6000
    assert repeats_for(clock.contender("x", 0.0), clock, Mode("long", 1e6, 0, 1)) == MOST_REPEATS
    assert repeats_for(clock.contender("x", 0.001), clock, MODES["cold"]) == MOST_FLUSHED


def test_ratios_are_taken_round_by_round() -> None:
    assert median_ratio([2.0, 4.0, 3.0], [1.0, 4.0, 2.0]) == 1.5
    with pytest.raises(ValueError):
        median_ratio([1.0], [1.0, 2.0])
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert math.isnan(geometric_mean([]))


def test_events_around_a_block(library: Any, driver: cuda.Driver) -> None:
    timer = EventTimer(0, driver=driver)
    clock = iter((10.0, 40.0))
    library._cuEventRecord = lambda event, stream: library.recorded.__setitem__(event, next(clock))
    runs: list[int] = []
    assert timer(lambda: runs.append(1), 10) == 3.0
    assert len(runs) == 10
    assert library.names().count("cuEventCreate") == 2
    assert "cuMemsetD8Async" not in library.names()


def test_each_launch_is_timed_by_itself_after_a_flush(library: Any, driver: cuda.Driver) -> None:
    timer = EventTimer(0, flush_bytes=4096, driver=driver)
    times = iter((0.0, 5.0, 10.0, 11.0, 20.0, 22.0))
    library._cuEventRecord = lambda event, stream: library.recorded.__setitem__(event, next(times))
    before = len(library.calls)
    assert timer(lambda: library.calls.append(("run",)), 3) == 2.0, "the median of 5, 1 and 2"
    order = [name for name in library.names()[before:] if name in ("cuMemsetD8Async", "cuEventRecord", "run")]
    assert order == ["cuMemsetD8Async", "cuEventRecord", "run", "cuEventRecord"] * 3
