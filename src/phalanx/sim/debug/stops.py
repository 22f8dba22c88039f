"""Where a run is to stop: at a line, when a barrier completes a phase, when a value changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.location import Location
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.debug.expressions import truth
from phalanx.sim.debug.run import Run

Evaluate = Callable[[str, Agent | None], Any]


class Stop:
    """A place or an event. `reached` is asked at every tick and says why the run stops, or nothing."""

    text: str
    needs_value = False
    """Whether it looks at the run at every tick, and so has to be begun anew where the run is somewhere else."""

    def reached(self, run: Run, agent: Agent | None, at_line: bool) -> str:
        """Why the run stops here; "" where it does not. `at_line`: the agent has come to another line."""
        raise NotImplementedError

    def renew(self, run: Run) -> None:
        """The run is somewhere else now, without having gone there step by step."""


@dataclass
class LineStop(Stop):
    """Some agent comes to a source line, where the condition holds for it. `file`: the end of its path; "" is any."""

    file: str
    line: int
    condition: str
    evaluate: Evaluate

    @property
    def text(self) -> str:  # type: ignore[override]
        """As it was asked for."""
        place = f"{self.file}:{self.line}" if self.file else f"line {self.line}"
        return f"{place} if {self.condition}" if self.condition else place

    def reached(self, run: Run, agent: Agent | None, at_line: bool) -> str:
        """Asked when an agent has come to a line."""
        if not at_line or agent is None:
            return ""
        seen = run.current
        if seen is None:
            return ""
        again = seen.position.line <= seen.before.line
        if not self.leads_there(seen.position.place) or (self.leads_there(seen.before.place) and not again):
            return ""
        if not self.condition:
            return self.text
        try:
            return self.text if truth(self.evaluate(self.condition, agent)) else ""
        except Error as problem:
            return f"{self.text} ({problem.message})"

    def leads_there(self, place: Location | None) -> bool:
        """Whether a place is on that line, or in a function that is inlined there."""
        while place is not None and not self.is_there(place):
            place = place.caller
        return place is not None

    def is_there(self, place: Location) -> bool:
        """Whether a place is on that line."""
        return place.line == self.line and place.file.replace("\\", "/").endswith(self.file)


@dataclass
class PhaseStop(Stop):
    """A barrier completes a phase: that one, or any. `rank`: in that CTA alone; `index`: that barrier of its array."""

    name: str
    index: int | None = None
    rank: int | None = None
    phase: int | None = None
    before: dict[MBarrier, int] = field(default_factory=dict)
    needs_value = True

    @property
    def text(self) -> str:  # type: ignore[override]
        """As it was asked for."""
        index = "" if self.index is None else f"[{self.index}]"
        rank = "" if self.rank is None else f".at({self.rank})"
        return f"{self.name}{index}{rank}" + ("" if self.phase is None else f" phase {self.phase}")

    def barriers(self, run: Run) -> list[MBarrier]:
        """The barriers whose phases count."""
        return [
            barrier for cluster in run.scheduler.active for cta in cluster.ctas if self.rank in (None, cta.rank)
            for array, barriers in cta.barriers.items() if self.name in (array.name, array.title, "")
            for barrier in barriers if self.index in (None, barrier.index)
        ]

    def renew(self, run: Run) -> None:
        """Begins with the phases as they are."""
        self.before = {barrier: barrier.phase for barrier in self.barriers(run)}

    def reached(self, run: Run, agent: Agent | None, at_line: bool) -> str:
        """Whether a phase is complete that was not at the tick before."""
        for barrier in self.barriers(run):
            phase, before = barrier.phase, self.before.get(barrier, 0)
            self.before[barrier] = phase
            if phase > before and (self.phase is None or before <= self.phase < phase):
                cta = barrier.cta
                return f"{barrier.name} of CTA {cta.rank}, cluster {cta.cluster.index} completes phase {phase - 1}"
        return ""


@dataclass
class Watch(Stop):
    """The value of an expression changes, as the agent sees it that was current when it was asked for."""

    text: str
    evaluate: Callable[[str], Any]
    before: Any = None
    needs_value = True

    def renew(self, run: Run) -> None:
        """Begins with the value as it is."""
        self.before = self.look()

    def look(self) -> Any:
        """The value now; None where there is none."""
        try:
            value = self.evaluate(self.text)
        except Error:
            return None
        return value.copy() if isinstance(value, np.ndarray) else value

    def reached(self, run: Run, agent: Agent | None, at_line: bool) -> str:
        """Whether the value is another one than at the tick before."""
        value, before = self.look(), self.before
        if same(value, before):
            return ""
        self.before = value
        doer = run.done_by()
        return f"{self.text} changes{how(before, value)}" + (f", by {doer}" if doer else "")


def same(one: Any, two: Any) -> bool:
    """Whether two values are equal, bit by bit where they are arrays: NaN is NaN."""
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one.shape == two.shape and one.tobytes() == two.tobytes()
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return False
    return one is two or bool(one == two) or (one != one and two != two)


def how(before: Any, value: Any) -> str:
    """From what to what, for single values; how many elements, for tiles."""
    if isinstance(value, np.ndarray) and isinstance(before, np.ndarray) and value.shape == before.shape and value.ndim:
        bits = f"V{value.dtype.itemsize}"
        changed = np.ascontiguousarray(value).view(bits) != np.ascontiguousarray(before).view(bits)
        return f", {int(np.count_nonzero(changed))} of {value.size} elements"
    if isinstance(value, np.ndarray) and value.ndim:
        return ""
    return f" from {before} to {value}" if before is not None else f" to {value}"
