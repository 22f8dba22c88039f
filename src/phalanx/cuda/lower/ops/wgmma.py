"""Where products of a warpgroup have their accumulator, and the products of warps that stand in for them."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.analysis.divisibility import Divisibility
from phalanx.cuda.lower.layout_rules import Fixed, Same, Wish, asks
from phalanx.cuda.lower.registry import StandIn, stand_ins, without_update
from phalanx.cuda.tiles.wgmma_operands import operand_problem
from phalanx.ir.core import Op
from phalanx.ir.engines import TENSOR_CORES
from phalanx.ir.ops.mma import Mma
from phalanx.ir.ops.wgmma import Wgmma, WgmmaWait
from phalanx.ir.values import Value, constant_of
from phalanx.ir.views import SharedBuffer, in_shared
from phalanx.layouts.mma import wgmma_accumulator, wgmma_operand
from phalanx.layouts.shared import SharedLayout


@asks(Wgmma)
def _product(op: Wgmma) -> list[Wish]:
    m, n, k = op.shape
    layout = wgmma_accumulator(m, n, op.warps, op.along)
    wishes: list[Wish] = [Fixed(tile, layout, True, op.loc) for tile in (op.acc, op.result)]
    wishes.append(Same((op.result, op.acc)))
    if isinstance(op.a, Value):
        wishes.append(Fixed(op.a, wgmma_operand(m, k, op.warps, op.a_dtype.itemsize, op.along)))
    return wishes


@asks(WgmmaWait)
def _wait(op: WgmmaWait) -> list[Wish]:
    return [Same((result, acc)) for acc, result in op.updates()]


@without_update(WgmmaWait)
def _without_update(op: WgmmaWait, old: Value) -> Op:
    return op.handing_on([pair for pair in op.updates() if pair[0] is not old])


@stand_ins(Wgmma)
def _by_warps(op: Wgmma) -> StandIn:
    """`px.dot` may run as products of warps; a `px.wgmma` of the user's stays what it is."""

    def product() -> Op:
        acc = op.acc if constant_of(op.accumulate) else None
        return Mma(op.a, op.b, acc, op.warps, op.result, loc=op.loc)

    def unreadable(shared: Mapping[SharedBuffer, SharedLayout], facts: Divisibility) -> tuple[str, str] | None:
        for view, k_axis in ((op.a, 1), (op.b, 0)):
            if in_shared(view):
                problem = operand_problem(view, k_axis, shared[view.buffer], facts)
                if problem is not None:
                    return problem.what, problem.remedy
        return None

    return StandIn(TENSOR_CORES, product if op.replaceable else None, unreadable)
