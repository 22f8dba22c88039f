"""The seam for checkers: what a run reports as it happens.

`simulate(..., monitor=m)` calls the methods below; without a monitor the functions that call them are not
built. What is passed for an instruction comes from its `op.effects()`: `watched` turns each declared effect
into one call, just before the instruction runs. Only what happens later has its callers elsewhere: a wait that
passes (`sim/barriers.py`), a copy that reads its source or lands (`sim/engines.py`), a role that joins
(`sim/agents.py`).

Places are `BufferPlace`, `GlobalPlace` or `RowsPlace`, and `place.is_common` says which of the two kinds; a
multicast write names one `BufferPlace` and the ranks it lands in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir import effects as fx
from phalanx.ir.core import Op
from phalanx.ir.engines import Engine
from phalanx.ir.types import TileType
from phalanx.ir.values import Value
from phalanx.sim.numerics import scalar_of
from phalanx.sim.operands import CallOperands, Operands, lifecycle_barrier
from phalanx.sim.places import ranks_of

if TYPE_CHECKING:
    from phalanx.sim.agents import Agent
    from phalanx.sim.barriers import MBarrier
    from phalanx.sim.engines import Copy, Signal
    from phalanx.sim.machine import Cluster, Cta


class Monitor:
    """Does nothing; a checker overrides what it needs. `current` is the agent whose instruction runs."""

    current: Agent
    spans: tuple[fx.Span, ...] = tuple(fx.Span)
    """The barriers of threads that it wants to be told of."""

    def cta_started(self, cta: Cta) -> None:
        """Its memory is poisoned, its barriers uninitialised."""

    def cta_exited(self, cta: Cta) -> None:
        """All its agents have ended."""

    def cluster_finished(self, cluster: Cluster) -> None:
        """All its CTAs have exited and all its copies have landed."""

    def rounds(self, op: Op, agent: Agent) -> Callable[[range], Iterable[int]]:
        """The numbers that a counted loop runs through; a run on a clock may leave some out."""
        return lambda numbers: numbers

    def fork(self, parent: Agent, child: Agent) -> None:
        """A role begins."""

    def join(self, parent: Agent, child: Agent) -> None:
        """A role has ended."""

    def access(self, agent: Agent, op: Op, access: fx.Access, place: Any, ranks: list[int] | None) -> None:
        """An access that is over at once."""

    def issue(self, agent: Agent, op: Op, copy: Copy, accesses: list[tuple[fx.Access, Any, list[int] | None]]) -> None:
        """A copy begins; its accesses are over when `source_read` and `complete` say so."""

    def source_read(self, copy: Copy) -> None:
        """A store has read its shared source."""

    def complete(self, copy: Copy, barrier: MBarrier | None) -> bool | None:
        """A copy has landed; `barrier` is about to be credited (None: it belongs to a bulk group). False: don't."""

    def answered(self, copy: Copy, granted: bool) -> None:
        """A request for a cluster that has not started was granted or refused."""

    def arrive(self, agent: Agent, op: Op, barrier: MBarrier, count: int) -> None:
        """`count` arrivals are about to be counted."""

    def expect(self, agent: Agent, op: Op, barrier: MBarrier, nbytes: int) -> None:
        """`nbytes` are about to be expected."""

    def wait_passed(self, agent: Agent, op: Op, barrier: MBarrier, phase: int) -> None:
        """A wait, or a test that said yes, for `phase` is over; -1 for the phase before the first."""

    def test_failed(self, agent: Agent, op: Op, barrier: MBarrier) -> None:
        """A test said no: the phase it asks for is not complete yet."""

    def given(self, agent: Agent) -> int:
        """How many signals the agent has given so far, for a schedule that holds it back from one of them on."""
        return 0

    def lifecycle(self, agent: Agent, op: Op, life: fx.Life, barrier: MBarrier) -> None:
        """A barrier is about to be initialised or invalidated."""

    def fence(self, agent: Agent, op: Op, kind: fx.FenceKind) -> None:
        """A fence."""

    def commit(self, agent: Agent, op: Op, engine: Engine) -> None:
        """What the agent gave the engine since its last commit is a group; that of a store is its `copy.group`."""

    def groups_passed(self, agent: Agent, op: Op, engine: Engine, newest: int, read: bool) -> None:
        """A wait for groups is over: all but the `newest` have ended (with `read`: have read their sources)."""

    def work_given(self, agent: Agent, op: Op, accesses: list[tuple[fx.Access, Any, list[int] | None]]) -> None:
        """An engine gets work that ends with the wait for its group, in which the agent carries it out."""

    def signal_asked(self, signal: Signal) -> None:
        """An engine is to arrive on the barriers of `signal` when all the work that the agent gave it is over."""

    def signal_given(self, signal: Signal, barrier: MBarrier) -> None:
        """The work is over: the arrivals of `signal` on `barrier` are about to be counted."""

    def rendezvous(self, agent: Agent, op: Op, rendezvous: fx.Rendezvous, phase: int) -> None:
        """The agent is about to arrive at (or wait for) a barrier of threads; `phase` is the cluster barrier's."""

    def cluster_passed(self, agent: Agent, op: Op, phase: int) -> None:
        """A wait for the cluster barrier's `phase` is over."""

    def launch(self, agent: Agent, op: Op, neighbour: fx.Neighbour) -> None:
        """The agent waits for the end of the launch before this one, or lets the next one begin."""

    def handshake(self, agent: Agent, op: Op, scope: fx.Span, place: Any) -> None:
        """At an element the agent hands on what it did, and takes over what others did, as far as `scope` reaches."""

    def rows_outside(self, op: Op, rows: int, array: str) -> None:
        """A copy by index names so many rows that the array does not have."""

    def problem(self, error: Error, agent: Agent | None = None, barrier: MBarrier | None = None) -> bool:
        """An instruction can't be carried out. True: the run goes on without it; False: the run ends with `error`."""
        return False

    def stuck(self, clusters: list[Cluster]) -> None:
        """No agent of these clusters can go on; the run is about to end."""

    def around(self, run: Callable[..., Any], op: Op, agent: Agent) -> Callable[..., Any]:
        """`run`, which carries an instruction out and makes its reports, with what is to happen before and after."""
        return run


