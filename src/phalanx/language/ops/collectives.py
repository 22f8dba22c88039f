"""`px.cluster`'s `copy`, `store`, `load`, `reduce` and `gather`: data that moves between the CTAs of a cluster."""

from __future__ import annotations

import dataclasses
from math import prod

from phalanx.ir.ops import cluster as ir
from phalanx.ir.types import TileType, bool_
from phalanx.ir.values import Value, constant_of
from phalanx.ir.views import BarrierRef, SharedView, View, in_global, in_shared
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import builtin
from phalanx.language.objects import Numeric, describe, is_memory, load_scalar, plural
from phalanx.language.operators import binary, dtype_of, is_scalar, is_tile
from phalanx.language.ops.mbarrier import BarrierValue, mask_operand, require_constant_count
from phalanx.language.ops.memory import require_view, stored_value
from phalanx.language.ops.tma import check_match, global_side, shared_side
from phalanx.language.ops.tma_operands import cache_hint, refuse_rows_by_index
from phalanx.language.values import RunTimeRegion, check_ordinary, refuse_padded, require_index

REDUCTIONS = ("sum", "max", "min")


def barrier_operand(ctx: Builder, what: str, bar: object) -> BarrierRef:
    """The barrier on which `what` completes."""
    if not isinstance(bar, BarrierValue):
        ctx.fail(f"{what} completes on a barrier, not on {describe(bar)}", "make one with px.barrier(n)")
    return bar.ref(ctx)


def rank_operand(ctx: Builder, what: str, cta: object) -> int | Value:
    """A rank of the cluster: constants are checked."""
    cta = require_index(ctx, what, cta)
    size = ctx.cluster_size
    if isinstance(cta, int) and not 0 <= cta < size:
        ctx.fail(
            f"{what} is {cta}, outside the cluster of {size} CTA{'s' if size > 1 else ''}",
            f"ranks run from 0 to {size - 1}; the cluster is set by @px.kernel(cluster=...)",
        )
    return cta


@builtin("cluster.copy")
def copy(
    ctx: Builder,
    src: object,
    dst: object,
    bar: object = None,
    *,
    mask: object = None,
    cta: object = None,
    arm: object = False,
    cache: object = None,
) -> None:
    """Starts a copy inside the cluster: this CTA's shared memory to CTA `cta`, or global memory to all CTAs of `mask`.

    Any agent, its elected thread (all its threads where stores do it); sm_90 and up.

    - ``cta=r`` pushes the shared region `src` into the region `dst` of rank r (`dst` is this CTA's name of it). Its bytes
      complete on rank r's `bar`, nothing arrives there, unless ``arm=True``: then the sender also arrives, with those bytes
      expected. Without a barrier the next ``px.cluster.sync()`` orders it. PTX
      ``cp.async.bulk.shared::cluster.shared::cta`` where both regions are runs of bytes at and in multiples of 16, else
      ``st.async``, else ``st.shared::cluster``, a fence and ``mbarrier.complete_tx``; the IR and ``Compiled.notes`` say
      which. Extents of both regions may be known only at run time,
      ``px.cluster.copy(s[0:m, 0:n], d[0:m, 0:n], bar, cta=r, arm=True)``; so are then its bytes, which a transaction can't
      count: arm the barrier with ``arm=True`` or a number.
    - ``mask=m``: the lowest rank of the mask fetches the global region `src` for all of them, a CTA outside it fetches its
      own; all ranks of a mask name the same one, and the same region, which the simulator checks where only a run knows
      them. PTX ``cp.async.bulk.tensor.multicast::cluster``; `cache` as in `px.tma.load`.

    Example: ``with full.transaction(): px.cluster.copy(mine, inbox, full, cta=px.cluster.rank() ^ 1)``.
    """
    if not isinstance(arm, bool):
        ctx.fail(f"arm= must be True or False, not {describe(arm)}", "it is decided at compile time")
    source = _region(ctx, "the source of px.cluster.copy", src)
    if mask is not None:
        if cta is not None:
            ctx.fail(
                "px.cluster.copy takes mask= or cta=, not both",
                "cta= pushes shared memory to one rank, mask= copies global memory to several",
            )
        if arm:
            ctx.fail("arm=True goes with cta=", "every CTA of the mask arms its own barrier: with bar.transaction():")
        _collective(ctx, "px.cluster.copy", ir.ClusterMulticast, src, dst, bar, mask, cache)
        return
    if cache is not None:
        ctx.fail("cache= goes with mask=", "it says how long L2 keeps global memory; cta= pushes shared memory")
    if in_global(source):
        ctx.fail(
            "px.cluster.copy of global memory needs mask=",
            "name the CTAs that receive it: mask=0b11; a copy for this CTA alone is px.tma.load",
        )
    if not in_shared(source):
        remedy = "it pushes shared memory: px.cluster.copy(s, d, bar, cta=r)"
        ctx.fail(f"px.cluster.copy of {source.space.name} memory", remedy)
    _push(ctx, source, dst, bar, cta, arm)


