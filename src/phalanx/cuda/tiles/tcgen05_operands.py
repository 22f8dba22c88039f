"""Whether `tcgen05` can read a view of shared memory, given the buffer's layout and where the view begins."""

from __future__ import annotations

from phalanx.analysis.divisibility import Divisibility
from phalanx.cuda.tiles.wgmma_operands import Problem, is_transposed, start_problem
from phalanx.ir.tensor_kinds import Kind
from phalanx.ir.views import SharedView
from phalanx.layouts.mma import SharedOperand
from phalanx.layouts.shared import SharedLayout
from phalanx.layouts.tcgen05 import tcgen05_operand


def read_operand(
    view: SharedView, k_axis: int, kind: Kind, layout: SharedLayout, facts: Divisibility
) -> SharedOperand | Problem:
    """The operand as the tensor cores read it, or why they can't.

    For the emitter, where that is an error, and for `px.dot`, which then takes another instruction.
    """
    try:
        operand = tcgen05_operand(layout, is_transposed(view, k_axis), kind)
    except ValueError as problem:
        return Problem(
            f"tcgen05 can't read {view.buffer.name}: {problem}",
            "let the buffer be filled by px.tma.load of whole tiles, with rows of a multiple of 32 bytes",
        )
    return start_problem("tcgen05", view, operand, facts) or operand
