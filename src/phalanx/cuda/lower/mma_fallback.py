"""Products of warps for a target: operands in shared memory are loaded in steps of K that leave registers free.

Where a target lacks `wgmma`, or shared memory can't be laid out for it, products that are waited for at once become
products of warps first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping

from phalanx.analysis.divisibility import find_divisibility
from phalanx.cuda.lower.wgmma_operands import operand_problem
from phalanx.ir.archs import Arch
from phalanx.ir.core import Block, Function, Note, Op, map_blocks, rewrite, substitute
from phalanx.ir.ops.mbarrier import Arrive, BarrierInit
from phalanx.ir.ops.memory import Load
from phalanx.ir.ops.mma import Mma
from phalanx.ir.ops.tile import Binary
from phalanx.ir.ops.wgmma import STEP_BYTES, Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from phalanx.ir.types import ScalarType, TileType
from phalanx.ir.values import Const, Value, constant_of
from phalanx.ir.views import SharedBuffer, SharedView
from phalanx.layouts.fragments import mma_spread
from phalanx.layouts.shared import SharedLayout
from phalanx.passes.mma_fences import insert_mma_fences
from phalanx.passes.role_sync import insert_role_syncs

OPERAND_REGISTERS = 64
"""What the operands of one step may take of a thread's registers; the accumulator and addresses need the others."""


def split_products(function: Function) -> Function:
    """The function with the operands of its `mma`s in registers: a load of each step of K, then its product.

    For `lower`, before register layouts are chosen.
    """

    def visit(op: Op) -> list[Op] | None:
        return _split(op) if isinstance(op, Mma) and _in_shared(op) else None

    body = rewrite(function.body, visit)
    return function if body is function.body else dataclasses.replace(function, body=body)


def _in_shared(op: Mma) -> bool:
    return isinstance(op.a, SharedView) or isinstance(op.b, SharedView)


