"""Ordinary memory: shared buffers, loads, stores, atomics, and the fences that order them with the copy engines."""

from __future__ import annotations

from phalanx.ir.archs import ARCHS
from phalanx.ir.core import MOST_COUNTERS
from phalanx.ir.ops import memory as ir
from phalanx.ir.ops.mbarrier import FenceBarrierInit
from phalanx.ir.types import ScalarType, TileType
from phalanx.ir.values import Param, Value
from phalanx.ir.views import SharedBuffer, SharedView, View, in_global
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import builtin
from phalanx.language.limits import MAX_SHARED_BYTES
from phalanx.language.objects import KernelObject, Number, describe, load_scalar
from phalanx.language.operators import cast, dtype_of, is_scalar, is_tile, promote, require_numeric, shape_of
from phalanx.language.ops.tile import make_full
from phalanx.language.patches import PatchRegion
from phalanx.language.requirements import require_dtype, require_flag, require_shape
from phalanx.language.values import RunTimeRegion, ViewValue, check_ordinary, check_whole_bytes, load_view, refuse_padded

MAX_SHARED = max(arch.shared_limit for arch in ARCHS.values())


def require_view(ctx: Builder, what: str, view: object) -> View:
    """The region of memory that `view` is, whose extents are constants."""
    if isinstance(view, RunTimeRegion):
        ctx.fail(
            f"the extent of {what} is not a constant",
            "write start and stop so that their difference is a constant; px.cluster.copy to another CTA alone takes others",
        )
    if isinstance(view, PatchRegion):
        ctx.fail(f"{what} is {view.kind_name}", "px.tma.load brings them to shared memory, and nothing else does")
    if not isinstance(view, ViewValue):
        remedy = "slice an array or a shared buffer: A[m:m+BM, n:n+BN]"
        if is_scalar(view) and isinstance(view, Value):
            remedy = "a name holds an element's value: write the subscript here, e.g. px.store(A[i], x)"
        elif is_tile(view):
            remedy = "a tile is in registers: name an array's region, A[m:m+BM, n:n+BN], or a px.shared buffer"
        ctx.fail(f"{what} must be a view of memory, not {describe(view)}", remedy)
    return check_whole_bytes(ctx, view.view)


def check_outside_loops(ctx: Builder, what: str) -> None:
    """Refuses to make static resources inside run-time loops, and inside roles with copies."""
    if ctx.agent.copies > 1:
        ctx.fail(
            f"{what} can't be called inside a role with copies",
            "it would be one for all copies: make it before the roles, with an element for each, and index it with the "
            "copy's number",
        )
    if ctx.loop_depth:
        ctx.fail(
            f"{what} can't be called inside a run-time loop",
            "static resources live as long as the kernel: move it before the loop",
        )


@builtin("shared")
def shared(
    ctx: Builder, shape: object, dtype: object, reuse: object = None, padded: object = False
) -> ViewValue:
    """A static buffer in this CTA's shared memory; `reuse=x` takes over the memory of a buffer or barrier array.

    In a kernel that would not fit otherwise (into a CTA's share of the SM, with `ctas_per_sm=`), buffers of which one is
    over before the other begins share memory by themselves; `Compiled.notes` and the listing say which.
    Two neighbours of f4e2m1 along the last axis share a byte; what such a buffer leaves in memory that one of another type
    takes over is not to be read there, since the simulator gives each of its elements a byte. With ``padded=True`` each 16
    elements of f4e2m1, f6e2m3 or f6e3m2 lie at the beginning of 16 bytes, with no bit between them: only `px.tma.load` fills
    such a buffer (sm_100a and its kin, the last axis a multiple of 128), and only tensor cores read it, beside operands of
    8 bits: `px.tcgen05.mma`, `px.tcgen05.copy`.
    Outside run-time loops, any agent; any GPU; no PTX. Example: ``s = px.shared((4, 64, 64), px.f32)``; ``stage = s[i]``
    is one of 64 x 64, ``s[i].at(1)`` the same stage in CTA 1 of the cluster.
    """
    check_outside_loops(ctx, "px.shared")
    sizes = require_shape(ctx, "px.shared", shape)
    element = require_dtype(ctx, "px.shared", dtype)
    if element.per_byte > 1 and (not sizes or sizes[-1] % element.per_byte):
        ctx.fail(
            f"px.shared of {sizes} elements of {element} is not whole bytes: {element.per_byte} neighbours share one",
            f"make the last axis a multiple of {element.per_byte} long",
        )
    room = require_flag(ctx, "padded=", padded)
    if room and (element.bits >= 8 or not sizes or sizes[-1] % 128):
        ctx.fail(
            f"padded=True for {sizes} elements of {element}",
            "it is for f4e2m1, f6e2m3 and f6e3m2, with a last axis that is a multiple of 128: other types have a byte each, "
            "or more",
        )
    target = reuse.storage() if isinstance(reuse, KernelObject) else None
    if reuse is not None and (target is None or target.space is not SharedBuffer.space):
        ctx.fail(
            f"reuse= takes a shared buffer or a barrier array, not {describe(reuse)}",
            "e.g. px.shared(shape, dtype, reuse=s)",
        )
    buffer = SharedBuffer(unique_name(ctx, "shared"), sizes, element, ctx.loc, target, padded=room)
    total = sum(other.nbytes for other in (*ctx.buffers, buffer) if other.space is buffer.space)
    if total > MAX_SHARED_BYTES:
        ctx.fail(
            f"the shared buffers of this kernel have {total:,} bytes with this one",
            f"a CTA has {MAX_SHARED:,} at most; the simulator runs kernels with up to {MAX_SHARED_BYTES:,}",
        )
    ctx.buffers.append(buffer)
    zero = operand(0)
    return ViewValue(SharedView(buffer, (zero,) * len(sizes), sizes, tuple(range(len(sizes)))))


