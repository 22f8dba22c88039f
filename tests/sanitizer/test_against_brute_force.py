"""The checks against exploration: small random programs, run in every order of events."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import phalanx as px
from sanitizer.choreographies import arguments, load, programs
from sanitizer.comparing import compare, compare_with_everything

_QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("choreographies")


@settings(max_examples=30, derandomize=True, **_QUIET)
@given(programs())
def test_agrees_with_exploration(folder: Path, text: str) -> None:
    compare(text, folder)


@pytest.mark.long
@settings(max_examples=100, derandomize=True, **_QUIET)
@given(programs())
def test_agrees_with_exploration_on_a_hundred_programs(folder: Path, text: str) -> None:
    compare(text, folder)


@pytest.mark.long
@pytest.mark.parametrize("share", range(8))
@settings(max_examples=250, **_QUIET)
@given(text=programs())
def test_agrees_with_exploration_on_many_programs(folder: Path, share: int, text: str) -> None:
    """2,000 programs, in shares that several processes can take."""
    compare(text, folder)


# --- the exploration itself, against all interleavings ----------------------------------------------------------------


@settings(max_examples=15, derandomize=True, **_QUIET)
@given(programs())
def test_exploration_misses_nothing(folder: Path, text: str) -> None:
    compare_with_everything(text, folder)


@pytest.mark.long
@pytest.mark.parametrize("share", range(2))
@settings(max_examples=200, **_QUIET)
@given(text=programs())
def test_exploration_misses_nothing_in_many_programs(folder: Path, share: int, text: str) -> None:
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


EARLY_ARRIVE = """import phalanx as px


@px.kernel(warps=2)
def program(X, Y):
    s = px.shared((3, 4), px.f32)
    b = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        px.store(s[0], px.full((4,), 1.0, px.f32))
        px.fence.async_proxy()
        px.tma.store(s[0], Y[1, 0:4])
        px.tma.commit()
        px.tma.wait(0, read=True)
        b.arrive_and_expect_tx(16)
        b.arrive_and_expect_tx(16)
        b.wait(1)
        px.store(s[2], px.full((4,), 4.0, px.f32))
    with px.warps(1, 1):
        px.tma.load(X[2, 0:4], s[2], b)
        b.wait(0)
        px.tma.load(X[0, 0:4], s[2], b)
"""
"""The second arrive may come in the first phase, which has no place for it."""
_STORED = """        px.store(s[0], px.full((4,), 1.0, px.f32))
        px.fence.async_proxy()
"""
_COPIED = """        px.tma.store(s[0], Y[1, 0:4])
        px.tma.commit()
        px.tma.wait(0, read=True)
"""
AT_ONCE = EARLY_ARRIVE.replace(_STORED + _COPIED, "")
"""The same, where it does come in that phase in the first run."""
UNREAD = EARLY_ARRIVE.replace(_STORED, "")
"""As a random program had it: what it stores was never written."""


def test_exploration_finds_an_arrive_that_may_come_a_phase_early(folder: Path) -> None:
    program = load(EARLY_ARRIVE, folder)
    x, y = arguments()
    seen = px.explore(program[1], x, y)
    assert seen.complete and [error.kind for error in seen.errors] == ["over-arrival"]


def test_the_check_names_an_arrive_that_may_come_a_phase_early(folder: Path) -> None:
    """Not a race behind the wait that it lets pass too early: no order has that one without the arrive."""
    assert compare(EARLY_ARRIVE, folder) == compare(AT_ONCE, folder) == "over-arrival"
    [finding] = px.check(load(EARLY_ARRIVE, folder)[1], *arguments()).findings
    assert finding.other is not None and (finding.location.line, finding.other.line) == (15, 14)
    assert re.sub(r"program_\d+", "program", finding.message) == (
        "1 arrival on b of CTA 0, but its phase 0 has 0 of 1 pending and waits for 32 bytes; raise the barrier's count, or "
        "wait for the phase before arriving again; here the signal of program.py:15 counts for phase 0 of b: nothing tells "
        "warp 0 that it is complete without the copy of program.py:19"
    )
    assert compare(UNREAD, folder) == "uninitialised-read"


def test_an_arrive_behind_the_phase_before_it_is_no_mistake(folder: Path) -> None:
    first = "        b.arrive_and_expect_tx(16)\n"
    assert compare(EARLY_ARRIVE.replace(2 * first, f"{first}        b.wait(0)\n{first}"), folder) == "clean"


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


def test_a_program_is_too_large_from_one_interleaving_more_on(folder: Path) -> None:
    """That one has ten, counted one by one."""
    assert [limit for limit in range(1, 14) if compare_with_everything(RAN_AHEAD, folder, limit)] == [10, 11, 12, 13]


COMPLETED_BY_ITSELF = """import phalanx as px


@px.kernel(warps=3)
def program(X, Y):
    s = px.shared((4,), px.f32)
    b, go = px.barrier(count=2, checked=False), px.barrier(count=1, checked=False)
    px.store(s, px.full((4,), 1.0, px.f32))
    with px.warps(0, 1):
        b.arrive()
        b.arrive()
        go.wait(0)
        px.store(s, px.full((4,), 2.0, px.f32))
    with px.warps(1, 1):
        b.wait(0)
        px.store(Y[0, 0:4], px.load(s))
        b.arrive()
    with px.warps(2, 1):
        b.arrive()
        b.wait(1)
        go.arrive()
"""
"""The last warp's wait passes at once before the first phase is complete, though it may have completed that phase itself."""


def test_exploration_lets_another_arrival_be_the_last_of_a_phase(folder: Path) -> None:
    assert compare_with_everything(COMPLETED_BY_ITSELF, folder, 3000)
    x, y = arguments()
    seen = px.explore(load(COMPLETED_BY_ITSELF, folder)[1], x, y)
    assert seen.complete and seen.outcomes == 2


ASKS_AT_ONCE = """import phalanx as px


@px.kernel(warps=2)
def program(X, Y):
    bar, done = px.barrier(count=1, checked=False), px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        bar.arrive()
        bar.wait(0)
        done.arrive()
    with px.warps(1, 1):
        bar.arrive()
        while not done.test_wait(0):
            pass
"""


def test_an_arrive_right_before_a_loop_that_asks_is_an_event_of_its_own(folder: Path) -> None:
    """It may come before the wait (which then blocks for ever) as well as after it, whatever the loop asks for."""
    assert compare_with_everything(ASKS_AT_ONCE, folder, 3000)
    x, y = arguments()
    seen = px.explore(load(ASKS_AT_ONCE, folder)[1], x, y)
    assert seen.complete and seen.deadlocks and seen.outcomes == 1