def depth_of_step(m: int, n: int, k: int, warps: int, itemsize: int) -> int:
    """Elements of K that are loaded at a time: as many as leave registers free, in equal steps."""
    high, wide = mma_spread(m, n, warps)
    per_element = (m // high + n // wide) * itemsize / 4 / 32  # registers of a lane
    least = min(k, STEP_BYTES // itemsize)
    found = least
    for depth in range(least, k + 1, least):
        if k % depth == 0 and depth * per_element <= OPERAND_REGISTERS:
            found = depth
    return found


def _split(op: Mma) -> list[Op]:
    m, n, k = op.shape
    out: list[Op] = []
    step = depth_of_step(m, n, k, op.warps, op.dtypes[0].itemsize)
    acc = op.acc
    for start in range(0, k, step):
        depth = min(step, k - start)
        a, a_start = _operand(out, op, op.a, 1, op.starts[0] + start, depth)
        b, b_start = _operand(out, op, op.b, 0, op.starts[1] + start, depth)
        result = op.result if start + depth == k else Value(op.result.type, op.result.name)
        out.append(Mma(a, b, acc, op.warps, result, (a_start, b_start), depth, loc=op.loc))
        acc = result
    return out


def _operand(
    out: list[Op], op: Mma, item: SharedView | Value, axis: int, start: int, depth: int
) -> tuple[Value, int]:
    """The tile that holds `depth` of K from `start`, and where in it they begin."""
    if isinstance(item, Value):
        return item, start
    along = item.kept[axis]
    offsets, extents = list(item.offsets), list(item.extents)
    offsets[along] = _plus(out, op, offsets[along], start)
    extents[along] = depth
    view = dataclasses.replace(item, offsets=tuple(offsets), extents=tuple(extents))
    tile = Value(TileType(view.shape, view.dtype), "a" if axis else "b")
    out.append(Load(view, Const(0, ScalarType(view.dtype)), tile, loc=op.loc))
    return tile, 0


def _plus(out: list[Op], op: Mma, offset: Value, number: int) -> Value:
    constant = constant_of(offset)
    if constant is not None:
        return Const(int(constant) + number, offset.type)  # type: ignore[arg-type]
    if not number:
        return offset
    result = Value(offset.type)
    out.append(Binary("add", offset, Const(number, offset.type), result, loc=op.loc))  # type: ignore[arg-type]
    return result


# Fused products that `wgmma` can't do after all.


def replace_missing_products(function: Function, arch: Arch) -> Function:
    """`px.dot` on a target without `wgmma`: the same products by warps, with the barriers that this needs.

    For `lower`. A `px.wgmma` of the user's stays, and is an error there.
    """
    products = [op for op in function.walk() if isinstance(op, Wgmma)]
    lacking = [op for op in products if not op.effects().target.supports(arch.sm)]
    if not lacking or not all(op.fused for op in lacking):
        return function
    return _replace(function, {op: f"{arch} has no wgmma" for op in lacking})


def replace_unreadable_products(
    function: Function, lowered: Function, shared: Mapping[SharedBuffer, SharedLayout]
) -> Function:
    """`px.dot` of buffers whose other uses leave them a layout that `wgmma` can't read: the same products by warps.

    For `lower`: `shared` are the layouts that were chosen for `lowered`, which was made of `function`. It is `function`
    itself if all can be read.
    """
    facts = find_divisibility(lowered)
    reasons: dict[Wgmma, str] = {}
    products = [[op for op in f.walk() if isinstance(op, Wgmma)] for f in (function, lowered)]
    for op, now in zip(*products, strict=True):
        for view, k_axis in ((now.a, 1), (now.b, 0)):
            if op.fused and isinstance(view, SharedView):
                problem = operand_problem(view, k_axis, shared[view.buffer], facts)
                if problem is not None:
                    reasons.setdefault(op, problem.what)
    return _replace(function, reasons) if reasons else function


def _replace(function: Function, reasons: Mapping[Wgmma, str]) -> Function:
    body = _without_groups(function.body, reasons, {})
    notes = tuple(Note(f"px.dot runs as mma.sync: {reason}", op.loc) for op, reason in reasons.items())
    replaced = dataclasses.replace(function, body=body, notes=(*function.notes, *notes))
    return insert_mma_fences(insert_role_syncs(_plain_arrivals(replaced)))


def _without_groups(block: Block, gone: Container[Op], outer: Mapping[Value, Value]) -> Block:
    """Each fused product that is gone as a product of warps.

    Its commit and wait go too, and what the wait gave is the product. (A wait that other products of the role are in
    flight at covers them as well; it stays then, and so does the commit.) Fences are put anew.
    """
    out: list[Op] = []
    renamed = dict(outer)
    alone = all(op in gone for op in block.walk() if isinstance(op, Wgmma))
    last: Op | None = None
    for before in block.ops:
        op = substitute(before, renamed)
        match op:
            case Wgmma() if before in gone:
                acc = op.acc if constant_of(op.accumulate) else None
                out.append(Mma(op.a, op.b, acc, op.warps, op.result, loc=op.loc))
                last = op
            case WgmmaFence():
                continue
            case WgmmaCommit() if last is not None and alone:
                continue
            case WgmmaWait() if last is not None:
                if alone:
                    renamed.update(zip(op.results, op.accs, strict=True))
                else:
                    wait = _wait_for_others(op, last, renamed)
                    if wait.accs or not isinstance(out[-1], WgmmaCommit):
                        out.append(wait)
                    else:  # it was for this product alone
                        out.pop()
                last = None
            case _:
                out.append(map_blocks(op, lambda inner: _without_groups(inner, gone, renamed)))
    return Block(tuple(out))


def _wait_for_others(op: WgmmaWait, product: Op, renamed: dict[Value, Value]) -> WgmmaWait:
    """A wait without the accumulator of a product that is over already."""
    pairs = [(acc, result) for acc, result in op.updates() if acc is not product.defines]
    renamed.update((result, acc) for acc, result in op.updates() if acc is product.defines)
    accs, results = zip(*pairs, strict=True) if pairs else ((), ())
    return dataclasses.replace(op, accs=tuple(accs), results=tuple(results))


def _plain_arrivals(function: Function) -> Function:
    """Arrives by one elected thread again: what only the wait of a `wgmma` allowed is decided anew."""

    def visit(op: Op) -> list[Op] | None:
        if isinstance(op, Arrive):
            return [dataclasses.replace(op, form="elected", factor=1, spread=False)]
        if isinstance(op, BarrierInit):
            return [dataclasses.replace(op, factor=1)]
        return None

    return dataclasses.replace(function, body=rewrite(function.body, visit))