@builtin("cluster.store")
def store(ctx: Builder, dst: object, tile: object, bar: object, *, cta: object = None) -> None:
    """Registers into the shared region `dst` of rank `cta`; their bytes complete on that rank's `bar`.

    Any agent, all its threads; sm_90 and up; PTX ``st.async``. `dst` is this CTA's name of the region, or ``dst.at(r)``
    without `cta`. Nothing arrives: the receiver arms its barrier with the bytes, as ``bar.transaction()`` around the
    stores of all ranks does. No fence and no signal follow, as they do after ``px.store(dst.at(r), tile)``.
    Example: ``with landed.transaction(): px.cluster.store(inbox, x, landed, cta=px.cluster.rank() ^ 1)``.
    """
    target, rank = _receiver(ctx, "px.cluster.store", dst, cta)
    value = stored_value(ctx, "px.cluster.store", target, tile)
    if not is_tile(value):
        ctx.fail("px.cluster.store sends a tile", "px.store(view.at(cta), x) writes one element; bar.arrive(ctas=) tells")
    barrier = barrier_operand(ctx, "px.cluster.store", bar)
    ctx.emit(ir.ClusterStore(target, value, barrier, operand(binary(ctx, "shl", 1, rank)), loc=ctx.loc))


def _region(ctx: Builder, what: str, view: object) -> View:
    """One end of a push, of which only a run may know some extents."""
    return view.view if isinstance(view, RunTimeRegion) else check_ordinary(ctx, require_view(ctx, what, view))


def _receiver(ctx: Builder, what: str, dst: object, cta: object) -> tuple[SharedView, int | Value]:
    """The region in the CTA that receives, and its rank: named by `cta`, or by the region itself."""
    target = require_view(ctx, f"the destination of {what}", dst)
    return _in_the_peer(ctx, what, target, cta)


def _in_the_peer(ctx: Builder, what: str, target: object, cta: object) -> tuple[SharedView, int | Value]:
    if not in_shared(target):
        ctx.fail(f"{what} with cta= goes to shared memory", "px.tma.store copies to global memory")
    refuse_rows_by_index(ctx, f"the destination of {what}", target)
    if target.cta is not None:
        if cta is not None:
            ctx.fail("the rank is named twice, by .at() and by cta=", f"write {what}(s, d, bar, cta=r)")
        cta = target.cta
    if cta is None:
        ctx.fail(f"{what} into shared memory needs cta=", "name the rank that receives it: cta=px.cluster.rank() ^ 1")
    rank = rank_operand(ctx, "the rank cta=", cta)
    return dataclasses.replace(target, cta=operand(rank)), rank


def _push(ctx: Builder, source: SharedView, dst: object, bar: object, cta: object, arm: bool) -> None:
    refuse_rows_by_index(ctx, "the source of px.cluster.copy", source)
    refuse_padded(ctx, "px.cluster.copy", source)
    if source.cta is not None:
        ctx.fail(
            "the source of px.cluster.copy is in another CTA",
            "a push starts in this CTA's memory: let the other CTA push, or px.load(view.at(r))",
        )
    there = _region(ctx, "the destination of px.cluster.copy", dst)
    target, rank = _in_the_peer(ctx, "px.cluster.copy", there, cta)
    refuse_padded(ctx, "px.cluster.copy", target)
    nbytes = None
    run_time = bool(source.run_time_extents or target.run_time_extents)
    if source.dtype.per_byte != target.dtype.per_byte or (run_time and target.dtype.per_byte > 1):
        ctx.fail(
            f"px.cluster.copy of {source.dtype} to {target.dtype} memory"
            + (", of an extent that is not a constant" if run_time else ", where elements share bytes"),
            "copy a region of constant extents between buffers of one such type, or the tile: px.store(d.at(r), px.load(s))",
        )
    if run_time:
        nbytes = operand(_run_time_bytes(ctx, source, target))
    elif prod(source.shape) != prod(target.shape):
        ctx.fail(
            f"px.cluster.copy: the source has shape {source.shape}, the destination {target.shape}",
            "both have as many elements: change one of the slices",
        )
    if bar is None and arm:
        ctx.fail(
            "arm=True without a barrier", "name the receiver's barrier: px.cluster.copy(s, d, bar, cta=r, arm=True)"
        )
    barrier = None if bar is None else barrier_operand(ctx, "px.cluster.copy", bar)
    ctas = operand(binary(ctx, "shl", 1, rank))
    ctx.emit(ir.ClusterCopy(source, target, barrier, ctas, arm, nbytes=nbytes, loc=ctx.loc))