def unique_name(ctx: Builder, default: str) -> str:
    """The name of the variable being assigned, made unique."""
    base = ctx.name_hint or default
    taken = {b.name for b in ctx.buffers} | {b.name for b in ctx.barriers}
    if base not in taken:
        return base
    number = 1
    while f"{base}_{number}" in taken:
        number += 1
    return f"{base}_{number}"


@builtin("load")
def load(ctx: Builder, view: object, fill: object = 0, once: object = False, shifted: object = False) -> Value:
    """A region of global or shared memory into registers; elements outside a global array are `fill`.

    So are rows named by an index tile (``A[rows]``, ``s[rows]``) that an array or a shared buffer does not have: -1 masks.

    Any agent, all its threads; any GPU; PTX ``ld.global`` / ``ld.shared`` (``ld.shared::cluster`` through ``.at``), as
    wide as strides and alignment allow. ``once=True`` tells the caches that a global region is not read again soon
    (``L1::no_allocate``). ``shifted=True`` is for a slice of a vector that may begin at any element, of an array that
    begins at a multiple of 16 bytes, or of a shared buffer: the two aligned vectors around each 16 bytes, or around the 8
    or 4 that a thread has of a global array, are read and shifted (``shf.r``), which reads nothing outside the array.
    Example: ``x = px.load(A[m:m+64, k:k+64])``.
    """
    rarely = require_flag(ctx, "once=", once)
    region = require_view(ctx, "the argument of px.load", view)
    anywhere = require_flag(ctx, "shifted=", shifted)
    if anywhere and not (len(region.extents) == 1 and region.kept and region.index_axis is None):
        ctx.fail("shifted=True for what is no slice of a vector", "leave it out: only W[i : i + 64] takes it")
    if anywhere and in_global(region) and region.within:
        ctx.fail("shifted=True for a view that .within cuts", "use one of the two")
    fill = load_scalar(ctx, fill)
    if not is_scalar(fill):
        ctx.fail(
            f"fill must be a number or a scalar, not {describe(fill)}",
            "every element outside the array gets the same value",
        )
    return load_view(ctx, region, fill, rarely, anywhere)


def stored_value(ctx: Builder, what: str, region: View, value: object) -> Value:
    """`value` as it will be written: a scalar is spread, a narrower type is widened, anything else must match."""
    value = load_scalar(ctx, value)
    refuse_padded(ctx, what, region)
    if isinstance(value, ViewValue):
        ctx.fail(f"{what} writes what is in registers, not {describe(value)}", "load it first: px.load(view)")
    value = require_numeric(ctx, what, value)
    dtype = dtype_of(value)
    if not isinstance(value, Number) and dtype != region.dtype and promote(dtype, region.dtype) != region.dtype:
        ctx.fail(
            f"{what}: a value of type {dtype} does not fit {region.dtype} memory",
            f"convert it: value.to(px.{region.dtype})",
        )
    value = cast(ctx, value, region.dtype)
    if region.shape and is_scalar(value):
        return make_full(ctx, what, region.shape, value, region.dtype)
    if shape_of(value) != region.shape:
        ctx.fail(
            f"{what}: a tile of shape {shape_of(value)} does not fit a view of shape {region.shape}",
            "reshape the tile or change the slice",
        )
    return value


