"""Loops that do not end: the budget of steps, whom it blames, and what is shown of a long run."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.sim import budget as sim_budget
from phalanx.sim.budget import Progress, steps_allowed


@px.kernel(warps=1)
def plain(X, n):
    i = n
    while i < 10:  # blamed
        i = i * 1
    px.store(X[0], i)


@px.kernel(warps=1)
def outer(X, n):
    i = n
    while i < 10:  # blamed
        for j in range(100):
            i = i * 1 + j * 0
    px.store(X[0], i)


@px.kernel(warps=1)
def inner(X, n):
    for _ in range(10):
        i = n
        while i < 10:  # blamed
            px.store(X[0:64], px.load(X[0:64]))
            i = i * 1


@px.kernel(warps=1)
def counted(X, n):
    i = n
    for _ in range(2_000_000_000):  # blamed
        i = i ^ 1
    px.store(X[0], i)


@px.kernel(warps=1)
def continued(X, n):
    i = n
    while i < 10:  # blamed
        if i < 5:
            continue
        i = i + 1
    px.store(X[0], i)


@px.kernel(warps=2)
def ping_pong(X, n):
    a, b = px.barrier(count=1), px.barrier(count=1)
    r = px.ring(1)
    with px.warps(0, 1):
        while n > 0:  # blamed
            a.arrive()
            b.wait(r.parity)
            r.advance()
    with px.warps(1, 1):
        while n > 0:  # blamed
            a.wait(r.parity)
            b.arrive()
            r.advance()


@px.kernel(warps=1)
def copies(X, n):
    s = px.shared((64,), px.i32)
    b = px.barrier(count=1)
    while not b.test_wait(0):  # blamed
        px.tma.store(s, X[0:64])
        px.tma.commit()
        px.tma.wait(0)
    b.arrive()


ENDLESS = [plain, outer, inner, counted, continued, ping_pong, copies]


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_STEPS", "100_000")


def is_blamed(error: Any) -> bool:
    return "# blamed" in error.location.text and error.location.file == __file__


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("kernel", ENDLESS, ids=lambda k: k.name)
def test_a_launch_ends_with_the_loop_that_does_not(kernel: Any) -> None:
    with pytest.raises(px.Error) as error:
        kernel[1](np.zeros(64, np.int32), 1)
    assert error.value.kind == "endless-loop" and is_blamed(error.value)
    assert error.value.message == "this loop still goes round after 100,000 steps of its cluster"
    assert "PHALANX_STEPS=1000000" in str(error.value)


@pytest.mark.share(2)
@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("kernel", ENDLESS, ids=lambda k: k.name)
@pytest.mark.parametrize("seed", [None, 3], ids=["late", "random"])
def test_a_check_reports_it(kernel: Any, seed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed is not None:
        from phalanx.runtime import checking
        from phalanx.sim.scheduler import Schedule

        monkeypatch.setattr(checking, "schedules_of", lambda count, _: [Schedule("random", seed)])
    findings = px.check(kernel[1], np.zeros(64, np.int32), 1).findings
    found = [f for f in findings if f.kind == "endless-loop"]
    assert len(found) == 1 and is_blamed(found[0])
    assert {f.kind for f in findings} - {"endless-loop"} <= {"uninitialised-read", "proxy"}, "the rest is its own"


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("kernel", ENDLESS, ids=lambda k: k.name)
def test_an_exploration_ends_with_it(kernel: Any) -> None:
    with pytest.raises(px.Error) as error:
        px.explore(kernel[1], np.zeros(64, np.int32), 1)
    assert error.value.kind == "endless-loop" and error.value.location.file == __file__


def test_the_budget_is_each_clusters_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_STEPS", "40000")

    @px.kernel(warps=1)
    def rounds(X):
        i = 0
        while i < 1000:
            i = i + 1
        px.store(X[px.block_id(0)], i)

    x = np.zeros(64, np.int32)
    rounds[64](x)
    assert (x == 1000).all()


def test_more_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    @px.kernel(warps=1)
    def rounds(X, n):
        i = 0
        while i < n:
            i = i + 1
        px.store(X[0], i)

    x = np.zeros(1, np.int32)
    monkeypatch.setenv("PHALANX_STEPS", "10000")
    with pytest.raises(px.Error, match="endless-loop"):
        rounds[1](x, 20_000)
    monkeypatch.setenv("PHALANX_STEPS", "200,000")
    rounds[1](x, 20_000)
    assert x[0] == 20_000
    monkeypatch.delenv("PHALANX_STEPS")
    assert steps_allowed() == sim_budget.DEFAULT_STEPS


@pytest.mark.parametrize("text", ["many", "-3", "0", "1e6"])
def test_what_is_no_number_of_steps(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_STEPS", text)
    with pytest.raises(px.Error, match="is no number of steps"):
        plain[1](np.zeros(64, np.int32), 1)


def test_a_grid_beyond_the_budget() -> None:
    with pytest.raises(px.Error, match=r"a grid of 2,147,483,647 clusters is more than the simulator runs"):
        plain[2**31 - 1](np.zeros(64, np.int32), 11)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_and_long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(sim_budget, "perf_counter", lambda: now[0])
    monkeypatch.delenv("PHALANX_PROGRESS", raising=False)
    terminal, file = Terminal(), io.StringIO()
    shown, hidden = Progress("k", 64, terminal), Progress("k", 64, file)
    for progress in (shown, hidden):
        now[0] = 0.0
        progress.tick(5)
        assert progress.out.getvalue() == "", "a short run says nothing"
        now[0] = 100.0
        progress.done = 3
        progress.tick(12_345)
        progress.tick(99_999)  # too soon for another line
        progress.end()
    assert file.getvalue() == ""
    line = "k: 3 of 64 clusters, 12,345 steps in the loops of this one, 100 s"
    assert terminal.getvalue() == f"\r{line}\r{' ' * len(line)}\r"
    monkeypatch.setenv("PHALANX_PROGRESS", "0")
    assert not Progress("k", 1, terminal).shown
    monkeypatch.setenv("PHALANX_PROGRESS", "1")
    assert Progress("k", 1, file).shown


def test_a_closed_stderr_is_no_reason_to_stop() -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    progress = Progress("k", 1, Gone())
    progress.began = progress.last = -1000.0
    progress.tick(1)
    assert not progress.shown



@pytest.mark.usefixtures("few_steps")
def test_a_loop_that_overfills_a_barrier_tells_its_story_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from phalanx.sanitizer import messages

    told = []
    whole = messages.over_arrival
    monkeypatch.setattr(messages, "over_arrival", lambda *given: told.append(given) or whole(*given))

    @px.kernel(warps=1)
    def overfills(X, n):
        b = px.barrier(count=2, checked=False)
        b.expect_tx(16)  # the phase never completes
        while n > 0:
            b.arrive()

    findings = {f.kind: f for f in px.check(overfills[1], np.zeros(64, np.int32), 1).findings}
    assert len(told) == 1 and findings["over-arrival"].count > 1000
