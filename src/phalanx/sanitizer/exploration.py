"""Every order of events that can make a difference: a search over choices, by running the kernel again and again.

Dynamic partial-order reduction with source sets and sleep sets. A run is taken to its end; each pair of events in it
that could as well have come the other way round, and does not commute, asks for a run in which it does. Arrivals and
bytes of one phase commute, and so do accesses of different bytes. Where a barrier gets more bytes than it expects, a part
of them may complete its phase, and which part depends on their order: none of its signals commute then, and the search
begins anew. A subtree of the search is a `Start`, so that it can be handed to another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.errors import Error
from phalanx.ir.core import Function
from phalanx.location import Location
from phalanx.sim.events import Event, Order, Process, Touch, orders, wakes
from phalanx.sim.steps import Steps


@dataclass
class Start:
    """A part of the search: the choices that lead to it, and what need not be begun there, because it was elsewhere."""

    choices: tuple[Process, ...] = ()
    asleep: dict[Process, list[Touch]] = field(default_factory=dict)


@dataclass
class Found:
    """What a part of the search saw."""

    explored: int = 0
    complete: bool = True
    outcomes: dict[bytes, int] = field(default_factory=dict)
    deadlocks: list[Error] = field(default_factory=list)
    errors: list[Error] = field(default_factory=list)
    clashes: set[frozenset[tuple[str, int]]] = field(default_factory=set)
    """Pairs of lines whose accesses of the same bytes, one a write, were possible at the same time."""

    def add(self, other: Found) -> None:
        """Adds what another part of the search found."""
        self.explored += other.explored
        self.complete = self.complete and other.complete
        for outcome, count in other.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + count
        for mine, theirs in ((self.deadlocks, other.deadlocks), (self.errors, other.errors)):
            for error in theirs:
                remember(mine, error)
        self.clashes |= other.clashes


def remember(errors: list[Error], error: Error) -> None:
    """One of each kind and place."""
    if not any(known.kind == error.kind and known.location == error.location for known in errors):
        errors.append(error)


class Node:
    """A state of the search: who can go on, who has been tried, who has to be."""

    __slots__ = ("asleep", "chosen", "enabled", "event", "todo", "tried")

    def __init__(self, enabled: list[Process], asleep: dict[Process, list[Touch]]) -> None:
        self.enabled = enabled
        self.asleep = asleep
        self.todo: set[Process] = set()
        self.tried: set[Process] = set()
        self.chosen: Process = ()
        self.event: Event | None = None

    def choose(self, process: Process) -> None:
        """This process goes on first."""
        self.chosen = process
        self.todo.add(process)
        self.tried.add(process)

    def next(self) -> Process | None:
        """Puts the last choice to sleep and names the next one."""
        if self.event is not None:
            self.asleep[self.chosen] = self.event.touches
        return next((p for p in self.enabled if p in self.todo and p not in self.tried and p not in self.asleep), None)


class Search:
    """Explores what follows a start, at most `limit` runs of it."""

    def __init__(self, steps: Steps, start: Start, limit: int) -> None:
        self.steps = steps
        self.start = start
        self.limit = limit
        self.begin()

    def begin(self) -> None:
        """From nothing, but for the barriers whose signals do not commute: who sleeps because of one is woken."""
        overfull = self.steps.overfull
        self.asleep = {
            p: touches for p, touches in self.start.asleep.items() if not any(t.key in overfull for t in touches)
        }
        self.nodes: list[Node] = []
        self.found = Found()

    def run(self) -> Found:
        """Explores orders of events until none is left, or the limit is reached."""
        runs = 0
        while True:
            if runs >= self.limit:
                self.found.complete = False
                return self.found
            runs += 1
            known = len(self.steps.overfull)
            self.once()
            if len(self.steps.overfull) > known:
                self.begin()
                runs = 0
                continue
            while self.nodes:
                node = self.nodes[-1]
                process = node.next()
                if process is not None:
                    node.choose(process)
                    break
                self.nodes.pop()
            else:
                return self.found

    def once(self) -> None:
        """One run: the choices so far, then new ones until the end."""
        steps = self.steps
        steps.reset()
        for process in self.start.choices:
            steps.step(process)
        self.first = len(steps.trace)
        for depth, node in enumerate(self.nodes):
            node.event = steps.step(node.chosen)
            if depth == len(self.nodes) - 1:  # of the events before it the races are known
                self.note(node.event)
        asleep = self.asleep
        if self.nodes:
            asleep = stay_asleep(self.nodes[-1])
        while enabled := steps.enabled():
            awake = [process for process in enabled if process not in asleep]
            if not awake:  # all that could follow was seen in another order
                return
            process = awake[0]
            node = Node(enabled, dict(asleep))
            node.choose(process)
            self.nodes.append(node)
            node.event = steps.step(process)
            self.note(node.event)
            asleep = stay_asleep(node)
        self.end()

    def note(self, event: Event) -> None:
        """Takes down what could have come in another order than it did."""
        for one, two in self.steps.clashes:
            self.found.clashes.add(frozenset((line(one.loc), line(two.loc))))
        for before in self.steps.races:
            self.reverse(before, event)
        if any(touch.flips for touch in event.touches):  # a phase that a wait may have been for is past
            for wait in self.steps.blocked():
                self.wait_before(event, wait)
        # So may be a phase that the wait was for to which this event has led. When it passes at last it is after the phases
        # before, and no race with their signals is left to see. Any of these could have been the last of its phase, and
        # not only the one that was: that one may be the process's own, which the wait follows in every order.
        for wait in self.steps.blocked(event.process):
            for before in reversed(self.steps.trace):
                if any(touch.kind == "barrier" for touch in before.touches):
                    self.wait_before(before, wait)

    def end(self) -> None:
        """Notes what a run came to."""
        steps, found = self.steps, self.found
        steps.overfull |= steps.overfilled()
        found.explored += 1
        for error in (*steps.problems, *([steps.error] if steps.error is not None else ())):
            remember(found.errors, error)
        if steps.problems or steps.error is not None:
            return
        if steps.done:
            outcome = steps.outcome()
            found.outcomes[outcome] = found.outcomes.get(outcome, 0) + 1
            return
        remember(found.deadlocks, steps.stuck())
        for wait in steps.blocked():
            for before in reversed(steps.trace):
                self.wait_before(before, wait)

    def wait_before(self, event: Event, wait: Event) -> None:
        """Asks for a run in which a wait that has not passed yet passes before `event`, if nothing orders the two."""
        if not wait.follows(event) and orders(event, wait) is Order.RACE:
            self.reverse(event, wait)

    def reverse(self, before: Event, event: Event) -> None:
        """Asks for a run in which `event` comes before `before`."""
        trace = self.steps.trace
        position = trace.index(before) - self.first
        if position < 0:
            return  # every choice there is a start of its own
        node = self.nodes[position]
        sequence = [e for e in trace[self.first + position + 1 :] if not e.follows(before) and e is not event]
        sequence.append(event)
        initials = [
            e.process for i, e in enumerate(sequence) if not any(e.follows(earlier) for earlier in sequence[:i])
        ]
        if any(process in node.todo for process in initials):
            return
        able = [process for process in initials if process in node.enabled]
        node.todo.update(able[:1] or node.enabled)


def stay_asleep(node: Node) -> dict[Process, list[Touch]]:
    """Who is still asleep after the node's event."""
    assert node.event is not None
    done = node.event.touches
    return {p: t for p, t in node.asleep.items() if p != node.chosen and not wakes(done, t)}


