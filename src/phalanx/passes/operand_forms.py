"""How register tiles lie in shared memory as operands of the tensor cores: as they are, or as their transposes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.ops.memory import Store
from phalanx.ir.ops.tile import Transpose
from phalanx.ir.types import DType, TileType
from phalanx.ir.values import Value
from phalanx.ir.views import SharedView, View
from phalanx.location import Location

EITHER_MAJOR = 16
"""Bits of elements that the tensor cores read along either axis; of others they read K alone."""
MOST_STEPS = 32
"""Instructions in a row that are looked back at, from a tile to where it came from."""


@frozen
class OperandForm:
    """What is stored for an operand: `tile`, or its transpose where `transposed`. The operand is the transpose of what is
    stored where `turned`."""

    tile: Value
    transposed: bool
    turned: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of what is stored."""
        assert isinstance(self.tile.type, TileType)
        rows, columns = self.tile.type.shape
        return (columns, rows) if self.transposed else (rows, columns)

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        assert isinstance(self.tile.type, TileType)
        return self.tile.type.dtype

    def store(self, view: SharedView, loc: Location) -> list[Op]:
        """The instructions that write it to a region of its shape."""
        if not self.transposed:
            return [Store(view, self.tile, loc=loc)]
        assert isinstance(self.tile.type, TileType)
        tile = Value(dataclasses.replace(self.tile.type, shape=self.shape), self.tile.name)
        return [Transpose(self.tile, (1, 0), tile, loc=loc), Store(view, tile, loc=loc)]


class OperandForms:
    """Chooses the forms of a kernel's operands; `makers` are the instructions that define its values."""

    def __init__(self, makers: Mapping[Value, Op]) -> None:
        self.makers = makers

    def of(self, item: Value, k_axis: int) -> OperandForm:
        """The form of an operand whose elements are added up along the axis `k_axis`."""
        assert isinstance(item.type, TileType)
        base, flipped = self.without_transposes(item)
        turned = k_axis == 0 if item.type.dtype.bits != EITHER_MAJOR else self._contiguous_axis(item) == 0
        return OperandForm(base, turned != flipped, turned)

    def without_transposes(self, item: Value) -> tuple[Value, bool]:
        """What a tile is, or is the transpose of, and whether it is that."""
        flipped, maker = False, self.makers.get(item)
        while maker is not None and (before := _transposed(maker)) is not None:
            item, flipped = before, not flipped
            maker = self.makers.get(item)
        return item, flipped

    def _contiguous_axis(self, item: Value) -> int:
        """The axis along which a matrix is contiguous in the memory that it was loaded from; 1 where nobody knows."""
        turned = False
        for _ in range(MOST_STEPS):
            maker = self.makers.get(item)
            if maker is None:
                break
            view = loaded_from(maker)
            if view is not None:
                last = len(view.offsets) - 1
                axis = view.kept.index(last) if last in view.kept else 1
                return 1 - axis if turned else axis
            before = _transposed(maker)
            if before is not None:
                turned, item = not turned, before
                continue
            shape = item.type.shape  # type: ignore[union-attr]
            alike = [tile for tile in tiles(maker.operands()) if tile.type.shape == shape]  # type: ignore[union-attr]
            if not alike or not maker.effects().is_pure:
                break
            item = alike[0]
        return 0 if turned else 1


def loaded_from(op: Op) -> View | None:
    """The region that an instruction brings into registers, if it does nothing else."""
    return None if op.tile_load is None else op.tile_load.view


def tiles(values: Iterable[Value]) -> list[Value]:
    """The values that are tiles with axes."""
    return [value for value in values if isinstance(value.type, TileType) and value.type.shape]


def _transposed(op: Op) -> Value | None:
    """The matrix that an instruction transposes, if it does nothing else."""
    order = op.permutation
    return order.x if order is not None and order.perm == (1, 0) else None
