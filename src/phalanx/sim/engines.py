"""Asynchronous copies: issued by an agent, carried out later by the scheduler, step by step.

A load has one step: it reads global memory, writes shared memory and credits its bytes; so have a push and a send from
CTA to CTA. A store has two, which is what `tma.wait(n, read=True)` and `tma.wait(n)` tell apart: it reads its shared
source, and later writes global memory.

An engine whose work ends with a commit gets it by `give` and `signal_when_done`: a family that has such an engine needs
nothing else here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from phalanx.ir.core import Op
from phalanx.ir.engines import Engine

if TYPE_CHECKING:
    from phalanx.sim.agents import Agent
    from phalanx.sim.barriers import MBarrier
    from phalanx.sim.places import GlobalPlace


class BulkGroup:
    """Copies committed together: how many have not read their source yet, how many have not written yet."""

    __slots__ = ("reads", "writes")

    def __init__(self) -> None:
        self.reads = 0
        self.writes = 0


class Copy:
    """Work in flight. `step` does the next part and says whether more is left."""

    __slots__ = ("agent", "op", "watch")

    agent: Agent
    op: Op
    watch: Any
    """What a monitor keeps of it; not set before."""
    barriers: tuple[MBarrier, ...] = ()
    """What it completes on; nothing where it belongs to a group."""

    def step(self) -> bool:
        """Does the next part of the work, and says whether more is left."""
        raise NotImplementedError


class LoadCopy(Copy):
    """Global to shared memory: the same tile into every destination, all its bytes on each one's barrier."""

    __slots__ = ("barriers", "destinations", "nbytes", "source")

    def __init__(
        self, agent: Agent, op: Op, source: GlobalPlace, destinations: tuple[np.ndarray, ...],
        barriers: tuple[MBarrier, ...], nbytes: int,
    ) -> None:
        self.agent = agent
        self.op = op
        self.source = source
        self.destinations = destinations
        self.barriers = barriers
        self.nbytes = nbytes

    def step(self) -> bool:
        """Reads global memory, writes every destination and credits its barriers."""
        for destination in self.destinations:
            self.source.copy_to(destination)
        monitor = self.agent.cta.cluster.machine.monitor
        for barrier in self.barriers:
            if monitor is None or monitor.complete(self, barrier) is not False:
                barrier.complete(self.nbytes, self.op)
        return False


class PushCopy(Copy):
    """One CTA's shared memory or registers into another's shared memory, its bytes on that one's barrier; `convert`
    makes what arrives."""

    __slots__ = ("barriers", "convert", "destination", "nbytes", "source")

    def __init__(
        self, agent: Agent, op: Op, source: np.ndarray, destination: np.ndarray, convert: Callable[[np.ndarray], Any],
        barrier: MBarrier, nbytes: int,
    ) -> None:
        self.agent = agent
        self.op = op
        self.source = source
        self.destination = destination
        self.convert = convert
        self.barriers = (barrier,)
        self.nbytes = nbytes

    def step(self) -> bool:
        """Writes the destination and credits its barrier."""
        self.destination[...] = self.convert(self.source)
        monitor = self.agent.cta.cluster.machine.monitor
        (barrier,) = self.barriers
        if monitor is None or monitor.complete(self, barrier) is not False:
            barrier.complete(self.nbytes, self.op)
        return False


class SendCopy(Copy):
    """Words out of registers into the same place of several CTAs, their bytes on each one's barrier."""

    __slots__ = ("barriers", "destinations", "nbytes", "words")

    def __init__(
        self, agent: Agent, op: Op, words: np.ndarray, destinations: tuple[np.ndarray, ...],
        barriers: tuple[MBarrier, ...], nbytes: int,
    ) -> None:
        self.agent = agent
        self.op = op
        self.words = words
        self.destinations = destinations
        self.barriers = barriers
        self.nbytes = nbytes

    def step(self) -> bool:
        """Writes every destination and credits its barrier."""
        monitor = self.agent.cta.cluster.machine.monitor
        words = self.words
        size = words.size
        for destination, barrier in zip(self.destinations, self.barriers):
            destination[:size] = words
            if monitor is None or monitor.complete(self, barrier) is not False:
                barrier.complete(self.nbytes, self.op)
        return False


class StoreCopy(Copy):
    """Shared to global memory, plain or folding; belongs to a bulk group of its issuer."""

    __slots__ = ("data", "group", "source", "write")

    def __init__(
        self, agent: Agent, op: Op, source: np.ndarray, write: Callable[[np.ndarray], object], group: BulkGroup
    ) -> None:
        self.agent = agent
        self.op = op
        self.source = source
        self.write = write
        self.group = group
        self.data: np.ndarray | None = None

    def step(self) -> bool:
        """Reads its source at first, writes global memory later."""
        monitor = self.agent.cta.cluster.machine.monitor
        if self.data is None:
            self.data = self.source.copy()
            self.group.reads -= 1
            if monitor is not None:
                monitor.source_read(self)
            wake_if_groups_done(self.agent)
            return True
        self.write(self.data)
        self.group.writes -= 1
        if monitor is not None:
            monitor.complete(self, None)
        wake_if_groups_done(self.agent)
        return False


