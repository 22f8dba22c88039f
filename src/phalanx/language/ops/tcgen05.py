"""`px.tcgen05`: Blackwell's tensor cores and the memory they work in."""

from __future__ import annotations

from phalanx.ir.core import Note
from phalanx.ir.ops import tcgen05 as ir
from phalanx.ir.tensor_kinds import Kind, Objection, accumulator_objection, kind_of, product_shape
from phalanx.ir.types import BOOL, DType, TileType, f8e4m3, f8e8m0
from phalanx.ir.values import Const, Value
from phalanx.ir.views import SharedView, TensorView, in_shared, in_tensor
from phalanx.language.builder import Builder
from phalanx.language.builder import operand as as_operand
from phalanx.language.builtin import builtin
from phalanx.language.objects import describe, require_condition
from phalanx.language.operators import binary
from phalanx.language.ops.cluster import rank
from phalanx.language.ops.collectives import barrier_operand
from phalanx.language.ops.mbarrier import mask_operand
from phalanx.language.ops.memory import stored_value
from phalanx.language.ops.pipes import hand_on, is_pipe
from phalanx.language.ops.tma_operands import refuse_rows_by_index, require_pairs, shared_side
from phalanx.language.ops.tmem import check_reach, tensor_side
from phalanx.language.values import ViewValue

Scales = tuple[TensorView | None, TensorView | None]
"""The scales of both operands; None for each where there are none."""


@builtin("tcgen05.mma")
def mma(
    ctx: Builder,
    a: object,
    b: object,
    acc: object,
    accumulate: object = True,
    scale_a: object = None,
    scale_b: object = None,
    two_cta: object = False,
    negate: object = False,
) -> None:
    """Begins ``acc += a @ b`` on the tensor cores, in tensor memory: read `acc` only after a `px.tcgen05.commit` arrived.

    Any agent, one elected thread; sm_100a and its kin; PTX ``tcgen05.mma``, as many as the shape takes. `a` is (M, K), a
    shared view or one of tensor memory; `b` is (K, N), a shared view: for a buffer of shape (N, K) write ``b.T``; `acc` is
    (M, N), a view of tensor memory, f32 (i32 for 8-bit integers; f16 too for f16 and 8-bit floats). f4e2m1, f6e2m3
    and f6e3m2 are multiplied beside each other and 8-bit floats from buffers with ``padded=True``; two of f4e2m1 with scales
    from packed ones, too. `accumulate` false (a
    constant or a run-time condition) leaves the old `acc` out, `negate` subtracts. With scales, views of tensor memory of
    (M, K / block) and (N, K / block), blocks along K are multiplied by theirs. With ``two_cta=True`` the even CTA of a pair
    issues for both: `a` is each CTA's own rows, `b` each one's half of the columns, `acc` (M, N) in each. Operands stay
    untouched until the commit's arrival.
    Example: ``px.tcgen05.mma(As[s], Bs[s].T, acc, accumulate=k > 0); px.tcgen05.commit(empty[s])``.
    """
    left = _operand(ctx, "a", a)
    right = _operand(ctx, "b", b)
    if not in_shared(right):
        ctx.fail("px.tcgen05.mma: b is read from shared memory", "let a be the operand in tensor memory: (A B)^T = B^T A^T")
    target = tensor_side(ctx, "acc of px.tcgen05.mma", acc)
    peer = _peer(ctx, "px.tcgen05.mma", two_cta)
    scales = _scales(ctx, scale_a, scale_b)
    _check_product(ctx, left, right, target, scales, peer is not None)
    use = require_condition(ctx, accumulate, "accumulate= of px.tcgen05.mma")
    if not isinstance(negate, bool):
        remedy = "use two calls under an if"
        ctx.fail(f"negate= of px.tcgen05.mma is a compile-time constant, not {describe(negate)}", remedy)
    if negate and target.dtype.is_integer:
        ctx.fail("px.tcgen05.mma: negate is for floating-point products", "subtract the tiles after the load")
    condition = Const(use, BOOL) if isinstance(use, bool) else use
    types, depth = (left.dtype, right.dtype), left.shape[1]
    ctx.emit(ir.Tcgen05Mma(left, right, target, condition, types, depth, *scales, peer, negate, loc=ctx.loc))


