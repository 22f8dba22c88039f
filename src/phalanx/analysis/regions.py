"""Whether two regions of memory may share bytes."""

from __future__ import annotations

from phalanx.analysis.offsets import Loop, Offsets
from phalanx.ir.memory import Region as Region
from phalanx.ir.memory import may_be_in_one_memory
from phalanx.ir.views import View


def may_overlap(first: Region, later: Region, offsets: Offsets, crossed: frozenset[Loop] = frozenset()) -> bool:
    """False only where it is certain: other arrays, other buffers, or an axis on which the boxes are apart.

    `crossed` are the loops that went to another iteration between the two. Different parameters are taken for
    different arrays. A buffer in another CTA may be this CTA's own (its rank is a run-time value), so `cta` does not
    tell regions apart.
    """
    if isinstance(first, View) and isinstance(later, View) and first.memory is later.memory:
        return not _apart(first, later, offsets, crossed)
    return may_be_in_one_memory(first, later)


def region_name(region: Region) -> str:
    """What the user calls the memory."""
    return region.memory.name


def _apart(a: View, b: View, offsets: Offsets, crossed: frozenset[Loop]) -> bool:
    """Whether the boxes share no index on some axis. Rows named by a tile of indices may be any."""
    return a.is_box and b.is_box and any(
        not start_a.type.shape  # type: ignore[union-attr]
        and not start_b.type.shape  # type: ignore[union-attr]
        and offsets.apart(start_a, size_a, start_b, size_b, crossed)
        for start_a, size_a, start_b, size_b in zip(a.offsets, a.extents, b.offsets, b.extents, strict=True)
    )
