"""`px.tma`: copies between global and shared memory by the TMA engine. They finish later."""

from __future__ import annotations

from phalanx.ir.ops import tma as ir
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.objects import describe
from phalanx.language.ops.gather import gather, gather4, scatter, scatter4
from phalanx.language.ops.mbarrier import mask_operand
from phalanx.language.ops.tma_operands import cache_hint, check_match, completion, global_side, require_pairs, shared_side
from phalanx.language.patches import PatchRegion
from phalanx.language.values import refuse_dense, refuse_padded


@builtin("tma.load")
def load(
    ctx: Builder, src: object, dst: object, bar: object, multicast: object = None, cache: object = None,
    two_cta: object = False,
) -> None:
    """Starts a copy from global to shared memory; its bytes complete on the barrier `bar`, without an arrival.

    Any agent, one elected thread; sm_90 and up; PTX ``cp.async.bulk.tensor`` (or ``cp.async.bulk`` for a contiguous 1-D
    region), ``.multicast::cluster`` with `multicast` (bit i: rank i; the tile and the bytes land at the same place in
    each CTA of the mask). `cache`: "evict_first", "evict_last" or "evict_normal"; "evict_first 4/16" is for a quarter of
    the bytes, by address. Elements outside the array arrive as zeros and are counted. ``two_cta=True`` (sm_100a and its
    kin, ``.cta_group::2``): the bytes complete on the barrier of the even CTA of the destination's pair, which expects
    those of both. `src` may be a convolution's patches, ``X.im2col(...)``: ``.im2col`` in the place of ``.tile``.
    Example: ``full[s].arrive_and_expect_tx(a[s].nbytes); px.tma.load(A[m:m+64, k:k+64], a[s], full[s])``.
    """
    source = src.view if isinstance(src, PatchRegion) else global_side(ctx, "the source of px.tma.load", src)
    target = shared_side(ctx, "the destination of px.tma.load", dst)
    if isinstance(src, PatchRegion):
        refuse_padded(ctx, "px.tma.load of a convolution's patches", target)
    check_match(ctx, "px.tma.load", source, target)
    barrier = completion(ctx, "px.tma.load", bar)
    hint = cache_hint(ctx, cache)
    mask = mask_operand(ctx, "the multicast mask", multicast)
    pair = require_pairs(ctx, "px.tma.load", two_cta)
    ctx.emit(ir.TmaLoad(source, target, barrier, mask, hint, pair=pair, loc=ctx.loc))


@builtin("tma.store")
def store(ctx: Builder, src: object, dst: object, cache: object = None) -> None:
    """Starts a copy from shared to global memory; it finishes with its group (`px.tma.commit`, `px.tma.wait`).

    Any agent, one elected thread; sm_90 and up; PTX ``cp.async.bulk.tensor...bulk_group``. `cache`, what L2 keeps of it:
    "evict_first" for what nobody reads soon, "evict_last" or "evict_normal". Elements outside the array are dropped.
    Example: ``px.tma.store(s, C[m:m+64, n:n+64]); px.tma.commit(); px.tma.wait(0)``.
    """
    source = shared_side(ctx, "the source of px.tma.store", src)
    refuse_padded(ctx, "px.tma.store", source)
    target = global_side(ctx, "the destination of px.tma.store", dst)
    check_match(ctx, "px.tma.store", source, target)
    ctx.emit(ir.TmaStore(source, target, cache_hint(ctx, cache), loc=ctx.loc))


@builtin("tma.reduce")
def reduce(ctx: Builder, src: object, dst: object, op: object, cache: object = None) -> None:
    """Starts folding shared memory into global memory, atomically per element; finishes with its group.

    Any agent, one elected thread; sm_90 and up; PTX ``cp.reduce.async.bulk.tensor``, or ``cp.reduce.async.bulk`` where
    one run is added; `op`: "add", "min", "max", "and", "or", "xor"; `cache` as in `px.tma.store`. PTX does not say what
    "min" and "max" make of a number and a NaN; the simulator keeps the number.
    Example: ``px.tma.reduce(s, C[m:m+64, n:n+64], "add")``.
    """
    source = shared_side(ctx, "the source of px.tma.reduce", src)
    target = global_side(ctx, "the destination of px.tma.reduce", dst)
    check_match(ctx, "px.tma.reduce", source, target)
    if op not in ir.REDUCTIONS:
        ctx.fail(f"unknown reduction {describe(op)}", f"use one of {', '.join(ir.REDUCTIONS)}")
    allowed = {
        "f32": ("add",), "f64": ("add",), "f16": ("add", "min", "max"), "bf16": ("add", "min", "max"),
        "i32": ir.REDUCTIONS, "u32": ir.REDUCTIONS, "i64": ("min", "max", "and", "or", "xor"), "u64": ir.REDUCTIONS,
    }.get(source.dtype.name, ())
    if op not in allowed:
        shown = f"{source.dtype} has {', '.join(allowed)}" if allowed else f"{source.dtype} has none"
        ctx.fail(f"px.tma.reduce has no {op!r} for {source.dtype}", shown)
    ctx.emit(ir.TmaReduce(source, target, op, cache_hint(ctx, cache), loc=ctx.loc))


@builtin("tma.commit")
def commit(ctx: Builder) -> None:
    """Closes the group of the stores and reductions this role started since its last commit.

    Any agent, one elected thread; sm_90 and up; PTX ``cp.async.bulk.commit_group``. Example: ``px.tma.commit()``.
    """
    ctx.emit(ir.TmaCommit(loc=ctx.loc))


@builtin("tma.wait")
def wait(ctx: Builder, n: object = 0, read: object = False) -> None:
    """Waits until at most `n` groups of this role are unfinished; `read=True`: until they have read their sources.

    Any agent, one elected thread (the others follow at a barrier where they need to); sm_90 and up; PTX
    ``cp.async.bulk.wait_group{.read}``. Example: ``px.tma.wait(1, read=True)``.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        ctx.fail(
            f"px.tma.wait takes a constant number of groups, not {describe(n)}", "px.tma.wait(0) waits for all of them"
        )
    if not isinstance(read, bool):
        ctx.fail(
            f"read= must be True or False, not {describe(read)}",
            "read=True waits only until the sources have been read",
        )
    ctx.emit(ir.TmaWait(n, read, loc=ctx.loc))


@builtin("tma.prefetch")
def prefetch(ctx: Builder, src: object, cache: object = None) -> None:
    """Brings a region of a global array into L2.

    Any agent, one elected thread; sm_90 and up; PTX ``cp.async.bulk.prefetch.tensor``; `cache` as in
    `px.tma.load`. Nothing waits for it. Example: ``px.tma.prefetch(A[m:m+64, k:k+64])``.
    """
    source = global_side(ctx, "the source of px.tma.prefetch", src)
    refuse_dense(ctx, "px.tma.prefetch", source)
    ctx.emit(ir.TmaPrefetch(source, cache_hint(ctx, cache), loc=ctx.loc))


__all__ = ["commit", "gather", "gather4", "load", "prefetch", "reduce", "scatter", "scatter4", "store", "wait"]
