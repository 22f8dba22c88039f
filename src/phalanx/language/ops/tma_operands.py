"""What `px.tma` and its like ask of their operands: views of the right memory, equal shapes, a barrier, a hint."""

from __future__ import annotations

from phalanx.ir.ops.tma import CACHE_HINTS, HINTED_PARTS, parted_hint
from phalanx.ir.values import Param
from phalanx.ir.views import BarrierRef, GlobalView, SharedView, in_global, in_shared
from phalanx.language.builder import Builder
from phalanx.language.objects import describe
from phalanx.language.ops.mbarrier import BarrierValue
from phalanx.language.ops.memory import require_view
from phalanx.language.requirements import require_flag


def global_side(ctx: Builder, what: str, view: object) -> GlobalView:
    """The global region that a copy reads or writes: a box of at most 5 axes."""
    region = require_view(ctx, what, view)
    if not in_global(region):
        ctx.fail(f"{what} must be a view of a global array", "TMA copies between global and shared memory")
    if region.index_axis is not None:
        ctx.fail(f"{what} is indexed by a tile", "px.tma.gather4 copies rows by index")
    if region.within:
        ctx.fail(f"{what} is cut by .within", "the copy engine knows the array's edges alone: use px.load and px.store")
    if len(region.extents) - region.merged + 1 > 5:
        remedy = "TMA descriptors have at most 5: fold axes of the array together"
        ctx.fail(f"{what} has {len(region.extents)} axes", remedy)
    return region


def shared_side(ctx: Builder, what: str, view: object) -> SharedView:
    """The shared region that a copy reads or writes: a box of this CTA's memory, rows as they are."""
    if isinstance(view, Param):
        ctx.fail(f"{what} must be a shared buffer, not {describe(view)}", "make one with px.shared(shape, dtype)")
    region = require_view(ctx, what, view)
    if not in_shared(region):
        ctx.fail(f"{what} must be a shared buffer", "make one with px.shared(shape, dtype)")
    refuse_rows_by_index(ctx, what, region)
    if region.cta is not None:
        remedy = "a TMA copy reads and writes this CTA's shared memory; multicast= reaches peers"
        ctx.fail(f"{what} is in another CTA", remedy)
    if region.kept != tuple(sorted(region.kept)):
        ctx.fail(f"{what} is transposed", "TMA copies rows as they are; transpose where the tile is read")
    return region


def refuse_rows_by_index(ctx: Builder, what: str, region: SharedView) -> None:
    """Copies and tensor cores take boxes of shared memory, not rows by index."""
    if region.index_axis is not None:
        ctx.fail(
            f"{what} is indexed by a tile",
            "rows of shared memory by index are for px.load, px.store and the atomics: load them and store them elsewhere",
        )


def check_match(ctx: Builder, what: str, src: GlobalView | SharedView, dst: GlobalView | SharedView) -> None:
    """Refuses a copy between regions of different shapes or element types."""
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
    _check_density(ctx, what, src, dst)


def _check_density(ctx: Builder, what: str, src: GlobalView | SharedView, dst: GlobalView | SharedView) -> None:
    """Refuses elements of 6 bits that lie four to three bytes at one side of a copy and one to a byte at the other."""
    array, tile = (src, dst) if in_global(src) else (dst, src)
    if not in_global(array) or not in_shared(tile) or array.dtype.bits != 6 or array.array_type.dense == tile.buffer.padded:
        return
    if tile.buffer.padded:
        ctx.fail(
            f"{what}: '{array.array.name}' has a byte for each element of {array.dtype}, the padded buffer "
            f"'{tile.buffer.name}' takes them four to three bytes",
            f"pass the array as px.packed(bytes, px.{array.dtype}, dense=True), four elements to three bytes",
        )
    ctx.fail(
        f"{what}: the elements of '{array.array.name}' lie four to three bytes, '{tile.buffer.name}' has a byte for each",
        f"px.tma.load brings them to px.shared(shape, px.{array.dtype}, padded=True), for tensor cores",
    )


def completion(ctx: Builder, what: str, bar: object) -> BarrierRef:
    """The barrier on which a copy completes."""
    if not isinstance(bar, BarrierValue):
        ctx.fail(f"{what} completes on a barrier, not on {describe(bar)}", "make one with px.barrier(n)")
    return bar.ref(ctx)


def require_pairs(ctx: Builder, what: str, two_cta: object) -> bool:
    """Whether an instruction is that of a pair of CTAs, which the cluster must have."""
    pair = require_flag(ctx, f"two_cta= of {what}", two_cta)
    if pair and ctx.cluster[0] % 2:
        x, y, z = ctx.cluster
        ctx.fail(
            f"{what} with two_cta=True in a cluster of {x} x {y} x {z} CTAs",
            "pairs are ranks that differ in bit 0: the first dimension of the cluster is even",
        )
    return pair


def cache_hint(ctx: Builder, cache: object) -> str | None:
    """How long L2 is to keep what a copy reads."""
    if cache is None:
        return None
    if not isinstance(cache, str) or not parted_hint(cache)[1]:
        ctx.fail(
            f"unknown cache hint {describe(cache)}",
            f'use one of {", ".join(CACHE_HINTS)}, or "evict_first 4/{HINTED_PARTS}", which is for a quarter of the bytes',
        )
    return cache


__all__ = ["cache_hint", "completion", "global_side", "refuse_rows_by_index", "require_pairs", "check_match", "shared_side"]
