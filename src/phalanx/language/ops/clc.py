"""`px.clc`: cluster launch control. A cluster that runs takes over blocks of the grid that have not started."""

from __future__ import annotations

from phalanx.ir.ops.clc import RESPONSE_DTYPE, RESPONSE_WORDS, ClcQuery, ClcTryCancel
from phalanx.ir.ops.control import If
from phalanx.ir.ops.tile import Compare
from phalanx.ir.types import BOOL, I32
from phalanx.ir.values import Const, Value, constant_of
from phalanx.ir.views import SharedView
from phalanx.language.builder import Builder, freeze
from phalanx.language.builtin import builtin
from phalanx.language.ops.tma_operands import completion, shared_side
from phalanx.language.values import ViewValue

RESPONSE = f"px.shared(({RESPONSE_WORDS},), px.{RESPONSE_DTYPE})"


@builtin("clc.try_cancel")
def try_cancel(ctx: Builder, result: object, bar: object) -> None:
    """Asks for a cluster of the grid that has not started; the answer is 16 bytes in `result`, which complete on `bar`.

    Any agent, one elected thread of rank 0 of the cluster; in other CTAs it does nothing. sm_100 and up; PTX
    ``clusterlaunchcontrol.try_cancel``, in clusters of several CTAs with ``.multicast::cluster::all``: the answer lands in
    every CTA's `result` and on every CTA's `bar`, and each CTA expects its own 16 bytes (`with bar.transaction():` adds
    them up). `result` is ``px.shared((4,), px.i32)``, or four elements of a larger buffer that begin at a multiple of 16
    bytes. Once a request was refused there must not be another one; and before the next request into the same `result`
    everybody who queries it signals rank 0. The grid counts all blocks, also those that never start by themselves.
    Example: ``with full.transaction(): px.clc.try_cancel(result, full)``.
    """
    response = response_operand(ctx, "px.clc.try_cancel", result)
    barrier = completion(ctx, "px.clc.try_cancel", bar)
    if ctx.cluster_size == 1:
        ctx.emit(ClcTryCancel(response, barrier, loc=ctx.loc))
        return
    first = Value(BOOL)
    ctx.emit(Compare("eq", ctx.cluster_rank(None), Const(0, I32), first, loc=ctx.loc))
    with ctx.block() as request:
        ctx.emit(ClcTryCancel(response, barrier, Const((1 << ctx.cluster_size) - 1, I32), loc=ctx.loc))
    ctx.emit(If(first, freeze(request), freeze([]), loc=ctx.loc))


@builtin("clc.query")
def query(ctx: Builder, result: object) -> tuple[Value, Value]:
    """What a request brought: ``(granted, block)``, with `block` this CTA's linear block index in the granted cluster.

    Any agent, all its threads, after a wait for the request's barrier; sm_100 and up; PTX
    ``clusterlaunchcontrol.query_cancel``, then ``fence.proxy.async``, so that the read is over for the next request.
    Dimension 0 of the grid runs fastest in `block`, which is defined only if `granted`.
    Example: ``full.wait(ring.parity); granted, block = px.clc.query(result)``.
    """
    response = response_operand(ctx, "px.clc.query", result)
    granted, block = Value(BOOL, "granted"), Value(I32, "block")
    ctx.emit(ClcQuery(response, (granted, block), loc=ctx.loc))
    return granted, block


def response_operand(ctx: Builder, what: str, result: object) -> SharedView:
    """The 16 bytes of a response: in one piece, and where the hardware can write them."""
    if isinstance(result, ViewValue) and result.view.peer is not None:
        ctx.fail(
            f"the result of {what} is in another CTA",
            "every CTA has an answer of its own, at the same place: px.clc.try_cancel brings it to all of them",
        )
    view = shared_side(ctx, f"the result of {what}", result)
    if view.shape != (RESPONSE_WORDS,) or view.dtype is not RESPONSE_DTYPE:
        shape = ", ".join(map(str, view.shape))
        ctx.fail(f"the result of {what} is {view.dtype}[{shape}]", f"it is 16 bytes: {RESPONSE}")
    last = len(view.buffer.shape) - 1
    if view.kept != (last,):
        ctx.fail(
            f"the result of {what} is no row of '{view.buffer.name}'",
            f"its 16 bytes lie together: make the last axis {RESPONSE_WORDS} long, and select by the others",
        )
    start = constant_of(view.offsets[last])
    if start is None or start % RESPONSE_WORDS or view.buffer.shape[last] % RESPONSE_WORDS:
        ctx.fail(
            f"the result of {what} is not known to begin at a multiple of 16 bytes of '{view.buffer.name}'",
            f"take whole rows: px.shared((n, {RESPONSE_WORDS}), px.{RESPONSE_DTYPE}), and result[i]", kind="misaligned",
        )
    return view


__all__ = ["query", "try_cancel"]
