"""How ordinary accesses want the tiles that they load and store laid out."""

from __future__ import annotations

from typing import Any

import numpy as np

from phalanx.cuda.lower.layout_rules import (
    Operand,
    Same,
    Touch,
    Wish,
    as_it_was_read,
    asks,
    is_tile,
    row_indices,
    stored,
)
from phalanx.cuda.lower.registry import packed_forms
from phalanx.errors import Error
from phalanx.ir.core import Op
from phalanx.ir.ops.memory import ATOMICS, Atomic, AtomicLoad, Extent, Load, Store
from phalanx.ir.ops.tile import Binary, Pack, Unpack
from phalanx.ir.types import ArrayType, ScalarType, TileType, rounded
from phalanx.ir.values import Const, Value, constant_of
from phalanx.ir.views import View


@packed_forms(Load)
def _load_packed(op: Load, packing: Any) -> list[Op] | None:
    """Its bytes, then their elements; the fill of elements that are not there fills both halves of a byte."""
    dtype = op.view.dtype
    if dtype.per_byte == 1:
        return None
    fill = constant_of(op.fill)
    if fill is None:
        raise Error(
            f"the fill of a load of {dtype} is not a constant", location=op.loc,
            remedy="fill with a number, and put the scalar there afterwards: px.where(inside, x.to(px.f32), fill)",
        )
    code = int(rounded(np.asarray(fill), dtype).view(np.uint8))
    both = sum(code << dtype.bits * part for part in range(dtype.per_byte))
    out: list[Op] = []
    view = packing.view(op.view, out, op.loc)
    found = Value(TileType(view.shape, view.dtype), op.result.name)
    out.append(Load(view, Const(both, ScalarType(view.dtype)), found, op.once, loc=op.loc))
    return [*out, Unpack(found, _packed_axis(op.view), op.result, loc=op.loc)]


@packed_forms(Store)
def _store_packed(op: Store, packing: Any) -> list[Op] | None:
    """The bytes of the elements, then these."""
    if op.view.dtype.per_byte == 1:
        return None
    out: list[Op] = []
    view = packing.view(op.view, out, op.loc)
    found = Value(TileType(view.shape, view.dtype), op.value.name)
    out.append(Pack(op.value, _packed_axis(op.view), found, loc=op.loc))
    return [*out, Store(view, found, op.once, loc=op.loc)]


@packed_forms(Extent)
def _extent_of_packed(op: Extent, packing: Any) -> list[Op] | None:
    """The last axis has several elements for each of its bytes."""
    kind = op.array.type
    assert isinstance(kind, ArrayType)
    if kind.dtype.per_byte == 1 or op.axis < kind.rank - 1:
        return None
    found = Value(op.result.type, op.result.name)
    times = Const(kind.dtype.per_byte, op.result.type)  # type: ignore[arg-type]
    return [Extent(op.array, op.axis, found, loc=op.loc), Binary("mul", found, times, op.result, loc=op.loc)]


def _packed_axis(view: View) -> int:
    """The axis of a view's tile that runs along the last axis of its memory."""
    return view.kept.index(len(view.extents) - 1)


@asks(Load)
def _load(op: Load) -> list[Wish]:
    if not is_tile(op.result):
        return []
    return [Touch(op.result, op.view, False), *row_indices(op.view, op.result)]


@asks(AtomicLoad)
def _atomic_load(op: AtomicLoad) -> list[Wish]:
    return [Touch(op.result, op.view, False), *row_indices(op.view, op.result)] if is_tile(op.result) else []


@asks(Store)
def _store(op: Store) -> list[Wish]:
    return stored(op.value, op.view)


@asks(*ATOMICS)
def _atomic(op: Atomic) -> list[Wish]:
    if not is_tile(op.value):
        return []
    others = [value for value in op.elements() if value not in (op.value, op.result)]
    touch = [Touch(op.value, op.view, True), *row_indices(op.view, op.value)]
    touch += [Operand(other, op.value, lambda layout: layout) for other in others]
    if op.result is None:
        return [Same((op.value,)), *touch]  # alone too: else its indices are moved to it
    return [Same((op.value, op.result)), *touch, as_it_was_read(op.result, op.value)]
