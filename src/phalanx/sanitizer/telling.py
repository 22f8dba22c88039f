"""What the checks report: each method is a mistake that was seen, and says which finding it is, if it is a new one."""

from __future__ import annotations

from phalanx.errors import Error
from phalanx.ir import effects as fx
from phalanx.ir.core import Function, Op
from phalanx.ir.views import BarrierArray
from phalanx.location import Location
from phalanx.sanitizer import messages
from phalanx.sanitizer.accesses import in_order
from phalanx.sanitizer.barriers import BarrierClock
from phalanx.sanitizer.clocks import AgentClock
from phalanx.sanitizer.findings import Finding, Findings
from phalanx.sanitizer.records import CopyWork, Record
from phalanx.sanitizer.shared import Cell
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.monitor import Monitor

SKIPPED = frozenset({
    "over-arrival", "barrier-uninitialised", "barrier-reinitialised", "barrier-invalidated", "out-of-bounds",
    "misaligned", "tx-mismatch", "tmem-lifetime", "pair",
})
"""Errors of the simulator after which the run goes on without the instruction."""
SUSPECTS_PER_LINE = 16
READ = fx.Mode.READ


class Telling(Monitor):
    """A monitor that reports mistakes: one finding for one cause."""

    def __init__(self, function: Function, findings: Findings, *, strict: bool) -> None:
        self.function = function
        self.findings = findings
        self.strict = strict
        self.suspects: dict[Op, int] = {}
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
        """Agents of `ignored` that then waited for the barrier, with the epoch: they passed one phase too early."""

    def race(self, before: Record, after: Record) -> None:
        """One finding per access: a second conflict of the same access has the same cause."""
        if in_order(before, after, strict=self.strict):
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
        if not in_order(before, after, strict=self.strict):
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
        if not visit.raced and not self._ends_racing_work(visit):
            self.findings.add("exit-hazard", visit.op.loc, describe=lambda: messages.exit_hazard(visit))

    def _ends_racing_work(self, visit: Record) -> bool:
        """Whether it is a commit whose work nobody waited for before touching the same memory: that is a finding already."""
        if visit.access is not None or not self.racing_ops:
            return False
        engines = {engine for engine, groups in visit.clock.groups.items() if visit.dim in groups}
        return any(access.engine in engines for op in self.racing_ops for access in op.effects().accesses)

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
