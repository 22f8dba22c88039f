"""Whether two regions of memory may share bytes."""

from __future__ import annotations

from phalanx.analysis.offsets import Loop, Offsets
from phalanx.ir.memory import may_share_bytes
from phalanx.ir.views import BarrierArray, GlobalView, SharedBuffer, SharedView, View

Region = GlobalView | SharedView | BarrierArray
"""A view, or the memory of an array of barriers."""


def may_overlap(first: Region, later: Region, offsets: Offsets, crossed: frozenset[Loop] = frozenset()) -> bool:
    """False only where it is certain: other arrays, other buffers, or an axis on which the boxes are apart.

    `crossed` are the loops that went to another iteration between the two. Different parameters are taken for
    different arrays. A buffer in another CTA may be this CTA's own (its rank is a run-time value), so `cta` does not
    tell regions apart.
    """
    if isinstance(first, GlobalView) and isinstance(later, GlobalView):
        return first.array is later.array and not _apart(first, later, offsets, crossed)
    if isinstance(first, GlobalView) or isinstance(later, GlobalView):
        return False
    if isinstance(first, SharedView) and isinstance(later, SharedView) and first.buffer is later.buffer:
        return not _apart(first, later, offsets, crossed)
    return may_share_bytes(_storage(first), _storage(later))


def region_name(region: Region) -> str:
    """What the user calls the memory."""
    if isinstance(region, GlobalView):
        return region.array.name
    return _storage(region).name


def _storage(region: SharedView | BarrierArray) -> SharedBuffer | BarrierArray:
    return region.buffer if isinstance(region, SharedView) else region


def _apart(a: View, b: View, offsets: Offsets, crossed: frozenset[Loop]) -> bool:
    """Whether the boxes share no index on some axis. Rows named by a tile of indices may be any."""
    return any(
        not start_a.type.shape  # type: ignore[union-attr]
        and not start_b.type.shape  # type: ignore[union-attr]
        and offsets.apart(start_a, size_a, start_b, size_b, crossed)
        for start_a, size_a, start_b, size_b in zip(a.offsets, a.extents, b.offsets, b.extents, strict=True)
    )
