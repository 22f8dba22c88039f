"""The sanitizer as a monitor of the simulator: keeps the clocks, compares accesses, reports what is wrong.

`docs/checks.md` has the table of what orders what; each row of it is one method here, of the same name as the event.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir import effects as fx
from phalanx.ir.core import Function, Op
from phalanx.ir.engines import Engine
from phalanx.ir.memory import unit_of
from phalanx.ir.spaces import SHARED
from phalanx.ir.views import BarrierArray
from phalanx.location import Location
from phalanx.sanitizer import messages
from phalanx.sanitizer.accesses import Conflicts, covers, in_order
from phalanx.sanitizer.barriers import ARRIVE, COPY, EXPECT, BarrierClock, Event
from phalanx.sanitizer.clocks import AgentClock, Layout, Publication
from phalanx.sanitizer.deadlocks import report_stuck
from phalanx.sanitizer.doubts import Doubts
from phalanx.sanitizer.findings import Finding, Findings
from phalanx.sanitizer.globals import GlobalShadow
from phalanx.sanitizer.records import CopyWork, Record
from phalanx.sanitizer.shared import Cell, Cells, SharedShadow
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.engines import Copy, Signal
from phalanx.sim.machine import Cluster, Cta
from phalanx.sim.monitor import Monitor
from phalanx.sim.places import BufferPlace

SKIPPED = frozenset({
    "over-arrival", "barrier-uninitialised", "barrier-reinitialised", "barrier-invalidated", "out-of-bounds",
    "misaligned", "tx-mismatch", "tmem-lifetime", "pair",
})
"""Errors of the simulator after which the run goes on without the instruction."""
SUSPECTS_PER_LINE = 16
READ = fx.Mode.READ


class ClusterState:
    """Everything about one cluster slot of the machine."""

    def __init__(
        self, cluster: Cluster, tracked: set[Any], engines: tuple[Engine, ...], *, relaxed: bool, overlaps: bool,
        handovers: tuple[fx.FenceKind, ...], across: bool = False,
    ) -> None:
        self.cluster = cluster
        ctas = cluster.ctas
        agents = [[cta.main, *cta.main.children] for cta in ctas]
        barriers = [[barrier for array in cta.barriers.values() for barrier in array] for cta in ctas]
        self.layout = Layout(
            len(ctas), len(agents[0]), len(barriers[0]), engines, relaxed=relaxed, overlaps=overlaps, handovers=handovers,
            across=across,
        )
        self.clocks: list[AgentClock] = []
        self.barriers: list[BarrierClock] = []
        self.shadows: list[SharedShadow] = []
        self.meetings = Publication()
        for rank, cta in enumerate(ctas):
            for i, agent in enumerate(agents[rank]):
                agent.watch = AgentClock(agent, rank * len(agents[rank]) + i, self.layout)
                self.clocks.append(agent.watch)
            for i, barrier in enumerate(barriers[rank]):
                dim = self.layout.barrier + rank * len(barriers[rank]) + i
                barrier.watch = BarrierClock(barrier, dim, tracked=barrier.array in tracked)
                self.barriers.append(barrier.watch)
            cta.watch = SharedShadow(cta)
            self.shadows.append(cta.watch)
        inboxes = range(self.layout.inbox, self.layout.inbox + self.layout.agents)
        phases = [barrier.dim for barrier in self.barriers if barrier.barrier.array.exchange]
        self.layout.sends = np.array([*inboxes, *phases])

    def reset(self) -> None:
        """Another cluster of the grid begins in the same slot of the machine."""
        for clock in self.clocks:
            clock.reset(self.cluster.index)
        for barrier in self.barriers:
            barrier.reset()
        for shadow in self.shadows:
            shadow.reset()
        self.meetings.reset()


class Checker(Monitor):
    """Watches one run. `findings` is what it found, complete after `finish`."""

    spans = (fx.Span.CLUSTER,)
    overlaps = False
    """Whether vectors say that the launch before is over: see `sanitizer/overlap.py`."""

    def __init__(self, function: Function, args: tuple[Any, ...], findings: Findings, *, strict: bool = False) -> None:
        self.function = function
        self.findings = findings
        self.states: dict[Cluster, ClusterState] = {}
        self.memory = GlobalShadow(function, args)
        self.handshakes: dict[int, dict[int, np.ndarray]] = {}
        """For each element at which agents hand on what they know, by its address: that, by the cluster that it is about."""
        shares = any(buffer.why or (buffer.reuse and buffer.space.scattered) for buffer in function.buffers)
        self.conflicts = Conflicts(
            strict=strict, race=self.race, proxy=self.proxy, unhanded=self.unhanded, unwritten=self.unwritten,
            over_barrier=self.over_barrier,
            units={buffer: buffer if buffer.space.scattered else unit_of(buffer) for buffer in function.buffers}
            if shares else None,
        )
        self.suspects: dict[Op, int] = {}
        self.outside: dict[Op, tuple[int, str]] = {}
        self.doubts = Doubts(function)
        self.unready: dict[BarrierArray, tuple[Location, Location | None]] = {}
        """Barriers that were used before they were ready, with the places of the finding that says so."""
        self.unheld: set[int] = set()
        """Clusters in which such a use was left out: whatever it should have ordered is in no order."""
        self.racing_ops: set[Op] = set()
        self.racing_barriers: set[MBarrier] = set()
        self.overfull: dict[tuple[MBarrier, Location], Finding] = {}
        self.ignored: set[tuple[int, MBarrier, AgentClock]] = set()
        """By cluster, agents whose arrivals on a barrier were left out, because they were too many."""
        self.misled: dict[tuple[int, AgentClock], int] = {}
        """Of those, the ones that have waited for that barrier since, with the epoch: the wait saw a phase too early."""
        self.refused: dict[Cluster, CopyWork] = {}
        """By cluster, the request for another one that was refused first."""
        effects = [op.effects() for op in function.walk()]
        self.relaxed_arrivals: set[Op] = set()
        """Arrives that release nothing."""
        self.cluster_scoped: set[Op] = set()
        """Arrives and waits of cluster scope."""
        for op in function.walk():
            mine = op.effects()
            scopes = [arrival.scope for arrival in mine.arrivals] + [wait.scope for wait in mine.waits]
            if fx.Span.CLUSTER in scopes:
                self.cluster_scoped.add(op)
            if any(not arrival.releases for arrival in mine.arrivals):
                self.relaxed_arrivals.add(op)
        self.arriving = {op for op in function.walk() if op.effects().arrivals}
        self.relaxed = bool(self.relaxed_arrivals) or any(not meeting.releases for e in effects for meeting in e.rendezvous)
        self.across = any(e.handshakes for e in effects)
        self.engines = tuple(dict.fromkeys([
            *(access.engine for e in effects for access in e.accesses if access.engine is not None),
            *(group.engine for e in effects for group in e.groups),
            *(arrival.after for e in effects for arrival in e.arrivals if arrival.after is not None),
        ]))
        spaces = dict.fromkeys(access.region.space for e in effects for access in e.accesses)
        self.handovers = tuple(space.handover[0] for space in spaces if space.handover is not None)
        self.tracked = {
            life.barrier for e in effects for life in e.lifecycle if life.life is fx.Life.INVALIDATE
        }

    # --- CTAs and roles ---------------------------------------------------------------------------------------------

    def cta_started(self, cta: Cta) -> None:
        """A cluster begins with its first CTA: its clocks and shadows start anew."""
        if cta.rank == 0:
            state = self.states.get(cta.cluster)
            if state is None:
                state = self.states[cta.cluster] = ClusterState(
                    cta.cluster, self.tracked, self.engines, relaxed=self.relaxed, overlaps=self.overlaps,
                    handovers=self.handovers, across=self.across,
                )
            state.reset()
            self.refused.pop(cta.cluster, None)

    def cta_exited(self, cta: Cta) -> None:
        """Whatever peers did to its memory must be over for it."""
        shadow: SharedShadow = cta.watch
        clock: AgentClock = cta.main.watch
        shadow.exited = True
        now, exits = clock.now, clock.layout.exit
        for (dim, _), visit in shadow.visitors.items():
            lasting = visit.work is None and visit.mode is not READ
            if now[dim] < visit.epoch and (lasting or now[exits + dim] < visit.epoch):
                self.exit_hazard(visit)

    def cluster_finished(self, cluster: Cluster) -> None:
        """All its CTAs have exited and all its copies have landed: what was left undone?"""
        if cluster.index in self.findings.derailed:
            return
        state = self.states[cluster]
        for barrier in state.barriers:
            if barrier.passes or barrier.uncovered:
                self.doubts.finished(barrier, state.clocks[0])
            mbarrier = barrier.barrier
            if mbarrier.live and not mbarrier.pending and mbarrier.tx:
                self.unbalanced(barrier, barrier.phase, [])
            elif barrier.last_work is not None:
                work, phase = barrier.last_work
                if phase > barrier.waited and not work.faulty and work.op not in self.racing_ops:
                    self.never_waited(barrier, work)
        for clock in state.clocks:
            for read in clock.last_read.values():
                known = max(other.now[read.dim] for other in state.clocks)
                if known < read.epoch and read.op not in self.racing_ops:
                    self.findings.add("unfinished", read.op.loc, describe=partial(messages.unfinished_group, read))

    def fork(self, parent: Agent, child: Agent) -> None:
        """A role begins with all that its parent knows."""
        parent.watch.fork(child.watch)

    def join(self, parent: Agent, child: Agent) -> None:
        """The parent goes on with all that a role did or observed."""
        parent.watch.join(child.watch)

    # --- accesses ---------------------------------------------------------------------------------------------------

    def access(self, agent: Agent, op: Op, access: fx.Access, place: Any, ranks: list[int] | None) -> None:
        """An access that is over with its instruction is compared with those of the same bytes before it."""
        clock: AgentClock = agent.watch
        if place.is_common:
            if place.window.index in self.memory.arrays:
                record = Record(clock, op, access, place, clock.rank, clock.dim, clock.now[clock.dim])
                self.conflicts.global_(record, self.memory)
            return
        dim = clock.dim
        if access.exchange:
            dim += clock.layout.inbox
            clock.now[dim] += 1
        for cta in (place.cta,) if ranks is None else [agent.cta.cluster.ctas[rank] for rank in ranks]:
            record = Record(clock, op, access, place, cta.rank, dim, clock.now[dim])
            self.conflicts.shared(record, self.cells(cta, place))
            if cta is not agent.cta:
                self.visit(cta, record)

    def cells(self, cta: Cta, place: BufferPlace) -> Cells:
        """The cells of a place in one CTA's memory, remembered with the place."""
        try:
            table = place.cells
        except AttributeError:
            table = place.cells = [None] * len(cta.cluster.ctas)
        cells = table[cta.rank]
        if cells is None:
            cells = table[cta.rank] = cta.watch.of(place)
        return cells

    def visit(self, cta: Cta, record: Record) -> None:
        """A peer, or an engine whose end this CTA need not see, touches the memory of `cta`."""
        shadow: SharedShadow = cta.watch
        if record.access is not None and not record.clock.knows_start(cta.rank):
            self.too_soon(record)
        if shadow.exited:
            self.exit_hazard(record)
        else:
            shadow.visitors[record.dim, record.mode.value] = record

    # --- copies -----------------------------------------------------------------------------------------------------

    def issue(self, agent: Agent, op: Op, copy: Copy, accesses: list[tuple[fx.Access, Any, list[int] | None]]) -> None:
        """A copy is a thread of its own: it knows what its issuer knows now, and is over when its phase or group is."""
        clock: AgentClock = agent.watch
        barriers = copy.barriers
        if self.refused and op.asks_for_work:
            self._asked_again(clock, op)
        if not barriers:
            work = copy.watch = CopyWork(clock, op, (), ())
            for access, place, _ in accesses:
                self._group_access(clock, op, access, place, work)
            return
        phases: tuple[int, ...]
        if len(barriers) == 1:
            state = barriers[0].watch
            phases = (state.base + barriers[0].phase,)
            ends = [(state.dim, phases[0] + 1)]
        else:
            phases = tuple([barrier.watch.base + barrier.phase for barrier in barriers])
            ends = [(barrier.watch.dim, phase + 1) for barrier, phase in zip(barriers, phases)]
        work = copy.watch = CopyWork(clock, op, barriers, phases)
        for barrier, phase in zip(barriers, phases):
            state = barrier.watch
            if state.passes:
                self.doubts.comes_after(state, clock, phase)
            if clock.dim not in state.ready_async or state.tracked:
                self.signal(state, clock, op, engine=True)
            open_phase = state.may_be_open(clock, phase)
            if open_phase is not None:
                self.too_early(state, work, open_phase)
            state.note(phase, (COPY, work, op, 0, copy.nbytes, 0))  # type: ignore[attr-defined]
            sends = any(access.exchange for access, _, _ in accesses)
            state.publication.add(phase, clock.inboxes_read() if sends else clock.timed())
            state.last_work = (work, phase)
            if barrier.cta.watch.exited:
                self._lands_too_late(barrier, work, accesses)
        tracked = self.memory.arrays
        for access, place, ranks in accesses:
            if place.is_common:
                if place.window.index in tracked:
                    record = Record(clock, op, access, place, clock.rank, *ends[0], work)
                    record.also = tuple(ends[1:])
                    self.conflicts.global_(record, self.memory)
            elif ranks is None:
                cta = place.cta
                record = Record(clock, op, access, place, cta.rank, *ends[0], work)
                self.conflicts.shared(record, self.cells(cta, place))
                if barriers[0].cta is not cta:
                    self.visit(cta, record)
            else:
                for rank, barrier, (dim, epoch) in zip(ranks, barriers, ends):
                    cta = agent.cta.cluster.ctas[rank]
                    record = Record(clock, op, access, place, rank, dim, epoch, work)
                    self.conflicts.shared(record, self.cells(cta, place))
                    if barrier.cta is not cta:  # credited to the even CTA of its pair
                        self.visit(cta, record)

    def answered(self, copy: Copy, granted: bool) -> None:
        """After a request that was refused there must not be another."""
        if not granted:
            self.refused.setdefault(copy.agent.cta.cluster, copy.watch)

    def _asked_again(self, clock: AgentClock, op: Op) -> None:
        """A request of one who could know that another was refused: a phase that its response completed is over for it.

        One that was on its way before is no mistake.
        """
        refused = self.refused.get(clock.agent.cta.cluster)
        if refused is None:
            return
        if any(clock.now[barrier.watch.dim] > phase for barrier, phase in zip(refused.barriers, refused.phases)):
            self.findings.add(
                "clc", op.loc, refused.op.loc, cluster=clock.cluster,
                describe=lambda: messages.asked_again(clock, op, refused),
            )

    def _lands_too_late(self, barrier: MBarrier, work: CopyWork, accesses: list[Any]) -> None:
        """A copy is issued into a CTA that has exited."""
        access, place, _ = accesses[-1]
        self.exit_hazard(Record(work.clock, work.op, access, place, barrier.cta.rank, 0, 0, work))
        work.faulty = True

    def _group_access(self, clock: AgentClock, op: Op, access: fx.Access, place: Any, work: CopyWork) -> None:
        """Work that ends with a group of its issuer."""
        engine = access.engine
        assert engine is not None, f"{op} ends with a group, so its accesses name an engine"
        dim = clock.groups[engine][access.mode is READ]
        rank = clock.rank if place.is_common else place.cta.rank  # of a pair's work half is in the other CTA
        record = Record(clock, op, access, place, rank, dim, clock.commits[engine] + 1, work)
        if not place.is_common:
            if access.mode is READ:
                clock.last_read[engine] = record
            self.conflicts.shared(record, self.cells(place.cta, place))
            if place.cta is not clock.agent.cta:
                self.visit(place.cta, record)
        elif place.window.index in self.memory.arrays:
            self.conflicts.global_(record, self.memory)

    def complete(self, copy: Copy, barrier: MBarrier | None) -> bool:
        """Bytes land in the phase that their copy was issued to; it can't have completed without them."""
        if barrier is None:
            return True
        self.current = copy.agent
        work: CopyWork = copy.watch
        state: BarrierClock = barrier.watch
        issued = work.phases[work.barriers.index(barrier)]
        if state.base + barrier.phase == issued or not barrier.live:
            return True
        if barrier.cta.cluster.index not in self.findings.derailed:
            work.faulty = True
            self.unbalanced(state, issued, [], late=work)
        return False

    # --- groups -----------------------------------------------------------------------------------------------------

    def commit(self, agent: Agent, op: Op, engine: Engine) -> None:
        """The agent's work for the engine since its last commit is one more group."""
        agent.watch.commits[engine] += 1

    def groups_passed(self, agent: Agent, op: Op, engine: Engine, newest: int, read: bool) -> None:
        """The caller's own groups are over, or have read their sources; nobody else's."""
        clock: AgentClock = agent.watch
        done = clock.commits[engine] - newest
        now = clock.now
        over, reads = clock.groups[engine]
        if done > now[reads]:
            now[reads] = done
        if not read and done > now[over]:
            now[over] = done

    def work_given(self, agent: Agent, op: Op, accesses: list[tuple[fx.Access, Any, list[int] | None]]) -> None:
        """The engine reads its operands until the group is waited for; the groups of a role retire in order."""
        clock: AgentClock = agent.watch
        work = CopyWork(clock, op, (), ())
        for access, place, _ in accesses:
            self._group_access(clock, op, access, place, work)

    def signal_asked(self, signal: Signal) -> None:
        """A commit. What the engine's arrival will publish: that the agent's work is over, and nothing else it did."""
        clock: AgentClock = signal.agent.watch
        engine = signal.line.engine
        clock.commits[engine] += 1
        vector = clock.timed()
        for dim in clock.groups[engine]:
            vector[dim] = clock.commits[engine]
        signal.watch = vector, clock.now[clock.dim], clock.count()
        for barrier in signal.barriers:
            if clock.dim not in barrier.watch.ready_async or barrier.watch.tracked:
                self.signal(barrier.watch, clock, signal.op, engine=True)
            dim = clock.groups[engine][0]  # over for whoever knows that the work before it is
            record = Record(clock, signal.op, None, barrier, barrier.cta.rank, dim, clock.commits[engine])
            self.visit(barrier.cta, record)

    def signal_given(self, signal: Signal, barrier: MBarrier) -> None:
        """The work is over for whoever waits for the phase that the engine arrives in."""
        clock: AgentClock = signal.agent.watch
        state: BarrierClock = barrier.watch
        if not barrier.live:
            return
        vector, epoch, number = signal.watch
        phase = state.base + barrier.phase
        if state.passes:
            self.doubts.comes_after(state, clock, phase)
        state.note(phase, (ARRIVE, clock, signal.op, epoch, signal.count, number))
        state.publication.add(phase, vector)

    # --- mbarriers --------------------------------------------------------------------------------------------------

    def arrive(self, agent: Agent, op: Op, barrier: MBarrier, count: int) -> None:
        """Publishes all that the agent did or observed, to the current phase; stores to another CTA at its scope."""
        clock: AgentClock = agent.watch
        state: BarrierClock = barrier.watch
        if not barrier.live:
            return
        if clock.dim not in state.ready or state.tracked or barrier.cta is not agent.cta:
            self.signal(state, clock, op)
        phase = state.base + barrier.phase
        doubts = self.doubts
        if state.passes:
            doubts.comes_after(state, clock, phase)
        if not doubts.signalled(state, clock, op, phase):
            state.had_no_place(clock, phase, count)
        if state.uncovered:
            doubts.arrived(state, clock, phase)
        state.note(phase, (ARRIVE, clock, op, clock.now[clock.dim], count, clock.count()))
        if clock.layout.seen and barrier.cta is not agent.cta:
            vector = clock.sent(wide=op in self.cluster_scoped, releases=op not in self.relaxed_arrivals)
        else:
            vector = clock.vector if op not in self.relaxed_arrivals else clock.relaxed()
        state.publication.add(phase, vector)
        clock.now[clock.dim] += 1

    def expect(self, agent: Agent, op: Op, barrier: MBarrier, nbytes: int) -> None:
        """Publishes nothing."""
        clock: AgentClock = agent.watch
        state: BarrierClock = barrier.watch
        if not barrier.live:
            return
        if clock.dim not in state.ready or state.tracked or barrier.cta is not agent.cta:
            self.signal(state, clock, op)
        phase = state.base + barrier.phase
        if op in self.arriving:  # in the same instruction
            state.note(phase, (EXPECT, clock, op, clock.now[clock.dim], nbytes, 0))
            return
        self.doubts.signalled(state, clock, op, phase)
        event = Event(clock, op, clock.now[clock.dim], nbytes, clock.count())
        state.note(phase, (EXPECT, *event))
        if state.uncovered:
            self.doubts.uncovered(state, phase)
        self.doubts.expected(state, event, phase)

    def wait_passed(self, agent: Agent, op: Op, barrier: MBarrier, phase: int) -> None:
        """Takes over what the phase it is sure of published, and those before it; not what came later."""
        clock: AgentClock = agent.watch
        state: BarrierClock = barrier.watch
        if clock.dim not in state.ready or state.tracked:
            self.signal(state, clock, op)
        target = state.awaited(clock, phase & 1)
        if self.ignored and (clock.cluster, barrier, clock) in self.ignored:
            clock.now[clock.dim] += 1
            self.misled.setdefault((clock.cluster, clock), clock.now[clock.dim])
        doubts = self.doubts
        if op in doubts.asking:
            doubts.said_yes(state, clock, op, target)
        if state.base + phase > target:
            doubts.came_late(state, clock, op, target)
        if target >= clock.now[state.dim]:  # news
            published = state.publication.upto(target)
            if published is not None:
                clock.take(published)
                if clock.layout.seen:
                    clock.acquire(op in self.cluster_scoped)
            clock.now[state.dim] = target + 1
            time = clock.layout.time + state.dim
            if clock.now[time] <= target:
                clock.now[time] = target + 1
        if target > state.waited:
            state.waited = target
        doubts.passed(state, clock, op, target)

    def test_failed(self, agent: Agent, op: Op, barrier: MBarrier) -> None:
        """Takes over nothing."""
        if op in self.doubts.asking:
            self.doubts.said_no(agent.watch, op)

    def given(self, agent: Agent) -> int:
        """How many signals the agent has given so far."""
        clock: AgentClock = agent.watch
        return clock.now[clock.layout.time + clock.dim]

    def signal(self, barrier: BarrierClock, clock: AgentClock, op: Op, *, engine: bool = False) -> None:
        """A use of a barrier: after its init, before the end of its life, and before its CTA's exit."""
        mbarrier = barrier.barrier
        if clock.dim not in (barrier.ready_async if engine else barrier.ready) and mbarrier.live:
            self._check_init(barrier, clock, op, engine)
        if barrier.tracked:
            barrier.uses[clock.dim] = Event(clock, op, clock.now[clock.dim])
        if mbarrier.cta is not clock.agent.cta and not engine:
            self.visit(mbarrier.cta, signal_record(clock, op, mbarrier))

    def _check_init(self, barrier: BarrierClock, clock: AgentClock, op: Op, engine: bool) -> None:
        init = barrier.init
        assert init is not None
        dim, now, layout = init.clock.dim, clock.now, clock.layout
        fenced = now[layout.init + dim] >= init.epoch
        ordered = fenced or now[dim] >= init.epoch
        if ordered and engine and not fenced:
            fenced = covers(clock, dim, init.epoch, init.clock.rank, SHARED, barrier.barrier.cta.rank)
        if not ordered or (engine and not fenced):
            places = self.unready.setdefault(barrier.barrier.array, (op.loc, init.op.loc))
            self.findings.add(
                "barrier-uninitialised", *places, cluster=clock.cluster,
                describe=lambda: messages.uninitialised_barrier(barrier, clock, op, init, ordered),
            )
        barrier.ready.add(clock.dim)
        if engine:
            barrier.ready_async.add(clock.dim)

    def lifecycle(self, agent: Agent, op: Op, life: fx.Life, barrier: MBarrier) -> None:
        """A barrier begins or ends: nobody may use it before, or afterwards."""
        clock: AgentClock = agent.watch
        state: BarrierClock = barrier.watch
        event = Event(clock, op, clock.now[clock.dim])
        overlaid = barrier.cta.watch.overlaid.get(barrier)
        if overlaid is not None and barrier.live is (life is fx.Life.INVALIDATE):
            self.conflicts.shared(signal_record(clock, op, barrier), overlaid)
        if life is fx.Life.INIT:
            if not barrier.live:
                state.begin(event)
            return
        if not barrier.live:
            return
        rivals = [use for use in state.uses.values() if not use.known_to(clock)]
        rivals += [Event(waiter.watch, wait, 0) for waiter, wait in barrier.waiters]
        if state.last_work is not None and clock.now[state.dim] <= state.last_work[1]:
            work = state.last_work[0]
            rivals.append(Event(work.clock, work.op, 0))
        if rivals:
            self.findings.add(
                "barrier-invalidated", rivals[0].op.loc, op.loc, cluster=clock.cluster,
                describe=lambda: messages.invalidated_early(state, clock, op, rivals[0]),
            )
        state.ended = event
        clock.tick()

    def rows_outside(self, op: Op, rows: int, array: str) -> None:
        """Counts the rows by index that the array does not have, for a note."""
        self.outside[op] = self.outside.get(op, (0, ""))[0] + rows, array

    # --- fences and the cluster's barrier ---------------------------------------------------------------------------

    def fence(self, agent: Agent, op: Op, kind: fx.FenceKind) -> None:
        """A fence orders what the agent did before it."""
        agent.watch.fence(kind)

    def rendezvous(self, agent: Agent, op: Op, rendezvous: fx.Rendezvous, phase: int) -> None:
        """The cluster's barrier publishes what its participants did or observed; a relaxed arrive next to nothing."""
        if not rendezvous.arrives:
            return
        clock: AgentClock = agent.watch
        vector = clock.exposed() if rendezvous.releases else clock.relaxed()
        self.states[agent.cta.cluster].meetings.add(phase, vector)
        clock.tick()

    def handshake(self, agent: Agent, op: Op, place: Any) -> None:
        """Whoever updates the element later knows what the agent did or observed, in whatever cluster it is."""
        if place.view is not None:
            published = self.handshakes.setdefault(place.view.__array_interface__["data"][0], {})
            agent.watch.shake_hands(published)

    def cluster_passed(self, agent: Agent, op: Op, phase: int) -> None:
        """Whoever has passed the cluster's barrier knows what was published there."""
        published = self.states[agent.cta.cluster].meetings.upto(phase)
        if published is not None:
            agent.watch.take(published)

    # --- findings ---------------------------------------------------------------------------------------------------

    def race(self, before: Record, after: Record) -> None:
        """One finding per access: a second conflict of the same access has the same cause."""
        if in_order(before, after, strict=self.conflicts.strict):
            return
        known = before.raced or after.raced or any(r.work is not None and r.work.faulty for r in (before, after))
        misled = bool(self.misled) and self._is_misled(before, after)
        if before.cluster == after.cluster and messages.forgot_to_wait(before, after):
            before, after = after, before  # told as what it is, not as a write after a read
        for record in (before, after):
            record.raced = True
            if record.work is not None:
                record.work.faulty = True
        if misled or after.cluster in self.unheld:
            return
        if known:
            self.findings.again("race", after.op.loc, before.op.loc)
            return
        for record in (before, after):
            self.racing_ops.add(record.op)
            if record.work is not None:
                self.racing_barriers.update(record.work.barriers)
        if before.gives_back or after.gives_back:
            user, end = (before, after) if after.gives_back else (after, before)
            self.findings.add(
                "tmem-lifetime", user.op.loc, end.op.loc, cluster=after.cluster,
                describe=lambda: messages.released(user, end),
            )
            return
        engine = before.worker
        own = engine is not None and after.work is None and before.clock is after.clock and before.cluster == after.cluster
        if own and engine is not None and engine.hazard:
            self.findings.add(
                engine.hazard, after.op.loc, before.op.loc, describe=lambda: messages.hazard(before, after, engine)
            )
            return
        self.findings.add(
            "race", after.op.loc, before.op.loc, cluster=after.cluster, describe=lambda: messages.race(before, after)
        )

    def _is_misled(self, before: Record, after: Record) -> bool:
        """Whether one of two accesses comes behind a wait that passed too early since an arrive of its agent was one too
        many: then that arrive is the finding."""
        since = self.misled.get((before.cluster, before.clock))
        if since is not None and before.dim == before.clock.dim and before.epoch >= since:
            return True
        return (after.cluster, after.clock) in self.misled

    def proxy(self, before: Record, after: Record) -> None:
        """An engine touches what ordinary accesses touched, and no proxy fence lies between them."""
        self.findings.add("proxy", after.op.loc, before.op.loc, describe=lambda: messages.proxy(before, after))

    def unhanded(self, before: Record, after: Record) -> None:
        """Memory that threads hand over with fences is touched after the signal, and a fence is missing."""
        if not in_order(before, after, strict=self.conflicts.strict):
            self.findings.add(
                "proxy", after.op.loc, before.op.loc, describe=lambda: messages.not_handed_over(before, after)
            )

    def unwritten(self, record: Record, other: Record | None) -> None:
        """A suspect: a write that comes later may be in no order with it. `other`: a write of something else is there."""
        seen = self.suspects.get(record.op, 0)
        if seen < SUSPECTS_PER_LINE:
            self.suspects[record.op] = seen + 1
            derailed = self.findings.derailed
            self.findings.suspect(
                messages.uninitialised_read(record, other), lambda: not record.raced and record.cluster not in derailed
            )

    def over_barrier(self, record: Record, cell: Cell) -> None:
        """Memory that a live barrier occupies is overwritten."""
        barrier = cell.barrier
        if barrier is None or not barrier.live or record.access is None:
            return
        state: BarrierClock = barrier.watch
        init = state.init
        self.findings.add(
            "barrier-memory", record.op.loc, init.op.loc if init else None, cluster=record.cluster,
            describe=lambda: messages.over_barrier(record, state),
        )

    def exit_hazard(self, visit: Record) -> None:
        """The memory of a CTA that has exited, or may have, is touched."""
        if not visit.raced:
            self.findings.add("exit-hazard", visit.op.loc, describe=lambda: messages.exit_hazard(visit))

    def too_soon(self, visit: Record) -> None:
        """The memory of a CTA that may not have started is not there yet: its start is in no order with the access."""
        visit.raced = True
        self.findings.add("race", visit.op.loc, cluster=visit.cluster, describe=lambda: messages.too_soon(visit))

    def never_waited(self, barrier: BarrierClock, work: CopyWork) -> None:
        """Nobody waited for a load: unfinished; or, where other receivers of the same load did, a write at exit."""
        elsewhere = any(
            target.watch.waited >= phase for target, phase in zip(work.barriers, work.phases)
        )
        if elsewhere and barrier.barrier.cta is not work.clock.agent.cta:
            self.findings.add("exit-hazard", work.op.loc, describe=lambda: messages.exit_in_flight(barrier, work))
        else:
            self.findings.add("unfinished", work.op.loc, describe=lambda: messages.unfinished_load(barrier, work))

    def unbalanced(
        self, barrier: BarrierClock, phase: int, blocked: list[str], late: CopyWork | None = None
    ) -> None:
        """A phase's bytes are wrong: it completed without `late`, or can't complete."""
        log = barrier.log(phase)
        armed = (log.expects or log.arrivals)[-1:]
        copy = late or (log.copies[-1][0] if log.copies else None)
        location = armed[0].op.loc if armed else (copy.op.loc if copy else self.function.loc)
        other = copy.op.loc if copy and armed else None
        self.findings.add(
            "tx-mismatch", location, other, cluster=barrier.barrier.cta.cluster.index,
            describe=lambda: messages.unbalanced(barrier, phase, log, location, other, blocked, late),
        )

    def too_early(self, barrier: BarrierClock, work: CopyWork, phase: int) -> None:
        """A copy whose bytes may come in a phase before the one they are for: told where nothing else is wrong."""
        arrivals = barrier.log(phase).arrivals
        finding = messages.too_early(barrier, work, phase, arrivals[-1] if arrivals else None)
        self.findings.suspect(finding, lambda: all(found.kind == finding.kind for found in self.findings))

    def problem(self, error: Error, agent: Agent | None = None, barrier: MBarrier | None = None) -> bool:
        """An instruction can't be carried out: a finding, and the run goes on without it."""
        if error.kind not in SKIPPED:
            return False
        agent = agent or self.current
        cluster = agent.cta.cluster.index
        if error.kind == "over-arrival" and barrier is not None:
            self.findings.derailed.add(cluster)
            self.ignored.add((cluster, barrier, agent.watch))
            known = self.overfull.get((barrier, error.location))
            if known is not None:  # its story is told once: a loop may go on like that for long
                known.count += 1
                return True
            finding = self.overfull[barrier, error.location] = messages.over_arrival(error, agent, barrier.watch)
            self.findings.suspect(finding, lambda: barrier not in self.racing_barriers)
            return True
        other = messages.rival(error, barrier, self.function)
        places = (error.location, other)
        if error.kind == "barrier-uninitialised" and barrier is not None:  # one cause, however often it is used
            places = self.unready.setdefault(barrier.array, places)
            self.unheld.add(cluster)
        self.findings.add(
            error.kind, *places, cluster=cluster, describe=lambda: messages.refused(error, agent, other)
        )
        return True

    def stuck(self, clusters: list[Cluster]) -> None:
        """Nobody can go on."""
        report_stuck(self, clusters)

    def finish(self) -> list[Finding]:
        """The run is over."""
        self.findings.settle()
        return list(self.findings.items.values())

    def notes(self) -> list[str]:
        """What is legal but may surprise, once the run is over."""
        return [messages.outside_note(op, rows, array) for op, (rows, array) in self.outside.items()]


def signal_record(clock: AgentClock, op: Op, barrier: MBarrier) -> Record:
    """A signal of a barrier (or its init, or its end) as an access of its bytes."""
    return Record(clock, op, None, barrier, barrier.cta.rank, clock.dim, clock.now[clock.dim])
