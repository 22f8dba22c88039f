"""What happened in a simulated run, on a clock of plain units: who worked when, who waited for whom, which stage held what.

The simulator has no clock; it says what comes before what. Here every piece of work gets a length in units, the same for all
of its kind, and begins when what it needs is over. That shows how a kernel overlaps. It is no prediction of times.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

from phalanx.ir import effects as fx
from phalanx.ir.core import Op
from phalanx.ir.engines import COPY_ENGINE, Engine
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.monitor import Monitor
from phalanx.sim.places import BufferPlace

Accesses = list[tuple[fx.Access, Any, list[int] | None]]
ACCESS, SIGNAL, ENGINE = 2.0, 0.5, 6.0
"""Units: an access by threads, a signal, a piece of work of an engine (a copy, a product)."""


@dataclass(frozen=True)
class Lane:
    """A row of a timeline: an agent, or an engine that works for it, in a CTA of the first cluster."""

    cta: int
    first: int
    """Its first warp."""
    engine: str
    """"" for the agent itself."""
    title: str


@dataclass(frozen=True)
class Span:
    """Work, or a wait, from one time to another."""

    start: float
    end: float
    kind: str
    """"work", "signal", "wait", or the engine's "copy", "product"."""
    text: str


@dataclass(frozen=True)
class Use:
    """A buffer's stage is written or read, in a CTA."""

    cta: int
    buffer: str
    stage: int
    stages: int
    start: float
    end: float
    writes: bool


@dataclass
class SimRecording:
    """All of it, for the first cluster of the grid."""

    spans: dict[Lane, list[Span]] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)

    @property
    def end(self) -> float:
        """When the last piece of work is over."""
        return max((span.end for spans in self.spans.values() for span in spans), default=0.0)


