"""Views of tensor memory as the text names them: addresses, and the loads and stores that cover them."""

from __future__ import annotations

from phalanx.cuda.text.literals import bare
from phalanx.cuda.text.writer import Writer
from phalanx.errors import Error
from phalanx.ir.ops.tcgen05 import Tcgen05Load, Tcgen05Store
from phalanx.ir.values import Const, constant_of
from phalanx.ir.views import TensorView
from phalanx.layouts.tensor_access import TensorAccess, tensor_accesses
from phalanx.layouts.tensor_memory import TensorLayout, layout_of

ADDRESS = "px_tmem"
"""The variable with the address of the allocated tensor memory, in every thread."""


def part_of(view: TensorView) -> TensorLayout:
    """The layout of the matrix that a view is; its columns may begin at a place known only at run time."""
    layout = layout_of(view.buffer)
    origin = [int(constant_of(offset) or 0) for offset in view.offsets]
    return layout.part(origin, view.shape)


def accesses_of(view: TensorView, op: Tcgen05Load | Tcgen05Store) -> tuple[TensorAccess, ...]:
    """The ways to load or store a view with the warps that run the instruction; `px.Error` at its line if there are none."""
    layout = layout_of(view.buffer)
    origin = [int(constant_of(offset) or 0) for offset in view.offsets]
    try:
        first_lane = layout.address(origin) >> 16
        return tensor_accesses(part_of(view), op.warps, view.dtype.bits, first_lane, op.first)
    except ValueError as problem:
        raise Error(
            f"{op.call} can't reach this region of {view.buffer.name}: {problem}", location=op.loc,
            remedy="take whole accumulators, or columns and rows in powers of two",
        ) from None


def address_of(w: Writer, view: TensorView) -> str:
    """The address of a view's first cell, as text."""
    terms = [str(int(o.value)) if isinstance(o, Const) else bare(w.name(o)) for o in view.offsets]
    inside = layout_of(view.buffer).address_expression(terms)
    column = view.buffer.column
    if inside.isdigit():
        total = int(inside) + column
        return ADDRESS if not total else f"{ADDRESS} + {total}"
    return f"{ADDRESS} + {column} + {inside}" if column else f"{ADDRESS} + {inside}"
