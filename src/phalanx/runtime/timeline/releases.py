"""Who released whom in a real run: for each wait the arrival or copy that ended it, by barrier and phase.

A GPU does not say when a phase of a barrier is complete, nor when a copy has landed. But a phase is complete when the first
wait for it ends, and what is signalled before that belongs to it: a signal for the next phase comes from somebody who knows
that this one is over.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from phalanx.cuda.text.sites import Stamp
from phalanx.sim.timeline.events import Event

if TYPE_CHECKING:
    from phalanx.runtime.timeline.stamps import Agent

SOONEST_COPY = 300.0
"""Cycles before which no copy has landed."""
SLACK = 64.0
"""Cycles by which the clocks of two SMs may differ after all."""
Key = tuple[int, int, str, int]
"""A barrier: the cluster, the CTA's rank, the array, the index; of the cluster's barrier, rank and index are -1."""


@dataclass
class Wait:
    """A wait for a phase; without an event it passed at once. `before` is the agent's event before it."""

    phase: int
    start: float
    end: float
    event: Event | None
    before: int = -1


@dataclass
class Signal:
    """What makes a phase complete: an arrival, a copy, or an engine's arrival behind work that it was given."""

    event: Event
    is_copy: bool
    given: list[int] = field(default_factory=list)

    @property
    def soonest(self) -> float:
        """When it can have come at the earliest."""
        return self.event.start + SOONEST_COPY if self.is_copy else self.event.end


class Releases:
    """Collects waits and signals of a launch by barrier, and finds for each wait what ended it."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.waits: dict[Key, list[Wait]] = {}
        self.signals: dict[Key, list[Signal]] = {}
        self.phases: dict[tuple[int, str, Key], int] = {}
        """The phase that an agent waited for last: by its CTA and name, and by the barrier."""

    def waited(
        self, agent: Agent, stamp: Stamp, index: int, parity: int, start: float, end: float, event: Event | None
    ) -> None:
        """A wait of an agent: for the next phase of that parity, or the same as before."""
        place, rank = agent.cta.place, agent.cta.rank
        shared = not stamp.barriers  # the cluster's barrier: every agent waits for each of its phases
        key: Key = (place, -1, stamp.barrier, -1) if shared else (place, rank, stamp.barrier, index)
        own = (agent.cta.number, agent.lane.title, key)
        phase = self.phases.get(own, -1)
        phase = self.phases[own] = phase + (1 if shared else (phase ^ parity) & 1)
        before = agent.last if event is None else event.after
        self.waits.setdefault(key, []).append(Wait(phase, start, end, event, before))
        if event is not None:
            event.phase = phase

    def targets(self, agent: Agent, stamp: Stamp, index: int, mask: int) -> list[Key]:
        """The barriers that a signal or copy is for."""
        place, rank = agent.cta.place, agent.cta.rank
        ranks = [bit for bit in range(32) if mask >> bit & 1] if stamp.masked else [rank]
        if stamp.leaders:
            ranks = list(dict.fromkeys(rank & ~1 for rank in ranks))
        if not stamp.barriers:
            return [(place, -1, stamp.barrier, -1)]
        return [(place, rank, stamp.barrier, index) for rank in ranks]

    def signalled(self, agent: Agent, stamp: Stamp, index: int, mask: int, event: Event, given: list[int]) -> None:
        """An arrival; with `given`, that of an engine when this work is over."""
        for key in self.targets(agent, stamp, index, mask):
            self.signals.setdefault(key, []).append(Signal(event, bool(given), given))

    def copied(self, agent: Agent, stamp: Stamp, index: int, mask: int, event: Event) -> None:
        """A copy whose bytes complete on barriers."""
        for key in self.targets(agent, stamp, index, mask):
            self.signals.setdefault(key, []).append(Signal(event, True))

    def find(self) -> None:
        """For each wait what released it, and for copies when they have landed."""
        for key, waits in self.waits.items():
            if key[1] < 0:
                self._meet(waits)
                continue
            over: dict[int, float] = {}
            for wait in waits:
                over[wait.phase] = min(over.get(wait.phase, float("inf")), wait.end)
            self._assign(key, over, waits)

    def _assign(self, key: Key, over: dict[int, float], waits: list[Wait]) -> None:
        """Signals of one barrier go to the phases that they belong to."""
        phases = sorted(phase for phase in over if phase >= 0)
        ends = [over[phase] for phase in phases]
        own = key[0], key[1]
        parts: dict[int, list[Signal]] = {}
        for signal in self.signals.get(key, ()):
            lane = signal.event.lane
            slack = 0.0 if (lane.place, lane.cta) == own else SLACK
            number = bisect_left(ends, signal.event.start - slack)
            if number == len(phases):
                continue  # nobody waits for it any more
            phase = signal.event.phase = phases[number]
            parts.setdefault(phase, []).append(signal)
            if signal.is_copy:
                for work in signal.given or [signal.event.number]:
                    self.events[work].end = max(self.events[work].end, ends[number])
        for wait in waits:
            released = parts.get(wait.phase)
            if wait.event is not None and released:
                last = max(released, key=lambda signal: signal.soonest)
                wait.event.released_by = last.given[-1] if last.given else last.event.number

    def _meet(self, waits: list[Wait]) -> None:
        """The cluster's barrier: the last agent that came to it releases all."""
        by_phase: dict[int, list[Wait]] = {}
        for wait in waits:
            by_phase.setdefault(wait.phase, []).append(wait)
        for group in by_phase.values():
            last = max(group, key=lambda wait: wait.start)
            for wait in group:
                if wait.event is not None and wait is not last:
                    wait.event.released_by = last.before
