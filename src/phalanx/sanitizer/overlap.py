"""The checks of a kernel that may begin before the launch before it has ended: which accesses does no wait precede?

And does anybody wait at all: the next launch waits for the end of this one alone, so that this one has to end last.

That the launch before is over is one number of every vector, in the section of time: who comes after the wait, however it
was told, comes after that launch's end, and the wait makes that launch's writes visible to the whole grid.
"""

from __future__ import annotations

from typing import Any

from phalanx.ir import effects as fx
from phalanx.ir.core import Function, Op
from phalanx.sanitizer import messages
from phalanx.sanitizer.checker import Checker
from phalanx.sanitizer.clocks import AgentClock
from phalanx.sanitizer.findings import Findings
from phalanx.sanitizer.globals import touches
from phalanx.sim.agents import Agent
from phalanx.sim.engines import Copy
from phalanx.sim.places import array_of


class OverlapChecker(Checker):
    """Also takes note of accesses to global memory that come before the wait for the launch before."""

    overlaps = True

    def __init__(self, function: Function, args: tuple[Any, ...], findings: Findings, *, strict: bool = False) -> None:
        super().__init__(function, args, findings, strict=strict)
        self.early: dict[tuple[Op, str, fx.Mode], None] = {}
        self.waited = False
        """Whether some agent waited: then this launch ends after the one before it."""

    def notes(self) -> list[str]:
        found = [*super().notes(), *dict.fromkeys(messages.early_note(*access) for access in self.early)]
        if not self.waited and not self.findings.items:
            found.append(messages.unawaited_note(self.function))
        return found

    def launch(self, agent: Agent, op: Op, neighbour: fx.Neighbour) -> None:
        """The agent knows from here on that the launch before is over, if it waited for that."""
        if neighbour is fx.Neighbour.PRIOR:
            clock: AgentClock = agent.watch
            clock.now[clock.layout.prior] = 1
            self.waited = True

    def access(self, agent: Agent, op: Op, access: fx.Access, place: Any, ranks: list[int] | None) -> None:
        super().access(agent, op, access, place, ranks)
        if not knows_prior(agent):
            self.came_early(agent, op, access, place)

    def issue(self, agent: Agent, op: Op, copy: Copy, accesses: list[tuple[fx.Access, Any, list[int] | None]]) -> None:
        super().issue(agent, op, copy, accesses)
        if not knows_prior(agent):
            for access, place, _ in accesses:
                self.came_early(agent, op, access, place)

    def came_early(self, agent: Agent, op: Op, access: fx.Access, place: Any) -> None:
        """Nothing says that the launch before is over; in a cluster off the rails that may be for want of a signal.

        What the runtime owns is this launch's alone.
        """
        region = access.region
        if not region.space.is_common or agent.cta.cluster.index in self.findings.derailed:
            return
        array = array_of(region)
        if array not in self.function.given:
            return
        key = (op, array.name, access.mode)
        if key not in self.early and touches(place):
            self.early[key] = None


def knows_prior(agent: Agent) -> bool:
    """Whether the launch before is over for the agent."""
    clock: AgentClock = agent.watch
    return clock.now[clock.layout.prior] > 0
