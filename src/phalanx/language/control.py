"""The grid, loops, roles, thread barriers, printing and assertions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phalanx.ir.ops.control import DeviceAssert, Print, Sync
from phalanx.ir.types import bool_
from phalanx.ir.values import Value
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.operators import binary, describe, dtype_of, is_scalar, unary
from phalanx.language.values import load_scalar


def _host_cdiv(a: int, b: int) -> int:
    return -(-a // b)


@builtin("cdiv", host=_host_cdiv)
def cdiv(ctx: Builder, a: Any, b: Any) -> Any:
    """`a / b` rounded up, for integers; works in kernels and outside.

    Any agent; any GPU; no PTX of its own. Example: ``grid = (px.cdiv(M, 64), px.cdiv(N, 64))``.
    """
    a, b = load_scalar(ctx, a), load_scalar(ctx, b)
    if isinstance(a, int) and isinstance(b, int):
        return _host_cdiv(a, b)
    return binary(ctx, "floordiv", binary(ctx, "add", a, binary(ctx, "sub", b, 1)), b)


@builtin("block_id")
def block_id(ctx: Builder, d: Any = 0) -> Any:
    """This CTA's index in the grid along `d`.

    Any agent; any GPU; PTX ``%ctaid``. Example: ``m = px.block_id(0) * BM``.
    """
    return ctx.block_id(_dim(ctx, d))


@builtin("num_blocks")
def num_blocks(ctx: Builder, d: Any = 0) -> Any:
    """The number of CTAs of the grid along `d`.

    Any agent; any GPU; PTX ``%nctaid``. Example: ``for t in range(px.block_id(0), tiles, px.num_blocks(0)):``.
    """
    return ctx.num_blocks(_dim(ctx, d))


def _dim(ctx: Builder, d: Any) -> int:
    if isinstance(d, bool) or d not in (0, 1, 2):
        ctx.fail("a grid has the dimensions 0, 1 and 2")
    return d


@dataclass(frozen=True)
class StaticRange:
    """`px.static_range(...)`, unrolled by the reader."""

    items: range
    kind_name = "a static range"


@builtin("static_range", host=range)
def static_range(ctx: Builder, start: Any, stop: Any = None, step: Any = 1) -> Any:
    """A range of constants: the loop over it is unrolled while the kernel is read.

    Any agent; any GPU; no PTX. Example: ``for i in px.static_range(4): ...``.
    """
    if stop is None:
        start, stop = 0, start
    for item in (start, stop, step):
        if not isinstance(item, int):
            ctx.fail(f"px.static_range needs constants, not {describe(item)}", "use range(...) for a run-time loop")
    if step == 0:
        ctx.fail("the step of a range is 0")
    return StaticRange(range(start, stop, step))


@dataclass(frozen=True)
class WarpsValue:
    """`px.warps(first, count, regs)`, opened by the reader."""

    first: int
    count: int
    regs: int | None
    kind_name = "a role"


@builtin("warps")
def warps(ctx: Builder, first: Any, count: Any, regs: Any = None) -> Any:
    """`with px.warps(first, count):` a region run by those warps of the CTA only.

    Outside roles; sm_90 and up; `regs` registers a thread through PTX ``setmaxnreg`` (whole warpgroups). Neighbouring regions
    run concurrently and need disjoint warps. Example: ``with px.warps(0, 1): ...`` and ``with px.warps(1, 4): ...``.
    """
    for what, item in (("first", first), ("count", count), ("regs", regs)):
        if not (isinstance(item, int) and not isinstance(item, bool)) and not (what == "regs" and item is None):
            ctx.fail(f"{what} of px.warps must be a constant integer, not {describe(item)}")
    if count < 1 or first < 0:
        ctx.fail(f"px.warps({first}, {count}) names no warps", "first is at least 0 and count at least 1")
    if first + count > ctx.warps:
        ctx.fail(
            f"px.warps({first}, {count}) needs {first + count} warps, the kernel has {ctx.warps}",
            f"write @px.kernel(warps={first + count}) or use fewer",
        )
    return WarpsValue(first, count, regs)


@builtin("sync")
def sync(ctx: Builder) -> Any:
    """Waits until all threads of the current role (or of the CTA, outside roles) are here.

    Any agent; any GPU; PTX ``bar.sync`` over the role's warps, ``bar.warp.sync`` for one. Example: ``px.sync()``.
    """
    ctx.emit(Sync(loc=ctx.loc))


@builtin("print", host=print)
def print_(ctx: Builder, *parts: Any) -> Any:
    """Prints strings and values, once per role that runs it.

    Any agent; any GPU (``printf``) and the simulator. Example: ``px.print("k =", k)``.
    """
    shown: list[str | Value] = []
    for part in parts:
        part = load_scalar(ctx, part)
        if isinstance(part, str):
            shown.append(part)
        elif isinstance(part, Value):
            shown.append(part)
        else:
            shown.append(str(part))
    ctx.emit(Print(tuple(shown), loc=ctx.loc))


@builtin("device_assert")
def device_assert(ctx: Builder, cond: Any, message: Any = "assertion failed") -> Any:
    """Stops the kernel with `message` unless `cond` holds (for a tile: everywhere).

    Any agent; any GPU and the simulator. Example: ``px.device_assert(k < K, "k out of range")``.
    """
    cond = load_scalar(ctx, cond)
    if not isinstance(message, str):
        ctx.fail("the message of px.device_assert must be a string")
    if isinstance(cond, (bool, int)):
        if not cond:
            ctx.fail(f"px.device_assert is false at compile time: {message}")
        return
    if not isinstance(cond, Value):
        ctx.fail(f"px.device_assert needs a condition, not {describe(cond)}")
    ctx.emit(DeviceAssert(truth(ctx, cond), message, loc=ctx.loc))


def truth(ctx: Builder, value: Any) -> Any:
    """A scalar or tile as bool, as Python's truth value would be."""
    if isinstance(value, Value) and dtype_of(value) != bool_:
        return unary(ctx, "not", unary(ctx, "not", value))
    return value


def require_condition(ctx: Builder, value: Any, what: str) -> Any:
    """A condition of control flow: a constant or a scalar."""
    value = load_scalar(ctx, value)
    if isinstance(value, Value):
        if not is_scalar(value):
            ctx.fail(f"the condition of {what} is a tile of type {value.type}", "use px.where, or reduce it: px.max(cond, axis)")
        return truth(ctx, value)
    return bool(value)
