"""The layout that says which thread moves which elements of a copy that threads begin."""

from __future__ import annotations

from phalanx.cuda.lower import layout_costs as costs
from phalanx.cuda.lower.layout_rules import Lands, Prefer, Wish, asks, row_indices
from phalanx.ir.ops.cp_async import CpAsyncLoad
from phalanx.ir.views import GlobalView
from phalanx.layouts.blocked import blocked
from phalanx.layouts.registers import RegisterLayout

LEAST_BYTES = 4
"""What one `cp.async` moves at least."""


@asks(CpAsyncLoad)
def _load(op: CpAsyncLoad) -> list[Wish]:
    moving = Prefer(op.result, lambda warps: moving_layout(op.src, warps))
    return [moving, Lands(op.result, op.dst), *row_indices(op.src, op.result)]


def moving_layout(src: GlobalView, warps: int) -> RegisterLayout:
    """Neighbours in memory with neighbouring lanes, as many of them at once as the array's rows allow.

    Where rows begin anywhere, four bytes: narrow elements move so if the rows of the run begin on a multiple of that.
    """
    wide = costs.preferred(src, src.shape, warps, None)
    least = LEAST_BYTES // src.dtype.itemsize
    last = src.array_type.rank - 1
    if src.array_type.aligned or least < 2 or src.shape[-1] % least or src.kept[-1] != last or src.index_axis == last:
        return wide
    return blocked(src.shape, warps, least, costs.view_order(src, len(src.shape)))