@builtin("store")
def store(ctx: Builder, view: object, tile: object, once: object = False) -> None:
    """Registers into a region of global or shared memory; elements outside a global array are not stored.

    Nor are rows named by an index tile (``A[rows]``, ``s[rows]``) that an array or a shared buffer does not have.

    Any agent, all its threads; any GPU; PTX ``st.global`` / ``st.shared`` (``st.shared::cluster`` through ``.at``).
    ``once=True``: no cache of this SM need keep a global region (``L1::no_allocate``).
    Example: ``px.store(C[m:m+64, n:n+64], x)``.
    """
    rarely = require_flag(ctx, "once=", once)
    region = check_ordinary(ctx, require_view(ctx, "the first argument of px.store", view))
    ctx.emit(ir.Store(region, stored_value(ctx, "px.store", region, tile), rarely, loc=ctx.loc))


_ATOMIC_DTYPES = ("f32", "f64", "f16", "bf16", "i32", "u32", "i64", "u64")
_INTEGERS = ("i32", "u32", "i64", "u64")
_WORDS = ("f32", "f64", *_INTEGERS)


def _atomic(
    ctx: Builder, op: type[ir.Atomic], view: object, tile: object, *more: object,
    dtypes: tuple[str, ...] = _ATOMIC_DTYPES,
    **attributes: bool,
) -> Value:
    name = f"px.{op.mnemonic}"
    region = check_ordinary(ctx, require_view(ctx, f"the first argument of {name}", view))
    if region.dtype.name not in dtypes:
        ctx.fail(f"{name} has no form for {region.dtype}", f"use {', '.join(dtypes[:-1])} or {dtypes[-1]}")
    value = stored_value(ctx, name, region, tile)
    others = [stored_value(ctx, name, region, other) for other in more]
    result = Value(TileType(region.shape, region.dtype) if region.shape else ScalarType(region.dtype))
    ctx.emit(op(region, value, result, *others, **attributes, loc=ctx.loc))
    return result


ORDERS = ("relaxed", "acq_rel")


@builtin("atomic_add")
def atomic_add(ctx: Builder, view: object, tile: object, order: object = "relaxed") -> Value:
    """Adds to every element of a region, atomically per element; gives the old values.

    Any agent, all its threads; any GPU; PTX ``red`` or ``atom.add``, relaxed. Elements outside a global array are left
    alone and give 0. With an index tile, ``A[rows]``, an index that occurs twice is updated twice, in no fixed order.
    With ``order="acq_rel"``, of one element of global memory, it is how CTAs of different clusters hand memory to each
    other: what the role did or observed before it is visible to all roles that update the element so later (PTX
    ``atom.add.acq_rel.gpu``, between two barriers of the role's threads). Whoever finds that all others have been there
    reads what they wrote; nobody waits, so that it does not matter which CTAs run at the same time.
    Example: ``px.atomic_add(C[m:m+64], x)``; ``last = px.atomic_add(done[i], 1, order="acq_rel") == parts - 1``.
    """
    if order not in ORDERS:
        ctx.fail(f"unknown order {describe(order)}", 'use "relaxed" or "acq_rel"')
    if order == "relaxed":
        return _atomic(ctx, ir.AtomicAdd, view, tile)
    region = require_view(ctx, "the first argument of px.atomic_add", view)
    if region.shape or not in_global(region):
        ctx.fail(
            'px.atomic_add with order="acq_rel" takes one element of global memory',
            "give each role that signals one element: px.atomic_add(done[i], 1, order=\"acq_rel\")",
        )
    return _atomic(ctx, ir.AtomicAdd, view, tile, ordered=True)


@builtin("counters")
def counters(ctx: Builder, n: object) -> Param:
    """`n` i32 in global memory, which all CTAs of a launch share: 0 when it begins, and to be 0 again when it ends.

    The runtime owns them: launches that overlap, on one stream or on several, have different ones. A kernel that leaves
    one that is not 0 is refused by the simulator. At most 480, once in a kernel, outside run-time loops; any agent; any
    GPU; no PTX.
    Example: ``done = px.counters(64)``; who comes last to ``done[i]`` sets it back by ``px.atomic_exch(done[i], 0)``.
    """
    check_outside_loops(ctx, "px.counters")
    if ctx.owned is None or ctx.counters:
        ctx.fail("px.counters is called twice in a kernel", "call it once, for all of them, and index what it gives")
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_COUNTERS:
        ctx.fail(f"px.counters takes a constant from 1 to {MOST_COUNTERS}, not {describe(n)}", "use an array of your own")
    ctx.counters = n
    return ctx.owned


@builtin("atomic_max")
def atomic_max(ctx: Builder, view: object, tile: object) -> Value:
    """The larger of each element of a region and the new one, atomically per element; gives the old values.

    Any agent, all its threads; any GPU; PTX ``red`` or ``atom.max``, relaxed; floats by a loop around ``atom.cas``, in
    which a NaN wins over every number, as in `px.maximum`. Regions as in `px.atomic_add`.
    Example: ``px.atomic_max(M[m:m+64], px.max(x, axis=1))``.
    """
    return _atomic(ctx, ir.AtomicMax, view, tile)


