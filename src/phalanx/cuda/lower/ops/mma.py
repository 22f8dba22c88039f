"""Where products of warps have their tiles; operands in shared memory are loaded in steps of K that leave registers free."""

from __future__ import annotations

import dataclasses
from typing import Any

from phalanx.cuda.lower.layout_rules import Fixed, Same, Wish, asks, shape_of
from phalanx.cuda.lower.registry import expands, packed_forms
from phalanx.errors import Error
from phalanx.ir.core import Op
from phalanx.ir.ops.memory import Load
from phalanx.ir.ops.mma import PACKED, UNPACKED, Mma, MmaScaled
from phalanx.ir.ops.tile import Binary
from phalanx.ir.ops.wgmma import STEP_BYTES
from phalanx.ir.types import ScalarType, TileType
from phalanx.ir.values import Const, Value, constant_of
from phalanx.ir.views import SharedView
from phalanx.layouts.fragments import (
    mma_accumulator,
    mma_left,
    mma_left_scales,
    mma_right,
    mma_right_scales,
    mma_spread,
)

OPERAND_REGISTERS = 64
"""What the operands of one step may take of a thread's registers; the accumulator and addresses need the others."""


def _product(op: Mma | MmaScaled, itemsize: int) -> list[Wish]:
    """Layouts of the accumulator, and of operands in registers, whose elements take so many bytes there."""
    m, n, _ = op.shape
    layout = mma_accumulator(m, n, op.warps)
    wishes: list[Wish] = [Fixed(op.result, layout)]
    if op.acc is not None:
        wishes += [Fixed(op.acc, layout), Same((op.result, op.acc))]
    for tile, operand, axis in ((op.a, mma_left, 1), (op.b, mma_right, 0)):
        if isinstance(tile, Value):
            wishes.append(Fixed(tile, operand(m, n, shape_of(tile)[axis], op.warps, itemsize)))
    return wishes


@asks(Mma)
def _block_product(op: Mma) -> list[Wish]:
    return _product(op, op.dtypes[0].itemsize)


def depth_of_step(m: int, n: int, k: int, warps: int, itemsize: int) -> int:
    """Elements of K that are loaded at a time: as many as leave registers free, in equal steps."""
    high, wide = mma_spread(m, n, warps)
    per_element = (m // high + n // wide) * itemsize / 4 / 32  # registers of a lane
    least = min(k, STEP_BYTES // itemsize)
    found = least
    for depth in range(least, k + 1, least):
        if k % depth == 0 and depth * per_element <= OPERAND_REGISTERS:
            found = depth
    return found


@expands(Mma)
def _split(op: Mma) -> list[Op] | None:
    """A load of each step of K, then its product; None where both operands are in registers."""
    if isinstance(op.a, Value) and isinstance(op.b, Value):
        return None
    m, n, k = op.shape
    out: list[Op] = []
    step = depth_of_step(m, n, k, op.warps, op.dtypes[0].itemsize)
    acc = op.acc
    for start in range(0, k, step):
        depth = min(step, k - start)
        a, a_start = _operand(out, op, op.a, 1, op.starts[0] + start, depth)
        b, b_start = _operand(out, op, op.b, 0, op.starts[1] + start, depth)
        result = op.result if start + depth == k else Value(op.result.type, op.result.name)
        out.append(Mma(a, b, acc, op.warps, result, (a_start, b_start), depth, loc=op.loc))
        acc = result
    return out


@asks(MmaScaled)
def _scaled_product(op: MmaScaled) -> list[Wish]:
    m, n, _ = op.shape
    wishes = _product(op, 1)
    for tile, scales in ((op.scale_a, mma_left_scales), (op.scale_b, mma_right_scales)):
        if isinstance(tile, Value):
            wishes.append(Fixed(tile, scales(m, n, shape_of(tile)[1], op.warps)))
    return wishes


@expands(MmaScaled)
def _split_scaled(op: MmaScaled) -> list[Op] | None:
    """As other products, with the scales loaded once; packed operands are split where their bytes are known."""
    items = (op.a, op.b, op.scale_a, op.scale_b)
    if all(isinstance(item, Value) for item in items) or op.elements[0].per_byte > 1:
        return None
    return _in_steps(op, [])


@packed_forms(MmaScaled)
def _packed_product(op: MmaScaled, packing: Any) -> list[Op] | None:
    """The product of the bytes of packed operands."""
    if op.elements[0].per_byte == 1:
        return None
    out: list[Op] = []
    for name, item, dtype in zip("ab", (op.a, op.b), op.elements, strict=True):
        if isinstance(item, Value):
            raise Error(f"{name} of px.dot is {UNPACKED} of {dtype}", location=op.loc, remedy=PACKED)
    a, b = (packing.view(view, out, op.loc) for view in (op.a, op.b))
    return _in_steps(dataclasses.replace(op, a=a, b=b), out)


def _in_steps(op: MmaScaled, out: list[Op]) -> list[Op]:
    """Loads of the scales, then of each step of K, and its product, behind what is in `out`."""
    m, n, k = op.shape
    scales = [_loaded(out, op, item, name) for item, name in ((op.scale_a, "scale_a"), (op.scale_b, "scale_b"))]
    step, acc = depth_of_step(m, n, k, op.warps, 1), op.acc
    for start in range(0, k, step):
        a, a_start = _operand(out, op, op.a, 1, start, step)
        b, b_start = _operand(out, op, op.b, 0, start, step)
        result = op.result if start + step == k else Value(op.result.type, op.result.name)
        starts = (a_start, b_start, start * op.elements[0].per_byte // op.block)
        part = dataclasses.replace(op, a=a, b=b, acc=acc, result=result, starts=starts, depth=step)
        out.append(dataclasses.replace(part, scale_a=scales[0], scale_b=scales[1]))
        acc = result
    return out


def _loaded(out: list[Op], op: Op, item: SharedView | Value, name: str) -> Value:
    """A tile, loaded where it is in shared memory."""
    if isinstance(item, Value):
        return item
    tile = Value(TileType(item.shape, item.dtype), name)
    out.append(Load(item, Const(0, ScalarType(item.dtype)), tile, loc=op.loc))
    return tile


def _operand(
    out: list[Op], op: Op, item: SharedView | Value, axis: int, start: int, depth: int
) -> tuple[Value, int]:
    """The tile that holds `depth` of K from `start`, and where in it they begin."""
    if isinstance(item, Value):
        return item, start
    along = item.kept[axis]
    offsets, extents = list(item.offsets), list(item.extents)
    offsets[along] = _plus(out, op, offsets[along], start)
    extents[along] = depth
    view = dataclasses.replace(item, offsets=tuple(offsets), extents=tuple(extents))
    tile = Value(TileType(view.shape, view.dtype), "a" if axis else "b")
    out.append(Load(view, Const(0, ScalarType(view.dtype)), tile, loc=op.loc))
    return tile, 0


def _plus(out: list[Op], op: Op, offset: Value, number: int) -> Value:
    constant = constant_of(offset)
    if constant is not None:
        return Const(int(constant) + number, offset.type)  # type: ignore[arg-type]
    if not number:
        return offset
    result = Value(offset.type)
    out.append(Binary("add", offset, Const(number, offset.type), result, loc=op.loc))  # type: ignore[arg-type]
    return result
