"""`px.cp_async`: copies from global to shared memory that threads begin and that go on without them."""

from __future__ import annotations

from phalanx.ir.ops.cp_async import CpAsyncCommit, CpAsyncLoad
from phalanx.ir.types import TileType
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray, BarrierRef, GlobalView, SharedView, in_global, in_shared
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.ops.collectives import barrier_operand
from phalanx.language.ops.memory import require_view
from phalanx.language.ops.pipes import hand_on, is_pipe
from phalanx.language.ops.tma_operands import check_match


@builtin("cp_async.load")
def load(ctx: Builder, src: object, dst: object) -> None:
    """Begins a copy from global to shared memory by all threads of the agent; it is over with a `px.cp_async.commit`.

    Any agent, all its threads, each its share; sm_90 and up; PTX ``cp.async`` of 16, 8 or 4 bytes. For what
    `px.tma.load` can't copy: rows that do not begin on multiples of 16 bytes, and rows by index, ``A[rows, 0:D]``.
    Elements outside the array, and rows by index that are not there, arrive as zeros. Elements narrower than 4 bytes
    whose rows do not begin on multiples of 4 bytes go through registers. What arrives is written as by ordinary stores:
    before `px.wgmma` or `px.tcgen05.mma` read it, whoever waited for it calls ``px.fence.async_proxy()``.
    Example: ``px.cp_async.load(A[m:m+64, k:k+64], a[s]); px.cp_async.commit(full[s])``.
    """
    source, target = _source(ctx, src), _target(ctx, dst)
    check_match(ctx, "px.cp_async.load", source, target)
    moved = Value(TileType(target.shape, target.dtype), "moved")
    ctx.emit(CpAsyncLoad(source, target, moved, loc=ctx.loc))


@builtin("cp_async.commit")
def commit(ctx: Builder, bar: object) -> None:
    """Arrives on `bar`, once, when all copies that this agent has begun by `px.cp_async.load` are over.

    Any agent, all its threads; sm_90 and up; PTX ``cp.async.mbarrier.arrive`` by each thread, a barrier of the agent's
    threads, and one ``mbarrier.arrive``. The arrival brings no bytes, and says nothing of what the agent did besides.
    `bar` may be a `px.pipe` of which this role has a stage, by ``pipe.acquire()``: the oldest is full when the copies
    are over.
    Example: ``px.cp_async.commit(full[s])``.
    """
    what = "px.cp_async.commit"
    if not is_pipe(bar):
        ctx.emit(CpAsyncCommit(barrier_operand(ctx, what, bar), loc=ctx.loc))
        return

    def full(ref: BarrierRef, ctas: Value | None, releases: BarrierArray | None) -> None:
        if releases is not None or ctas is not None:
            ctx.fail(f"{what}: the role takes stages of this pipe", "give a stage back with pipe.release()")
        ctx.emit(CpAsyncCommit(ref, loc=ctx.loc))

    hand_on(ctx, what, bar, lambda: None, full)


def _source(ctx: Builder, view: object) -> GlobalView:
    """The global region that is copied: elements of whole bytes, rows by index among them."""
    what = "the source of px.cp_async.load"
    region = require_view(ctx, what, view)
    if not in_global(region):
        ctx.fail(f"{what} must be a view of a global array", "it copies from global to shared memory")
    if not region.shape:
        ctx.fail(f"{what} is a single element", "copy a row: A[i:i+1]")
    if region.within:
        ctx.fail(f"{what} is cut by .within", "copies end where the array does: use px.load and px.store")
    if region.dtype.bits < 8:
        ctx.fail(f"{what} has elements of {region.dtype.bits} bits", "px.tma.load copies those")
    return region


def _target(ctx: Builder, view: object) -> SharedView:
    """The region of this CTA's shared memory that is written, rows as they are."""
    what = "the destination of px.cp_async.load"
    region = require_view(ctx, what, view)
    if not in_shared(region):
        ctx.fail(f"{what} must be a shared buffer", "make one with px.shared(shape, dtype)")
    if region.index_axis is not None:
        ctx.fail(f"{what} is indexed by a tile", "it writes a box of a buffer: load rows by index, and store them elsewhere")
    if region.cta is not None:
        ctx.fail(f"{what} is in another CTA", "threads copy to shared memory of their own CTA: px.cluster.copy sends it on")
    if region.kept != tuple(sorted(region.kept)):
        ctx.fail(f"{what} is transposed", "copy rows as they are, and transpose where the tile is read")
    return region


__all__ = ["commit", "load"]
