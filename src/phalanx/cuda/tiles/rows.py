"""Rows by index: which element of its index tile each slot of a tile needs."""

from __future__ import annotations

from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.bounds import index_text
from phalanx.cuda.tiles.index import SlotTexts, axis_projection, element, local_slots
from phalanx.ir.views import View
from phalanx.layouts.registers import RegisterLayout


class RowSlots:
    """The elements of the index tile of a view that the slots of its data need."""

    def __init__(self, w: Writer, view: View, layout: RegisterLayout) -> None:
        axis = view.index_axis
        assert axis is not None
        self.w = w
        self.tile = view.offsets[axis]
        wanted, slots = axis_projection(layout, view.kept.index(axis))
        have = local_slots(w.plan.layouts[self.tile], wanted)
        assert have is not None, "the index tile is not laid out as the rows of its data"
        self.slots = tuple(have[slot] for slot in slots)

    def at(self, var: str, step: int = 1) -> str:
        """The index that slot `var` of the data needs, as an `int`."""
        slot = SlotTexts(self.w).at(self.slots[::step], var, step, "row_slot")
        return index_text(self.w, element(self.w.name(self.tile), slot), scalar_dtype(self.tile))
