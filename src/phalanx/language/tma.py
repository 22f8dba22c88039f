"""`px.tma`: copies between global and shared memory by the TMA engine. They finish later."""

from __future__ import annotations

from typing import Any

from phalanx.ir.ops.tma import (
    CACHE_HINTS,
    REDUCTIONS,
    TmaCommit,
    TmaLoad,
    TmaPrefetch,
    TmaReduce,
    TmaStore,
    TmaWait,
)
from phalanx.ir.views import GlobalView, SharedView
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.mbarrier import mask_operand
from phalanx.language.memory import require_view
from phalanx.language.operators import describe
from phalanx.language.values import BarrierValue


def global_side(ctx: Builder, what: str, view: Any) -> GlobalView:
    region = require_view(ctx, what, view)
    if not isinstance(region, GlobalView):
        ctx.fail(f"{what} must be a view of a global array", "TMA copies between global and shared memory")
    if region.index_axis is not None:
        ctx.fail(f"{what} is indexed by a tile", "px.tma.gather4 copies rows by index")
    if len(region.extents) > 5:
        ctx.fail(f"{what} has {len(region.extents)} axes", "TMA descriptors have at most 5: fold axes of the array together")
    return region


def shared_side(ctx: Builder, what: str, view: Any) -> SharedView:
    region = require_view(ctx, what, view)
    if not isinstance(region, SharedView):
        ctx.fail(f"{what} must be a shared buffer", "make one with px.shared(shape, dtype)")
    if region.cta is not None:
        ctx.fail(f"{what} is in another CTA", "a TMA copy reads and writes this CTA's shared memory; multicast= reaches peers")
    if region.kept != tuple(sorted(region.kept)):
        ctx.fail(f"{what} is transposed", "TMA copies rows as they are; transpose where the tile is read")
    return region


def require_match(ctx: Builder, what: str, src: Any, dst: Any) -> None:
    if src.shape != dst.shape:
        ctx.fail(
            f"{what}: the source has shape {src.shape}, the destination {dst.shape}",
            "both sides of a copy have the same shape: change the slice or the buffer",
        )
    if src.dtype != dst.dtype:
        ctx.fail(
            f"{what}: the source is {src.dtype}, the destination {dst.dtype}",
            "a copy does not convert: make the shared buffer of the array's dtype",
        )


@builtin("tma.load")
def load(ctx: Builder, src: Any, dst: Any, bar: Any, multicast: Any = None, cache: Any = None) -> Any:
    """Starts a copy from global to shared memory; its bytes complete on the barrier `bar`, which never counts an arrival.

    Any agent, one elected thread; sm_90 and up; PTX ``cp.async.bulk.tensor`` (or ``cp.async.bulk`` for a contiguous 1-D
    region), ``.multicast::cluster`` with `multicast` (bit i: rank i; the tile and the bytes land at the same place in each CTA
    of the mask). `cache`: "evict_first", "evict_last" or "evict_normal". Elements outside the array arrive as zeros and are
    counted. Example: ``full[s].arrive_and_expect_tx(a[s].nbytes); px.tma.load(A[m:m+64, k:k+64], a[s], full[s])``.
    """
    source = global_side(ctx, "the source of px.tma.load", src)
    target = shared_side(ctx, "the destination of px.tma.load", dst)
    require_match(ctx, "px.tma.load", source, target)
    if not isinstance(bar, BarrierValue):
        ctx.fail(f"px.tma.load completes on a barrier, not on {describe(bar)}", "make one with px.barrier(n)")
    if cache is not None and cache not in CACHE_HINTS:
        ctx.fail(f"unknown cache hint {describe(cache)}", f"use one of {', '.join(CACHE_HINTS)}")
    mask = mask_operand(ctx, "the multicast mask", multicast)
    ctx.emit(TmaLoad(source, target, bar.ref(ctx), mask, cache, loc=ctx.loc))


