"""What the CTAs of a cluster do together, call by call: regions that all must name alike.

Every CTA comes to the same instruction equally often; its n-th visit belongs to the n-th of its peers.
"""

from __future__ import annotations

from typing import Any

from phalanx.ir.core import Op


class Visits:
    """The visits of one cluster's CTAs to its collective instructions, from its start."""

    def __init__(self) -> None:
        self.seen: dict[tuple[Op, int, int], int] = {}
        self.regions: dict[tuple[Op, int, int, int], tuple[int, Any, set[int]]] = {}

    def number(self, op: Op, rank: int, copy: int) -> int:
        """How often that copy of a role, in the CTA of `rank`, has come here before."""
        visit = self.seen.get((op, rank, copy), 0)
        self.seen[op, rank, copy] = visit + 1
        return visit
