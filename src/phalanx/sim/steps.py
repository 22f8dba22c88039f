"""A run one event at a time: a driver chooses, again and again, which agent or copy in flight goes on.

Nothing waits by itself here: an agent that has come to a wait is *enabled* while what it asks for is so, and passes
when it is chosen, as a thread that polls would. The same choices give the same run.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from copy import copy as shallow
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir import effects as fx
from phalanx.ir.core import Function, Op
from phalanx.ir.ops.control import While
from phalanx.sim.agents import ASK, BLOCKED, POLL, STEP, TRY, Agent
from phalanx.sim.barriers import ClusterBarrier, MBarrier
from phalanx.sim.engines import BulkGroup, Copy, GroupWait, Line, Signal, Work, groups_done
from phalanx.sim.events import Event, Order, Process, Touch, order, tells
from phalanx.sim.machine import Cluster, Machine
from phalanx.sim.recorder import Asked, Recorder
from phalanx.sim.report import deadlock
from phalanx.sim.run import check_arguments, code_of, grid_of, with_counters, written_arrays
from phalanx.sim.scheduler import Schedule, Scheduler
from phalanx.sim.spins import polling, spinning_tests

GROUP_WAITS = (fx.GroupAction.WAIT, fx.GroupAction.WAIT_READ)
EVENT = 5_000
"""Steps of the budget that an event of an explored run counts: each is compared with those before it."""
Clock = dict[Process, int]
WRITTEN = "written by"
"""Before a process in a clock: of its events up to that one the writes alone are known."""


class Circle:
    """What an agent asks in a loop (the how many-th of its loops that ask), and its rounds since others changed that."""

    def __init__(self, loop: int) -> None:
        self.loop = loop
        self.keys: set[tuple[Any, ...]] = set()
        self.rounds = 0
        self.within = False
        """A round has begun and is not over: it does not count."""


class Steps:
    """The run of a prepared kernel. `reset` begins it anew, `enabled` says who can go on, `step` lets one go on."""

    def __init__(self, function: Function, grid: int | Sequence[int], args: Sequence[Any]) -> None:
        dims = grid_of(function, grid)
        args = with_counters(function, args)
        check_arguments(function, args)
        self.function = function
        self.args = list(args)
        self.first = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        self.written = written_arrays(function)
        self.shared_arrays = _overlapping(self.args)
        roots = {self.shared_arrays.get(param.index) for param in self.written} - {None}
        self.written |= {param for param in function.params if self.shared_arrays.get(param.index) in roots}
        self.arrays = {array: i for i, array in enumerate(function.barriers)}
        self.exit_op: Op = next(iter(function.walk()), Op())
        self.spinning = spinning_tests(function)
        self.recorder = Recorder(self)
        code = code_of(function, preempt=True)
        self.machine = Machine(
            function, dims, tuple(self.args), code, early=False, monitor=self.recorder, out=io.StringIO()
        )
        self.machine.patient = True
        self.most_events = max(1, self.machine.budget.limit // EVENT)
        self.resume = Scheduler(self.machine, Schedule("random"))._resume
        self.clusters = [Cluster(self.machine) for _ in range(self.machine.cluster_count)]
        self.names: dict[Agent, Process] = {}
        self.agents: dict[Process, Agent] = {}
        for index, cluster in enumerate(self.clusters):
            for cta in cluster.ctas:
                for number, agent in enumerate(_family(cta.main)):
                    name = ("agent", index, cta.rank, number)
                    self.names[agent] = name
                    self.agents[name] = agent
        self.overfull: set[tuple[Any, ...]] = set()
        """Barriers that ended a run like that (`overfilled`): a search adds to them, and begins anew."""
        self.local = {op: _is_local(op) for op in function.walk()}
        self.local |= {
            op: False for op in function.walk()
            if isinstance(op, While) and (asks := polling(op)) is not None and asks.whole
        }
        self.exchanges = {op for op in function.walk() if any(access.exchange for access in op.effects().accesses)}
        self.asks = {op: any(w.blocking for w in op.effects().waits) or _waits_only(op) for op in function.walk()}

    def reset(self) -> None:
        """Back to the start, with the arguments as they were."""
        for arg, first in zip(self.args, self.first):
            if isinstance(arg, np.ndarray) and arg.flags.writeable:
                np.copyto(arg, first)
        self.clocks: dict[Process, Clock] = {}
        self.knows: dict[Process, Clock] = {}
        self.counts: dict[Process, int] = {}
        self.ready: set[Agent] = set()
        self.polls: dict[Agent, set[tuple[Any, ...]]] = {}
        self.unanswered: dict[Agent, list[Asked]] = {}
        self.circles: dict[Agent, Circle] = {}
        self.between_rounds: set[Agent] = set()
        """Agents at the end of a round of a loop that asks; all others that can go on are before an instruction."""
        self.copies: dict[Process, Copy] = {}
        self.landed: dict[Process, Clock] = {}
        """What whoever learns of a copy learns of: its events, and the writes that it read."""
        self.issued: dict[Agent, int] = {}
        self.told: list[Work | Signal] = []
        """What engines were told to do by the event at hand."""
        self.since: dict[Copy, tuple[Clock, Clock]] = {}
        """For signals and work of an engine that can't begin yet: what comes before them."""
        self.over: dict[Line, list[tuple[Work, Clock, Clock]]] = {}
        """Work that is over, with what came before its end, and that end itself."""
        self.covered: dict[Signal, set[Work]] = {}
        self.published: dict[Process, Clock] = {}
        """What whoever waits for a signal learns of: the ends of the work that it tells of."""
        self.groups: dict[Agent, list[BulkGroup | None]] = {}
        self.products: dict[Agent, list[Any]] = {}
        self.steps_of_copies: dict[BulkGroup, list[tuple[bool, Clock, Clock]]] = {}
        self.joined: dict[Agent, list[Agent]] = {}
        self.forked: dict[Agent, Agent] = {}
        self.trace: list[Event] = []
        self.touched: dict[tuple[Any, ...], list[int]] = {}
        """By memory or barrier, the places in the trace of the events that touched it."""
        self.handing: list[int] = []
        """The places of the events that hand on what their agents know."""
        self.error: Error | None = None
        self.problems: list[Error] = []
        self.recorder.event = Event((), 0)
        self.machine.budget.renew()
        self.machine.begin()
        self.begun: set[Agent] = set()
        """The code outside roles of clusters that have just started."""
        self.free = self.machine.held
        self.refused: dict[Cluster, Process] = {}
        """By cluster, the request for another one that was refused first; its answer lands in each CTA by itself."""
        self.asked_again: list[tuple[Agent, Op]] = []
        """Requests of the event at hand after such a one."""
        try:
            for cluster in self.clusters:
                cluster.clear()
            with np.errstate(all="ignore"):
                self._settle()
        except Error as error:
            self._note(error)

    # --- choices ----------------------------------------------------------------------------------------------------

    def enabled(self) -> list[Process]:
        """Who can go on, in a fixed order."""
        if self.error is not None:
            return []
        able = [name for name, agent in self.agents.items() if self._able(agent)]
        return able + list(self.copies)

    def _able(self, agent: Agent) -> bool:
        if agent in self.ready:
            return agent not in self.polls
        waiting = agent.waiting
        if not agent.alive or waiting is None:
            return False
        thing: Any = waiting[1]
        if isinstance(thing, MBarrier):
            return not thing.live or bool((thing.phase ^ agent.wanted) & 1)
        if isinstance(thing, ClusterBarrier):
            return thing.passed(agent, waiting[0])
        if isinstance(thing, GroupWait):
            return groups_done(agent, thing.newest, thing.read)
        return False

    def step(self, process: Process) -> Event:
        """Lets `process` go on until it has done one thing that others may notice."""
        number = self.counts[process] = self.counts.get(process, 0) + 1
        event = self.recorder.event = Event(
            process, number, clock=dict(self.clocks.get(process, {})), known=dict(self.knows.get(process, {}))
        )
        event.clock[process] = event.known[process] = number
        if process in self.copies:
            event.own = self.landed.setdefault(process, {})
            event.own[process] = number
        try:
            with np.errstate(all="ignore"):
                copy = self.copies.get(process)
                if copy is not None:
                    self._step_copy(process, copy, event)
                else:
                    agent = self.agents[process]
                    changes = agent.changes
                    self._step_agent(agent, event)
                    if agent.changes == changes:
                        event.changes_nothing()
        except Error as error:
            self._note(error)
        self._relate(event)
        self.trace.append(event)
        if len(self.trace) > self.most_events:
            raise self._too_long(event)
        if self.error is None:
            try:
                with np.errstate(all="ignore"):
                    self._settle()
            except Error as error:
                self._note(error)
        self._check_requests()
        self._flips(event)
        return event

    def _check_requests(self) -> None:
        """A request of one who knows that another was refused; one that was on its way before is no mistake."""
        for agent, op in self.asked_again:
            refused = self.refused[agent.cta.cluster]
            if any(process[:-1] == refused for process in self.knows.get(self.names[agent], ())):
                self.problems.append(Error(
                    f"{op.call} asks for another cluster although a request before it was refused", location=op.loc,
                    kind="clc", remedy="leave the loop once px.clc.query says that nothing was granted",
                ))
        self.asked_again.clear()

    def _note(self, error: Error) -> None:
        """The run ends with that error; one that has no end is no order to compare with others."""
        if error.kind == "endless-loop":
            raise error
        self.error = error

    def _too_long(self, event: Event) -> Error:
        where = event.ops[-1].loc if event.ops else self.function.loc
        return Error(
            f"a run of '{self.function.name}' has more than {self.most_events:,} events",
            location=where, kind="endless-loop",
            remedy="explore a smaller case; one that needs more events gets them by the environment variable "
            f"PHALANX_STEPS={10 * self.machine.budget.limit} (an event counts {EVENT:,} steps)",
        )

    def _step_copy(self, process: Process, copy: Copy, event: Event) -> None:
        reads = getattr(copy, "data", None) is None
        self.recorder.copied(copy, reads=reads)
        if not copy.step():
            del self.copies[process]
        if isinstance(copy, Work):
            self.over.setdefault(copy.line, []).append((copy, event.clock, event.own))
        group = getattr(copy, "group", None)
        if group is not None:
            self.steps_of_copies.setdefault(group, []).append((reads, event.clock, event.own))

    def _step_agent(self, agent: Agent, event: Event) -> None:
        if agent in self.ready:
            self.ready.discard(agent)
            self._go_on(agent)
            return
        assert agent.waiting is not None
        op, thing = agent.waiting
        agent.waiting = None
        if isinstance(thing, MBarrier):
            if not thing.live:
                thing.require(op)
            self.recorder.touch(op, Touch("barrier", self.recorder.key(thing), "wait", agent.wanted, reached=thing.phase))
        elif isinstance(thing, ClusterBarrier):
            index = agent.cta.cluster.index
            self.recorder.touch(op, Touch("cluster", (index,), "wait", agent.cluster_phase))
        elif isinstance(thing, GroupWait):
            groups = self.groups.get(agent, [])
            for group in groups[: len(groups) - thing.newest] if thing.newest else groups:
                for reads, clock, own in self.steps_of_copies.get(group, ()) if group is not None else ():
                    if reads or not thing.read:
                        _join(event.clock, clock)
                        _join(event.known, own)
        self._go_on(agent)

    def _go_on(self, agent: Agent, *, begins: bool = False) -> None:
        """To its next instruction that others may notice, or to a wait; past one, where it is at the end of a round."""
        event, asked = self.recorder.event, self.recorder.asked
        asked.clear()
        self.unanswered.pop(agent, None)
        self.polls.pop(agent, None)
        between_rounds = agent in self.between_rounds
        self.between_rounds.discard(agent)
        code = self.resume(agent)
        while code in (STEP, ASK) and agent.alive:
            op = self.machine.code.op_at(agent.generator.gi_frame.f_lineno)
            done = not between_rounds or event.touches or asked
            if op is None or (done and not (self.local.get(op) or self.asks.get(op))):
                break
            between_rounds = between_rounds and bool(self.local.get(op) or self.asks.get(op))
            code = self.resume(agent)
        if agent.alive and code != BLOCKED:
            self.ready.add(agent)
            self._ask_again(agent, code, {touch.key for touch in event.touches} if not begins else set())

    def _ask_again(self, agent: Agent, code: int, keys: set[tuple[Any, ...]]) -> None:
        """A loop that has gone in a circle since others changed what it asks need not be asked before they do so again."""
        asked = self.recorder.asked
        circle = self.circles.get(agent)
        if circle is None or circle.loop != agent.loops:
            circle = self.circles[agent] = Circle(agent.loops)
        circle.keys |= keys
        circle.keys.update(self.recorder.key(barrier) for _, barrier, _ in asked)
        circle.within = code != POLL
        if code in (POLL, TRY):
            self.between_rounds.add(agent)
        if code == POLL:
            circle.rounds += 1
            if 0 < agent.circle <= circle.rounds:
                self.polls[agent] = circle.keys
                self.unanswered[agent] = list(asked)

    def _settle(self) -> None:
        """Agents that were just started or woken go on to their first instruction that others may notice."""
        moved = True
        while moved:
            moved = self._start()
            for cluster in self.clusters:
                while cluster.ready:
                    agent = cluster.ready.popleft()
                    moved = True
                    name = self.names[agent]
                    before = [self.forked.pop(agent)] if agent in self.forked else self.joined.pop(agent, [])
                    for other in before:
                        self._after(name, self.clocks.get(self.names[other], {}), self.knows.get(self.names[other], {}))
                    if not before:  # a cluster knows nothing of the one whose place it takes
                        known = {} if agent in self.begun else self.recorder.event.known
                        self._after(name, self.recorder.event.clock, known)
                    self.begun.discard(agent)
                    agent.waiting = None
                    self._go_on(agent, begins=True)
                while cluster.pending:
                    copy = cluster.pending.popleft()
                    number = self.issued[copy.agent] = self.issued.get(copy.agent, 0) + 1
                    issuer = self.names[copy.agent]
                    clock, known = self.since.pop(copy) if copy in self.since else self._of(issuer)
                    if isinstance(copy, Work | Signal):
                        self._after_work(("copy", *issuer[1:], number, 0), copy)
                    for part, landing in enumerate(landings(copy)):
                        name = ("copy", *issuer[1:], number, part)
                        self.copies[name] = landing
                        self._after(name, clock, known)
        for later in self.told:
            if later.waits:
                self.since[later] = self._of(self.names[later.agent])
        self.told.clear()

    def _start(self) -> bool:
        """Begins the clusters for which there is room."""
        started = False
        while self.free and (index := self.machine.next_cluster()) is not None:
            self.free -= 1
            self.clusters[index].start(index)
            self.begun.update(cta.main for cta in self.clusters[index].ctas)
            started = True
        return started

    def _after_work(self, process: Process, copy: Work | Signal) -> None:
        """Work of an engine that keeps order comes after that before it; a signal after what it tells of."""
        for work, clock, own in self.over.get(copy.line, ()):
            if isinstance(copy, Signal):
                if work in self.covered[copy]:
                    self._after(process, clock, own)
                    _join(self.published.setdefault(process, {}), own)
            elif copy.line.engine.in_order:
                self._after(process, clock, own)

    def _of(self, process: Process) -> tuple[Clock, Clock]:
        """What came before all that `process` does now, and what of it is known."""
        return dict(self.clocks.get(process, {})), dict(self.knows.get(process, {}))

    def _after(self, process: Process, clock: Clock, known: Clock) -> None:
        """What follows in `process` comes after all that."""
        _join(self.clocks.setdefault(process, {}), clock)
        _join(self.knows.setdefault(process, {}), known)

    # --- what came before what --------------------------------------------------------------------------------------

    def _relate(self, event: Event) -> None:
        """Fills in the event's clock; `races` are the events before it that could as well have come after it."""
        self.races: list[Event] = []
        self.clashes: list[tuple[Op, Op]] = []
        event.keys = {touch.key for touch in event.touches}
        over: list[Event] = []
        """Events whose writes are known to be over: what came before these is no clash with what comes after."""
        clock, known = event.clock, event.known
        for before in self._alike(event):
            process, number = before.process, before.number
            written = (WRITTEN, *process)
            follows = clock.get(process, 0) >= number
            knows = known.get(process, 0) >= number
            sees = knows or known.get(written, 0) >= number  # its writes, at least
            if sees:
                if event.own and event.reads_from(before):
                    _join(event.own, {written: number})
                over.append(before)
            if follows and knows:
                continue
            found, learns, clashes = _compared(before, event, sees, knows, over)
            told = learns or event.meets(before)
            for ops in clashes:
                if not (follows and all(map(self.exchanges.__contains__, ops))):  # a send tells what was read
                    self.clashes.append(ops)
            if found is Order.RACE and not follows:
                self.races.append(before)
            if found is not Order.FREE:
                _join(clock, before.clock)
            if told:
                if process[0] == "copy":
                    _join(known, before.own)
                    _join(known, self.published.get(process, {}))
                else:
                    _join(known, before.known)
        self.clocks[event.process], self.knows[event.process] = event.clock, event.known
        changed = event.changed()
        for agent, circle in self.circles.items():
            if changed and not changed.isdisjoint(circle.keys) and self.names[agent] != event.process:
                circle.rounds = -1 if circle.within else 0
                self.polls.pop(agent, None)

    def _alike(self, event: Event) -> list[Event]:
        """The events before it that touched what it touches, or hand on what they know as it does; newest first."""
        places = {place for key in event.keys for place in self.touched.get(key, ())}
        if event.hands:
            places.update(self.handing)
        here = len(self.trace)
        for key in event.keys:
            self.touched.setdefault(key, []).append(here)
        if event.hands:
            self.handing.append(here)
        return [self.trace[place] for place in sorted(places, reverse=True)]

    def _flips(self, event: Event) -> None:
        for i, touch in enumerate(event.touches):
            if touch.kind == "barrier" and touch.mode in ("signal", "expect"):
                cluster, rank, array, index = touch.key
                barrier = self.clusters[cluster].ctas[rank].barriers[self.function.barriers[array]][index]
                if barrier.phase != touch.number:
                    event.touches[i] = touch._replace(flips=True)

    # --- the end ----------------------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the run has come to its end."""
        return self.error is None and not self.copies and not any(cluster.live for cluster in self.clusters)

    def overfilled(self) -> set[tuple[Any, ...]]:
        """The barriers whose phase has all its arrivals, and more bytes than these expect."""
        barriers = (
            barrier for cluster in self.clusters for cta in cluster.ctas for row in cta.barriers.values() for barrier in row
        )
        return {self.recorder.key(barrier) for barrier in barriers if not barrier.pending and barrier.tx < 0}

    def stuck(self) -> Error:
        """What to say of a run in which nobody can go on."""
        live = [cluster for cluster in self.clusters if cluster.live]
        for cluster in live:
            cluster.spinning = [a for a in self.polls if a.cta.cluster is cluster]
        return deadlock(self.machine, live)

    def blocked(self, process: Process | None = None) -> list[Event]:
        """The waits that have not passed, and the tests that spin, as events that did not happen; of all, or of one."""
        found = []
        for name in self.agents if process is None else self.agents.keys() & {process}:
            agent = self.agents[name]
            asked = self.unanswered.get(agent, [])
            if agent.alive and agent.waiting is not None and isinstance(agent.waiting[1], MBarrier):
                asked = [(agent.waiting[0], agent.waiting[1], agent.wanted)]
            for op, barrier, parity in asked:
                touch = Touch("barrier", self.recorder.key(barrier), "wait", parity)
                clock = dict(self.clocks.get(name, {}))
                event = Event(name, self.counts.get(name, 0) + 1, [touch], [op], clock)
                clock[name] = event.number
                found.append(event)
        return found

    def outcome(self) -> bytes:
        """The arrays that the kernel writes, as they are now."""
        digest = hashlib.sha256()
        for param in self.function.params:
            if param in self.written:
                digest.update(np.ascontiguousarray(self.args[param.index]).tobytes())
        return digest.digest()


