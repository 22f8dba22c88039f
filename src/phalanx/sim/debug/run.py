"""A simulated run that stops before every instruction, and that is replayed from its start to go back.

The order of events is the schedule's, as in a run that nobody watches: to stop changes nothing. So the number of a stop
(its *tick*) names a state of the run, and the same number is the same state again.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import phalanx.sim.ops  # noqa: F401  (registers what the instructions mean)
from phalanx.errors import Error
from phalanx.ir.core import Function, Op
from phalanx.location import NOWHERE, Location
from phalanx.sim.agents import BLOCKED, Agent
from phalanx.sim.engines import Copy
from phalanx.sim.machine import Cluster, Machine
from phalanx.sim.monitor import Monitor
from phalanx.sim.run import check_arguments, code_of, grid_of, with_counters
from phalanx.sim.scheduler import Schedule, Scheduler

WAITS = f"yield {BLOCKED}"
"""Where an agent stands in the generated code while it waits."""
AgentName = tuple[int, int, int]
"""Cluster, CTA, and the number of the agent there: 0 is the code outside roles."""


@dataclass
class Start:
    """What a run begins with: arguments that it may change, who watches it, and what that one has found so far.

    `count` says how many findings there are, and is asked at every tick; `texts` gives them as people read them; `finish`
    those that are certain once the run is over; `failed` is told of the error that ended it.
    """

    args: list[Any]
    monitor: Monitor | None = None
    count: Callable[[], int] = lambda: 0
    texts: Callable[[], list[str]] = list
    finish: Callable[[], list[str]] = list
    failed: Callable[[Error], None] = lambda error: None


@dataclass
class Position:
    """Where an agent is: the instruction that it runs next or waits in, and the place of that in the generated code."""

    op: Op | None = None
    line: int = 0

    @property
    def place(self) -> Location:
        """The user's line; `NOWHERE` before an agent has begun."""
        return NOWHERE if self.op is None else self.op.loc


@dataclass
class Seen:
    """What the run knows of an agent: its position, that before it, and the ticks at which it came to a source line."""

    position: Position = field(default_factory=Position)
    before: Position = field(default_factory=Position)
    ticks: list[int] = field(default_factory=list)