@builtin("tcgen05.commit")
def commit(ctx: Builder, bar: object, multicast: object = None, two_cta: object = False) -> None:
    """Lets the tensor cores arrive on `bar`, once, when all products and copies that this role has begun are over.

    Any agent, one elected thread, the one that began them; sm_100a and its kin; PTX ``tcgen05.commit``. With `multicast`
    (bit i: rank i) they arrive on the same barrier in every CTA of the mask, else in this one. ``two_cta=True`` is for the
    work of a pair, and for its even CTA. The arrival brings no bytes.

    `bar` may be a `px.pipe` of which this role has a stage: then the oldest is handed on when the work is over. One that
    was taken by ``pipe.wait()``, for operands, is given back to every CTA whose copies fill it, as by ``pipe.release()``;
    one that was taken by ``pipe.acquire()``, for an accumulator, is full, in both CTAs of a pair.
    Example: ``px.tcgen05.commit(empty[s])``.
    """
    what = "px.tcgen05.commit"
    pair = require_pairs(ctx, what, two_cta)
    mask = mask_operand(ctx, f"the mask of {what}", multicast)
    if not is_pipe(bar):
        ctx.emit(ir.Tcgen05Commit(barrier_operand(ctx, what, bar), mask, pair, loc=ctx.loc))
        return
    if mask is not None:
        ctx.fail(
            f"{what} with a pipe and a mask",
            "a stage goes back to those who fill it: leave multicast= out, or name the barrier, pipe.empty[s]",
        )
    hand_on(
        ctx, what, bar, lambda: _both(ctx) if pair else None,
        lambda ref, ctas, releases: ctx.emit(ir.Tcgen05Commit(ref, ctas, pair, releases, loc=ctx.loc)),
    )