def _compared(
    before: Event, event: Event, sees: bool, knows: bool, over: list[Event]
) -> tuple[Order, bool, list[tuple[Op, Op]]]:
    """How two events stand to each other, whether the second learns of all that came before the first, and which of their
    accesses clash: the second `sees` the first one's writes, or `knows` all of it, or neither."""
    found, told, clashes = Order.FREE, False, []
    for i, first in enumerate(before.touches):
        if first.key not in event.keys:
            continue
        for j, second in enumerate(event.touches):
            how = order(first, second)
            found = max(found, how)
            told = told or tells(first, second)
            known = sees if first.mode == "write" else knows
            if how is Order.RACE and first.kind == "memory" and not known and _meet(before, first, second, over):
                clashes.append((before.ops[i], event.ops[j]))
    return found, told, clashes


def _meet(before: Event, first: Touch, second: Touch, over: list[Event]) -> bool:
    """Whether two accesses of which the first is not known to the second touch bytes that nobody has written in between."""
    if first.atomic and second.atomic:
        return False
    left = first.number & second.number
    for later in over:
        for touch in later.touches:
            if touch.mode == "write" and touch.key == first.key and _sees(later.known, before, first):
                left &= ~touch.number
    return bool(left)


def _sees(known: Clock, event: Event, touch: Touch) -> bool:
    """Whether a touch of an event is known."""
    written = known.get((WRITTEN, *event.process), 0) if touch.mode == "write" else 0
    return max(written, known.get(event.process, 0)) >= event.number


