"""Which regions of global memory the copy engine refuses, wherever they begin."""

from __future__ import annotations

from phalanx.ir.archs import COPY_CHUNK
from phalanx.ir.core import Function, operand_fields
from phalanx.ir.views import GlobalView


def breaks_alignment(view: GlobalView) -> bool:
    """Whether the array or the region's width is what the copy engine refuses, wherever the region begins."""
    kind = view.array_type
    return not kind.unit_inner or not kind.aligned or bool(view.extents[-1] * view.dtype.itemsize % COPY_CHUNK)


def has_misaligned_views(function: Function) -> bool:
    """Whether any region that a kernel names is so; where none is, no copy can be refused for its alignment."""
    for op in function.walk():
        for name in operand_fields(type(op)):
            item = getattr(op, name)
            if isinstance(item, GlobalView) and breaks_alignment(item):
                return True
    return False
