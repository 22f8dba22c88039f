"""The grid, loops, roles, thread barriers and assertions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from phalanx.frozen import frozen
from phalanx.ir.ops.control import Assume, DeviceAssert, LaunchDependents, Sync, WaitPrior
from phalanx.ir.types import i32
from phalanx.ir.values import Value
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.objects import KernelObject, Number, Numeric, RegionReader, describe, load_scalar
from phalanx.language.operators import binary, cast, compare, folding, is_scalar, is_tile, truth
from phalanx.language.ranges import RangeObject, StaticRange
from phalanx.language.requirements import is_constant_integer, require_integer
from phalanx.language.values import require_index


def _host_cdiv(a: int, b: int) -> int:
    return -(-a // b)


@builtin("cdiv", host=_host_cdiv)
def cdiv(ctx: Builder, a: object, b: object) -> Numeric:
    """`a / b` rounded up, for integers; works in kernels and outside.

    Any agent; any GPU; no PTX of its own. Example: ``grid = (px.cdiv(M, 64), px.cdiv(N, 64))``.
    """
    a, b = (require_index(ctx, "an argument of px.cdiv", item) for item in (a, b))
    if isinstance(a, int) and isinstance(b, int):
        return folding(ctx, "px.cdiv", _host_cdiv, a, b)
    # Not (a + b - 1) // b, which overflows for arrays with close to 2^31 elements; and in this form it is plain to see
    # that the result is not negative where a and b are not.
    rest = compare(ctx, "ne", binary(ctx, "mod", a, b), 0)
    return binary(ctx, "add", binary(ctx, "floordiv", a, b), cast(ctx, rest, i32))


@builtin("block_id")
def block_id(ctx: Builder, d: object = 0) -> Value:
    """This CTA's index in the grid along `d`.

    Any agent; any GPU; PTX ``%ctaid``. Example: ``m = px.block_id(0) * BM``.
    """
    return ctx.block_id(_dim(ctx, d))


@builtin("num_blocks")
def num_blocks(ctx: Builder, d: object = 0) -> Value:
    """The number of CTAs of the grid along `d`.

    Any agent; any GPU; PTX ``%nctaid``. Example: ``for t in range(px.block_id(0), tiles, px.num_blocks(0)):``.
    """
    return ctx.num_blocks(_dim(ctx, d))


def _dim(ctx: Builder, d: object) -> int:
    if not is_constant_integer(d) or d not in (0, 1, 2):
        ctx.fail(
            f"a grid has the dimensions 0, 1 and 2, not {describe(d)}", "the dimension is a constant: px.block_id(0)"
        )
    return d


MAX_COPIES = 64
"""How many copies of a loop's body `px.unroll` may write."""


@builtin("static_range", host=range)
def static_range(ctx: Builder, start: object, stop: object = None, step: object = 1) -> StaticRange:
    """A range of constants: the loop over it is unrolled while the kernel is read.

    Any agent; any GPU; no PTX. Example: ``for i in px.static_range(4): ...``.
    """
    if stop is None:
        start, stop = 0, start
    bounds: list[int] = []
    for item in (start, stop, step):
        if not is_constant_integer(item):
            ctx.fail(f"px.static_range needs constants, not {describe(item)}", "use range(...) for a run-time loop")
        bounds.append(item)
    if bounds[2] == 0:
        ctx.fail("the step of a range is 0", "use a positive or a negative step")
    return StaticRange(range(*bounds))


@builtin("unroll")
def unroll(ctx: Builder, items: object, by: object) -> RangeObject:
    """A run-time range whose loop is written out `by` iterations at a time, and the rest one by one.

    In the loop of a ring that begins at its first stage, unrolled by its stages, stage and parity become constants. Any
    agent; any GPU; no PTX of its own. Example: ``for k in px.unroll(range(steps), STAGES): ...``.
    """
    if not isinstance(items, RangeObject):
        ctx.fail(f"px.unroll takes range(...), not {describe(items)}", "write: for k in px.unroll(range(n), 4)")
    if not is_constant_integer(by) or not 1 <= by <= MAX_COPIES:
        ctx.fail(
            f"a loop is unrolled by a constant from 1 to {MAX_COPIES}, not by {describe(by)}",
            "px.static_range unrolls a loop as a whole",
        )
    return RangeObject(dataclasses.replace(items.bounds, unroll=by))


@frozen
class WarpsValue(KernelObject):
    """`px.warps(first, count, copies, regs)`: a region that those warps run."""

    first: int
    count: int
    copies: int
    regs: int | None
    kind_name = "a role"
    gives_value = True

    def open(
        self, reader: RegionReader, body: Callable[[], None], bind: Callable[[object], None] | None
    ) -> None:
        """Reads the role."""
        reader.role(self.first, self.count, self.copies, self.regs, body, bind)


