"""How arithmetic on tiles wants them laid out, and what of it is as cheap to repeat as to move."""

from __future__ import annotations

from typing import Any

from phalanx.cuda.lower.layout_rules import (
    Along,
    Operand,
    Result,
    Same,
    Wish,
    as_it_was_read,
    asks,
    elementwise,
    is_tile,
    operand_layout,
    repeats,
    shape_of,
)
from phalanx.ir.ops import tile as ir
from phalanx.ir.types import TileType
from phalanx.ir.values import Value
from phalanx.layouts.parts import part_layout

_CHEAP_FUNCTIONS = ("add", "sub", "mul", "and", "or", "xor", "shl", "shr", "max", "min", "neg", "not", "abs")


@asks(ir.Unary, ir.Binary, ir.Compare, ir.Select, ir.Fma, ir.SkippingProduct, ir.Cast, ir.Bitcast, ir.Keep)
def _elementwise(op: Any) -> list[Wish]:
    return elementwise(op)


@asks(ir.InlinePtx)
def _inline_ptx(op: ir.InlinePtx) -> list[Wish]:
    if not is_tile(op.results[0]):
        return []
    shape, tiles = shape_of(op.results[0]), [x for x in op.xs if is_tile(x)]
    others = [x for x in tiles if shape_of(x) != shape]
    same = Same((*op.results, *(x for x in tiles if shape_of(x) == shape)))
    return [same, *(Operand(x, op.results[0], operand_layout(shape_of(x))) for x in others)]


@asks(ir.Full, ir.Empty, ir.Arange, ir.ConvertLayout)
def _any_layout(op: Any) -> list[Wish]:
    """Made, or moved, in whatever layout others ask for."""
    return []


@repeats(ir.Full, ir.Empty, ir.Arange, ir.Compare, ir.Select, ir.Fma, ir.Cast, ir.Bitcast, ir.Reshape, ir.Transpose)
def _always(op: Any) -> bool:
    return True


@repeats(ir.Unary, ir.Binary)
def _if_cheap(op: ir.Unary | ir.Binary) -> bool:
    return op.fn in _CHEAP_FUNCTIONS


@asks(ir.Reduce)
def _reduce(op: ir.Reduce) -> list[Wish]:
    wishes: list[Wish] = [Along(op.x, op.axis)]
    if is_tile(op.result):
        wishes.append(Result(op.result, op.x, lambda x: x.slice(op.axis, op.keepdims).layout))
    return wishes


@asks(ir.ReduceBy)
def _reduce_by(op: ir.ReduceBy) -> list[Wish]:
    wishes: list[Wish] = [Same(op.xs), Along(op.xs[0], op.axis, True, op.xs[1:])]
    if is_tile(op.results[0]):
        wishes += [Result(result, op.xs[0], lambda x: x.slice(op.axis, op.keepdims).layout) for result in op.results]
    return wishes


@asks(ir.CumSum)
def _cumsum(op: ir.CumSum) -> list[Wish]:
    return _scan((op.x,), op.axis, (op.result,))


@asks(ir.ScanBy)
def _scan_by(op: ir.ScanBy) -> list[Wish]:
    return _scan(op.xs, op.axis, op.results)


def _scan(xs: tuple[Value, ...], axis: int, results: tuple[Value, ...]) -> list[Wish]:
    along = Along(xs[0], axis, True, (*xs[1:], *results))
    return [Same((*xs, *results)), along, *(as_it_was_read(result, xs[0]) for result in results)]


@asks(ir.Reshape)
def _reshape(op: ir.Reshape) -> list[Wish]:
    if not (is_tile(op.x) and is_tile(op.result)):
        return []
    old, new = shape_of(op.x), shape_of(op.result)
    return [Result(op.result, op.x, lambda x: x.reshape(new), lambda y: y.reshape(old))]


@asks(ir.Transpose)
def _transpose(op: ir.Transpose) -> list[Wish]:
    inverse = tuple(op.perm.index(axis) for axis in range(len(op.perm)))
    return [Result(op.result, op.x, lambda x: x.transpose(op.perm), lambda y: y.transpose(inverse))]


@asks(ir.Unpack)
def _unpack(op: ir.Unpack) -> list[Wish]:
    axis, parts = op.axis, per_byte(op.result)
    return [Result(op.result, op.x, lambda x: x.subdivide(axis, parts), lambda y: y.join(axis, parts))]


@asks(ir.Pack)
def _pack(op: ir.Pack) -> list[Wish]:
    axis, parts = op.axis, per_byte(op.x)
    # Bytes are made where their elements are, and moved then: there are fewer. Only neighbours apart have to move before.
    return [
        Result(op.result, op.x, lambda x: x.join(axis, parts), lambda y: y.subdivide(axis, parts)),
        Operand(op.x, op.result, lambda y: y.subdivide(axis, parts)),
    ]


def per_byte(value: Value) -> int:
    """How many elements of a tile share a byte of memory."""
    assert isinstance(value.type, TileType)
    return value.type.dtype.per_byte


@asks(ir.Part)
def _part(op: ir.Part) -> list[Wish]:
    shape = shape_of(op.result)
    return [Result(op.result, op.x, lambda x: part_layout(x, op.starts, shape))]
