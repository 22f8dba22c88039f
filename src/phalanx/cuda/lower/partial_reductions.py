"""Reductions of a tile whose result only goes into one over the cluster: the warps need not meet in between.

Each warp sends its own partial result to every CTA, and each combines those of all warps of all CTAs: one exchange
instead of two, and no barrier of the CTA's threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import Role, Roles
from phalanx.ir.traits import Fold
from phalanx.ir.types import ScalarType
from phalanx.ir.values import Value
from phalanx.layouts import RegisterLayout


def find_partial_reductions(function: Function, layouts: Mapping[Value, RegisterLayout]) -> frozenset[Op]:
    """Both instructions of every such pair. For `lower`."""
    folded = [op.fold for op in function.walk()]
    if not any(fold is not None and fold.axis is None for fold in folded):
        return frozenset()
    uses = Counter(value for op in function.walk() for value in op.operands())
    found: set[Op] = set()

    def visit(block: Block, warps: int) -> None:
        folds: dict[Value, tuple[Op, Fold]] = {}
        for op in block.ops:
            fold, result = op.fold, op.defines
            if fold is not None and fold.axis is not None and result is not None and isinstance(result.type, ScalarType):
                folds[result] = op, fold
            if fold is not None and fold.axis is None and uses[fold.x] == 1 and fold.x in folds:
                inner, of_tile = folds[fold.x]
                if of_tile.fn == fold.fn and _every_warp_has_a_part(of_tile, fold.x, layouts, warps):
                    found.update((inner, op))
            regions = op.regions if isinstance(op, Roles) else (op,) if isinstance(op, Role) else ()
            for region in regions:
                visit(region.body, region.count)
            if not regions:
                for nested in op.blocks():
                    visit(nested, warps)

    visit(function.body, function.warps)
    return frozenset(found)


def _every_warp_has_a_part(
    fold: Fold, result: Value, layouts: Mapping[Value, RegisterLayout], warps: int
) -> bool:
    """Then the exchange is over only when all warps have come to it. Narrow floats would be rounded too early."""
    if result.type.dtype.bits < 32:
        return False
    assert fold.axis is not None
    return warps > 1 and 1 << len(layouts[fold.x].bits_along(fold.axis).warp) == warps