Report = Callable[[Operands], None]
KEPT_PLACES = 4096
"""Places of one view that are kept, so that a monitor can keep what it knows with them."""


class Skipped(Error):
    """The instruction has an operand that does not exist; a monitor knows."""


class Missing:
    """Stands for a place or barrier that does not exist: whatever looks at it is skipped."""

    def __getattr__(self, name: str) -> Any:
        raise Skipped("a missing operand is used")


MISSING = Missing()


def guarded(find: Callable[..., Any], agent: Agent, *, keep: bool = True) -> Callable[..., Any]:
    """`find`, with `MISSING` for what it does not find where a monitor takes note of that.

    `keep`: its answers are kept, as operands that are numbers come again.
    """
    monitor = agent.cta.cluster.machine.monitor
    if monitor is None:
        return find
    found: dict[Operands, Any] = {}

    def run(*operands: Any) -> Any:
        place = found.get(operands) if keep else None
        if place is None:
            try:
                place = find(*operands)
            except Error as error:
                if monitor.problem(error, agent):
                    return MISSING
                raise
            if keep and len(found) < KEPT_PLACES:
                found[operands] = place
        return place

    return run


def watched(
    run: Callable[..., Any], op: Op, agent: Agent, monitor: Monitor, call: CallOperands
) -> Callable[..., Any]:
    """`run` with the monitor told of the instruction's declared effects first, and of its failure.

    It is called with all of `call`; `run` gets the instruction's own operands.
    """
    return monitor.around(_reporting(run, op, agent, monitor, call), op, agent)


def _reporting(
    run: Callable[..., Any], op: Op, agent: Agent, monitor: Monitor, call: CallOperands
) -> Callable[..., Any]:
    """`run` with the reports of the instruction's effects before it."""
    run = call.meaning_alone(run)
    if op.effects().is_pure:
        return run
    reports = _Reports(op, agent, monitor, call).all()
    if not reports and not call.fields:
        return run
    instead = nothing(op)

    def failed(error: Error) -> Any:
        if isinstance(error, Skipped) or monitor.problem(error, agent):
            return instead()
        raise error

    if not reports:

        def alone(*operands: Any) -> Any:
            monitor.current = agent
            try:
                return run(*operands)
            except Error as error:
                return failed(error)

        return alone
    if len(reports) == 1:
        report = reports[0]

        def single(*operands: Any) -> Any:
            monitor.current = agent
            try:
                report(operands)
                return run(*operands)
            except Error as error:
                return failed(error)

        return single

    def several(*operands: Any) -> Any:
        monitor.current = agent
        try:
            for report in reports:
                report(operands)
            return run(*operands)
        except Error as error:
            return failed(error)

    return several


def nothing(op: Op) -> Callable[[], Any]:
    """What stands for the result of an instruction that was skipped."""
    values = op.defined_values()
    if not values:
        return lambda: None

    def blank(value: Value) -> Any:
        type_ = value.type
        return np.zeros(type_.shape, type_.dtype.numpy) if isinstance(type_, TileType) else scalar_of(0, type_.dtype)

    if op.defines is not None:
        return lambda: blank(values[0])
    return lambda: tuple(map(blank, values))