@builtin("tma.store")
def store(ctx: Builder, src: Any, dst: Any) -> Any:
    """Starts a copy from shared to global memory; it finishes with its group (`px.tma.commit`, `px.tma.wait`).

    Any agent, one elected thread; sm_90 and up; PTX ``cp.async.bulk.tensor...bulk_group``. Elements outside the array are
    dropped. Example: ``px.tma.store(s, C[m:m+64, n:n+64]); px.tma.commit(); px.tma.wait(0)``.
    """
    source = shared_side(ctx, "the source of px.tma.store", src)
    target = global_side(ctx, "the destination of px.tma.store", dst)
    require_match(ctx, "px.tma.store", source, target)
    ctx.emit(TmaStore(source, target, loc=ctx.loc))


@builtin("tma.reduce")
def reduce(ctx: Builder, src: Any, dst: Any, op: Any) -> Any:
    """Starts folding shared memory into global memory, atomically per element; finishes with its group.

    Any agent, one elected thread; sm_90 and up; PTX ``cp.reduce.async.bulk.tensor``; `op`: "add", "min", "max", "and", "or",
    "xor". Example: ``px.tma.reduce(s, C[m:m+64, n:n+64], "add")``.
    """
    source = shared_side(ctx, "the source of px.tma.reduce", src)
    target = global_side(ctx, "the destination of px.tma.reduce", dst)
    require_match(ctx, "px.tma.reduce", source, target)
    if op not in REDUCTIONS:
        ctx.fail(f"unknown reduction {describe(op)}", f"use one of {', '.join(REDUCTIONS)}")
    allowed = {
        "f32": ("add",), "f64": ("add",), "f16": ("add", "min", "max"), "bf16": ("add", "min", "max"),
        "i32": REDUCTIONS, "u32": REDUCTIONS, "i64": ("min", "max", "and", "or", "xor"), "u64": REDUCTIONS,
    }.get(source.dtype.name, ())
    if op not in allowed:
        shown = f"{source.dtype} has {', '.join(allowed)}" if allowed else f"{source.dtype} has none"
        ctx.fail(f"px.tma.reduce has no {op!r} for {source.dtype}", shown)
    ctx.emit(TmaReduce(source, target, op, loc=ctx.loc))


@builtin("tma.commit")
def commit(ctx: Builder) -> Any:
    """Closes the group of the stores and reductions this role started since its last commit.

    Any agent, one elected thread; sm_90 and up; PTX ``cp.async.bulk.commit_group``. Example: ``px.tma.commit()``.
    """
    ctx.emit(TmaCommit(loc=ctx.loc))


@builtin("tma.wait")
def wait(ctx: Builder, n: Any = 0, read: Any = False) -> Any:
    """Waits until at most `n` groups of this role are unfinished; `read=True`: until they have read their shared sources.

    Any agent, one elected thread (the others follow at a barrier where they need to); sm_90 and up; PTX
    ``cp.async.bulk.wait_group{.read}``. Example: ``px.tma.wait(1, read=True)``.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        ctx.fail(f"px.tma.wait takes a constant number of groups, not {describe(n)}", "px.tma.wait(0) waits for all of them")
    if not isinstance(read, bool):
        ctx.fail(f"read= must be True or False, not {describe(read)}", "read=True waits only until the sources have been read")
    ctx.emit(TmaWait(n, read, loc=ctx.loc))


@builtin("tma.prefetch")
def prefetch(ctx: Builder, src: Any) -> Any:
    """Brings a region of a global array into L2.

    Any agent, one elected thread; sm_90 and up; PTX ``cp.async.bulk.prefetch.tensor``. Nothing waits for it.
    Example: ``px.tma.prefetch(A[m:m+64, k:k+64])``.
    """
    ctx.emit(TmaPrefetch(global_side(ctx, "the source of px.tma.prefetch", src), loc=ctx.loc))


__all__ = ["commit", "load", "prefetch", "reduce", "store", "wait"]
