"""What the checks keep of each mbarrier: publications by phase, its life, and what was signalled, for the messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from phalanx.ir.core import Op
from phalanx.sanitizer.clocks import AgentClock
from phalanx.sanitizer.publications import Publication

if TYPE_CHECKING:
    from phalanx.sanitizer.doubts import Pass
    from phalanx.sanitizer.records import CopyWork
    from phalanx.sim.barriers import MBarrier
    from phalanx.sim.engines import Signal


class Event(NamedTuple):
    """Something an agent did to a barrier, at an epoch of its clock."""

    clock: AgentClock
    op: Op
    epoch: int
    number: int = 0
    """Arrivals or bytes."""
    serial: int = 0
    """The how many-th signal of its agent, or `BY_ENGINE`."""

    def known_to(self, other: AgentClock) -> bool:
        """Whether another agent knows that it happened, in the order of memory."""
        return other.now[self.clock.dim] >= self.epoch

    def given_to(self, other: AgentClock) -> bool:
        """Whether another agent knows that it happened, in time alone, whatever the order of memory."""
        return other.knows_signal(self.clock, self.serial)


BY_ENGINE = 1 << 62
"""Stands for the number of an arrival that an engine makes when it has done its work: its agent's next signals may come
before it, so that nobody knows of it but those who know its phase to be complete."""
KEPT_LOGS = 8
"""Phases whose signals are remembered for the messages."""
ARRIVE, EXPECT, COPY = "arrive", "expect", "copy"

Given = tuple[str, Any, Op, int, int, int]
"""A signal: kind, the agent's clock (or the copy), instruction, epoch, arrivals or bytes, the how many-th of its agent."""


MISSING: Given = (COPY, None, Op(), 0, 0, 0)
"""Stands for the signals of a phase that are forgotten."""


class PhaseLog:
    """The signals of one phase, sorted out."""

    def __init__(self, signals: list[Given]) -> None:
        self.arrivals = [Event(*rest) for kind, *rest in signals if kind is ARRIVE]
        self.expects = [Event(*rest) for kind, *rest in signals if kind is EXPECT]
        self.copies: list[tuple[CopyWork, int]] = [
            (work, nbytes) for kind, work, _, _, nbytes, _ in signals if kind is COPY
        ]

    @property
    def expected(self) -> int:
        """The bytes that were announced to the phase."""
        return sum(event.number for event in self.expects)

    @property
    def issued(self) -> int:
        """The bytes of the copies that were issued to the phase."""
        return sum(nbytes for _, nbytes in self.copies)


class BarrierClock:
    """One mbarrier. Phases count on over re-initialisations, from an even number each time, so that parities stay."""

    __slots__ = (
        "barrier", "base", "coming", "dim", "ended", "init", "last_work", "logs", "passes", "publication", "ready",
        "ready_async", "tracked", "uncovered", "uses", "waited",
    )

    def __init__(self, barrier: MBarrier, dim: int, *, tracked: bool) -> None:
        self.barrier = barrier
        self.dim = dim
        self.tracked = tracked
        """Its uses are remembered, because something may end its life."""
        self.publication = Publication()
        self.ready: set[int] = set()
        """Agents that are known to come after its init."""
        self.ready_async: set[int] = set()
        """Agents whose copies are known to come after its init: the init is fenced too."""
        self.logs: dict[int, list[Given]] = {}
        self.uses: dict[int, Event] = {}
        self.coming: dict[Signal, int | None] = {}
        """Arrivals of engines that were asked for, if something may end its life, with the phase that they came in."""
        self.passes: dict[tuple[int, int], Pass] = {}
        """Waits (agent, phase) after which the next phase is not known to complete."""
        self.uncovered: list[tuple[Event, int]] = []
        """Expects, with their phases, that no arrive of the same phase is known to come after."""
        self.reset()

    def reset(self) -> None:
        """The CTA begins."""
        self.publication.reset()
        self.base = 0
        self.waited = -1
        self.init: Event | None = None
        self.ended: Event | None = None
        self.last_work: tuple[CopyWork, int] | None = None
        self.ready.clear()
        self.ready_async.clear()
        self.logs.clear()
        if self.uses:
            self.uses.clear()
        self.passes.clear()
        self.uncovered = []
        self.coming = {}

    @property
    def title(self) -> str:
        """`full[2]`, with its CTA where there are several."""
        barrier = self.barrier
        return f"{barrier.name} of CTA {barrier.cta.rank}" if len(barrier.cta.cluster.ctas) > 1 else barrier.name

    @property
    def phase(self) -> int:
        """The current phase, counted over all its lives."""
        return self.base + self.barrier.phase

    def begin(self, event: Event) -> None:
        """It is initialised (anew)."""
        if self.init is not None:
            phase = self.phase
            self.base = phase + (phase & 1)
            self.waited = max(self.waited, self.base - 1)
        self.init = event
        self.ended = None
        self.ready.clear()
        self.ready.add(event.clock.dim)
        self.ready_async.clear()
        self.uses.clear()
        self.passes.clear()
        self.uncovered = []
        self.last_work = None
        self.coming = {signal: None for signal, phase in self.coming.items() if phase is None}

    def note(self, phase: int, signal: Given) -> None:
        """Remembers a signal for the messages."""
        log = self.logs.get(phase)
        if log is None:
            self.logs[phase] = [signal]
            self.logs.pop(phase - KEPT_LOGS, None)
        else:
            log.append(signal)

    def log(self, phase: int) -> PhaseLog:
        """The signals of a phase, as far as they are remembered."""
        return PhaseLog(self.logs.get(phase, []))

    def kept(self, known: int, phase: int) -> range:
        """The phases from `known` to before `phase`, of those that are remembered."""
        return range(max(known, self.base, phase - KEPT_LOGS), phase)

    def may_be_open(self, clock: AgentClock, phase: int) -> int | None:
        """A phase before this one that is not known to the agent to be complete: by waiting, or by all that it needed."""
        known = self.learn(clock)
        return known if known < phase else None

    def learn(self, clock: AgentClock) -> int:
        """The first phase that the agent does not know to be complete: by waiting, or by all that the ones before needed."""
        now, at = clock.now, clock.layout.time + self.dim
        known, time = max(now[at], now[self.dim], self.base), clock.layout.time
        while known < self.phase and all(
            kind is not COPY and (not serial or now[time + giver.dim] >= serial)
            for kind, giver, _, _, _, serial in self.logs.get(known, (MISSING,))
        ):
            known += 1
        if known > now[at]:
            now[at] = known
        return known

    def had_no_place(self, clock: AgentClock, phase: int, count: int) -> None:
        """Arrivals of the agent count for `phase`: those before it are complete in which they would be too many.

        In another order that is a mistake of its own, which is shown where they are held back (`Doubts.signalled`). What
        follows in the agent comes after it, whatever the order.
        """
        at = clock.layout.time + self.dim
        known = self.learn(clock)
        while known < phase and known in self.logs:
            made = sum(event.number for event in self.log(known).arrivals if event.given_to(clock))
            if made + count <= self.barrier.expected:
                return
            known += 1
            clock.now[at] = known

    def awaited(self, clock: AgentClock, parity: int) -> int:
        """The phase that a wait of `parity` is sure to see completed.

        The last one that the agent knows to be complete, if the parity is its; otherwise the next. A barrier that ran ahead
        gives no more than that, and the first `wait(1)` is for the phase before the first.
        """
        known = self.learn(clock) - 1
        return known if not (known ^ parity) & 1 else known + 1
