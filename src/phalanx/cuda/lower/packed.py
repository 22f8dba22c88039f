"""Packed memory (two elements of 4 bits to a byte, padded buffers) as what it is to a target: bytes.

Arrays and buffers of a packed type become arrays and buffers of u8 whose last axis is as many times shorter. Loads get an
`Unpack` behind them, stores a `Pack` before them (`cuda/lower/ops/memory.py`); copies move bytes, which is all they did. So
layouts, copy paths, vectors and the launcher know bytes alone, and every target can move packed data. Only what fills or
reads a padded buffer counts elements at both ends: there each has a byte, room included, and the descriptor of the copy
(`TensorMapSlot.expands`) has a type of its own. Tensor memory stays as it is: its layouts know containers of any width.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import phalanx.cuda.lower.ops  # noqa: F401  # what the families registered
from phalanx.analysis.divisibility import Divisibility, find_divisibility
from phalanx.cuda.lower.registry import packed_forms
from phalanx.errors import Error
from phalanx.ir.core import Function, Op, rewrite, substitute
from phalanx.ir.holders import mapped_holders, storage_of
from phalanx.ir.ops.tile import Binary
from phalanx.ir.types import ArrayType, DType, u8
from phalanx.ir.values import Const, Param, Value, constant_of
from phalanx.ir.views import BarrierArray, Buffer, View
from phalanx.location import Location


def unpack_memory(function: Function) -> Function:
    """The function with bytes in the place of packed memory; itself where it has none.

    For `lower`, before register layouts are chosen. A region that is not known to begin at a whole byte is a `px.Error`.
    """
    if not any(map(_is_packed, function.params)) and not any(map(_is_packed, function.buffers)):
        return function
    return Packing(function).function()


class Packing:
    """The bytes that stand for each array and buffer, and what an instruction becomes with them."""

    def __init__(self, function: Function) -> None:
        self.source = function
        self.facts: Divisibility = find_divisibility(function)
        self.storage: dict[Any, Any] = {}
        for param in function.params:
            if _is_packed(param):
                assert isinstance(param.type, ArrayType)
                self.storage[param] = Param(dataclasses.replace(param.type, dtype=u8), param.name, param.index)
        for buffer in function.buffers:
            self._bytes_of(buffer)
        for barrier in function.barriers:
            self._bytes_of(barrier)

    def _bytes_of(self, item: Buffer | BarrierArray | None) -> Any:
        """What stands for a buffer or an array of barriers, which may lie in the memory of one that changes."""
        if item is None or item in self.storage:
            return self.storage.get(item)
        reuse, found = self._bytes_of(item.reuse), item
        if reuse is not item.reuse:
            found = dataclasses.replace(found, reuse=reuse)
        if isinstance(found, Buffer):
            after = self._bytes_of(found.after)
            if after is not found.after:
                found = dataclasses.replace(found, after=after)
            if _is_packed(found):  # with `padded` the room of 16 elements is 16 bytes
                room = found.shape[-1] if found.padded else found.dtype.nbytes(found.shape[-1])
                shape = (*found.shape[:-1], room)
                found = dataclasses.replace(found, shape=shape, dtype=u8)
        self.storage[item] = found
        return found

    def function(self) -> Function:
        """The whole function in bytes."""
        source = self.source
        return dataclasses.replace(
            source,
            params=tuple(self.storage.get(param, param) for param in source.params),
            buffers=tuple(self.storage[buffer] for buffer in source.buffers),
            barriers=tuple(self.storage[barrier] for barrier in source.barriers),
            body=rewrite(source.body, self._visit),
        )

    def _visit(self, op: Op) -> list[Op] | None:
        form = packed_forms.of(op)
        if form is not None:
            found = form(op, self)
            if found is not None:
                return [substitute(part, self.storage) for part in found]
        before: list[Op] = []

        expands = any(isinstance(item, Buffer) and item.padded for item in storage_of(op))

        def in_bytes(item: Any) -> Any:
            if not isinstance(item, View) or not _is_packed(item.memory):
                return item
            if expands:  # each element has a byte of shared memory, room included: whoever reads it counts elements
                return item.in_bytes(self.storage[item.memory], item.offsets, item.extents)
            return self.view(item, before, op.loc)

        changed = substitute(mapped_holders(op, in_bytes), self.storage)
        return None if changed is op else [*before, changed]

    def view(self, view: View, before: list[Op], loc: Location) -> Any:
        """The bytes of a packed region; what computes where they begin is appended to `before`."""
        last = len(view.extents) - 1
        start, share = view.offsets[last], view.dtype.per_byte
        if not self.facts.proves(start, 1, share):
            name = start.name or "i"
            raise Error(
                f"this region of {view.memory.name} is not known to begin at an even place of the last axis: "
                f"{share} elements of {view.dtype} share a byte",
                location=loc, kind="misaligned",
                remedy=f"write the start as a multiple, such as {share} * i, or say so: px.assume({name} % {share} == 0)",
            )
        offsets = (*view.offsets[:last], _divided(start, share, before, loc))
        extents = (*view.extents[:last], view.extents[last] // share)
        return view.in_bytes(self.storage[view.memory], offsets, extents)


def is_packed(dtype: DType) -> bool:
    """Whether several elements of a type share a byte of memory."""
    return dtype.per_byte > 1


def _is_packed(item: Param | Buffer) -> bool:
    if isinstance(item, Buffer):
        return not item.space.scattered and (item.padded or is_packed(item.dtype))
    return isinstance(item.type, ArrayType) and is_packed(item.type.dtype)


def _divided(value: Value, by: int, before: list[Op], loc: Location) -> Value:
    number = constant_of(value)
    if number is not None:
        return Const(int(number) // by, value.type)  # type: ignore[arg-type]
    result = Value(value.type, value.name)
    before.append(Binary("shr", value, Const(by.bit_length() - 1, value.type), result, loc=loc))  # type: ignore[arg-type]
    return result
