"""Views of tensor memory as matrices that lie somewhere: for the text, and for the simulator, which refuses the same."""

from __future__ import annotations

from phalanx.ir.values import constant_of
from phalanx.ir.views import TensorView
from phalanx.layouts.tensor_access import TensorAccess, tensor_accesses
from phalanx.layouts.tensor_memory import TensorLayout, layout_of


def part_of(view: TensorView) -> TensorLayout:
    """The layout of the matrix that a view is; its columns may begin at a place known only at run time, unless the second
    half of the buffer's columns lies in the upper lanes. ValueError says why it is none."""
    layout = layout_of(view.buffer)
    if layout.folded and view.shape[1] < layout.width and constant_of(view.offsets[-1]) is None:
        raise ValueError(f"its columns begin at a run-time place of {layout.width}, of which half lie in the upper lanes")
    return layout.part(_origin(view), view.shape)


def accesses_of(view: TensorView, warps: int, first: int) -> tuple[TensorAccess, ...]:
    """The ways in which `warps` warps from warp `first` of the CTA on load or store a view; ValueError if there are none."""
    part = part_of(view)
    first_lane = layout_of(view.buffer).address(_origin(view)) >> 16
    return tensor_accesses(part, warps, view.dtype.bits, first_lane, first)


def _origin(view: TensorView) -> list[int]:
    return [int(constant_of(offset) or 0) for offset in view.offsets]
