"""Products that are finished when they return: `px.dot`, by whichever of the tensor cores' instructions can."""

from __future__ import annotations

from phalanx.ir.core import Note
from phalanx.ir.ops.mma import COLUMNS, LEAST_STEP_BYTES, ROWS, Mma
from phalanx.ir.ops.wgmma import WgmmaCommit
from phalanx.ir.values import Const, Value
from phalanx.ir.views import in_shared
from phalanx.language.builder import Builder
from phalanx.language.builtin import builtin
from phalanx.language.ops.wgmma import Objection, Product, read_product, require_along, wait_for_groups

ATOM_ROWS = 8
"""Rows of shared memory that `wgmma` reads together."""
WGMMA_CHUNK = 16
"""Bytes on whose multiples it begins."""
NARROWEST_ROW = 32
"""Bytes of a row of shared memory that it reads."""


@builtin("dot")
def dot(ctx: Builder, a: object, b: object, acc: object = None, along: object = "m") -> Value:
    """``acc + a @ b``, finished when it returns: `px.wgmma`, its commit and its wait in one, ``tcgen05`` or ``mma.sync``.

    Any agent, all its threads; sm_90 and up; PTX ``wgmma.mma_async`` on sm_90a where the agent is whole warpgroups and
    the operands are what `px.wgmma` takes; PTX ``tcgen05.mma`` where there is tensor memory, the agent is 4, 8 or 16 warps
    from a multiple of 4 on and the operands are shared views that `px.tcgen05.mma` takes: an accumulator that only products
    touch inside a loop stays in tensor memory over the loop. Else ``mma.sync`` with operands through ``ldmatrix``;
    `Compiled.notes` says why. For ``mma.sync`` `a` and `b` are each a shared view (contiguous along any axis) or a
    register tile, M is a multiple of 16, N of 8, K of 16 bytes; the warps share the rows and columns of the tile. Types as
    for `px.wgmma`; without `acc` the product alone. Only `wgmma` needs a ``px.fence.async_proxy`` between ordinary stores
    to the operands and the product. Example: ``acc = px.dot(As[s], Bs[s].T, acc)``.
    """
    product = read_product(ctx, "px.dot", a, b, acc)
    shared_axis = require_along(ctx, "px.dot", along)
    objection = product.objection(ctx, shared_axis) or place_objection(product, "a") or place_objection(product, "b")
    if objection is None:
        result = product.emit(ctx, acc is not None, False, shared_axis, fused=True)
        ctx.emit(WgmmaCommit(loc=ctx.loc))
        return wait_for_groups(ctx, 0, result) or result
    reason = objection[0].removeprefix("px.dot: ").replace("px.dot", "wgmma")
    against = block_objection(product)
    if against is not None:
        ctx.fail(against[0], against[1], details=f"wgmma can't do it either: {reason}")
    remedy = f" (for wgmma: {objection[1]})" if objection[1] else ""
    ctx.notes.append(Note(f"px.dot runs as mma.sync: {reason}{remedy}", ctx.loc, "px.dot"))
    result = Value(product.acc.type, product.acc.name)
    ctx.emit(
        Mma(product.a, product.b, None if acc is None else product.acc, ctx.agent.warps, result, loc=ctx.loc)
    )
    return result


def place_objection(product: Product, name: str) -> Objection | None:
    """What of a buffer's shape, or of where a view begins in it, keeps `wgmma` from reading it."""
    view = product.a if name == "a" else product.b
    if not in_shared(view):
        return None
    buffer, item = view.buffer, view.dtype.itemsize
    rows, columns = buffer.shape[-2:]
    if rows % ATOM_ROWS:
        return f"{name} is in '{buffer.name}', whose {rows} rows are not a multiple of {ATOM_ROWS}", ""
    if columns * item % NARROWEST_ROW:
        return f"{name} is in '{buffer.name}', whose rows have {columns * item} bytes, no multiple of {NARROWEST_ROW}", ""
    row, column = view.offsets[-2:]
    if isinstance(row, Const) and int(row.value) % ATOM_ROWS:
        return f"{name} begins at row {row.value} of '{buffer.name}', no multiple of {ATOM_ROWS}", ""
    if isinstance(column, Const) and int(column.value) * item % WGMMA_CHUNK:
        return f"{name} begins at byte {int(column.value) * item} of the rows of '{buffer.name}'", ""
    return None


def block_objection(product: Product) -> Objection | None:
    """Why `mma.sync` can't do it, if it can't."""
    m, n, k = product.shape
    least = LEAST_STEP_BYTES // product.dtype.itemsize
    for name, extent, multiple in (("M", m, ROWS), ("N", n, COLUMNS), ("K", k, least)):
        if extent % multiple:
            return (
                f"px.dot: {name} = {extent}",
                f"make {name} a multiple of {multiple}: elements outside an array load as 0 and are not stored",
            )
    return None
