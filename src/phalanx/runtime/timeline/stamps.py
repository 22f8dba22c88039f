"""The timeline of a real launch, from the stamps that its agents wrote.

Each warp that stands for an agent wrote its stamps in order. Clocks of SMs begin at different times: each CTA says which
time of the whole GPU a reading of its clock is. What is between two stamps is work; what a stamp itself takes is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from statistics import median
from typing import Any

import numpy as np

from phalanx.cuda.abi import STAMP_HEAD, STAMP_RECORDS
from phalanx.cuda.text.sites import Site, Stamp
from phalanx.ir.ops.control import span_text
from phalanx.location import NOWHERE, Location
from phalanx.runtime.launch.stamping import StampedRun
from phalanx.runtime.timeline.releases import Releases
from phalanx.runtime.timeline.trace import Trace
from phalanx.sim.timeline.events import CLUSTER_BARRIER, Event, Lane

LOW = 0xFFFFFFFF
LEAST_WORK = 4.0
"""Cycles between two stamps that are shown as work."""
LEAST_WAIT = 16.0
"""Cycles by which a wait takes longer than one that nobody had to wait in, from which on it counts as one."""
MOST_FREE = 80.0
"""A wait that takes as long is none that passes at once, even if all of a kernel's do."""
LEAST_SAMPLES = 1000.0
"""Nanoseconds from which on the clock's rate is measured by a launch itself."""


@dataclass
class SampledCta:
    """A CTA that wrote stamps: where and when it ran."""

    number: int
    place: int
    rank: int
    sm: int
    block: int
    began: tuple[int, int]
    """Nanoseconds of the GPU's clock, and cycles of the SM's, at its begin."""
    ended: tuple[int, int]
    reading: float
    stamp: float
    rings: list[np.ndarray]
    lost: int


@dataclass
class Agent:
    """What the reader knows of an agent while it goes through its stamps."""

    cta: SampledCta
    site: Site
    warp: int
    until: float
    last: int = -1
    begun: float = 0.0
    """When its last stamp began."""
    groups: dict[str, list[list[int]]] = field(default_factory=dict)

    @property
    def lane(self) -> Lane:
        """Its row."""
        first = self.warp if self.site.role else -1
        return Lane(self.cta.place, self.cta.rank, first, "", title_of(self.site, self.warp))

    def engine(self, name: str) -> Lane:
        """The row of an engine that works for it."""
        own = self.lane
        return Lane(own.place, own.cta, own.first, name, name)


def title_of(site: Site, warp: int) -> str:
    """What the model calls the agent of a site, of which that warp is the first."""
    if not site.role:
        return "all warps"
    if site.copies is not None:
        return span_text(warp, site.copies[1])
    if site.role.startswith("warp"):
        return site.role
    last = warp + site.warps - 1
    return f"{site.role} (warp {warp})" if site.warps == 1 else f"{site.role} (warps {warp}-{last})"


def trace_of_stamps(run: StampedRun, clock: float) -> Trace:
    """The timeline of a launch on a GPU; `clock` is the card's usual one, in cycles of a microsecond."""
    made = Reading(run, clock)
    made.read()
    first, last = ~int(run.words[0]) & 0xFFFFFFFFFFFFFFFF, int(run.words[1])
    cycles = max(0, last - first) * made.rate
    span = max([event.end for event in made.events], default=cycles)
    trace = Trace(
        run.kernel.removesuffix("_kernel"), f"a run on {run.card}", cycles, made.rate * 1000, made.events, [], {},
        prod(run.grid), 1, span,
    )  # fmt: skip
    trace.lost = sum(cta.lost for cta in made.ctas)
    trace.stamp_cycles = made.stamp
    return trace