def _run_time_bytes(ctx: Builder, source: SharedView, target: SharedView) -> Numeric:
    """What arrives where only a run knows some extents: both ends of the push have the same ones, axis by axis."""
    here, there = _long_axes(source), _long_axes(target)
    if len(here) != len(there):
        axes = plural(len(here), "axis", "axes")
        ctx.fail(
            f"px.cluster.copy: the source has {axes} longer than 1, the destination {len(there)}",
            "where an extent is known only at run time, both regions have the same axes",
        )
    for position, (a, b) in enumerate(zip(here, there, strict=True)):
        if ctx.affine_of(a).combine(ctx.affine_of(b), -1).number != 0:
            known = [constant_of(extent) for extent in (a, b)]
            if None in known:
                ctx.fail(
                    "px.cluster.copy: the two regions are not known to have the same extent",
                    "write both slices with the same length: px.cluster.copy(s[0:n], d[m:m+n], bar, cta=r)",
                )
            ctx.fail(
                f"px.cluster.copy: along axis {position} the source has extent {known[0]}, the destination {known[1]}",
                "where another extent is known only at run time, they must be equal",
            )
    count: Numeric = target.dtype.nbytes(1)
    for extent in there:
        count = binary(ctx, "mul", extent, count)
    return count


def _long_axes(view: SharedView) -> list[Value]:
    """The extents of the axes of a region along which it may have more than one element."""
    extents = view.run_time_extents or tuple(map(operand, view.extents))
    return [extents[axis] for axis in view.kept if constant_of(extents[axis]) != 1]


@builtin("cluster.load")
def load(
    ctx: Builder, src: object, dst: object, bar: object, ctas: object, cache: object = None, count: object = None
) -> None:
    """Starts a balanced multicast: every CTA of the mask `ctas` fetches its share of the tile and sends it to all.

    Any agent, one elected thread, in every CTA of the mask; sm_90 and up; PTX
    ``cp.async.bulk.tensor.multicast::cluster``. The shares are equal parts of the slowest axis. Each CTA's `bar` gets
    the bytes of the whole tile; each arms its own. All ranks of a mask name the same one, and the same region. Where only
    a run knows the mask, `count` says how many CTAs it names: the tile is divided among so many. `cache` as in
    `px.tma.load`.
    Example: ``with full[s].transaction(): px.cluster.load(A[m:m+128, k:k+64], a[s], full[s], ctas=0b11)``.
    """
    if ctas is None:
        ctx.fail("px.cluster.load needs ctas=", "name the CTAs that share the tile: ctas=0b11; px.tma.load serves one")
    shares = None if count is None else require_constant_count(ctx, "count= of px.cluster.load", count)
    _collective(ctx, "px.cluster.load", ir.ClusterLoad, src, dst, bar, ctas, cache, shares)


def _collective(
    ctx: Builder,
    what: str,
    kind: type[ir.ClusterLoad] | type[ir.ClusterMulticast],
    src: object,
    dst: object,
    bar: object,
    mask: object,
    cache: object,
    count: int | None = None,
) -> None:
    source = global_side(ctx, f"the source of {what}", src)
    target = shared_side(ctx, f"the destination of {what}", dst)
    check_match(ctx, what, source, target)
    barrier, hint = barrier_operand(ctx, what, bar), cache_hint(ctx, cache)
    ctas = mask_operand(ctx, f"the mask of {what}", mask)
    assert ctas is not None
    ctx.emit(kind(source, target, barrier, ctas, hint, count, loc=ctx.loc))