@builtin("atomic_min")
def atomic_min(ctx: Builder, view: object, tile: object) -> Value:
    """The smaller of each element of a region and the new one, atomically per element; gives the old values.

    Any agent, all its threads; any GPU; PTX ``red`` or ``atom.min``, relaxed; floats by a loop around ``atom.cas``, in
    which a NaN wins over every number, as in `px.minimum`. Regions as in `px.atomic_add`.
    Example: ``px.atomic_min(first[0], px.block_id(0))``.
    """
    return _atomic(ctx, ir.AtomicMin, view, tile)


@builtin("atomic_exch")
def atomic_exch(ctx: Builder, view: object, tile: object) -> Value:
    """Puts new elements in the place of those of a region, atomically per element; gives the old values.

    Any agent, all its threads; any GPU; PTX ``atom.exch``, relaxed (16-bit floats: ``atom.cas``). Regions as in
    `px.atomic_add`. Example: ``before = px.atomic_exch(turn[0], px.block_id(0))``.
    """
    return _atomic(ctx, ir.AtomicExch, view, tile)


@builtin("atomic_load")
def atomic_load(ctx: Builder, view: object) -> Value:
    """Every element of a region as it is now, atomically per element: how a role waits for what others publish by updates.

    Of global memory. Any agent, all its threads; any GPU; PTX ``ld.relaxed.gpu``, from L2, which all SMs share. Elements
    outside the array are 0. It orders nothing else: what is published so is in the element itself. 32- and 64-bit elements.
    Example: ``free = px.atomic_load(lock[0]) == 0``.
    """
    region = check_ordinary(ctx, require_view(ctx, "the argument of px.atomic_load", view))
    if region.dtype.name not in _WORDS:
        ctx.fail(f"px.atomic_load has no form for {region.dtype}", f"use {', '.join(_WORDS[:-1])} or {_WORDS[-1]}")
    if not in_global(region):
        ctx.fail("px.atomic_load reads global memory", "shared memory is handed on by barriers: px.load(view)")
    result = Value(TileType(region.shape, region.dtype) if region.shape else ScalarType(region.dtype))
    ctx.emit(ir.AtomicLoad(region, result, loc=ctx.loc))
    return result


@builtin("atomic_cas")
def atomic_cas(ctx: Builder, view: object, compare: object, tile: object) -> Value:
    """Where an element of a region equals `compare`, puts the new one in its place, atomically; gives the old values.

    An element was replaced where the old value equals `compare`. Any agent, all its threads; any GPU; PTX ``atom.cas``,
    relaxed; 32- and 64-bit integers. Regions as in `px.atomic_add`.
    Example: ``taken = px.atomic_cas(lock[0], 0, 1) == 0``.
    """
    return _atomic(ctx, ir.AtomicCas, view, tile, compare, dtypes=_INTEGERS)


@builtin("fence.async_proxy")
def async_proxy(ctx: Builder, space: object = "cta") -> None:
    """Orders generic accesses before it with asynchronous ones (TMA, tensor cores) after it.

    Any agent, all its threads; sm_90 and up; PTX ``fence.proxy.async`` on ``shared::cta``, ``"cluster"`` or
    ``"global"``. Example: ``px.store(s, x); px.fence.async_proxy(); px.tma.store(s, C[m:m+64, n:n+64])``.
    """
    if space not in ("cta", "cluster", "global"):
        ctx.fail(f"unknown space {describe(space)}", 'use "cta", "cluster" or "global"')
    ctx.emit(ir.FenceAsyncProxy(space, loc=ctx.loc))


@builtin("fence.cluster")
def cluster(ctx: Builder) -> None:
    """Acquires and releases at cluster scope.

    Any agent, all its threads; sm_90 and up; PTX ``fence.acq_rel.cluster``. Example: ``px.fence.cluster()``.
    """
    ctx.emit(ir.FenceCluster(loc=ctx.loc))


@builtin("fence.barrier_init")
def barrier_init(ctx: Builder) -> None:
    """Makes barrier initialisations before it visible to the cluster at the next barrier of threads.

    Any agent, one elected thread; sm_90 and up; PTX ``fence.mbarrier_init.release.cluster``. Needed only after a
    ``.init`` of one's own (``px.barrier(init=False)``).
    Example: ``b.init(1); px.fence.barrier_init(); px.cluster.sync()``.
    """
    ctx.emit(FenceBarrierInit(loc=ctx.loc))
