"""IR written by hand, for tests of passes: short names for instructions, one source line per instruction."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import Role, Scope, Sync, span_text
from phalanx.ir.ops.mbarrier import Arrive, ArriveExpectTx, Wait
from phalanx.ir.ops.memory import Load, Store
from phalanx.ir.ops.tile import Full
from phalanx.ir.ops.tma import TmaLoad, TmaStore
from phalanx.ir.types import F32, ArrayType, DType, TileType, f32
from phalanx.ir.values import Const, Label, Param, Value
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedBuffer, SharedView
from phalanx.location import Location


def at(line: int, text: str = "") -> Location:
    """Line `line` of a kernel's file."""
    return Location("kernel.py", line, 4, line, 4 + max(1, len(text)), "    " + text, "kernel")


def const(value: int | float | bool | Value) -> Value:
    return value if isinstance(value, Value) else Const(value)


def array(name: str, rank: int = 1, dtype: DType = f32, index: int = 0) -> Param:
    return Param(ArrayType(rank, dtype), name, index)


def whole(buffer: SharedBuffer, cta: int | Value | None = None) -> SharedView:
    rank = len(buffer.shape)
    rank_of = None if cta is None else const(cta)
    return SharedView(buffer, (Const(0),) * rank, buffer.shape, tuple(range(rank)), rank_of)


def part(buffer: SharedBuffer, index: int | Value, cta: Value | None = None) -> SharedView:
    """The sub-buffer `buffer[index]`."""
    rest = buffer.shape[1:]
    offsets = (const(index), *[Const(0)] * len(rest))
    return SharedView(buffer, offsets, (1, *rest), tuple(range(1, len(buffer.shape))), cta)


def box(array: Param, starts: Sequence[int | Value], shape: Sequence[int]) -> GlobalView:
    return GlobalView(array, tuple(const(s) for s in starts), tuple(shape), tuple(range(len(shape))))


def tile(shape: Sequence[int], dtype: DType = f32, name: str = "") -> Value:
    return Value(TileType(tuple(shape), dtype), name)


def bar(barrier: BarrierArray, index: int | Value = 0) -> BarrierRef:
    return BarrierRef(barrier, const(index))


def load(view: GlobalView | SharedView, name: str = "x") -> Load:
    result = tile(view.shape, view.dtype, name) if view.shape else Value(F32, name)
    return Load(view, Const(0.0), result)


def store(view: GlobalView | SharedView, value: Value | None = None) -> list[Op]:
    """A store, of zeros where no value is given."""
    if value is not None:
        return [Store(view, value)]
    zeros = tile(view.shape, view.dtype, "zeros")
    return [Full(Const(0.0), zeros), Store(view, zeros)]


def arrive(barrier: BarrierArray, index: int | Value = 0, ctas: int | Value | None = None, count: int = 1) -> Arrive:
    return Arrive(bar(barrier, index), Const(count), None if ctas is None else const(ctas))


def expect(barrier: BarrierArray, nbytes: int, index: int | Value = 0) -> ArriveExpectTx:
    return ArriveExpectTx(bar(barrier, index), Const(nbytes))


def wait(barrier: BarrierArray, parity: int | Value = 0, index: int | Value = 0) -> Wait:
    return Wait(bar(barrier, index), const(parity))


def fetch(
    src: GlobalView, dst: SharedView, barrier: BarrierArray, multicast: int | None = None, index: int | Value = 0
) -> TmaLoad:
    return TmaLoad(src, dst, bar(barrier, index), None if multicast is None else Const(multicast))


def write_back(src: SharedView, dst: GlobalView) -> TmaStore:
    return TmaStore(src, dst)


def block(*ops: Op | Sequence[Op]) -> Block:
    flat: list[Op] = []
    for op in ops:
        flat += [op] if isinstance(op, Op) else list(op)
    return Block(tuple(flat))


def role(first: int, count: int, *ops: Op | Sequence[Op], regs: int | None = None, copies: int = 1) -> Role:
    return Role(span_text(first, count * copies), first, count, regs, block(*ops), copies=copies)


def kernel(
    *ops: Op | Sequence[Op],
    params: Sequence[Param] = (),
    buffers: Sequence[SharedBuffer] = (),
    barriers: Sequence[BarrierArray] = (),
    warps: int = 4,
    cluster: int = 1,
    exit_sync: bool = True,
    scope: Label | None = None,
) -> Function:
    """A kernel whose instructions have the lines 1, 2, 3 and so on, in program order; optionally in a scope."""
    counter = iter(range(1, 10_000))
    body = numbered(block(*ops), counter)
    if scope is not None:
        body = Block((Scope(scope, body),))
    return Function(
        "kernel", tuple(params), (), warps, (cluster, 1, 1), exit_sync, tuple(buffers), tuple(barriers), body, at(0)
    )


def numbered(body: Block, counter) -> Block:
    """The block with a source line of its own for every instruction."""

    def line(op: Op) -> Op:
        changes: dict[str, object] = {"loc": at(next(counter))}
        for field in dataclasses.fields(op):
            item = getattr(op, field.name)
            if isinstance(item, Block):
                changes[field.name] = numbered(item, counter)
            elif isinstance(item, tuple) and item and isinstance(item[0], Op):
                changes[field.name] = tuple(line(p) for p in item)
        return dataclasses.replace(op, **changes)

    return Block(tuple(line(op) for op in body))


def syncs(function: Function) -> list[tuple[int, str]]:
    """Line and reason of every barrier the compiler put in."""
    return [(op.loc.line, op.reason) for op in function.walk() if isinstance(op, Sync) and op.reason]