@builtin("tcgen05.copy")
def copy(ctx: Builder, shared: object, tmem: object, two_cta: object = False) -> None:
    """Begins a copy from shared into tensor memory: scales, or an operand; products of this role behind it see it.

    Any agent, one elected thread; sm_100a and its kin; PTX ``tcgen05.cp``; over with a `px.tcgen05.commit`. An operand has
    the shape of its destination, 128 rows or a multiple; between padded buffers each element of f4e2m1, f6e2m3 and f6e3m2
    gets a byte of its own (``.b8x16.b4x16_p64``, ``.b8x16.b6x16_p32``). Scales are in shared memory in the order of blocks,
    shape (rows / 128, scales / 4, 32, 4, 4): 512 bytes per 128 rows and 4 scales, as `px.tcgen05.mma` takes them; `tmem` is
    (rows, scales). The last two axes may be one of 16, which is how TMA brings them.
    ``two_cta=True`` copies in both CTAs of a pair, each from its own shared memory to its own columns.
    Example: ``px.tcgen05.copy(sfa[s], scales)``.
    """
    source = shared_side(ctx, "the source of px.tcgen05.copy", shared)
    target = tensor_side(ctx, "the destination of px.tcgen05.copy", tmem)
    if source.dtype != target.dtype:
        ctx.fail(
            f"px.tcgen05.copy: the source is {source.dtype}, the destination {target.dtype}", "a copy does not convert"
        )
    _check_copied_room(ctx, source, target)
    rows, columns = target.shape
    blocks = (-(-rows // 128), -(-columns // 4), 32, 4, 4)
    matrices = () if source.dtype == f8e8m0 else (target.shape,)  # of operands: that type is for scales alone
    if source.shape not in (blocks, (*blocks[:3], 16), *matrices):
        wrong = f"the source has shape {source.shape}, the destination {target.shape}"
        if source.dtype == f8e8m0:
            wrong = f"scales of {rows} rows x {columns} lie in shared memory as {blocks}, not as {source.shape}"
        ctx.fail(
            f"px.tcgen05.copy: {wrong}",
            f"scales come in blocks of 128 rows by 4, here {blocks}: px.kernels.pack_scales makes that order",
        )
    if source.shape == target.shape:
        _check_copied_rows(ctx, source)
    ctx.emit(ir.Tcgen05Copy(source, target, _peer(ctx, "px.tcgen05.copy", two_cta), loc=ctx.loc))


@builtin("tcgen05.load")
def load(ctx: Builder, tmem: object) -> Value:
    """A region of tensor memory as a register tile.

    Any agent whose warps reach the rows, all its threads: warp w reaches lanes 32 (w % 4) to + 31, so four warps from a
    multiple of 4 on have all 128 rows, and eight share the columns; sm_100a and its kin; PTX ``tcgen05.ld``, and
    ``tcgen05.wait::ld``, which the compiler puts before the first use of the tile and before the next signal.
    Example: ``x = px.tcgen05.load(acc[i])``.
    """
    region = tensor_side(ctx, "the source of px.tcgen05.load", tmem)
    _refuse_narrow(ctx, "px.tcgen05.load", region)
    check_reach(ctx, "px.tcgen05.load", region)
    raw = Value(TileType(region.shape, region.dtype))
    result = Value(raw.type)
    ctx.emit(ir.Tcgen05Load(region, ctx.agent.first, ctx.agent.warps, raw, loc=ctx.loc))
    ctx.emit(ir.Tcgen05WaitLoads((raw,), (result,), loc=ctx.loc))
    return result


@builtin("tcgen05.store")
def store(ctx: Builder, tmem: object, tile: object) -> None:
    """A register tile into a region of tensor memory.

    Any agent whose warps reach the rows, as for `px.tcgen05.load`, all its threads; sm_100a and its kin; PTX ``tcgen05.st``,
    and ``tcgen05.wait::st``, which the compiler puts before the next signal.
    Example: ``px.tcgen05.store(P, p.to(px.bf16)); ready.arrive()``.
    """
    region = tensor_side(ctx, "the destination of px.tcgen05.store", tmem)
    _refuse_narrow(ctx, "px.tcgen05.store", region)
    check_reach(ctx, "px.tcgen05.store", region)
    value = stored_value(ctx, "px.tcgen05.store", region, tile)
    ctx.emit(ir.Tcgen05Store(region, value, ctx.agent.first, ctx.agent.warps, loc=ctx.loc))
    ctx.emit(ir.Tcgen05WaitStores(loc=ctx.loc))


# What the hardware asks.


def _refuse_narrow(ctx: Builder, what: str, region: TensorView) -> None:
    """Refuses elements of less than a byte, whose bits in a container of tensor memory are the copies' own affair."""
    if region.dtype.bits < 8:
        ctx.fail(
            f"{what}: threads do not reach elements of {region.dtype} in tensor memory",
            "px.tcgen05.copy brings them there from a px.shared buffer, products read them",
        )


def _peer(ctx: Builder, what: str, two_cta: object) -> Value | None:
    """The rank of the other CTA of the pair; None without pairs."""
    if not require_pairs(ctx, what, two_cta):
        return None
    return as_operand(binary(ctx, "xor", rank.impl(ctx), 1))


def _both(ctx: Builder) -> Value:
    """The mask of both CTAs of the pair."""
    return as_operand(binary(ctx, "shl", 0b11, binary(ctx, "and", rank.impl(ctx), ~1)))


def _operand(ctx: Builder, name: str, item: object) -> SharedView | TensorView:
    """The matrix in shared or tensor memory that an operand is."""
    what = f"{name} of px.tcgen05.mma"
    if isinstance(item, ViewValue) and in_tensor(item.view):
        return tensor_side(ctx, what, item)
    if not isinstance(item, ViewValue) or not in_shared(item.view):
        kinds = "a view of shared memory" + " or tensor memory" * (name == "a")
        ctx.fail(f"{what} is {kinds}, not {describe(item)}", "bring the tile into a px.shared buffer with px.tma.load")
    view = item.view
    refuse_rows_by_index(ctx, what, view)
    if view.cta is not None:
        ctx.fail(f"{what} is in another CTA's shared memory", "copy it here first, or multiply as a pair: two_cta=True")
    last = len(view.buffer.shape) - 1
    if len(view.shape) != 2 or set(view.kept) != {last - 1, last}:
        ctx.fail(
            f"{what} is not a matrix of the last two axes of '{view.buffer.name}'",
            "index the leading axes by integers: buffer[stage]",
        )
    return view


def _check_product(
    ctx: Builder, a: SharedView | TensorView, b: SharedView, acc: TensorView, scales: Scales, pair: bool
) -> None:
    """Refuses operands that do not fit together, or that the hardware does not multiply."""
    what = "px.tcgen05.mma"
    (m, k), (depth, n) = a.shape, b.shape
    if depth != k:
        remedy = "operands are (M, K) and (K, N)" + ": for a buffer of shape (N, K) write b.T" * (n == k)
        ctx.fail(f"{what}: a has K = {k}, b has K = {depth}", remedy)
    width = 2 * n if pair else n
    if acc.shape != (m, width):
        ctx.fail(
            f"{what}: acc has shape {acc.shape}, the product {(m, width)}",
            "give acc the product's shape" + ": a pair's has the columns of both halves of b" * pair,
        )
    scale, block = _check_scales(ctx, m, width, k, scales)
    kind = kind_of(a.dtype, b.dtype, scale, block, a.buffer.padded and b.buffer.padded)
    if isinstance(kind, Objection):
        ctx.fail(f"{what}: {kind.what}", kind.remedy)
    _check_room(ctx, "a", a, kind)
    _check_room(ctx, "b", b, kind)
    problem = accumulator_objection(kind, a.dtype, acc.dtype)
    if problem is not None:
        ctx.fail(f"{what}: {problem.what}", problem.remedy)
    last = len(b.buffer.shape) - 1
    shape = product_shape(kind, m, width, k, pair, columns_major=b.kept[1] == last)
    if isinstance(shape, Objection):
        ctx.fail(f"{what}: {shape.what}", shape.remedy)
    each = f"{' x '.join(map(str, shape))} an instruction" + " of a pair" * pair
    note = Note(f"{what} of {a.dtype} and {b.dtype}: kind {kind}, {each}", ctx.loc)
    if note not in ctx.notes:  # a loop that is written out says it once
        ctx.notes.append(note)


def _check_room(ctx: Builder, name: str, view: SharedView | TensorView, kind: Kind) -> None:
    """Refuses elements of 4 and 6 bits in a buffer that has more or less room for each than the tensor cores read."""
    if view.dtype.bits >= 8 or view.buffer.padded == (kind.bits == 8):
        return
    what = f"px.tcgen05.mma: {name} is {view.dtype}"
    where = "px.shared" if in_shared(view) else "px.tmem"
    if kind.bits == 8:
        ctx.fail(
            f"{what}, which products of kind {kind} read from padded memory, with the room of 8 bits for each",
            f"declare its buffer so: {where}(shape, px.{view.dtype}, padded=True)",
        )
    ctx.fail(
        f"{what} in a padded buffer, products of kind {kind} read it two to a byte",
        f"leave padded=True of {where} out, or give both operands padded buffers",
    )


def _check_copied_room(ctx: Builder, source: SharedView, target: TensorView) -> None:
    """Refuses a copy of elements of 4 and 6 bits that have the room of 8 at one side alone: a copy keeps it."""
    if source.dtype.bits >= 8 or source.buffer.padded == target.buffer.padded:
        return
    with_room, without = ("px.tmem", "px.shared") if target.buffer.padded else ("px.shared", "px.tmem")
    ctx.fail(
        f"px.tcgen05.copy: {source.dtype} is padded in the buffer of {with_room}, not in that of {without}",
        "give padded=True to both, for products beside operands of 8 bits, or to neither, for products of f4e2m1 alone",
    )


def _check_copied_rows(ctx: Builder, source: SharedView) -> None:
    """Refuses a matrix whose rows the tensor cores do not read: they take 32 bytes at a time, of the last two axes."""
    buffer, last = source.buffer, len(source.buffer.shape) - 1
    if source.kept != (last - 1, last):
        remedy = "index the leading axes by integers: buffer[stage]"
        ctx.fail(f"the source of px.tcgen05.copy is not a matrix of the last two axes of '{buffer.name}'", remedy)
    step = 32 if buffer.padded else buffer.dtype.elements(32)
    if buffer.shape[-1] % step or source.extents[-1] % step:
        what = "a buffer with rows of" if buffer.shape[-1] % step else "rows of"
        size = buffer.shape[-1] if buffer.shape[-1] % step else source.extents[-1]
        ctx.fail(
            f"px.tcgen05.copy from {what} {size} elements of {buffer.dtype}",
            f"tensor cores read rows by 32 bytes: make it a multiple of {step} elements"
            + "; scales come in blocks, as px.kernels.pack_scales makes them" * (buffer.dtype == f8e4m3),
        )


def _check_scales(ctx: Builder, m: int, n: int, k: int, scales: Scales) -> tuple[DType | None, int | None]:
    """The type of the scales, and the elements of K that share one; both operands' must agree."""
    what = "px.tcgen05.mma"
    scale_a, scale_b = scales
    if scale_a is None or scale_b is None:
        return None, None
    count = scale_a.shape[1]
    if scale_a.shape != (m, count) or scale_b.shape != (n, count) or k % count:
        ctx.fail(
            f"{what}: scale_a has shape {scale_a.shape}, scale_b {scale_b.shape}, the product is {m} x {n} x {k}",
            "scales are (M, K / block) and (N, K / block); in a pair scale_b is whole in both CTAs",
        )
    if scale_a.dtype != scale_b.dtype:
        ctx.fail(f"{what}: scale_a is {scale_a.dtype}, scale_b {scale_b.dtype}", "both scales have one type")
    return scale_a.dtype, k // count


def _scales(ctx: Builder, scale_a: object, scale_b: object) -> Scales:
    """The scales of both operands, or of none."""
    if scale_a is None and scale_b is None:
        return None, None
    if scale_a is None or scale_b is None:
        ctx.fail("px.tcgen05.mma: one operand has scales, the other none", "give scale_a= and scale_b=, or neither")
    return (
        tensor_side(ctx, "scale_a of px.tcgen05.mma", scale_a),
        tensor_side(ctx, "scale_b of px.tcgen05.mma", scale_b),
    )
