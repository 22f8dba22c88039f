"""What the plans of all TMA copies have in common: the rules of the copy engine, descriptors and notes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from phalanx.analysis.divisibility import find_divisibility
from phalanx.analysis.ranks import per_rank
from phalanx.analysis.signs import find_signs
from phalanx.cuda.abi import TensorMapSlot
from phalanx.cuda.plan import CopyPlan
from phalanx.ir.archs import COPY_CHUNK
from phalanx.ir.core import Function, Note, Op
from phalanx.ir.values import Const
from phalanx.ir.views import GlobalView, SharedBuffer, SharedView
from phalanx.layouts import SharedLayout
from phalanx.layouts.shared import TMA_ALIGNMENT


class Obstacle(Enum):
    """What stands in the way of a copy, as far as a remedy depends on it."""

    UNKNOWN_START = "where it begins along the last axis is not known well enough"
    NEGATIVE_START = "it may begin before the array"
    UNKNOWN_PLACE = "where it lies in shared memory is not known well enough"
    MISPLACED = "it lies at a wrong place in shared memory"
    NARROW_ROWS = "its rows in shared memory are too narrow"
    OTHER = "something else"


class Impossible(Exception):
    """A path that does not work for a copy; the text is the reason."""

    def __init__(self, reason: str, obstacle: Obstacle = Obstacle.OTHER) -> None:
        super().__init__(reason)
        self.obstacle = obstacle


class CopyPlanner:
    """The plans of a kernel's copies as they are made, and what is asked for them."""

    def __init__(self, function: Function, layouts: Mapping[SharedBuffer, SharedLayout]) -> None:
        self.function = function
        self.layouts = layouts
        self.divisibility = find_divisibility(function)
        self.signs = find_signs(function)
        self.plans: dict[Op, CopyPlan] = {}
        self.tensor_maps: dict[TensorMapSlot, int] = {}
        self.notes: list[Note] = []

    def check_array(self, view: GlobalView) -> None:
        """What the copy engine asks of the array, and of the start along its last axis."""
        name, kind = view.array.name, view.array_type
        if not kind.unit_inner:
            raise Impossible(f"the elements of {name} are not adjacent along its last axis")
        if not kind.aligned and view.merged == 1:
            wrong = f"is not a multiple of {COPY_CHUNK} bytes, or runs backwards"
            raise Impossible(f"the start of {name}, or a stride of its outer axes, {wrong}")
        if not self.divisibility.proves(view.offsets[-1], view.dtype.itemsize, COPY_CHUNK):
            unknown = f"its start along the last axis is not known to be a multiple of {COPY_CHUNK} bytes"
            raise Impossible(unknown, Obstacle.UNKNOWN_START)

    def check_box_start(self, shared: SharedView, layout: SharedLayout, lead: int) -> None:
        """Offsets known only at run time must move the boxes by what TMA can address."""
        for axis, (offset, stride) in enumerate(zip(shared.offsets, layout.byte_strides, strict=True)):
            if isinstance(offset, Const) and axis >= lead:
                continue  # part of the boxes' own places
            where = f"its start along axis {axis} of {shared.buffer.name} is not known to be"
            if axis == layout.rank - 1 and layout.panels > 1 and layout.rows > 1:
                if not self.divisibility.proves(offset, 1, layout.panel_columns):
                    unknown = f"{where} a multiple of the panel of {layout.panel_columns} columns"
                    raise Impossible(unknown, Obstacle.UNKNOWN_PLACE)
            elif not self.divisibility.proves(offset, stride, TMA_ALIGNMENT):
                self.check_by_rank(shared, axis, stride)
                raise Impossible(f"{where} a multiple of {TMA_ALIGNMENT} bytes", Obstacle.UNKNOWN_PLACE)

    def check_by_rank(self, shared: SharedView, axis: int, stride: int) -> None:
        """A start that the rank decides may be known to be wrong."""
        for rank, start in enumerate(per_rank(self.function, shared.offsets[axis])):
            if start is not None and start * stride % TMA_ALIGNMENT:
                raise Impossible(
                    f"its start along axis {axis} of {shared.buffer.name} is at {start * stride} bytes in CTA {rank}; "
                    f"TMA needs a multiple of {TMA_ALIGNMENT}",
                    Obstacle.MISPLACED,
                )
