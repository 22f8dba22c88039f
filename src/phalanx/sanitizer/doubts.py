"""What may come in another order than it did, and matter: what to hold back in a run of its own to see it.

A wait that nothing protects may find its barrier a phase further, and one that did may come in time. A signal whose agent
does not know that the phase before is complete may count for that one, and an expect that no arrive of its phase comes
after may come when the phase is over. A test that said yes may say no while a signal of its phase is not known to come
first, and one that said no may say yes. Atomics that see what others left may come in another order.
Nothing of this is a mistake yet: many kernels come to the same end either way. So each doubt names an agent, from one of
its signals on, or the copies of a barrier, and a run holds them back as long as anything else can happen. What goes wrong
then is a finding like any other, with the doubt as its explanation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from phalanx.frozen import frozen
from phalanx.ir.core import Function, Op
from phalanx.location import Location
from phalanx.sanitizer.barriers import BY_ENGINE
from phalanx.sanitizer.records import Record, actor_of, does
from phalanx.sim.scheduler import Hold, Schedule
from phalanx.sim.spins import spinning_tests

if TYPE_CHECKING:
    from phalanx.sanitizer.barriers import BarrierClock, Event
    from phalanx.sanitizer.clocks import AgentClock

Key = tuple[bool, bool, tuple[int, ...], Location | None, Location | None]


@frozen
class Doubt:
    """What to hold back."""

    hold: Hold
    why: str = ""
    """What the run shows, for its findings."""
    at: Location | None = None
    """The instruction that comes later."""
    other: Location | None = None
    """The instruction for which this matters, if it is one: the same where it is the one that comes later."""
    whose: tuple[int, int] | None = None
    """The agent of that instruction: its CTA's rank and its number."""

    @property
    def key(self) -> Key:
        """One of each pair of lines is tried: what is held back stays so."""
        return self.hold.copies, self.hold.cluster is not None, self.hold.target, self.at, self.other


class Pass(NamedTuple):
    """A wait that has passed, at an epoch of its agent's clock, before its agent's signal number `signal`."""

    op: Op
    epoch: int
    signal: int


