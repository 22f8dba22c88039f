"""CTAs of a cluster that load the same: their ranks are enumerated, and places compared as expressions.

A tile is fetched in shares, each CTA one, and sent to all that load the same, if the loops and conditions around the load
are provably alike in them: then all of them come to it equally often. What can't be shown stays each CTA's own.
"""

from __future__ import annotations

from phalanx.analysis.across_ranks import AcrossRanks
from phalanx.frozen import frozen
from phalanx.ir.ops.control import For, While
from phalanx.passes.pipelining.places import Places
from phalanx.passes.pipelining.staging import Staged, Transport

SHARE_ROWS = 8
"""Rows that a swizzled tile repeats after: shares begin at multiples of it."""


@frozen
class Shared:
    """The CTAs that a load is the same in: by rank, the mask of those."""

    masks: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many CTAs of each mask fetch a share."""
        return self.masks[0].bit_count()


def sharing(places: Places, values: AcrossRanks, item: Staged) -> Shared | str:
    """The CTAs that may fetch a load together, or why none may; nothing where they have nothing in common."""
    starts = [tuple(values.term(offset, rank) for offset in item.view.offsets) for rank in values.ranks]
    masks = tuple(sum(1 << other for other in values.ranks if starts[other] == start) for start in starts)
    if all(mask.bit_count() == 1 for mask in masks):
        return ""  # nothing in common
    if item.path is not Transport.COPY:
        return "only the copy engine sends to several CTAs"
    if item.view.index_axis is not None:
        return "rows by index are fetched by each"
    if len({mask.bit_count() for mask in masks}) > 1:
        return "not all CTAs have it in common with as many others"
    unlike = values.unlike(item.load)
    if unlike is not None:
        what = "trip counts" if isinstance(unlike, For | While) else "conditions"
        return f"{what} at {unlike.loc.short} are not provably the same in all CTAs of the cluster"
    count = masks[0].bit_count()
    rows = next((extent for extent in item.shape if extent > 1), 1)
    if rows % (count * SHARE_ROWS):
        return f"{rows} rows can't be shared by {count} CTAs in steps of {SHARE_ROWS}"
    return Shared(masks)
