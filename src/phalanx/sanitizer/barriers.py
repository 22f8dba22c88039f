"""What the checks keep of each mbarrier: publications by phase, its life, and what was signalled, for the messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from phalanx.ir.core import Op
from phalanx.sanitizer.clocks import HISTORY, AgentClock, Publication

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


class PhaseLog:
    """The signals of one phase."""

    __slots__ = ("arrivals", "copies", "expects")

    def __init__(self) -> None:
        self.arrivals: list[Event] = []
        self.expects: list[Event] = []
        self.copies: list[tuple[CopyWork, int]] = []

    @property
    def expected(self) -> int:
        return sum(event.number for event in self.expects)

    @property
    def issued(self) -> int:
        return sum(nbytes for _, nbytes in self.copies)


class BarrierClock:
    """One mbarrier. Phases count on over re-initialisations, from an even number each time, so that parities stay."""

    __slots__ = (
        "barrier", "base", "dim", "ended", "init", "last_work", "logs", "publication", "ready", "ready_async", "rival",
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
        self.logs: dict[int, PhaseLog] = {}
        self.uses: dict[int, Event] = {}
        self.reset()

    def reset(self) -> None:
        """The CTA begins."""
        self.publication.reset()
        self.base = 0
        self.waited = -1
        self.init: Event | None = None
        self.ended: Event | None = None
        self.last_work: tuple[CopyWork, int] | None = None
        self.rival: Any = None
        self.ready.clear()
        self.ready_async.clear()
        self.logs.clear()
        self.uses.clear()

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
        self.ready = {event.clock.dim}
        self.ready_async.clear()
        self.uses.clear()
        self.last_work = None

    def log(self, phase: int) -> PhaseLog:
        log = self.logs.get(phase)
        if log is None:
            log = self.logs[phase] = PhaseLog()
            self.logs.pop(phase - HISTORY, None)
        return log

    def awaited(self, clock: AgentClock, parity: int) -> int:
        """The phase that a wait of `parity` is sure to see completed.

        The one that the agent already knows of, if the parity is its; otherwise the next. A barrier that ran ahead gives no
        more than that, and the first `wait(1)` is for the phase before the first.
        """
        known = max(clock.now[self.dim], self.base) - 1
        return known if not (known ^ parity) & 1 else known + 1