class Doubts:
    """Collects the doubts of one run."""

    def __init__(self, function: Function) -> None:
        self.found: dict[Key, Doubt] = {}
        self.schedule = Schedule()
        """The order in which the run did things: a doubt is shown with it."""
        self.asking = {
            op for op in function.walk() if any(not wait.blocking for wait in op.effects().waits)
        } - spinning_tests(function)
        """Tests after which the program may go on with a no."""
        self.numbers = {array: number for number, array in enumerate(function.barriers)}

    def add(self, doubt: Doubt) -> None:
        """Keeps a doubt, unless one of the same lines is known."""
        self.found.setdefault(doubt.key, doubt)

    # --- waits, and tests that said yes, that may come too late, or earlier than they did ----------------------------

    def passed(self, barrier: BarrierClock, clock: AgentClock, op: Op, phase: int) -> None:
        """A wait for `phase` is over: the next phase should not complete before it, or a test says no."""
        signal = clock.now[clock.layout.time + clock.dim] + 1
        barrier.passes[clock.dim, phase] = Pass(op, clock.now[clock.dim], signal)

    def came_late(self, barrier: BarrierClock, clock: AgentClock, op: Op, phase: int) -> None:
        """A wait that is sure of `phase` alone passed at the end of a later one: it may pass before the next one ends."""
        self.unknown(barrier, clock, phase + 1, (
            f"here {op.loc.short} comes before phase {phase + 1} of {barrier.title} is complete"
        ), op)

    def comes_after(self, barrier: BarrierClock, clock: AgentClock, phase: int) -> None:
        """A signal to `phase`, or the copy that will give one: what its agent knows of comes before its completion."""
        now, exits = clock.now, clock.layout.exit
        for (dim, waited), passed in list(barrier.passes.items()):
            if waited >= phase:
                continue
            if waited + 1 < phase:  # the next phase completed before anybody was known to come after the wait
                self.late(clock, dim, passed)
                del barrier.passes[dim, waited]
            elif now[dim] >= passed.epoch or now[exits + dim] >= passed.epoch:
                del barrier.passes[dim, waited]

    def late(self, clock: AgentClock, dim: int, passed: Pass) -> None:
        """A wait may come so late that its barrier is a phase further."""
        agent, at = agent_at(clock, dim), passed.op.loc
        self.add(Doubt(Hold(agent, passed.signal), at=at, other=at, whose=agent))

    # --- signals that may count for another phase -------------------------------------------------------------------

    def signalled(self, barrier: BarrierClock, clock: AgentClock, op: Op, phase: int) -> bool:
        """Whether the agent of an arrive or an expect, about to count for `phase`, is sure of that; else that is a doubt."""
        if clock.now[clock.layout.time + barrier.dim] >= phase:
            return True
        for earlier in barrier.kept(barrier.learn(clock), phase):
            self.unknown(barrier, clock, earlier, (
                f"here the signal of {op.loc.short} counts for phase {earlier} of {barrier.title}: nothing tells "
                f"{actor_of(clock.agent).role} that it is complete"
            ), op)
        return False

    def unknown(self, barrier: BarrierClock, clock: AgentClock, phase: int, why: str, op: Op) -> None:
        """Signals of that phase that may be still to come, for all that the agent knows: each is a doubt."""
        log, mbarrier, whose = barrier.log(phase), barrier.barrier, agent_at(clock, clock.dim)
        landing = Hold((mbarrier.cta.rank, self.numbers[mbarrier.array], mbarrier.index), copies=True)
        for event in log.arrivals:
            story = f"{why} without the arrive of {event.op.loc.short}"
            if event.serial == BY_ENGINE:
                self.add(Doubt(landing, story, event.op.loc, op.loc, whose))
            elif not event.given_to(clock):
                self.hold(event, story, op.loc, whose)
        for work, _ in log.copies[:1]:
            self.add(Doubt(landing, f"{why} without the copy of {work.op.loc.short}", work.op.loc, op.loc, whose))

    def hold(
        self, event: Event, why: str, other: Location | None = None, whose: tuple[int, int] | None = None
    ) -> None:
        """A signal that may come later than it did, and than another instruction."""
        target = agent_at(event.clock, event.clock.dim)
        self.add(Doubt(Hold(target, event.serial), why, event.op.loc, other, whose))

    # --- expects that may come after their phase --------------------------------------------------------------------

    def expected(self, barrier: BarrierClock, event: Event, phase: int) -> None:
        """An expect by itself: an arrive of its phase has to come after it."""
        barrier.uncovered.append((event, phase))

    def arrived(self, barrier: BarrierClock, clock: AgentClock, phase: int) -> None:
        """An arrive to `phase`: the expects that its agent knows of came in time."""
        self.uncovered(barrier, phase)
        barrier.uncovered = [item for item in barrier.uncovered if not item[0].given_to(clock)]

    def uncovered(self, barrier: BarrierClock, phase: int) -> None:
        """Phases before that one are complete: what no arrive of theirs came after may come too late."""
        for event, own in barrier.uncovered:
            if own < phase:
                self.hold(event, (
                    f"here phase {own} of {barrier.title} completes before the expect of {event.op.loc.short}: no arrive of "
                    "that phase comes after it, so let one agent expect and arrive, as arrive_and_expect_tx does"
                ))
        barrier.uncovered = [item for item in barrier.uncovered if item[1] >= phase]

    # --- tests ------------------------------------------------------------------------------------------------------

    def said_yes(self, barrier: BarrierClock, clock: AgentClock, op: Op, phase: int) -> None:
        """A signal of the phase, or of one before it, may have been still to come."""
        for earlier in barrier.kept(barrier.learn(clock), phase + 1):
            self.unknown(barrier, clock, earlier, f"here the test of {op.loc.short} says no", op)

    def said_no(self, clock: AgentClock, op: Op) -> None:
        """A test that said no may have said yes, had the agent been later."""
        layout = clock.layout
        signal = clock.now[layout.time + clock.dim] + 1
        why = f"here the test of {op.loc.short} says yes"
        agent = agent_at(clock, clock.dim)
        self.add(Doubt(Hold(agent, signal), why, op.loc, op.loc, agent))

    # --- atomics ----------------------------------------------------------------------------------------------------

    def either(self, before: Record, after: Record) -> None:
        """Two atomics that came in this order, for which nothing asks, and whose outcomes depend on it.

        Of clusters it is enough that the first comes last, unless the one that came later waited for somebody: then the
        agent that came before it is held back in its cluster. The agents of one cluster are told apart, unless the other
        order is that of their numbers, in which all of them begin where nothing is held back.
        """
        across = before.cluster != after.cluster
        if across:
            self.add(Doubt(Hold((), first=True)))
        if self._waited(before, after) if across else before.clock.dim < after.clock.dim:
            one, two = before.clock.agent, after.clock.agent
            first, later = (f"{agent.role} of CTA {agent.cta.rank}" for agent in (one, two))
            if across:
                first, later = f"{first} of cluster {before.cluster}", f"{later} of cluster {after.cluster}"
            why = (
                f"here {does(later, 'come')} to {after.region()} ({after.op.loc.short}) before {first} "
                f"({before.op.loc.short})"
            )
            held, whose = agent_at(before.clock, before.clock.dim), agent_at(after.clock, after.clock.dim)
            hold = Hold(held, cluster=before.cluster if across else None)
            self.add(Doubt(hold, why, before.op.loc, after.op.loc, whose))

    def _waited(self, before: Record, after: Record) -> bool:
        """Whether the cluster that came later had its turn first: then it waited for somebody."""
        kind = self.schedule.kind
        turns = [(kind == "early" and not record.cluster, record.cluster) for record in (before, after)]
        return kind != "random" and turns[0] > turns[1]

    # --- the end ----------------------------------------------------------------------------------------------------

    def finished(self, barrier: BarrierClock, clock: AgentClock) -> None:
        """The cluster has ended."""
        for (dim, waited), passed in barrier.passes.items():
            if waited + 1 < barrier.phase:
                self.late(clock, dim, passed)
        self.uncovered(barrier, barrier.phase)


def agent_at(clock: AgentClock, dim: int) -> tuple[int, int]:
    """Where the agent of that number is in its cluster."""
    return divmod(dim, clock.layout.per_cta)