class Reading:
    """Goes through the stamps of a launch: one event for each, and for the work between them."""

    def __init__(self, run: StampedRun, clock: float) -> None:
        self.run = run
        self.ctas = list(sampled(run))
        self.rate = rate_of(self.ctas, clock / 1000)
        """Cycles of a nanosecond."""
        self.origin = ~int(run.words[0]) & 0xFFFFFFFFFFFFFFFF
        self.reading = median(cta.reading for cta in self.ctas) if self.ctas else 0.0
        """Cycles between two readings of the clock."""
        self.stamp = median(cta.stamp for cta in self.ctas) if self.ctas else 0.0
        """Cycles of a stamp, its readings of the clock among them."""
        self.issues: dict[str, float] = {}
        """The least cycles in which a product of a line was issued."""
        self.free = self.waits_at_once()
        self.events: list[Event] = []
        self.outside: dict[int, list[int]] = {}
        """Events of the code around roles, by CTA."""
        self.releases = Releases(self.events)

    def read(self) -> None:
        """All agents, then who released whom."""
        for cta in self.ctas:
            for warp, ring in enumerate(cta.rings):
                self.read_ring(cta, warp, ring)
        self.releases.find()

    def time(self, cta: SampledCta, cycles: int) -> float:
        """A reading of an SM's clock as cycles since the launch began."""
        nanoseconds, at = cta.ended if cta.ended[0] else cta.began
        return (nanoseconds - self.origin) * self.rate + (cycles - at)

    def waits_at_once(self) -> float:
        """What a wait takes that nobody has to wait in: the least that one took."""
        least = MOST_FREE
        for cta in self.ctas:
            for ring in cta.rings:
                for start, end, place, _ in ring.tolist():
                    stamp = self.run.sites[place & 0xFFFF].stamp
                    if stamp is not None and stamp.kind == "wait" and stamp.barriers:
                        least = min(least, (end - start) & LOW)
                    elif stamp is not None and stamp.kind == "product":
                        where = self.run.sites[place & 0xFFFF].location.short
                        self.issues[where] = min(self.issues.get(where, MOST_FREE), (end - start) & LOW)
        return least

    def read_ring(self, cta: SampledCta, warp: int, ring: np.ndarray) -> None:
        """The stamps of a warp, in order: those of the code around roles, and a role's between them."""
        agents: dict[str, Agent] = {}
        former = cta.began[1]
        for start, end, place, more in ring.tolist():
            site = self.run.sites[place & 0xFFFF]
            assert site.stamp is not None
            began = former + signed(start - former)
            ended = former = began + ((end - began) & LOW)
            at, until = self.time(cta, began), self.time(cta, ended)
            if site.stamp.kind == "begin" or site.role not in agents:
                agents[site.role] = Agent(cta, site, warp, at, self.forked(cta, at) if site.role else -1)
            agent = agents[site.role]
            self.stamped(agent, site, site.stamp, at, until, place >> 16, more)
            if site.role and "" in agents:
                agents[""].until = agent.until

    def forked(self, cta: SampledCta, start: float) -> int:
        """The last event of the code around roles before one begins; -1 for none."""
        before = [number for number in self.outside.get(cta.number, ()) if self.events[number].end <= start]
        return before[-1] if before else -1

    # --- one stamp ----------------------------------------------------------------------------------------------------

    def stamped(self, agent: Agent, site: Site, stamp: Stamp, start: float, end: float, index: int, more: int) -> None:
        """The work before a stamp, and what it says. Warps of an agent take turns, and may be some cycles apart."""
        start = max(start, agent.begun)
        end = max(start, end)
        agent.begun = start
        self.work(agent, site, start)
        agent.until = end + max(0.0, self.stamp - self.reading)
        if stamp.kind == "wait":
            self.wait(agent, site, stamp, start, end - self.reading, index, more)
        elif stamp.kind == "sync":
            self.add(agent, agent.lane, "work", start, end - self.reading, site)
        elif stamp.kind == "signal":
            self.signal(agent, site, stamp, start, index, more)
        elif stamp.kind in ("copy", "store", "product"):
            if stamp.kind == "product":
                self.taken(agent, site, stamp, start, end - self.reading)
            self.give(agent, site, stamp, end, index, more)
        elif stamp.kind == "close":
            agent.groups.setdefault(stamp.engine, [[]]).append([])

    def add(
        self, agent: Agent, lane: Lane, kind: str, start: float, end: float, site: Site, where: Location | None = None,
        **more: Any,
    ) -> Event:
        """Writes an event down, behind the agent's last one."""
        place = site.location if where is None else where
        end = max(start, end)
        made = Event(
            len(self.events), lane, kind, start, end, site.name, place, after=agent.last, cluster=agent.cta.place, **more
        )
        self.events.append(made)
        if not lane.engine:
            agent.last = made.number
            if lane.first < 0:
                self.outside.setdefault(agent.cta.number, []).append(made.number)
        return made

    def work(self, agent: Agent, site: Site, until: float) -> None:
        """What an agent did since its last stamp."""
        if until - agent.until >= LEAST_WORK:
            where = site.work if site.work is not NOWHERE else site.location
            self.add(agent, agent.lane, "work", agent.until, until, site, where)

    def wait(self, agent: Agent, site: Site, stamp: Stamp, start: float, end: float, index: int, parity: int) -> None:
        """A wait: an event if it took longer than one that passes at once."""
        barrier = name_of(stamp, index)
        free = self.free if stamp.barriers else self.reading
        event = None
        if end - start + self.reading - free >= LEAST_WAIT:
            event = self.add(agent, agent.lane, "wait", start, end, site, barrier=barrier)
        elif end - start >= LEAST_WORK:
            self.add(agent, agent.lane, "work", start, end, site)
        if stamp.engine:
            self.close(agent, stamp, end, event)
        else:
            self.releases.waited(agent, stamp, index, parity, start, end, event)

    def taken(self, agent: Agent, site: Site, stamp: Stamp, start: float, end: float) -> None:
        """Tensor cores take a product when they have room: until then its agent waits for the one before."""
        given = [number for group in agent.groups.get(stamp.engine, ()) for number in group]
        free = self.issues[site.location.short]
        if given and end - start - free >= LEAST_WAIT:
            event = self.add(agent, agent.lane, "wait", start + free, end, site)
            event.released_by = given[-1]
        elif end - start >= LEAST_WORK:
            self.add(agent, agent.lane, "work", start, end, site)

    def close(self, agent: Agent, stamp: Stamp, end: float, event: Event | None) -> None:
        """A wait for groups of an engine's work ends what is in them."""
        groups = agent.groups.setdefault(stamp.engine, [[]])
        over = groups[: max(0, len(groups) - 1 - stamp.pending)]
        for group in over:
            for number in group:
                work = self.events[number]
                work.end = max(work.end, end)
                if event is not None:
                    event.released_by = number
        if not stamp.reads:
            del groups[: len(over)]

    def signal(self, agent: Agent, site: Site, stamp: Stamp, start: float, index: int, mask: int) -> None:
        """An arrival, of the agent or of an engine behind the work that it was given."""
        agent.until = max(agent.until, start + 1)
        event = self.add(agent, agent.lane, "signal", start, start + 1, site, barrier=name_of(stamp, index))
        given: list[int] = []
        if stamp.engine:
            given = [number for group in agent.groups.pop(stamp.engine, []) for number in group]
        self.releases.signalled(agent, stamp, index, mask, event, given)

    def give(self, agent: Agent, site: Site, stamp: Stamp, start: float, index: int, mask: int) -> None:
        """Work for an engine; when it was over, a wait says."""
        lane = agent.engine(stamp.engine)
        event = self.add(agent, lane, stamp.kind, start, start, site, nbytes=stamp.nbytes, barrier=name_of(stamp, index))
        if stamp.barriers:
            self.releases.copied(agent, stamp, index, mask, event)
            return
        groups = agent.groups.setdefault(stamp.engine, [[]])
        groups[-1].append(event.number)
        if stamp.closes:
            groups.append([])