class Recorder(Monitor):
    """Listens to a run. Times of agents are their own; a wait takes over the time of what it waited for."""

    spans: tuple[fx.Span, ...] = (fx.Span.CLUSTER,)

    def __init__(self) -> None:
        self.made = SimRecording()
        self.now: dict[Agent, float] = {}
        self.over: dict[tuple[MBarrier, int], float] = {}
        self.copies: dict[Any, float] = {}
        self.groups: dict[tuple[Agent, Engine], list[list[float]]] = {}
        self.cluster: dict[int, float] = {}

    # --- the clock ------------------------------------------------------------------------------------------------------

    def time(self, agent: Agent) -> float:
        return self.now.get(agent, 0.0)

    def passes(self, agent: Agent, op: Op, length: float, kind: str) -> float:
        """The agent works; gives the time at which it began."""
        start = self.time(agent)
        self.now[agent] = start + length
        self.add(agent, "", Span(start, start + length, kind, told(op)))
        return start

    def waits(self, agent: Agent, op: Op, until: float) -> None:
        """The agent waits until a time, if that is not past."""
        start = self.time(agent)
        if until > start:
            self.now[agent] = until
            self.add(agent, "", Span(start, until, "wait", told(op)))

    def add(self, agent: Agent, engine: str, span: Span) -> None:
        if agent.cta.cluster.index == 0:
            title = engine or (agent.name if agent.name == f"warp {agent.first}" else agent.title)
            lane = Lane(agent.cta.rank, agent.first if agent.parent is not None else -1, engine, title)
            self.made.spans.setdefault(lane, []).append(span)

    def use(self, place: Any, ranks: list[int] | None, start: float, end: float, writes: bool) -> None:
        """A use of a stage, where the place is one."""
        if not isinstance(place, BufferPlace) or place.cta.cluster.index or len(place.buffer.shape) < 3:
            return
        stage = place.key[0] if isinstance(place.key, tuple) and place.key else None
        if isinstance(stage, int):
            stages = int(place.buffer.shape[0])
            for rank in ranks if ranks is not None else [place.cta.rank]:
                self.made.uses.append(Use(rank, place.buffer.name, stage, stages, start, end, writes))

    # --- what the run tells ----------------------------------------------------------------------------------------------

    def fork(self, parent: Agent, child: Agent) -> None:
        self.now[child] = self.time(parent)

    def join(self, parent: Agent, child: Agent) -> None:
        self.now[parent] = max(self.time(parent), self.time(child))

    def access(self, agent: Agent, op: Op, access: fx.Access, place: Any, ranks: list[int] | None) -> None:
        start = self.passes(agent, op, ACCESS, "work")
        self.use(place, ranks, start, start + ACCESS, access.mode is not fx.Mode.READ)

    def issue(self, agent: Agent, op: Op, copy: Any, accesses: Accesses) -> None:
        self.copies[copy] = self.engine_works(agent, op, accesses)

    def work_given(self, agent: Agent, op: Op, accesses: Accesses) -> None:
        self.engine_works(agent, op, accesses)

    def engine_works(self, agent: Agent, op: Op, accesses: Accesses) -> float:
        """An engine begins a piece of work, where it works in order when the one before is over; gives its end."""
        start = self.passes(agent, op, SIGNAL, "signal") + SIGNAL
        engine = next((access.engine for access, _, _ in accesses if access.engine is not None), COPY_ENGINE)
        groups = self.groups.setdefault((agent, engine), [[]])
        if engine.in_order:
            start = max([start, *(end for group in groups for end in group)])
        end = start + ENGINE
        groups[-1].append(end)
        self.add(agent, engine.name, Span(start, end, engine.work, told(op)))
        for access, place, ranks in accesses:
            writes = access.mode is not fx.Mode.READ
            self.use(place, ranks, start, end if writes or not engine.reads_apart else end - ENGINE / 2, writes)
        return end

    def complete(self, copy: Any, barrier: MBarrier | None) -> None:
        if barrier is not None:
            self.signalled(barrier, self.copies.get(copy, 0.0))

    def arrive(self, agent: Agent, op: Op, barrier: MBarrier, count: int) -> None:
        start = self.passes(agent, op, SIGNAL, "signal")
        self.signalled(barrier, start + SIGNAL)

    def signalled(self, barrier: MBarrier, time: float) -> None:
        key = (barrier, barrier.phase)
        self.over[key] = max(self.over.get(key, 0.0), time)

    def wait_passed(self, agent: Agent, op: Op, barrier: MBarrier, phase: int) -> None:
        self.waits(agent, op, self.over.get((barrier, phase), 0.0))

    def signal_asked(self, signal: Any) -> None:
        mine = (groups for (agent, _), groups in self.groups.items() if agent is signal.agent)
        given = (time for groups in mine for group in groups for time in group)
        self.copies[signal] = max([self.time(signal.agent), *given])

    def signal_given(self, signal: Any, barrier: MBarrier) -> None:
        self.signalled(barrier, self.copies.get(signal, 0.0))

    def commit(self, agent: Agent, op: Op, engine: Engine) -> None:
        self.groups.setdefault((agent, engine), [[]]).append([])

    def groups_passed(self, agent: Agent, op: Op, engine: Engine, newest: int, read: bool) -> None:
        closed = self.groups.get((agent, engine), [[]])[:-1]
        ended = [time for group in closed[: max(0, len(closed) - newest)] for time in group]
        self.waits(agent, op, max(ended, default=0.0) - (ENGINE / 2 if read else 0.0))

    def rendezvous(self, agent: Agent, op: Op, rendezvous: fx.Rendezvous, phase: int) -> None:
        self.cluster[phase] = max(self.cluster.get(phase, 0.0), self.time(agent))

    def cluster_passed(self, agent: Agent, op: Op, phase: int) -> None:
        self.waits(agent, op, self.cluster.get(phase, 0.0))


def told(op: Op) -> str:
    """The line of an instruction, as a reader finds it."""
    return f"{op.loc.short}: {op.loc.text.strip()}" if op.loc.text else op.loc.short


def record(launch: Any, *args: Any, arch: str | None = None, **constants: Any) -> SimRecording:
    """Runs a kernel in the simulator, on copies of its arguments, and records the first cluster of its grid.

    Anyone may call it, outside kernels; no GPU is needed. Example: ``timeline_picture(record(copy[2], x, y))``.
    """
    from phalanx.runtime.device.devices import SIMULATED_SMS
    from phalanx.runtime.launch.auto_grid import leaves_grid
    from phalanx.runtime.launch.dispatch import debugging, function_for, on_host, require_data
    from phalanx.runtime.launch.options import named_arch
    from phalanx.runtime.launch.specialise import normalise_grid, read_arguments, resolved_constants, specialise
    from phalanx.sanitizer.runs import copies_of
    from phalanx.sim.run import simulate

    kernel, recorder = launch.kernel, Recorder()
    with debugging(kernel):
        values = kernel.bind_constants(constants)
        arguments = require_data(kernel, read_arguments(kernel, args))
        specialisation = specialise(kernel, arguments, values)
        function = function_for(specialisation, named_arch(arch))
        if leaves_grid(launch.grid):
            grid = specialisation.fitting(launch.grid, arguments, numbers=True).in_simulator()
        else:
            grid = normalise_grid(kernel, launch.grid, resolved_constants(kernel, arguments, values))
        simulate(function, grid, copies_of(on_host(arguments)), monitor=recorder, out=io.StringIO(), sms=SIMULATED_SMS)
    return recorder.made
