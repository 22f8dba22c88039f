"""Scripts of commands, with all that they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.sim.debug.session import Session
from sim.debug.kernels import pair, piped, racing, ring, ring_arguments, stuck

EXPECTED = Path(__file__).with_name("expected")


def session_of(launch: Any, *args: Any, **options: Any) -> tuple[Session, list[str]]:
    said: list[str] = []
    return px.debug(launch, *args, write=said.append, **options), said


def transcript(launch: Any, args: tuple[Any, ...], commands: str, **options: Any) -> str:
    session, said = session_of(launch, *args, **options)
    session.script(commands.splitlines())
    return "\n".join(said) + "\n"


SCRIPTS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "stepping": (ring[1], ring_arguments(), """
        where
        step 3
        step
        agents
        agent warps 0-3
        step 3
        list
        step
        step
        next
        instruction 2
        variables
        print acc[0, 0:4]
        print r.stage
        back
        back 2
        goto 7
        restart
        until 26
        until 26 if k == 2
    """),
    "machine": (ring[1], ring_arguments(), """
        until 30
        waits
        barriers
        barriers full
        copies
        memory
        memory s
        land
        copies
        phase
        phase empty[1]
        print full
        print full[0].phase
        print s[1, 0, 0:4]
        continue
        print Y[0, 0:4]
        print s[1, 0, 0:4]
        waits
        step
        back
    """),
    "stops": (ring[1], ring_arguments(), """
        break 32 if k == 2
        break full[1] phase 1
        watch s[1, 0, 0]
        break
        continue
        continue
        delete 3
        continue
        continue
        delete
        break
        continue
    """),
    "deadlock": (stuck[1], (np.zeros(4, np.float32),), """
        continue
        agents
        waits
        back
        where
        findings
    """),
    "race": (racing[1], (np.ones(64, np.float32),), """
        continue
        back
        agent 1
        where
        continue
        findings
    """),
    "cluster": (pair[2], (np.zeros((2, 4), np.float32),), """
        agents
        step 3
        agent 1:all warps
        until 67
        waits
        print s.at(0)
        print s.at(1)
        print s
        continue
    """),
    "mistakes": (ring[1], ring_arguments(), """
        jump
        break 1000
        break nothing
        break full[0] phase x
        until nothing
        agent 9
        agent warp 77
        print
        print nothing
        print X[
        print __import__("os").getcwd()
        print (lambda: 1)()
        print X[1000]
        print full[0].secret
        print X.at(1)
        print 1 / 0
        print X.at(9)
        step -1
        delete 4
        memory nothing
        barriers nothing
        watch nothing
        step x
    """),
    "pipe": (piped[1], (np.ones((3, 32), np.float32), np.zeros((3, 32), np.float32)), """
        break pipe.full[0]
        continue
        print pipe.full
        print pipe.empty[1].pending
        barriers pipe.empty
        print pipe
        delete 1
        until 85 if k == 2
        barriers pipe.full
        continue
    """),
    "help": (ring[1], ring_arguments(), "help\n# a comment\n\nquit\nhelp"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says(name: str, regenerate: bool) -> None:
    launch, args, commands = SCRIPTS[name]
    text = transcript(launch, args, commands)
    path = EXPECTED / f"{name}.txt"
    if regenerate:
        path.write_text(text)
    assert text == path.read_text(), "read the difference, then rewrite with --regenerate"


def test_every_command_is_tried() -> None:
    from phalanx.sim.debug.commands import COMMANDS

    tried = {line.split()[0] for _, _, text in SCRIPTS.values() for line in text.splitlines() if line.strip()}
    assert {command.names[0] for command in COMMANDS} <= tried


def test_arguments_are_copied() -> None:
    x, y, n = ring_arguments()
    session, _ = session_of(ring[1], x, y, n)
    session.do("continue")
    assert not y.any() and session.run.args[1].any()


@pytest.mark.parametrize("schedule", ["late", "early", "random"])
def test_findings_of_every_schedule_stop(schedule: str) -> None:
    session, said = session_of(racing[1], np.ones(64, np.float32), schedule=schedule, seed=1)
    session.do("continue")
    assert said[-1].startswith(("race: ", "suspected uninitialised-read: "))


def test_what_kernels_print_is_said_once() -> None:
    @px.kernel(warps=1)
    def talks(X):
        px.print("one")
        px.store(X[0:4], px.zeros((4,), px.f32))
        px.print("two")

    session, said = session_of(talks[1], np.ones(4, np.float32))
    session.do("step", "step", "back", "continue")
    text = "\n".join(said)
    assert text.count("all warps: one") == text.count("all warps: two") == 1


def test_a_breakpoint_stops_where_its_condition_holds() -> None:
    @px.kernel(warps=1)
    def kernel(X, n):
        for k in range(n):
            x = px.load(X[k, 0:4])
            px.breakpoint(x > 2.0)
        px.breakpoint(n > 100)
        px.breakpoint()

    x = np.ones((4, 4), np.float32)
    x[2, 1] = 3
    session, said = session_of(kernel[1], x, 4)
    session.do("continue", "print k", "print x", "continue", "continue")
    assert [text.splitlines()[0] for text in said] == [
        "px.breakpoint", "k = 2", "x: f32[4]", "px.breakpoint", "the run is over (tick 13): 0 findings",
    ]


def test_an_error_of_the_run_is_told() -> None:
    @px.kernel(warps=1)
    def kernel(X, n):
        px.device_assert(n > 3, "n is small")

    session, said = session_of(kernel[1], np.ones(4, np.float32), 1)
    session.do("continue")
    assert "assert: n is small (block (0, 0, 0), all warps)" in said[-1] and "px.device_assert(n > 3" in said[-1]


def test_questions_are_asked_until_quit() -> None:
    answers = iter(["step", "", "quit", "never read"])
    session, said = session_of(ring[1], *ring_arguments())
    session.interact(lambda prompt: next(answers))
    assert len(said) == 3 and said[1] != said[2] and next(answers) == "never read"


def test_a_long_run_stays_usable() -> None:
    """Ten thousands of ticks, there and back, in a second or two."""
    x, y, _ = ring_arguments()
    session, said = session_of(ring[1], x, y, 700)
    session.do("until 32 if k == 650", "back", "print k")
    assert said[-1] == "k = 650"


@px.kernel(warps=2)
def late_waiter(X):
    """Where the barrier runs ahead of its waiter, the wait never passes."""
    bar = px.barrier(count=1, checked=False)
    with px.warps(0, 1):
        bar.wait(0)
    with px.warps(1, 1):
        bar.arrive()
        bar.arrive()


@pytest.mark.parametrize(("schedule", "ends"), [("late", "the run is over"), ("found", "deadlock: no agent")])
def test_an_order_that_shows_a_finding_can_be_asked_for(schedule: str, ends: str) -> None:
    """No usual order holds the waiter back; the checks do, and a session in their order is stuck too."""
    session, said = session_of(late_waiter[1], np.zeros(4, np.float32), schedule=schedule)
    session.do("continue")
    assert said[-1].startswith(ends)
    if schedule == "found":
        session.do("back", "waits")
        assert session.run.schedule.kind == "starve"


def test_the_usual_order_is_taken_where_nothing_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    @px.kernel(warps=1)
    def fine(X):
        px.print("here")
        px.store(X[0:4], px.zeros((4,), px.f32))

    session, said = session_of(fine[1], np.zeros(4, np.float32), schedule="found")
    assert session.run.schedule.kind == "late" and capsys.readouterr().out == ""
    session.do("continue")
    assert said == ["block (0, 0, 0), all warps: here\nthe run is over (tick 4): 0 findings"]


def test_a_run_that_goes_on_can_be_interrupted() -> None:
    """It stops before the next instruction, and goes on from there."""
    session, said = session_of(ring[1], *ring_arguments())

    def interrupt(agent: object, at_line: bool) -> str:
        session.interrupted = session.run.tick == 40
        return ""

    session.say(session.go(interrupt))
    assert said[-1].startswith("interrupted\nwarps 0-3, CTA 0, cluster 0, at kernels.py:33 (tick 41)")
    session.do("continue")
    assert said[-1] == "the run is over (tick 106): 0 findings"


@px.func
def shifted(y):
    x = y + 100.0
    return x * 1.0


@px.kernel(warps=1)
def with_helpers(X, Y, *, K=2):
    x = px.load(X[0:4])
    y = shifted(x)
    best, places = px.topk(y, K, axis=0)
    n = 40 + K
    px.store(Y[0:K], best + places + n + px.sum(x))


@pytest.mark.parametrize(("name", "value"), [
    ("x", [1, 2, 3, 4]), ("y", [101, 102, 103, 104]), ("best", [104, 103]), ("places", [3, 2]),
])
def test_names_are_those_of_the_function_that_is_run(name: str, value: list[int]) -> None:
    """Not those of helpers that it called, of the user's or of the language, which use the same ones."""
    session, said = session_of(with_helpers[1], np.array([1, 2, 3, 4], np.float32), np.zeros(2, np.float32))
    stored = with_helpers.location.line + 5
    session.script([f"break {stored}", "continue", f"print {name}"])
    numbers = [float(part) for part in said[-1].partition("[")[2].partition("[")[2].rstrip("] \n").split()]
    assert numbers == value, said[-1]
