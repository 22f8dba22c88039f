"""What each instruction asks of the register layouts of its tiles: one rule per instruction class.

A rule is a list of wishes: values that share a layout, layouts that follow from another tile's, memory that is touched,
axes that are reduced. Inference weighs them; nothing else looks at instruction types here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.location import Location
from phalanx.ir.ops.cluster import ClusterGather, ClusterReduce, ClusterStore
from phalanx.ir.ops.control import Assign, ReadVar
from phalanx.ir.ops.gather import TmaGather, TmaScatter
from phalanx.ir.ops.memory import ATOMICS, Atomic, Load, Store
from phalanx.ir.ops.mma import Mma
from phalanx.ir.ops.tile import (
    Arange,
    Binary,
    Bitcast,
    Cast,
    Compare,
    ConvertLayout,
    CumSum,
    Empty,
    Fma,
    Full,
    Keep,
    Part,
    Reduce,
    ReduceBy,
    Reshape,
    ScanBy,
    Select,
    Transpose,
    Unary,
)
from phalanx.ir.ops.wgmma import Wgmma, WgmmaWait
from phalanx.ir.types import TileType
from phalanx.ir.values import Value
from phalanx.ir.views import View
from phalanx.layouts.blocked import whole_in_every_warp
from phalanx.layouts.fragments import mma_accumulator, mma_left, mma_right
from phalanx.layouts.mma import wgmma_accumulator, wgmma_operand
from phalanx.layouts.parts import part_layout
from phalanx.layouts.registers import LANES, RegisterLayout
from phalanx.layouts.rows import index_layout, issue_layout

Transform = Callable[[RegisterLayout], RegisterLayout]
GATHERED_WHOLE = 8
"""Registers of a thread that a gathered tile may take, whole in every warp."""
WIDEST = 16
"""Bytes of one access to shared memory."""


@frozen
class Same:
    """All these tiles have one layout."""

    values: tuple[Value, ...]


@frozen
class Operand:
    """A broadcast operand (or an index tile) must be laid out as `layout(result's)`."""

    operand: Value
    result: Value
    layout: Transform


@frozen
class Result:
    """The result is laid out as `layout(operand's)` (ValueError if it is none); `back` is the inverse, if any."""

    result: Value
    operand: Value
    layout: Transform
    back: Transform | None = None


@frozen
class Touch:
    """A tile is loaded from, or stored to, a view of memory, in whatever layout it has."""

    value: Value
    view: View
    writes: bool


@frozen
class Along:
    """The elements along one axis are combined: cheapest inside a thread, then a warp.

    `ordered`: neighbours with neighbours, so that each bit of the coordinate has one holder. `beside`: the
    instruction's other operands, and results, that have the layout in which it does that.
    """

    value: Value
    axis: int
    ordered: bool = False
    beside: tuple[Value, ...] = ()


@frozen
class Fixed:
    """The instruction dictates a layout (as tensor cores do).

    `firm`: what it leaves can't be converted right behind it, because it is still in flight.
    """

    value: Value
    layout: RegisterLayout
    firm: bool = False
    loc: Location | None = None


@frozen
class Prefer:
    """The instruction makes its result in any layout; that of so many warps suits those who will read it."""

    value: Value
    layout: Callable[[int], RegisterLayout]


Wish = Same | Operand | Result | Touch | Along | Fixed | Prefer
Rule = Callable[[Any], list[Wish]]


def is_tile(value: object) -> bool:
    return isinstance(value, Value) and isinstance(value.type, TileType)


def shape_of(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, TileType)
    return value.type.shape


def _elementwise(op: Any) -> list[Wish]:
    tiles = [operand for operand in op.operands() if is_tile(operand)]
    if not is_tile(op.result):
        return []
    shape = shape_of(op.result)
    same = tuple(tile for tile in tiles if shape_of(tile) == shape)
    wishes: list[Wish] = [Same((op.result, *same))]
    for tile in tiles:
        if shape_of(tile) != shape:
            wishes.append(Operand(tile, op.result, _operand_layout(shape_of(tile))))
    return wishes


def _operand_layout(shape: tuple[int, ...]) -> Transform:
    return lambda result: result.operand(shape).layout


def _load(op: Load) -> list[Wish]:
    if not is_tile(op.result):
        return []
    return [Touch(op.result, op.view, False), *_rows(op.view, op.result)]


def _store(op: Store | ClusterStore) -> list[Wish]:
    if not is_tile(op.value):
        return []
    return [Touch(op.value, op.view, True), *_rows(op.view, op.value)]


def _atomic(op: Atomic) -> list[Wish]:
    if not is_tile(op.value):
        return []
    others = [value for value in op.elements() if value not in (op.value, op.result)]
    touch = [Touch(op.value, op.view, True), *_rows(op.view, op.value)]
    touch += [Operand(other, op.value, lambda layout: layout) for other in others]
    if op.result is None:
        return [Same((op.value,)), *touch]  # alone too: else its indices are moved to it
    return [Same((op.value, op.result)), *touch, _as_it_was_read(op.result, op.value)]


def _as_it_was_read(result: Value, operand: Value) -> Result:
    """Behind `Same` and a wish that may move the operand after all: the result then moves back."""
    return Result(result, operand, lambda layout: layout, lambda layout: layout)


def _rows(view: View, data: Value) -> list[Wish]:
    """The tile of row indices runs along one axis of the data."""
    axis = view.index_axis
    if axis is None:
        return []
    dim = view.kept.index(axis)
    return [Operand(view.offsets[axis], data, lambda layout: along(layout, dim))]


def along(layout: RegisterLayout, dim: int) -> RegisterLayout:
    """The layout of a rank-1 tile that runs along one dimension of another."""
    for axis in reversed(range(layout.rank)):
        if axis != dim:
            layout = layout.slice(axis).layout
    return layout


def _reduce(op: Reduce) -> list[Wish]:
    wishes: list[Wish] = [Along(op.x, op.axis)]
    if is_tile(op.result):
        wishes.append(Result(op.result, op.x, lambda x: x.slice(op.axis, op.keepdims).layout))
    return wishes


def _reduce_by(op: ReduceBy) -> list[Wish]:
    wishes: list[Wish] = [Same(op.xs), Along(op.xs[0], op.axis, True, op.xs[1:])]
    if is_tile(op.results[0]):
        wishes += [Result(result, op.xs[0], lambda x: x.slice(op.axis, op.keepdims).layout) for result in op.results]
    return wishes


def _scan(xs: tuple[Value, ...], axis: int, results: tuple[Value, ...]) -> list[Wish]:
    along = Along(xs[0], axis, True, (*xs[1:], *results))
    return [Same((*xs, *results)), along, *(_as_it_was_read(result, xs[0]) for result in results)]


def _reshape(op: Reshape) -> list[Wish]:
    if not (is_tile(op.x) and is_tile(op.result)):
        return []
    old, new = shape_of(op.x), shape_of(op.result)
    return [Result(op.result, op.x, lambda x: x.reshape(new), lambda y: y.reshape(old))]


def _transpose(op: Transpose) -> list[Wish]:
    inverse = tuple(op.perm.index(axis) for axis in range(len(op.perm)))
    return [Result(op.result, op.x, lambda x: x.transpose(op.perm), lambda y: y.transpose(inverse))]


def _part(op: Part) -> list[Wish]:
    shape = shape_of(op.result)
    return [Result(op.result, op.x, lambda x: part_layout(x, op.starts, shape))]


def _product(op: Wgmma) -> list[Wish]:
    m, n, k = op.shape
    layout = wgmma_accumulator(m, n, op.warps, op.along)
    wishes: list[Wish] = [Fixed(tile, layout, True, op.loc) for tile in (op.acc, op.result)]
    wishes.append(Same((op.result, op.acc)))
    if isinstance(op.a, Value):
        wishes.append(Fixed(op.a, wgmma_operand(m, k, op.warps, op.a_dtype.itemsize, op.along)))
    return wishes


def _block_product(op: Mma) -> list[Wish]:
    m, n, _ = op.shape
    layout = mma_accumulator(m, n, op.warps)
    wishes: list[Wish] = [Fixed(op.result, layout)]
    if op.acc is not None:
        wishes += [Fixed(op.acc, layout), Same((op.result, op.acc))]
    for tile, operand, axis in ((op.a, mma_left, 1), (op.b, mma_right, 0)):
        if isinstance(tile, Value):
            wishes.append(Fixed(tile, operand(m, n, shape_of(tile)[axis], op.warps, op.dtypes[0].itemsize)))
    return wishes


def _gathered(op: TmaGather) -> list[Wish]:
    """The indices of loads are with the warps that issue them."""
    rows = op.src.offsets[0]
    return [Fixed(rows, issue_layout(shape_of(rows)[0], op.warps))]


def _scattered(op: TmaScatter) -> list[Wish]:
    """Those of stores are with the lanes of every warp."""
    rows = op.dst.offsets[0]
    return [Fixed(rows, index_layout(shape_of(rows)[0], op.warps))]


def _cluster_reduce(op: ClusterReduce) -> list[Wish]:
    return [Same((op.result, op.x))] if is_tile(op.x) else []


def _cluster_gather(op: ClusterGather) -> list[Wish]:
    """Up to some size every warp reads all that was gathered: what follows folds it, and needs no other warp."""
    wishes: list[Wish] = [Same(op.xs)] if is_tile(op.xs[0]) else []
    shape, vector = shape_of(op.results[0]), WIDEST // op.record_bytes(0)
    if prod(shape) <= GATHERED_WHOLE * LANES:
        wishes += [Prefer(result, lambda warps: whole_in_every_warp(shape, warps, vector)) for result in op.results]
    return wishes


def _cell(op: Assign | ReadVar) -> list[Wish]:
    value = op.value if isinstance(op, Assign) else op.result
    return [Same((op.var, value))] if is_tile(value) else []


RULES: dict[type[Op], Rule] = {
    Unary: _elementwise,
    Binary: _elementwise,
    Compare: _elementwise,
    Select: _elementwise,
    Fma: _elementwise,
    Cast: _elementwise,
    Bitcast: _elementwise,
    Keep: _elementwise,
    Full: lambda op: [],
    Empty: lambda op: [],
    Arange: lambda op: [],
    Reduce: _reduce,
    CumSum: lambda op: _scan((op.x,), op.axis, (op.result,)),
    ReduceBy: _reduce_by,
    ScanBy: lambda op: _scan(op.xs, op.axis, op.results),
    Reshape: _reshape,
    Transpose: _transpose,
    Part: _part,
    ConvertLayout: lambda op: [],
    Load: _load,
    Store: _store,
    ClusterStore: _store,
    **dict.fromkeys(ATOMICS, _atomic),
    Assign: _cell,
    ReadVar: _cell,
    Wgmma: _product,
    Mma: _block_product,
    TmaGather: _gathered,
    TmaScatter: _scattered,
    ClusterReduce: _cluster_reduce,
    ClusterGather: _cluster_gather,
    WgmmaWait: lambda op: [Same((result, acc)) for acc, result in op.updates()],
}

# What costs next to nothing to compute again in another layout, if all its tiles do.
_CHEAP_FUNCTIONS = ("add", "sub", "mul", "and", "or", "xor", "shl", "shr", "max", "min", "neg", "not", "abs")
FREE_DEPTH = 8
"""Instructions in a row that are computed again rather than converted."""


def is_cheap(op: Op) -> bool:
    """Whether an instruction may be repeated for the sake of another layout, given that its operands may."""
    if isinstance(op, Full | Empty | Arange | Compare | Select | Fma | Cast | Bitcast | Reshape | Transpose):
        return True
    return isinstance(op, Unary | Binary) and op.fn in _CHEAP_FUNCTIONS


def wishes_of(op: Op) -> list[Wish]:
    """What an instruction asks of its tiles' layouts."""
    rule = RULES.get(type(op))
    return rule(op) if rule is not None else []
