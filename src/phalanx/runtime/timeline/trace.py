"""A timeline of a kernel: events in cycles, and what can be asked of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen
from phalanx.machines.rates import Rates
from phalanx.sim.timeline.events import CLUSTER_BARRIER, Event, Lane, Run, Use


@frozen
class Stall:
    """Waits at one line by agents of one name, for what happened at another: how often, and for how many cycles in all."""

    who: str
    line: str
    barrier: str
    waited_for: str
    at: str
    """The line of what they waited for."""
    count: int
    cycles: float


@frozen
class Bound:
    """What limits a kernel: the unit that is busy for the largest share of the time, and all of them."""

    unit: str
    share: float
    shares: dict[str, float]

    def __str__(self) -> str:
        rows = ", ".join(f"{unit} {share:.0%}" for unit, share in self.shares.items() if share >= 0.005)
        return f"{self.unit}, busy {self.share:.0%} of the time ({rows})"


@frozen
class Change:
    """A line in two timelines: the cycles that agents and engines spent there."""

    line: str
    before: float
    after: float


@frozen
class WaitChange:
    """Waits of agents of one name at a line, for what an instruction does: the share of their time, in two timelines."""

    who: str
    line: str
    waited_for: str
    before: float
    after: float


@frozen
class Comparison:
    """Two timelines of one kernel, or of two forms of it: how much longer the second takes, at which lines, and who waits.

    The two may be a model's and a GPU's: where both wait in the same places, the model is right about the choreography.
    """

    ratio: float
    before: float
    after: float
    lines: tuple[Change, ...]
    waits: tuple[WaitChange, ...] = ()
    traces: tuple[Trace, ...] = field(default=(), repr=False, compare=False)
    """Both timelines, the earlier one first."""

    def save(self, path: str | Path) -> None:
        """Writes a page (`.html`) with both: rows of an agent below each other, or, with `o`, over each other."""
        write_page(path, (".html",), *self.traces)

    def _repr_html_(self) -> str:
        """Itself, in a notebook."""
        return in_frame(*self.traces)

    def differing(self, least: float = 0.05) -> tuple[WaitChange, ...]:
        """Waits that take at least that share of an agent's time in one timeline, and less than half of it in the other."""
        pairs = ((row, sorted((row.before, row.after))) for row in self.waits)
        return tuple(row for row, (less, more) in pairs if more >= least and less < least / 2)

    def __str__(self) -> str:
        head = f"{self.after:,.0f} cycles instead of {self.before:,.0f} ({self.ratio:.3f})"
        rows = [f"  {row.line:<24} {row.before:>12,.0f} -> {row.after:>12,.0f}" for row in self.lines[:12]]
        for wait in self.waits[:8]:
            place = f" at {wait.line}" if wait.line else ""
            what = f"{wait.who}{place} for {wait.waited_for or 'what had begun before'}"
            rows.append(f"  waits: {what}: {wait.before:.0%} -> {wait.after:.0%} of the time")
        return "\n".join([head, *rows])