def line(location: Location) -> tuple[str, int]:
    """The file and line of a place."""
    return (location.file, location.line)


def split(function: Function, grid: Sequence[int], args: Sequence[Any], parts: int, depth: int = 12) -> list[Start]:
    """Cuts the search into about `parts` starts: at the first choices, all of them are made."""
    steps = Steps(function, grid, args)
    starts = [Start()]
    for _ in range(depth):
        if len(starts) >= parts:
            break
        following: list[Start] = []
        for start in starts:
            asleep = dict(start.asleep)
            replay(steps, start.choices)
            for process in steps.enabled() or [None]:  # type: ignore[list-item]
                if process is None:
                    following.append(start)
                    break
                if process in asleep:
                    continue
                replay(steps, start.choices)
                event = steps.step(process)
                kept = {p: t for p, t in asleep.items() if not wakes(event.touches, t)}
                following.append(Start((*start.choices, process), kept))
                asleep[process] = event.touches
        starts = following
    return starts


def replay(steps: Steps, choices: Sequence[Process]) -> None:
    """Runs the kernel again up to where these choices lead."""
    steps.reset()
    for process in choices:
        steps.step(process)


def explore_part(function: Function, grid: Sequence[int], args: list[Any], start: Start, limit: int) -> Found:
    """What another process is asked to do."""
    return Search(Steps(function, grid, args), start, limit).run()