class Work(Copy):
    """A piece of work that an engine does by itself, and that ends with the next commit of its agent."""

    __slots__ = ("line", "run", "signals")

    def __init__(self, agent: Agent, op: Op, line: Line, run: Callable[[], object]) -> None:
        self.agent = agent
        self.op = op
        self.line = line
        self.run = run
        self.signals: list[Signal] = []

    @property
    def waits(self) -> bool:
        """Whether work before it has to be over first."""
        return self.line.engine.in_order and self.line.works[0] is not self

    def step(self) -> bool:
        """Does the work; what waited for it may go on."""
        self.run()
        self.line.over(self)
        return False


class Signal(Copy):
    """Arrivals that an engine makes, `count` on each of the barriers, once all the work before them is over."""

    __slots__ = ("barriers", "count", "left", "line")

    def __init__(self, agent: Agent, op: Op, line: Line, barriers: tuple[MBarrier, ...], count: int) -> None:
        self.agent = agent
        self.op = op
        self.line = line
        self.barriers = barriers
        self.count = count
        self.left = len(line.works)
        """Pieces of work that it waits for."""

    @property
    def waits(self) -> bool:
        """Whether work before it has to be over first."""
        return self.left > 0

    def step(self) -> bool:
        """Arrives on its barriers."""
        monitor = self.agent.cta.cluster.machine.monitor
        for barrier in self.barriers:
            if monitor is not None:
                monitor.signal_given(self, barrier)
            barrier.arrive(self.count, self.op)
        return False


class Line:
    """The work that one agent gave one engine and that is not over, oldest first."""

    __slots__ = ("engine", "works")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.works: deque[Work] = deque()

    def over(self, work: Work) -> None:
        """A piece of work is done: the next one may begin, and signals that waited for it alone go out."""
        cluster = work.agent.cta.cluster
        self.works.remove(work)
        if self.engine.in_order and self.works:
            cluster.pending.append(self.works[0])
        for signal in work.signals:
            signal.left -= 1
            if not signal.left:
                cluster.pending.append(signal)


def line_of(agent: Agent, engine: Engine) -> Line:
    """What the agent gave the engine and is not over."""
    line = agent.lines.get(engine)
    if line is None:
        line = agent.lines[engine] = Line(engine)
    return line


def give(agent: Agent, op: Op, engine: Engine, run: Callable[[], object]) -> None:
    """Gives an engine work, whose accesses end with a commit (`When.COMMIT`): `run` does it, at once or later."""
    cluster = agent.cta.cluster
    monitor = cluster.machine.monitor
    line = line_of(agent, engine)
    work = Work(agent, op, line, run)
    if monitor is not None:
        monitor.issue(agent, op, work, agent.issuing)
    if cluster.machine.early:
        run()
        return
    line.works.append(work)
    if not engine.in_order or len(line.works) == 1:
        cluster.pending.append(work)


def signal_when_done(agent: Agent, op: Op, engine: Engine, barriers: tuple[MBarrier, ...], count: int = 1) -> None:
    """A commit: the engine arrives on the barriers when all the work that the agent gave it is over (`Arrival.after`)."""
    cluster = agent.cta.cluster
    line = line_of(agent, engine)
    signal = Signal(agent, op, line, barriers, count)
    for work in line.works:
        work.signals.append(signal)
    monitor = cluster.machine.monitor
    if monitor is not None:
        monitor.signal_asked(signal)
    if cluster.machine.early:
        signal.step()
    elif not line.works:
        cluster.pending.append(signal)


def issue(copy: Copy) -> None:
    """Hands a copy to the engines of its cluster: it is carried out at once or later, as the schedule says."""
    agent = copy.agent
    cluster = agent.cta.cluster
    monitor = cluster.machine.monitor
    if monitor is not None:
        monitor.issue(agent, copy.op, copy, agent.issuing)
    if cluster.machine.early:
        while copy.step():
            pass
    else:
        cluster.pending.append(copy)


def join_open_group(agent: Agent) -> BulkGroup:
    """Counts one more copy in the group that the next commit closes."""
    group = agent.open_group
    if group is None:
        group = agent.open_group = BulkGroup()
    group.reads += 1
    group.writes += 1
    return group


def commit_group(agent: Agent) -> None:
    """Closes the open group. An empty one counts as a group too."""
    group = agent.open_group or BulkGroup()
    agent.reading.append(group)
    agent.writing.append(group)
    agent.open_group = None


def groups_done(agent: Agent, newest: int, read: bool) -> bool:
    """Whether all groups but the `newest` are over (with `read`: have read their sources)."""
    if read:
        groups = agent.reading
        while groups and not groups[0].reads:
            groups.popleft()
    else:
        groups = agent.writing
        while groups and not groups[0].writes:
            groups.popleft()
    return len(groups) <= newest


def wake_if_groups_done(agent: Agent) -> None:
    """Lets an agent go on that waits for its bulk groups, if they are done now."""
    waiting = agent.waiting
    if agent.cta.cluster.machine.patient:
        return
    if waiting is not None and isinstance(waiting[1], GroupWait):
        wait: Any = waiting[1]
        if groups_done(agent, wait.newest, wait.read):
            agent.waiting = None
            wait.passed()
            agent.queue.append(agent)


class GroupWait:
    """What an agent blocked in `tma.wait` waits for."""

    __slots__ = ("newest", "passed", "read")

    def __init__(self, newest: int, read: bool, passed: Callable[[], None]) -> None:
        self.newest = newest
        self.read = read
        self.passed = passed
