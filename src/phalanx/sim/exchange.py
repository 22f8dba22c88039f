"""What the CTAs of a cluster do together, call by call: reductions, and regions that all must name alike.

Every CTA comes to the same instruction equally often; its n-th visit belongs to the n-th of its peers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phalanx.ir.core import Op

if TYPE_CHECKING:
    from phalanx.sim.agents import Agent


class Turn:
    """One reduction in progress: what each rank brought, who waits for the rest."""

    __slots__ = ("left", "op", "size", "values", "waiters")

    def __init__(self, op: Op, size: int) -> None:
        self.op = op
        self.size = size
        self.left = size
        self.values: dict[int, Any] = {}
        self.waiters: list[Agent] = []

    def bring(self, rank: int, value: Any) -> bool:
        """Adds what `rank` holds; true when all are here."""
        self.values[rank] = value
        if len(self.values) < self.size:
            return False
        for agent in self.waiters:
            agent.waiting = None
            agent.queue.append(agent)
        self.waiters.clear()
        return True

    def __str__(self) -> str:
        missing = [rank for rank in range(self.size) if rank not in self.values]
        return f"short of CTA {', '.join(map(str, missing))}"


class Visits:
    """The visits of one cluster's CTAs to its collective instructions, from its start."""

    def __init__(self) -> None:
        self.seen: dict[tuple[Op, int], int] = {}
        self.turns: dict[tuple[Op, int], Turn] = {}
        self.regions: dict[tuple[Op, int, int], tuple[int, Any, set[int]]] = {}

    def number(self, op: Op, rank: int) -> int:
        """How often `rank` has come here before."""
        visit = self.seen.get((op, rank), 0)
        self.seen[op, rank] = visit + 1
        return visit
