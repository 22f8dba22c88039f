"""Views of tensor memory as the text names them: addresses, and the loads and stores that cover them."""

from __future__ import annotations

from phalanx.cuda.text.literals import bare
from phalanx.cuda.text.writer import Writer
from phalanx.ir.ops.tcgen05 import Tcgen05Load, Tcgen05Store, out_of_reach
from phalanx.ir.values import Const
from phalanx.ir.views import TensorView
from phalanx.layouts import tensor_parts
from phalanx.layouts.tensor_access import TensorAccess
from phalanx.layouts.tensor_memory import layout_of

ADDRESS = "px_tmem"
"""The variable with the address of the allocated tensor memory, in every thread."""


def accesses_of(view: TensorView, op: Tcgen05Load | Tcgen05Store) -> tuple[TensorAccess, ...]:
    """The ways to load or store a view with the warps that run the instruction; `px.Error` at its line if there are none."""
    try:
        return tensor_parts.accesses_of(view, op.warps, op.first)
    except ValueError as problem:
        raise out_of_reach(op, view, str(problem)) from None


def address_of(w: Writer, view: TensorView) -> str:
    """The address of a view's first cell, as text."""
    terms = [str(int(o.value)) if isinstance(o, Const) else bare(w.name(o)) for o in view.offsets]
    inside = layout_of(view.buffer).address_expression(terms)
    column = view.buffer.column
    if inside.isdigit():
        total = int(inside) + column
        return ADDRESS if not total else f"{ADDRESS} + {total}"
    return f"{ADDRESS} + {column} + {inside}" if column else f"{ADDRESS} + {inside}"