class _Reports:
    """One function per declared effect, which finds its parts among the operands and calls the monitor."""

    def __init__(self, op: Op, agent: Agent, monitor: Monitor, call: CallOperands) -> None:
        self.op = op
        self.agent = agent
        self.cta = agent.cta
        self.monitor = monitor
        self.call = call

    def all(self) -> list[Report]:
        effects = self.op.effects()
        reports = [self.access(access) for access in effects.accesses if access.when is fx.When.NOW]
        later = [access for access in effects.accesses if access.when is not fx.When.NOW]
        if later:
            reports.append(self.issuing(later))
        reports += [self.expect(expected) for expected in effects.expects]
        reports += [self.arrive(arrival) for arrival in effects.arrivals if arrival.after is None]
        reports += [self.lifecycle(life) for life in effects.lifecycle]
        reports += [self.fence(kind) for kind in effects.fences]
        reports += [
            self.rendezvous(meeting) for meeting in effects.rendezvous if meeting.span in self.monitor.spans
        ]
        reports += [self.launch(neighbour) for neighbour in effects.launches]
        reports += [self.handshake(handshake) for handshake in effects.handshakes]
        reports += [self.commit(group.engine) for group in effects.groups if group.action is fx.GroupAction.COMMIT]
        return reports

    def access(self, access: fx.Access) -> Report:
        number, ranks = self.call.number(access.region), self.ranks(access.mask)
        agent, op, tell = self.agent, self.op, self.monitor.access
        if access.mask is None and number is not None:  # most accesses: an operand, in this CTA
            return lambda operands: tell(agent, op, access, operands[number], None)
        place = self.call.finder(access.region)
        return lambda operands: tell(agent, op, access, place(operands), ranks(operands))

    def issuing(self, accesses: list[fx.Access]) -> Report:
        """Kept for the call of `issue`, which comes when the copy exists."""
        agent = self.agent
        numbers = [self.call.number(access.region) for access in accesses]
        plain = all(access.mask is None and access.only_if is None for access in accesses)
        if len(numbers) == 2 and None not in numbers and plain:
            (first, second), (source, target) = accesses, numbers  # most copies: one source, one place here

            def here(operands: Operands) -> None:
                agent.issuing = [(first, operands[source], None), (second, operands[target], None)]  # type: ignore[index]

            return here
        parts = [
            (access, self.call.finder(access.region), self.ranks(access.mask), self.condition(access)) for access in accesses
        ]

        def report(operands: Operands) -> None:
            agent.issuing = [
                (access, place(operands), ranks(operands)) for access, place, ranks, holds in parts if holds(operands)
            ]

        return report

    def condition(self, access: fx.Access) -> Callable[[Operands], bool]:
        """Whether an access happens, where that depends on an operand."""
        return (lambda operands: True) if access.only_if is None else self.call.finder(access.only_if)

    def expect(self, expected: fx.Expect) -> Report:
        barriers, nbytes = self.barriers(expected.barrier, expected.mask), self.call.finder(expected.nbytes)

        agent, op, tell = self.agent, self.op, self.monitor.expect

        def report(operands: Operands) -> None:
            number = nbytes(operands)
            for barrier in barriers(operands):
                tell(agent, op, barrier, number)

        return report

    def arrive(self, arrival: fx.Arrival) -> Report:
        barriers, count = self.barriers(arrival.barrier, arrival.mask), self.call.finder(arrival.count)

        agent, op, tell = self.agent, self.op, self.monitor.arrive

        def report(operands: Operands) -> None:
            number = count(operands)
            for barrier in barriers(operands):
                tell(agent, op, barrier, number)

        return report

    def lifecycle(self, life: fx.Lifecycle) -> Report:
        array, one = self.cta.barriers[life.barrier], self.call.finder(lifecycle_barrier(life))

        def report(operands: Operands) -> None:
            for barrier in array if life.index is None else (one(operands),):
                self.monitor.lifecycle(self.agent, self.op, life.life, barrier)

        return report

    def fence(self, kind: fx.FenceKind) -> Report:
        return lambda operands: self.monitor.fence(self.agent, self.op, kind)

    def rendezvous(self, meeting: fx.Rendezvous) -> Report:
        barrier = self.cta.cluster.barrier
        return lambda operands: self.monitor.rendezvous(self.agent, self.op, meeting, barrier.phase)

    def launch(self, neighbour: fx.Neighbour) -> Report:
        return lambda operands: self.monitor.launch(self.agent, self.op, neighbour)

    def handshake(self, handshake: fx.Handshake) -> Report:
        place, scope = self.call.finder(handshake.region), handshake.scope
        agent, op, tell = self.agent, self.op, self.monitor.handshake
        return lambda operands: tell(agent, op, scope, place(operands))

    def commit(self, engine: Engine) -> Report:
        return lambda operands: self.monitor.commit(self.agent, self.op, engine)

    # --- parts of an effect -----------------------------------------------------------------------------------------

    def ranks(self, mask: Any) -> Callable[[Operands], list[int] | None]:
        """The CTAs of a mask; None where the effect stays in its own CTA."""
        if mask is None:
            return lambda operands: None
        value = self.call.finder(mask)
        found: dict[int, list[int]] = {}

        def find(operands: Operands) -> list[int]:
            bits = value(operands)
            ranks = found.get(bits)
            if ranks is None:
                ranks = found[bits] = ranks_of(bits, self.cta, self.op.loc)
            return ranks

        return find

    def barriers(self, ref: Any, mask: Any) -> Callable[[Operands], list[MBarrier]]:
        """The barrier in its own CTA, or in each one of the mask."""
        one, ranks = self.call.finder(ref), self.ranks(mask)
        if mask is None:
            return lambda operands: [one(operands)]
        return lambda operands: [one(operands).peer(rank) for rank in ranks(operands) or ()]