@builtin("cluster.reduce")
def reduce(ctx: Builder, tile: object, op: object, cta: object = None) -> Numeric:
    """The sum, maximum or minimum of a scalar or tile over all CTAs of the cluster, elementwise, in a fixed order.

    Any agent, all its threads, in every CTA of the cluster equally often; sm_90 and up; PTX ``st.async`` to each peer
    and one mbarrier, without a cluster barrier. `op`: "sum", "max" or "min". The result is in every CTA, or with
    ``cta=r`` in rank r alone; the others keep their own value. f16 and bf16 are combined in f32. With "max" and
    "min" the result is NaN where one CTA has NaN. It orders no other memory.
    Example: ``total = px.cluster.reduce(px.sum(x), "sum")``.
    """
    tile = load_scalar(ctx, tile)
    if op not in REDUCTIONS:
        ctx.fail(f"unknown reduction {describe(op)}", f"use one of {', '.join(REDUCTIONS)}")
    if not is_tile(tile) and not is_scalar(tile):
        ctx.fail(
            f"px.cluster.reduce needs a tile or a scalar, not {describe(tile)}",
            "load the view first: px.load(view)"
            if is_memory(tile)
            else "it combines what the CTAs hold in registers",
        )
    size = ctx.cluster_size
    rank = None if cta is None else rank_operand(ctx, "the rank cta=", cta)
    dtype = dtype_of(tile)
    if dtype.is_storage or dtype == bool_:
        ctx.fail(f"px.cluster.reduce is not defined on {dtype}", "convert it first: x.to(px.f32), x.to(px.i32)")
    if size == 1:
        return tile
    x = operand(tile)
    ctas = operand((1 << size) - 1) if rank is None else operand(binary(ctx, "shl", 1, rank))
    result = Value(x.type)
    ctx.emit(ir.ClusterReduce(op, x, None if rank is None else operand(rank), ctas, result, loc=ctx.loc))
    return result


@builtin("cluster.gather")
def gather(ctx: Builder, x: object) -> Value | tuple[Value, ...]:
    """What every CTA of the cluster holds, in all of them: a tile with a new first axis, entry r from the CTA of rank r.

    Any agent, all its threads, in every CTA of the cluster equally often; sm_90 and up; PTX ``st.async`` to each peer
    and one mbarrier, without a cluster barrier; in a cluster of one, shared memory and one barrier of the agent. `x`:
    a scalar or a tile of f32, i32 or u32, or a tuple of them of one type and shape, which travel together; the result
    is then a tuple too. Small results are whole in every warp, so that folding them needs no barrier. It orders no other
    memory. Example: ``peaks, sums = px.cluster.gather((px.max(x, axis=1), px.sum(x, axis=1)))``.
    """
    xs = [load_scalar(ctx, item) for item in (x if isinstance(x, tuple) else (x,))]
    if not xs:
        ctx.fail("px.cluster.gather of nothing", "name at least one scalar or tile")
    values = []
    for item in xs:
        if not is_tile(item) and not is_scalar(item):
            ctx.fail(
                f"px.cluster.gather needs tiles or scalars, not {describe(item)}",
                "load the view first: px.load(view)"
                if is_memory(item)
                else "it sends what the CTAs hold in registers",
            )
        values.append(operand(item))
    first = values[0].type
    for value in values:
        dtype = value.type.dtype  # type: ignore[union-attr]
        if dtype.bits != 32:
            ctx.fail(f"px.cluster.gather sends 4-byte elements, not {dtype}", "convert it first: x.to(px.f32), x.to(px.i32)")
        if value.type != first:
            ctx.fail(
                f"px.cluster.gather of {first} and {value.type}",
                "what travels together has one type and one shape: convert it, or gather it by itself",
            )
    size = ctx.cluster_size
    shape = (size, *first.shape)  # type: ignore[union-attr]
    results = tuple(Value(TileType(shape, first.dtype)) for _ in values)  # type: ignore[union-attr]
    ctx.emit(ir.ClusterGather(tuple(values), operand((1 << size) - 1), results, loc=ctx.loc))
    return results if isinstance(x, tuple) else results[0]


__all__ = ["copy", "gather", "load", "reduce", "store"]