@dataclass(eq=False)
class Trace:
    """What a run of a kernel did when, in cycles of an SM.

    `events` are those of the clusters that one place of the card runs (the same as `px.trace` says); `cycles` is the length
    of the whole launch. `source` says whether a model or a GPU gave the times.
    """

    kernel: str
    source: str
    cycles: float
    clock: float
    """Cycles in a microsecond."""
    events: list[Event]
    uses: list[Use]
    busy: dict[str, float]
    ctas: int
    held: int
    span: float
    """The cycles that the events are of: less than `cycles` where clusters of a place stand for others."""
    lost: int = 0
    """Stamps of a real run for which there was no room."""
    stamp_cycles: float = 0.0
    """What a stamp of a real run took, which is taken off the work around it."""

    @classmethod
    def of_run(cls, kernel: str, run: Run, cycles: float, rates: Rates, ctas: int, held: int) -> Trace:
        """The timeline of a modelled run."""
        source = f"a model of the {rates.name}"
        return cls(kernel, source, cycles, rates.clock, run.events, run.uses, run.busy, ctas, held, run.end)

    @property
    def microseconds(self) -> float:
        """The length of the launch at the model's clock."""
        return self.cycles / self.clock

    @property
    def lanes(self) -> list[Lane]:
        """The rows: agents, each followed by the engines that work for it, CTA by CTA."""
        return sorted(
            {event.lane for event in self.events}, key=lambda lane: (lane.place, lane.cta, lane.first, lane.engine)
        )

    def stalls(self) -> list[Stall]:
        """Who waited for whom, and how long, by line; the longest first."""
        found: dict[tuple[str, str, str, str, str], list[float]] = {}
        for event in self.events:
            if event.kind != "wait":
                continue
            by = self.events[event.released_by] if event.released_by >= 0 else None
            key = (event.lane.title, event.line, event.barrier, by.text if by else "", by.line if by else "")
            total = found.setdefault(key, [0.0, 0.0])
            total[0] += 1
            total[1] += event.cycles
        made = [Stall(*key, int(count), cycles) for key, (count, cycles) in found.items()]
        return sorted(made, key=lambda stall: -stall.cycles)

    def bound(self) -> Bound:
        """The part of the machine that limits the kernel, and the share of the time that it is busy."""
        shares = {unit: busy / self.span for unit, busy in sorted(self.busy.items(), key=lambda item: -item[1])}
        unit, share = next(iter(shares.items()), ("nothing", 0.0))
        return Bound(unit, share, shares)

    def critical_path(self) -> list[Event]:
        """The events that the end of the run had to wait for, from the first to the last.

        From the last event on: what released a wait, or what an event came after.
        """
        if not self.events:
            return []
        event = max(self.events, key=lambda event: event.end)
        path, seen = [event], {event.number}
        while True:
            cause = event.released_by if event.released_by >= 0 else event.after
            if cause < 0 or cause in seen:
                break
            event = self.events[cause]
            seen.add(cause)
            path.append(event)
        return path[::-1]

    def lines(self) -> dict[str, dict[str, float]]:
        """Cycles by source line: for each line, those of each kind of event."""
        found: dict[str, dict[str, float]] = {}
        for event in self.events:
            kinds = found.setdefault(event.line, {})
            kinds[event.kind] = kinds.get(event.kind, 0.0) + event.cycles
        return found

    def compare(self, other: Trace) -> Comparison:
        """This timeline beside another one, which comes after it: the whole, and the lines that changed most."""
        mine, theirs = self.lines(), other.lines()
        rows = [
            Change(line, sum(mine.get(line, {}).values()), sum(theirs.get(line, {}).values())) for line in {**mine, **theirs}
        ]
        rows.sort(key=lambda row: -abs(row.after - row.before))
        before, after = self.waiting(), other.waiting()
        waits = [WaitChange(*key, before.get(key, 0.0), after.get(key, 0.0)) for key in {**before, **after}]
        waits.sort(key=lambda row: -max(row.before, row.after))
        return Comparison(other.cycles / self.cycles, self.cycles, other.cycles, tuple(rows), tuple(waits), (self, other))

    def waiting(self) -> dict[tuple[str, str, str], float]:
        """The share of the time that agents of one name wait, by who, line, and the instruction that they wait for.

        Waits for an engine have no line: for tensor cores a GPU waits where it gives them the next product, a model where
        the kernel waits for the group. Waits for all of a cluster are left out: nobody knows when its CTAs begin.
        """
        spans: dict[Lane, tuple[float, float]] = {}
        for event in self.events:
            if not event.lane.engine:
                first, last = spans.get(event.lane, (event.start, event.end))
                spans[event.lane] = min(first, event.start), max(last, event.end)
        total: dict[str, float] = {}
        for lane, (first, last) in spans.items():
            total[lane.title] = total.get(lane.title, 0.0) + last - first
        found: dict[tuple[str, str, str], float] = {}
        for stall in self.stalls():
            if stall.barrier == CLUSTER_BARRIER:
                continue
            key = stall.who, stall.line if stall.barrier else "", stall.waited_for
            found[key] = found.get(key, 0.0) + stall.cycles / max(1.0, total[stall.who])
        return found

    def save(self, path: str | Path) -> None:
        """Writes a page (`.html`) or a file for Perfetto and Chrome's tracing (`.json`)."""
        write_page(path, (".html", ".json"), self)

    def _repr_html_(self) -> str:
        """Itself, in a notebook."""
        return in_frame(self)

    def __str__(self) -> str:
        """A few lines: the length, what limits it, and the longest waits."""
        head = (
            f"{self.kernel}: {self.cycles:,.0f} cycles, {self.microseconds:,.1f} us at {self.clock:,.0f} MHz ({self.source})"
        )
        rows = [head, f"limited by {self.bound()}"] if self.busy else [head]
        if self.lost:
            rows.append(f"{self.lost:,} stamps are missing at the end: trace a smaller problem, or fewer steps")
        for stall in by_array(self.stalls())[:6]:
            what = f"{stall.waited_for} at {stall.at}" if stall.waited_for else "what had begun before"
            rows.append(f"  {stall.who} waits at {stall.line} for {what}: {stall.count} times, {stall.cycles:,.0f} cycles")
        return "\n".join(rows)


def by_array(stalls: list[Stall]) -> list[Stall]:
    """Waits for barriers of one array added up, the longest first: a line for each place in the text, whatever the stage."""
    found: dict[tuple[str, ...], Stall] = {}
    for stall in stalls:
        array = stall.barrier.partition("[")[0]
        key = stall.who, stall.line, array, stall.waited_for, stall.at
        former = found.get(key)
        count, cycles = (former.count, former.cycles) if former else (0, 0.0)
        found[key] = Stall(*key, stall.count + count, stall.cycles + cycles)
    return sorted(found.values(), key=lambda stall: -stall.cycles)


def write_page(path: str | Path, endings: tuple[str, ...], *traces: Trace) -> None:
    """Writes a file of one or two timelines, as its name ends."""
    from phalanx.runtime.timeline.perfetto import perfetto_text
    from phalanx.runtime.timeline.viewer import viewer_page

    target = Path(path)
    if target.suffix not in endings:
        raise Error(
            f"{'a timeline is' if len(traces) == 1 else 'two timelines are'} not saved as {target.name!r}",
            location=caller_location(),
            remedy=f"name a file that ends in {' or '.join(endings)}",
        )
    writers: dict[str, Any] = {".html": viewer_page, ".json": perfetto_text}
    target.write_text(writers[target.suffix](*traces), encoding="utf-8")


def in_frame(*traces: Trace) -> str:
    """The page of one or two timelines, for a notebook."""
    from html import escape

    from phalanx.runtime.timeline.viewer import viewer_page

    return f'<iframe srcdoc="{escape(viewer_page(*traces))}" style="width:100%;height:560px;border:0"></iframe>'
