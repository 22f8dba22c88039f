"""The sanitizer as a monitor of the simulator: keeps the clocks, compares accesses, reports what is wrong.

`docs/checks.md` has the table of what orders what; each row of it is one method here, of the same name as the event.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from phalanx.ir import effects as fx
from phalanx.ir.core import Function, Op
from phalanx.ir.engines import Engine
from phalanx.ir.memory import unit_of
from phalanx.ir.spaces import SHARED
from phalanx.sanitizer import messages
from phalanx.sanitizer.abroad import NOTHING, Abroad, joined
from phalanx.sanitizer.accesses import Conflicts, covers
from phalanx.sanitizer.barriers import ARRIVE, BY_ENGINE, COPY, EXPECT, BarrierClock, Event
from phalanx.sanitizer.bounds import Bounds
from phalanx.sanitizer.clocks import AgentClock
from phalanx.sanitizer.cluster_state import ClusterState
from phalanx.sanitizer.deadlocks import report_stuck
from phalanx.sanitizer.doubts import Doubts
from phalanx.sanitizer.findings import Finding, Findings
from phalanx.sanitizer.globals import GlobalShadow
from phalanx.sanitizer.publications import abroad_upto
from phalanx.sanitizer.records import CopyWork, Record
from phalanx.sanitizer.shared import Cells, SharedShadow
from phalanx.sanitizer.telling import Telling
from phalanx.sanitizer.traits import Traits
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.engines import Copy, Signal
from phalanx.sim.machine import Cluster, Cta
from phalanx.sim.places import BufferPlace

READ = fx.Mode.READ


class Checker(Telling):
    """Watches one run. `findings` is what it found, complete after `finish`."""

    spans = (fx.Span.CLUSTER,)
    overlaps = False
    """Whether vectors say that the launch before is over: see `sanitizer/overlap.py`."""

    def __init__(self, function: Function, args: tuple[Any, ...], findings: Findings, *, strict: bool = False) -> None:
        super().__init__(function, findings, strict=strict)
        self.traits = Traits(function)
        self.doubts = Doubts(function)
        self.states: dict[Cluster, ClusterState] = {}
        self.memory = GlobalShadow(function, args)
        self.handshakes: dict[tuple[int, int | None], Abroad] = {}
        """What agents handed on at an element: by its address and their GPU; under None what reaches every GPU."""
        shares = any(buffer.why or (buffer.reuse and buffer.space.scattered) for buffer in function.buffers)
        self.conflicts = Conflicts(
            strict=strict, race=self.race, proxy=self.proxy, unhanded=self.unhanded, unwritten=self.unwritten,
            over_barrier=self.over_barrier, either=self.doubts.either, mixed=self.traits.mixed,
            units={buffer: buffer if buffer.space.scattered else unit_of(buffer) for buffer in function.buffers}
            if shares else None,
        )
        self.outside: dict[Op, tuple[int, str]] = {}
        self.bounds: Bounds | None = None
        """Takes note of regions outside global arrays, where somebody asked for that."""
        self.refused: dict[Cluster, CopyWork] = {}
        """By cluster, the request for another one that was refused first."""

    # --- CTAs and roles ---------------------------------------------------------------------------------------------

    def cta_started(self, cta: Cta) -> None:
        """A cluster begins with its first CTA: its clocks and shadows start anew."""
        if cta.rank == 0:
            state = self.states.get(cta.cluster)
            if state is None:
                state = self.states[cta.cluster] = ClusterState(cta.cluster, self.traits, overlaps=self.overlaps)
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
            for engine, last in clock.last_local.items():
                if clock.commits[engine] >= last.epoch and last.mode is not READ:
                    continue  # the commit's arrival is what the CTA's exit has to wait for
                known = max(other.now[last.dim] for other in state.clocks)
                if known < last.epoch and last.op not in self.racing_ops:
                    self.findings.add("unfinished", last.op.loc, describe=partial(messages.unfinished_group, last))

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
            if self.bounds is not None:
                self.bounds.look(agent, op, access, place)
            if place.window.index in self.memory.arrays:
                record = Record(clock, op, access, place, clock.rank, clock.dim, clock.now[clock.dim])
                self.conflicts.global_(record, self.memory)
                if self.traits.fenced_flags and record.strong and place.view is not None and place.view.size == 1:
                    address = place.view.__array_interface__["data"][0]
                    self.states[agent.cta.cluster].pass_flag(clock, address, tells=access.mode is not READ)
            return
        dim = clock.dim
        if access.exchange:
            dim += clock.layout.inbox
            clock.now[dim] += 1
        for cta in (place.cta,) if ranks is None else [agent.cta.cluster.ctas[rank] for rank in ranks]:
            record = Record(clock, op, access, place, cta.rank, dim, clock.now[dim])
            self.conflicts.shared(record, self.cells(cta, place))
            if self.traits.fenced_flags:
                for cell in self.cells(cta, place):
                    if record.strong:
                        self.states[cta.cluster].pass_flag(clock, cell, tells=access.mode is not READ)
                    elif access.mode is not READ:
                        self.states[cta.cluster].flags.pop(cell, None)
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
        for access, place, _ in accesses if self.bounds is not None else ():
            if place.is_common:
                self.bounds.look(agent, op, access, place)  # type: ignore[union-attr]
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
            if access.mode is READ or access.region.space.handover is None:
                clock.last_local[engine] = record
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
        signal.watch = vector, clock.now[clock.dim]
        clock.count()
        for barrier in signal.barriers:
            state: BarrierClock = barrier.watch
            if clock.dim not in state.ready_async or state.tracked:
                self.signal(state, clock, signal.op, engine=True)
            if state.tracked:
                state.coming[signal] = None
            dim = clock.groups[engine][0]  # over for whoever knows that the work before it is
            record = Record(clock, signal.op, None, barrier, barrier.cta.rank, dim, clock.commits[engine])
            self.visit(barrier.cta, record)

    def signal_given(self, signal: Signal, barrier: MBarrier) -> None:
        """The work is over for whoever waits for the phase that the engine arrives in; nothing else tells of the arrival."""
        clock: AgentClock = signal.agent.watch
        state: BarrierClock = barrier.watch
        if not barrier.live:
            return
        vector, epoch = signal.watch
        if state.tracked:
            state.coming = {other: phase for other, phase in state.coming.items() if phase is None}
            state.coming[signal] = state.base + barrier.phase
        phase = state.base + barrier.phase
        if state.passes:
            self.doubts.comes_after(state, clock, phase)
        state.note(phase, (ARRIVE, clock, signal.op, epoch, signal.count, BY_ENGINE))
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
        remote, releases = barrier.cta is not agent.cta, op not in self.traits.relaxed_arrivals
        wide = releases and (not remote or op in self.traits.cluster_scoped)
        if remote:
            vector = clock.sent(wide=wide, releases=releases)
        else:
            vector = clock.vector if releases else clock.relaxed()
        state.publication.add(phase, vector)
        if clock.layout.across:
            state.publication.add_abroad(phase, clock.abroad if wide else clock.fenced_abroad, remote=remote)
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
        if op in self.traits.arriving:  # in the same instruction
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
                wide = op in self.traits.cluster_scoped
                if clock.layout.seen:
                    clock.acquire(wide)
                if clock.layout.across:
                    clock.take_abroad(*abroad_upto(state.publication, target), wide=wide)
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
            fenced = covers(clock, dim, init.epoch, SHARED, barrier.barrier.cta.rank)
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
        for signal, phase in state.coming.items():
            if phase is None or clock.now[state.dim] <= phase:
                rivals.append(Event(signal.agent.watch, signal.op, 0))
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
        meetings = self.states[agent.cta.cluster].meetings
        meetings.add(phase, vector)
        if clock.layout.across:
            meetings.add_abroad(phase, clock.abroad if rendezvous.releases else clock.fenced_abroad)
        clock.tick()

    def handshake(self, agent: Agent, op: Op, scope: fx.Span, place: Any) -> None:
        """Whoever updates the element later knows what the agent did or observed, in whatever cluster of its GPU it is.

        Agents of two GPUs hand nothing to each other unless both name the scope of the system.
        """
        if place.view is None:
            return
        address = place.view.__array_interface__["data"][0]
        here, everywhere = (address, agent.cta.cluster.gpu), (address, None)
        known = self.handshakes.get(here, NOTHING)
        wide = scope.covers(fx.Span.SYSTEM)
        if wide:
            known = joined(known, self.handshakes.get(everywhere, NOTHING))
        self.handshakes[here] = published = agent.watch.shake_hands(known)
        if wide:
            self.handshakes[everywhere] = published

    def cluster_passed(self, agent: Agent, op: Op, phase: int) -> None:
        """Whoever has passed the cluster's barrier knows what was published there."""
        meetings = self.states[agent.cta.cluster].meetings
        published = meetings.upto(phase)
        if published is not None:
            agent.watch.take(published)
        if agent.watch.layout.across:
            agent.watch.take_abroad(*abroad_upto(meetings, phase), wide=True)

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