@builtin("warps")
def warps(ctx: Builder, first: object, count: object, regs: object = None, copies: object = 1) -> WarpsValue:
    """`with px.warps(first, count):` a region run by those warps of the CTA only.

    Outside roles; sm_90 and up. Neighbouring regions run concurrently and need disjoint warps. With `copies` the next
    `count` warps run the region too, and so on: each copy is a role of its own, as if it had been written so often, and
    `as c` names its number, a run-time scalar from 0 on that is known for each copy when arrivals and bytes are counted.
    `regs` registers a thread through PTX ``setmaxnreg``, for each copy: the region begins at a multiple of 4 warps, and the
    warps that it leaves of its last warpgroup stay idle. Example: ``with px.warps(0, 1, regs=24): ...`` and
    ``with px.warps(4, 4, copies=2, regs=240) as c: ...``.
    """
    example = "e.g. with px.warps(0, 4):"
    begin = require_integer(ctx, "first of px.warps", first, example)
    number = require_integer(ctx, "count of px.warps", count, example)
    times = require_integer(ctx, "copies of px.warps", copies, "e.g. with px.warps(4, 4, copies=2) as c:")
    registers = None if regs is None else require_integer(ctx, "regs of px.warps", regs, example)
    if number < 1 or begin < 0:
        ctx.fail(f"px.warps({begin}, {number}) names no warps", "first is at least 0 and count at least 1")
    if times < 1:
        ctx.fail(f"px.warps({begin}, {number}, copies={times}) has no copies", "copies is at least 1")
    end = begin + number * times
    if end > ctx.warps:
        many = f", copies={times}" if times > 1 else ""
        ctx.fail(
            f"px.warps({begin}, {number}{many}) needs {end} warps, the kernel has {ctx.warps}",
            f"write @px.kernel(warps={end}) or use fewer",
        )
    return WarpsValue(begin, number, times, registers)


@builtin("sync")
def sync(ctx: Builder) -> None:
    """Waits until all threads of the current role (or of the CTA, outside roles) are here.

    Any agent; any GPU; PTX ``bar.sync`` over the role's warps, ``bar.warp.sync`` for one. Example: ``px.sync()``.
    """
    ctx.emit(Sync(loc=ctx.loc))


@builtin("wait_prior")
def wait_prior(ctx: Builder) -> None:
    """Waits until the launch before this one on the stream is over and what it wrote can be seen.

    Any agent, all its threads; sm_90 and up; PTX ``griddepcontrol.wait``. For kernels with ``pdl=True``, which begin
    before their predecessor has ended: what comes before it (barriers, descriptors, weights that no kernel writes)
    overlaps with the predecessor's end; whatever a kernel before wrote is read, and whatever it may still read is
    written, after it. It counts for its own role and for what is ordered after it. The simulator runs launches one after
    the other, so that it waits for nothing there; `px.check` notes each line that touches global memory before it, and
    does not know what other launches do. Example: ``full = px.barrier(4); px.wait_prior(); x = px.load(X[0:64])``.
    """
    ctx.emit(WaitPrior(loc=ctx.loc))


@builtin("launch_dependents")
def launch_dependents(ctx: Builder) -> None:
    """Lets the next launch on the stream begin, if it has ``pdl=True``, once all CTAs have come here or are over.

    Any agent, all its threads; sm_90 and up; PTX ``griddepcontrol.launch_dependents``. It says nothing of memory: the
    next kernel's `px.wait_prior` waits for this one's end. Right behind this kernel's own `px.wait_prior` is a good place:
    all CTAs of this launch have begun by then, and the next one's take only the room that they leave. The simulator runs
    launches one after the other. Example: ``px.wait_prior(); px.launch_dependents(); x = px.load(X[0:64])``.
    """
    ctx.emit(LaunchDependents(loc=ctx.loc))


@builtin("device_assert")
def device_assert(ctx: Builder, cond: object, message: object = "assertion failed") -> None:
    """Stops the kernel with `message` unless `cond` holds (for a tile: everywhere).

    Any agent; any GPU and the simulator. Example: ``px.device_assert(k < K, "k out of range")``.
    """
    cond = load_scalar(ctx, cond)
    if not isinstance(message, str):
        ctx.fail(f"the message of px.device_assert must be a string, not {describe(message)}", 'e.g. "k out of range"')
    if isinstance(cond, Number):
        if not cond:
            ctx.fail(
                f"px.device_assert is false at compile time: {message}",
                "the condition does not depend on run-time values",
            )
        return
    if not is_scalar(cond) and not is_tile(cond):
        ctx.fail(f"px.device_assert needs a condition, not {describe(cond)}", "e.g. px.device_assert(k < K)")
    ctx.emit(DeviceAssert(truth(ctx, cond), message, loc=ctx.loc))


@builtin("assume")
def assume(ctx: Builder, cond: object) -> None:
    """Says that `cond` holds here (for a tile: everywhere), so that the compiler may rely on it.

    Any agent; any GPU. The simulator stops with an error where it is false, and so does a kernel with ``watchdog=True``;
    elsewhere what happens then is undefined. No PTX: ``__builtin_assume`` in CUDA. Comparisons such as ``m >= 0`` and
    ``m % 8 == 0`` also count for the choice of copies, if they stand in the same block as the computation of m.
    Example: ``px.assume(m >= 0)``, before a ``px.tma.store`` to ``C[m:m+64, n:n+64]``.
    """
    cond = load_scalar(ctx, cond)
    if isinstance(cond, Number):
        if not cond:
            ctx.fail("px.assume is false at compile time", "the condition does not depend on run-time values")
        return
    if not is_scalar(cond) and not is_tile(cond):
        ctx.fail(f"px.assume needs a condition, not {describe(cond)}", "e.g. px.assume(m >= 0)")
    ctx.emit(Assume(truth(ctx, cond), "what px.assume says is false", loc=ctx.loc))
