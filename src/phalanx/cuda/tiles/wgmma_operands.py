"""Whether `wgmma` can read a view of shared memory, given the buffer's layout and where the view begins."""

from __future__ import annotations

from typing import NamedTuple

from phalanx.analysis.divisibility import Divisibility
from phalanx.ir.values import Const
from phalanx.ir.views import SharedView
from phalanx.layouts.mma import ATOM_ROWS, SharedOperand, shared_operand
from phalanx.layouts.shared import SharedLayout


class Problem(NamedTuple):
    """What is wrong, the remedy, and the kind of the error: misaligned where the view is known to begin at a wrong place."""

    what: str
    remedy: str
    kind: str = "error"



def is_transposed(view: SharedView, k_axis: int) -> bool:
    """Whether the other axis than K (`k_axis` of the view) is the contiguous one."""
    return view.kept[1 - k_axis] == len(view.buffer.shape) - 1


def operand_problem(view: SharedView, k_axis: int, layout: SharedLayout, facts: Divisibility) -> Problem | None:
    """Why the tensor cores can't read the view, if they can't.

    For the pass that then takes another instruction, and for the emitter, where it is an error.
    """
    try:
        operand = shared_operand(layout, is_transposed(view, k_axis))
    except ValueError as problem:
        return Problem(
            f"wgmma can't read {view.buffer.name}: {problem}",
            "let the buffer be filled by px.tma.load of whole tiles, with rows of a multiple of 32 bytes",
        )
    return start_problem("wgmma", view, operand, facts)


def first_column(view: SharedView) -> int:
    """The column of the buffer that a readable view begins in, as far as its place in a panel goes.

    For the emitter: a column that is not a constant is a multiple of the panel's width (`start_problem`).
    """
    column = view.offsets[-1]
    return int(column.value) if isinstance(column, Const) else 0


def start_problem(reader: str, view: SharedView, operand: SharedOperand, facts: Divisibility) -> Problem | None:
    """A view inside a buffer begins where the swizzle's pattern does, and no instruction reaches over a panel's edge.

    `reader` is the instruction that reads it, in messages.
    """
    layout = operand.layout
    row, column = view.offsets[-2:]
    if not facts.proves(row, 1, ATOM_ROWS):
        where = f"row {row.value}, no" if isinstance(row, Const) else "a row that is not known to be a"
        return Problem(
            f"{reader} reads {view.buffer.name} from {where} multiple of {ATOM_ROWS}",
            f"slice the buffer at multiples of {ATOM_ROWS} rows", "misaligned" if isinstance(row, Const) else "error",
        )
    if isinstance(column, Const):
        problem = operand.reach_problem(int(column.value), view.extents[-1])
        if problem is None:
            return None
        remedy = f"slice the buffer at multiples of {problem[1]} columns"
        return Problem(f"{reader} can't read {view.buffer.name} {problem[0]}", remedy, "misaligned")
    if not facts.proves(column, layout.itemsize, layout.swizzle):
        return Problem(
            f"{reader} reads {view.buffer.name} from a column not known to be a multiple of {layout.swizzle} bytes",
            "slice the buffer at multiples of its swizzle, or index whole stages",
        )
    return None
