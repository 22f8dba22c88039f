"""Reductions of a tile whose result only goes into one over the cluster: the warps need not meet in between.

Each warp sends its own partial result to every CTA, and each combines those of all warps of all CTAs: one exchange
instead of two, and no barrier of the CTA's threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.cluster import ClusterReduce
from phalanx.ir.ops.control import Role, Roles
from phalanx.ir.ops.tile import Reduce
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Value
from phalanx.layouts import RegisterLayout


def find_partial_reductions(function: Function, layouts: Mapping[Value, RegisterLayout]) -> frozenset[Op]:
    """Both instructions of every such pair. For `lower`."""
    if not any(isinstance(op, ClusterReduce) for op in function.walk()):
        return frozenset()
    uses = Counter(value for op in function.walk() for value in op.operands())
    found: set[Op] = set()

    def visit(block: Block, warps: int) -> None:
        folds: dict[Value, Reduce] = {}
        for op in block.ops:
            if isinstance(op, Reduce) and isinstance(op.result.type, ScalarType):
                folds[op.result] = op
            if isinstance(op, ClusterReduce) and op.cta is None and uses[op.x] == 1:
                fold = folds.get(op.x)
                if fold is not None and fold.fn == op.fn and _every_warp_has_a_part(fold, layouts, warps):
                    found.update((fold, op))
            regions = op.regions if isinstance(op, Roles) else (op,) if isinstance(op, Role) else ()
            for region in regions:
                visit(region.body, region.count)
            if not regions:
                for inner in op.blocks():
                    visit(inner, warps)

    visit(function.body, function.warps)
    return frozenset(found)


def _every_warp_has_a_part(fold: Reduce, layouts: Mapping[Value, RegisterLayout], warps: int) -> bool:
    """Then the exchange is over only when all warps have come to it. Narrow floats would be rounded too early."""
    dtype = fold.result.type.dtype  # type: ignore[union-attr]
    if dtype.bits < 32:
        return False
    return warps > 1 and 1 << len(layouts[fold.x].bits_along(fold.axis).warp) == warps
