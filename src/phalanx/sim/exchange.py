"""What the CTAs of a cluster do together, call by call: masks and regions that all must name alike.

The n-th time that a CTA names a mask at an instruction belongs to the n-th time that its peers name it there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from phalanx.errors import Error
from phalanx.ir.ops.cluster import ClusterAgree

Visitor = tuple[ClusterAgree, int, int]
"""An instruction, the rank of a CTA, and the copy of a role."""


@dataclass
class Meeting:
    """CTAs that come to one copy: who was the first, the region it named, and who is still to come."""

    first: int
    starts: tuple[Any, ...]
    missing: set[int]


@dataclass
class Visits:
    """The visits of one cluster's CTAs to its collective instructions, from its start."""

    named: dict[Visitor, dict[int, int]] = field(default_factory=dict)
    """How often each visitor has named each mask."""
    open: dict[tuple[ClusterAgree, int, int, int], Meeting] = field(default_factory=dict)
    """The meetings for which somebody is still to come, by instruction, copy of a role, mask and number."""

    def meet(
        self, op: ClusterAgree, rank: int, copy: int, mask: int, ranks: list[int], starts: tuple[Any, ...]
    ) -> Meeting | None:
        """The meeting to which this visit belongs; None where the CTA is not of its own mask, and fetches for itself."""
        counts = self.named.setdefault((op, rank, copy), {})
        number = counts.get(mask, 0)
        counts[mask] = number + 1
        if rank not in ranks:
            return None
        key = op, copy, mask, number
        meeting = self.open.setdefault(key, Meeting(rank, starts, set(ranks)))
        meeting.missing.discard(rank)
        if not meeting.missing:
            del self.open[key]
        return meeting

    def unmet(self) -> Error | None:
        """What to say of CTAs that will never come to a copy that another shares with them."""
        for (op, copy, mask, _), meeting in self.open.items():
            first, peer = meeting.first, min(meeting.missing)
            masks = self.named.get((op, peer, copy), {})
            others = " and ".join(f"{other:#b}" for other in masks if other != mask)
            instead = f"names {others}" if others else f"comes here {'less often' if masks else 'never'}"
            error = Error(
                f"CTA {first} shares a copy of {op.src.array.name} by the mask {mask:#b}, CTA {peer} of that mask {instead}",
                location=op.loc,
                kind="region-mismatch",
                remedy="all CTAs of a mask name the same one, and come to the copy equally often",
            )
            error.other = op.loc
            return error
        return None
