"""Waits that may come too late: nothing orders the completion of the next phase after them.

Such a wait passes in the run that is watched, but in another one it finds the barrier a phase further, and blocks. That
can't be told from one run for sure, so this only names the agents to be held back in a run of their own, where the
deadlock shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from phalanx.ir.core import Function

if TYPE_CHECKING:
    from phalanx.sanitizer.barriers import BarrierClock
    from phalanx.sanitizer.clocks import AgentClock

Key = tuple[int, int]
"""A CTA's rank, and the number of an agent in it."""


class Misses:
    """Keeps the last waits of each barrier until a signal of the next phase is known to come after them."""

    def __init__(self, function: Function) -> None:
        self.blocking = {op for op in function.walk() if any(wait.blocking for wait in op.effects().waits)}
        self.suspects: set[Key] = set()

    def passed(self, barrier: BarrierClock, clock: AgentClock, phase: int) -> None:
        """A wait for `phase` is over: the next phase should not complete before it."""
        barrier.passes[clock.dim, phase] = clock.now[clock.dim]

    def signalled(self, barrier: BarrierClock, clock: AgentClock, phase: int) -> None:
        """A signal to `phase`, or the copy that will give one: what its agent knows of comes before its completion."""
        now, exits = clock.now, clock.layout.exit
        for (dim, waited), epoch in list(barrier.passes.items()):
            if waited >= phase:
                continue
            if waited + 1 < phase:  # the next phase completed before anybody was known to come after the wait
                self.suspect(clock, dim)
                del barrier.passes[dim, waited]
            elif now[dim] >= epoch or now[exits + dim] >= epoch:
                del barrier.passes[dim, waited]

    def finished(self, barrier: BarrierClock, clock: AgentClock) -> None:
        """The cluster has ended."""
        for dim, waited in barrier.passes:
            if waited + 1 < barrier.phase:
                self.suspect(clock, dim)

    def suspect(self, clock: AgentClock, dim: int) -> None:
        per_cta = clock.layout.per_cta
        self.suspects.add((dim // per_cta, dim % per_cta))
