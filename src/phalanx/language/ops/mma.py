"""Products that are finished when they return: `px.dot`, by whichever of the tensor cores' instructions can."""

from __future__ import annotations

from phalanx.ir.archs import WARPGROUP, Feature
from phalanx.ir.core import Faster
from phalanx.ir.dots import TOPIC, DotDecision, Unit, decided
from phalanx.ir.ops.mma import COLUMNS, LEAST_STEP_BYTES, PACKED, ROWS, SCALED_STEP_BYTES, UNPACKED, Mma, MmaScaled
from phalanx.ir.ops.wgmma import WgmmaCommit
from phalanx.ir.tensor_kinds import Objection as NoKind
from phalanx.ir.tensor_kinds import kind_of
from phalanx.ir.types import TileType, f32
from phalanx.ir.values import Value
from phalanx.ir.views import SharedView
from phalanx.ir.wgmma_rules import Objection, place_objection
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.objects import describe
from phalanx.language.operators import dtype_of, is_tile, shape_of
from phalanx.language.ops.wgmma import (
    Product,
    operand,
    operand_dtype,
    read_product,
    require_along,
    shape_of_operand,
    wait_for_groups,
)


@builtin("dot")
def dot(
    ctx: Builder, a: object, b: object, acc: object = None, along: object = "m", scale_a: object = None,
    scale_b: object = None,
) -> Value:
    """``acc + a @ b``, finished when it returns: `px.wgmma`, its commit and its wait in one, ``tcgen05`` or ``mma.sync``.

    Any agent, all its threads; sm_90 and up; PTX ``wgmma.mma_async`` on sm_90a where the agent is whole warpgroups and
    the operands are what `px.wgmma` takes; PTX ``tcgen05.mma`` where there is tensor memory, the agent is 4, 8 or 16 warps
    from a multiple of 4 on and the operands are shared views that `px.tcgen05.mma` takes: an accumulator that only products
    touch inside a loop stays in tensor memory over the loop. Else ``mma.sync`` with operands through ``ldmatrix``;
    `Compiled.notes` says why. `a` and `b` are each a shared view or a register tile, which goes through shared memory of
    the compiler's where that is faster: loads of global memory for products become ``cp.async``. For ``mma.sync`` views
    are contiguous along any axis, M is a multiple of 16, N of 8, K of 16 bytes; the warps share the tile. Types as
    for `px.wgmma`; without `acc` the product alone. Only `wgmma` needs a ``px.fence.async_proxy`` between ordinary stores
    to the operands and the product. With `scale_a` (M, K / block) and `scale_b` (N, K / block), shared views or register
    tiles, each block of a row of `a` and of a column of `b` is multiplied by its factor first (sm_120a and sm_121a, PTX
    ``mma.sync`` with ``.block_scale``; sm_100a and its kin, ``tcgen05.mma``, in loops over tiles with `px.pipelined` that
    load scales in blocks of 128 rows by 4): 8-bit floats with f8e8m0 for 32 elements, f4e2m1 with f8e8m0 for 32 or 16, or
    f8e4m3 for 16; `acc` is f32, K a multiple of 32 bytes. Example: ``acc = px.dot(As[s], Bs[s].T, acc)``.
    """
    if scale_a is not None or scale_b is not None:
        return scaled_dot(ctx, a, b, acc, scale_a, scale_b)
    product = read_product(ctx, TOPIC, a, b, acc)
    shared_axis = require_along(ctx, TOPIC, along)
    objection = product.objection(ctx, shared_axis) or place_objection("a", product.a) or place_objection("b", product.b)
    if objection is None:
        result = product.emit(ctx, acc is not None, False, shared_axis, fused=True)
        ctx.emit(WgmmaCommit(loc=ctx.loc))
        return wait_for_groups(ctx, 0, result) or result
    reason = objection[0].removeprefix(f"{TOPIC}: ").replace(TOPIC, "wgmma")
    against = block_objection(product)
    if against is not None:
        ctx.fail(against[0], against[1], details=f"wgmma can't do it either: {reason}")
    remedy = f" (for wgmma: {objection[1]})" if objection[1] else ""
    whole = ctx.agent.warps % WARPGROUP == 0
    faster = Faster(objection[1] or "let the operands be what px.wgmma takes", (Feature.WGMMA,)) if whole else None
    ctx.notes += decided((), [DotDecision(ctx.loc, Unit.WARPS, f"{reason}{remedy}", faster=faster)])
    result = Value(product.acc.type, product.acc.name)
    old = None if acc is None else product.acc
    ctx.emit(Mma(product.a, product.b, old, ctx.agent.warps, result, along=shared_axis, loc=ctx.loc))
    return result