def name_of(stamp: Stamp, index: int) -> str:
    """The name of a barrier, as the simulator has it."""
    if not stamp.barriers:
        return "" if stamp.engine else CLUSTER_BARRIER
    return f"{stamp.barrier}[{index}]" if stamp.barriers > 1 else stamp.barrier


def signed(cycles: int) -> int:
    """A difference of two readings of 32 bits of a clock."""
    return (cycles + 0x80000000 & LOW) - 0x80000000


def sampled(run: StampedRun) -> Iterator[SampledCta]:
    """The CTAs that wrote stamps."""
    size, ring_words = prod(run.cluster), 2 + 2 * STAMP_RECORDS
    step = STAMP_HEAD + run.warps * ring_words
    for number in range((len(run.words) - STAMP_HEAD) // step):
        words = run.words[STAMP_HEAD + number * step :][:step]
        sm, block, *times, reading, stamp = words[:8].tolist()
        if not sm:
            continue
        rings, lost = [], 0
        for warp in range(run.warps):
            ring = words[STAMP_HEAD + warp * ring_words :][:ring_words]
            count = int(ring[0])
            written = ring[2 : 2 + 2 * min(count, STAMP_RECORDS)].view(np.uint32).reshape(-1, 4)
            rings.append(written[written.any(axis=1)])
            lost += max(0, count - STAMP_RECORDS) if len(rings[-1]) else 0
        yield SampledCta(
            number, number // size, number % size, sm - 1, block, (times[0], times[1]), (times[2], times[3]),
            reading, stamp, rings, lost,
        )  # fmt: skip


def rate_of(ctas: list[SampledCta], usual: float) -> float:
    """Cycles of a nanosecond: what the CTAs' two clocks say, where they ran long enough for that."""
    whole = [cta for cta in ctas if cta.ended[0] > cta.began[0]]
    nanoseconds = sum(cta.ended[0] - cta.began[0] for cta in whole)
    if nanoseconds < LEAST_SAMPLES * max(1, len(whole)):
        return usual
    return sum(cta.ended[1] - cta.began[1] for cta in whole) / nanoseconds