class Run:
    """One launch. `advance` goes on by one instruction, `replay` goes to any tick.

    Whoever calls `advance` keeps NumPy from warning of what the kernel computes: ``with np.errstate(all="ignore")``.
    """

    def __init__(
        self, function: Function, grid: int | Sequence[int], start: Callable[[], Start], schedule: Schedule | None = None,
        sms: int | None = None,
    ) -> None:
        self.function = function
        self.dims = grid_of(function, grid)
        self.start = start
        self.schedule = schedule or Schedule()
        self.sms = sms
        self.out = io.StringIO()
        self.begin()

    def begin(self) -> None:
        """Back to the start: new arguments, a new machine."""
        self.started = self.start()
        args = with_counters(self.function, self.started.args)
        check_arguments(self.function, args)
        self.args = args
        self.code = code_of(self.function, preempt=self.schedule.kind in ("random", "starve"), stepped=True)
        self.out.seek(0)
        self.out.truncate()
        self.machine = Machine(
            self.function, self.dims, tuple(args), self.code, early=self.schedule.kind == "early",
            monitor=self.started.monitor, out=self.out,
        )
        self.machine.budget.progress.shown = False  # whoever steps through a run knows that it takes long
        self.scheduler = Scheduler(self.machine, self.schedule, self.sms)
        self.steps: Iterator[Agent | Copy] = self.scheduler.steps()
        self.tick = 0
        self.now: Agent | Copy | None = None
        self.doer: Agent | Copy | None = None
        self.error: Error | None = None
        self.over = False
        self.seen: dict[AgentName, Seen] = {}
        self.current: Seen | None = None
        """What is known of the agent that goes on next; None where a copy has just made a step."""
        self._numbers: dict[Agent, int] = {}

    def advance(self) -> bool:
        """Goes on by one instruction of an agent, or one step of a copy. False: the run has ended."""
        if self.over:
            return False
        before = self.now
        try:
            self.now = next(self.steps)
        except StopIteration:
            self.over = True
        except Error as error:
            self.error = error
            self.over = True
            self.started.failed(error)
        self.tick += 1
        if self.over:
            self.now = None
        self.current = self._note(self.now) if isinstance(self.now, Agent) else None
        self.doer = self.now if isinstance(self.now, Copy) else before
        return not self.over

    def done_by(self) -> str:
        """Whose work lies between the tick before and this one: a copy that made a step, else an agent."""
        doer = self.doer
        if isinstance(doer, Copy):
            return f"{doer.op.call} of {doer.op.loc.short} for {doer.agent.role} of CTA {doer.agent.cta.rank}"
        if doer is None or (seen := self.seen.get(name_of(doer))) is None:
            return ""
        position = seen.before if doer is self.now else seen.position
        return f"{doer.role} of CTA {doer.cta.rank} at {position.place.short}"

    @property
    def at_line(self) -> bool:
        """Whether the agent that goes on next has come to another line, or once more to the beginning of the same one."""
        return self.current is not None and self.current.ticks[-1:] == [self.tick]

    def _note(self, agent: Agent) -> Seen:
        cta = agent.cta
        number = self._numbers.get(agent)
        if number is None:
            number = self._numbers[agent] = family(cta.main).index(agent)
        name = (cta.cluster.index, cta.rank, number)
        seen = self.seen.get(name)
        if seen is None:
            seen = self.seen[name] = Seen()
        before = seen.before = seen.position
        line = agent.generator.gi_frame.f_lineno
        after = seen.position = Position(self.code.ops[line], line)
        if (line <= before.line or after.op is not before.op) and comes_to_line(before, after):
            seen.ticks.append(self.tick)
        return seen

    def replay(self, tick: int) -> None:
        """To the state at a tick, by the same order of events from the start."""
        if tick < self.tick:
            self.begin()
        with np.errstate(all="ignore"):
            while self.tick < tick and self.advance():
                pass

    # --- who is there -----------------------------------------------------------------------------------------------

    @property
    def clusters(self) -> list[Cluster]:
        """The clusters that have started and not ended, by their place in the grid."""
        return sorted(self.scheduler.active, key=lambda cluster: cluster.index)

    def agents(self) -> list[Agent]:
        """Every agent that has started and not ended."""
        return [agent for cluster in self.clusters for agent in cluster.agents()]

    def seen_place(self, agent: Agent) -> Location:
        """The line that an agent came to last."""
        return self.seen[name_of(agent)].position.place

    def find(self, name: AgentName) -> Agent | None:
        """The agent of that name, while its cluster is there."""
        cluster, rank, number = name
        found = next((each for each in self.clusters if each.index == cluster), None)
        return None if found is None else family(found.ctas[rank].main)[number]


def family(main: Agent) -> tuple[Agent, ...]:
    """The agents of a CTA: the code outside roles, then all copies of roles."""
    return (main, *main.children)


def name_of(agent: Agent) -> AgentName:
    """What names the agent in every replay."""
    cta = agent.cta
    return cta.cluster.index, cta.rank, family(cta.main).index(agent)


def who(agent: Agent) -> str:
    """`warp 0, CTA 1, cluster 0`."""
    return f"{agent.role}, CTA {agent.cta.rank}, cluster {agent.cta.cluster.index}"


def position_of(agent: Agent, run: Run) -> Position:
    """Where an agent that is alive stands."""
    frame = None if agent.generator is None else agent.generator.gi_frame
    line = 0 if frame is None else frame.f_lineno
    return Position(run.code.op_at(line), line)


def awaited(agent: Agent, run: Run) -> Any:
    """What the agent waits for: a barrier, that of the cluster, its groups, a list of roles; None where it can go on."""
    frame = None if agent.generator is None else agent.generator.gi_frame
    if frame is None or not agent.alive or agent.waiting is None or agent in agent.cta.cluster.ready:
        return None
    return agent.waiting[1] if run.code.lines[frame.f_lineno - 1].lstrip() == WAITS else None


def comes_to_line(before: Position, after: Position) -> bool:
    """Whether an agent that went on is at another source line now, or once more at the beginning of the same one."""
    if after.op is None or after.place is NOWHERE:
        return False
    return (before.place.file, before.place.line) != (after.place.file, after.place.line) or after.line <= before.line


def outermost(place: Location) -> Location:
    """The kernel's own line, where a place is in a function that was inlined."""
    while place.caller is not None:
        place = place.caller
    return place
