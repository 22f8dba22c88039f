"""What the checks keep of each mbarrier: publications by phase, its life, and what was signalled, for the messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from phalanx.ir.core import Op
from phalanx.sanitizer.clocks import AgentClock, Publication

if TYPE_CHECKING:
    from phalanx.sanitizer.records import CopyWork
    from phalanx.sim.barriers import MBarrier


class Event(NamedTuple):
    """Something an agent did to a barrier, at an epoch of its clock."""

    clock: AgentClock
    op: Op
    epoch: int
    number: int = 0
    """Arrivals or bytes."""

    def known_to(self, other: AgentClock) -> bool:
        return other.now[self.clock.dim] >= self.epoch


KEPT_LOGS = 8
"""Phases whose signals are remembered for the messages."""
ARRIVE, EXPECT, COPY = "arrive", "expect", "copy"

Signal = tuple[str, Any, Op, int, int]
"""Kind, the agent's clock (or the copy), instruction, epoch, arrivals or bytes."""


class PhaseLog:
    """The signals of one phase, sorted out."""

    def __init__(self, signals: list[Signal]) -> None:
        self.arrivals = [Event(*rest) for kind, *rest in signals if kind is ARRIVE]
        self.expects = [Event(*rest) for kind, *rest in signals if kind is EXPECT]
        self.copies: list[tuple[CopyWork, int]] = [
            (work, nbytes) for kind, work, _, _, nbytes in signals if kind is COPY
        ]

    @property
    def expected(self) -> int:
        return sum(event.number for event in self.expects)

    @property
    def issued(self) -> int:
        return sum(nbytes for _, nbytes in self.copies)


class BarrierClock:
    """One mbarrier. Phases count on over re-initialisations, from an even number each time, so that parities stay."""

    __slots__ = (
        "barrier", "base", "dim", "ended", "init", "last_work", "logs", "passes", "publication", "ready", "ready_async",
        "tracked", "uses", "waited",
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
        """The same for their copies: the init is fenced too."""
        self.logs: dict[int, list[Signal]] = {}
        self.uses: dict[int, Event] = {}
        self.passes: dict[tuple[int, int], int] = {}
        """Waits (agent, phase) after which the next phase is not known to complete, with their epochs."""
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
        self.last_work = None

    def note(self, phase: int, signal: Signal) -> None:
        """Remembers a signal for the messages."""
        log = self.logs.get(phase)
        if log is None:
            self.logs[phase] = [signal]
            self.logs.pop(phase - KEPT_LOGS, None)
        else:
            log.append(signal)

    def log(self, phase: int) -> PhaseLog:
        return PhaseLog(self.logs.get(phase, []))

    def may_be_open(self, clock: AgentClock, phase: int) -> int | None:
        """A phase before this one that is not known to the agent to be complete: by waiting, or by all that it needed."""
        for earlier in range(max(clock.now[self.dim], self.base), phase):
            log = self.log(earlier)
            if log.copies or not all(event.known_to(clock) for event in log.arrivals):
                return earlier
        return None

    def awaited(self, clock: AgentClock, parity: int) -> int:
        """The phase that a wait of `parity` is sure to see completed.

        The one that the agent already knows of, if the parity is its; otherwise the next. A barrier that ran ahead
        gives no more than that, and the first `wait(1)` is for the phase before the first.
        """
        known = max(clock.now[self.dim], self.base) - 1
        return known if not (known ^ parity) & 1 else known + 1
