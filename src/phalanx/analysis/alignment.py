"""Regions of global memory that the copy engine refuses, wherever they begin."""

from __future__ import annotations

from phalanx.ir.archs import COPY_CHUNK
from phalanx.ir.views import GlobalView


def breaks_alignment(view: GlobalView) -> bool:
    """Whether the array or the region's width is what the copy engine refuses, wherever the region begins."""
    kind = view.array_type
    if view.merged > 1:
        return False
    return not kind.unit_inner or not kind.aligned or bool(view.dtype.nbytes(view.extents[-1]) % COPY_CHUNK)