def _overlapping(args: Sequence[Any]) -> dict[int, int]:
    """Arrays that may have elements in common, with the first of them: they count as one element."""
    arrays = [(i, arg) for i, arg in enumerate(args) if isinstance(arg, np.ndarray)]
    return {
        i: min(j for j, other in arrays if np.may_share_memory(arg, other))
        for i, arg in arrays if any(j != i and np.may_share_memory(arg, other) for j, other in arrays)
    }


def landings(copy: Copy) -> list[Copy]:
    """A multicast lands in each CTA by itself: one copy for each."""
    destinations = getattr(copy, "destinations", ())
    if len(destinations) < 2 or len(destinations) != len(copy.barriers):
        return [copy]
    parts = []
    for i, (destination, barrier) in enumerate(zip(destinations, copy.barriers)):
        part: Any = shallow(copy)
        part.destinations, part.barriers = (destination,), (barrier,)  # the barrier may be in the other CTA of a pair
        part.watch = [(access, place, ranks and [ranks[i]]) for access, place, ranks in copy.watch]
        parts.append(part)
    return parts


def _family(agent: Agent) -> list[Agent]:
    found = [agent]
    for child in agent.children:
        found += _family(child)
    return found


def _join(clock: Clock, other: Clock) -> None:
    for process, number in other.items():
        if clock.get(process, 0) < number:
            clock[process] = number


def _is_local(op: Op) -> bool:
    """Whether nobody else notices the instruction at once."""
    effects = op.effects()
    if effects.arrivals or effects.expects or effects.waits or effects.lifecycle:
        return False
    if any(group.action in GROUP_WAITS for group in effects.groups):
        return False
    if any(access.when is fx.When.NOW or _touches_at_once(access) for access in effects.accesses):
        return False
    return not any(meeting.span is fx.Span.CLUSTER for meeting in effects.rendezvous)


def _touches_at_once(access: fx.Access) -> bool:
    """Whether an engine may touch memory as soon as it is told to, in an event of the agent that carries it out."""
    return access.engine is not None and access.engine.issuer is fx.Executor.ALL


def _waits_only(op: Op) -> bool:
    """Whether the instruction does nothing but wait."""
    effects = op.effects()
    if any(group.action in GROUP_WAITS and group.engine.issuer is fx.Executor.ONE for group in effects.groups):
        return True
    return any(m.span is fx.Span.CLUSTER and not m.arrives for m in effects.rendezvous)