def scaled_dot(ctx: Builder, a: object, b: object, acc: object, scale_a: object, scale_b: object) -> Value:
    """A product whose blocks along K have factors, in registers or shared memory."""
    what = TOPIC
    if scale_a is None or scale_b is None:
        ctx.fail(f"{what} has scales for one operand alone", "give scale_a= and scale_b=, or neither")
    left, right = operand(ctx, what, "a", a), operand(ctx, what, "b", b)
    scales = operand(ctx, what, "scale_a", scale_a), operand(ctx, what, "scale_b", scale_b)
    shapes = [shape_of_operand(item) for item in (left, right, *scales)]
    if any(len(shape) != 2 for shape in shapes):
        listed = f"{shapes[0]} and {shapes[1]} with scales {shapes[2]} and {shapes[3]}"
        ctx.fail(f"{what} multiplies matrices, not shapes {listed}", "index the stage of a ring first: a[s]")
    (m, k), (depth, n), of_a, of_b = shapes
    if depth != k:
        ctx.fail(f"{what}: a has K = {k}, b has K = {depth}", "operands are (M, K) and (K, N): of (N, K) write b.T")
    count = of_a[1]
    if of_a != (m, count) or of_b != (n, count) or k % count:
        ctx.fail(
            f"{what}: scale_a has shape {of_a}, scale_b {of_b}, the product is {m} x {n} x {k}",
            "scales are (M, K / block) and (N, K / block)",
        )
    elements, types = (operand_dtype(left), operand_dtype(right)), tuple(map(operand_dtype, scales))
    if types[0] != types[1]:
        ctx.fail(f"{what}: scale_a is {types[0]}, scale_b {types[1]}", "both scales have one type")
    kind = kind_of(*elements, types[0], k // count)
    if isinstance(kind, NoKind):
        ctx.fail(f"{what}: {kind.what}", kind.remedy)
    if any(dtype.bits != kind.bits for dtype in elements):
        ctx.fail(
            f"{what}: {elements[0]} times {elements[1]} with scales",
            "mma.sync has it with a byte for each element, which shared memory has not: convert both to f8e4m3",
        )
    for name, item, axis in (("a", left, 1), ("b", right, 0)):
        _refuse_unpacked(ctx, f"{name} of {what}", item, axis)
    step = SCALED_STEP_BYTES * elements[0].per_byte
    for name, extent, multiple in (("M", m, ROWS), ("N", n, COLUMNS), ("K", k, step)):
        if extent % multiple:
            ctx.fail(f"{what} with scales: {name} = {extent}", f"make {name} a multiple of {multiple}")
    if acc is not None and (not is_tile(acc) or shape_of(acc) != (m, n) or dtype_of(acc) != f32):
        shown = acc.type if is_tile(acc) else describe(acc)
        ctx.fail(f"{what}: acc is {shown}, the product is {TileType((m, n), f32)}", "give acc the product's shape and type")
    ctx.notes += decided((), [DotDecision(ctx.loc, Unit.WARPS, f"{kind}, with block scales")])
    result = Value(TileType((m, n), f32), acc.name if isinstance(acc, Value) else "")
    old = acc if isinstance(acc, Value) else None
    ctx.emit(MmaScaled(left, right, *scales, old, elements, k // count, ctx.agent.warps, result, loc=ctx.loc))
    return result


def _refuse_unpacked(ctx: Builder, what: str, item: SharedView | Value, k_axis: int) -> None:
    """Two elements of a byte are neighbours along K, which is how the tensor cores take them."""
    if operand_dtype(item).per_byte == 1:
        return
    if isinstance(item, Value):
        if not ctx.loop_depth:  # else a ring may have it: whoever lowers the product says so where none does
            ctx.fail(f"{what} is {UNPACKED} of {operand_dtype(item)}", PACKED)
        return
    if item.kept[k_axis] != len(item.buffer.shape) - 1:
        ctx.fail(f"{what} is not contiguous along K", f"let '{item.buffer.name}' be (rows, K), and write b.T for b")


def block_objection(product: Product) -> Objection | None:
    """Why `mma.sync` can't do it, if it can't."""
    m, n, k = product.shape
    least = LEAST_STEP_BYTES // product.dtype.itemsize
    for name, extent, multiple in (("M", m, ROWS), ("N", n, COLUMNS), ("K", k, least)):
        if extent % multiple:
            return (
                f"{TOPIC}: {name} = {extent}",
                f"make {name} a multiple of {multiple}: elements outside an array load as 0 and are not stored",
            )
    return None
