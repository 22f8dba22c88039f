"""Products that stand in for others: where a target lacks an engine, or shared memory can't be laid out for it.

Which instruction stands in for which, their families say (`cuda/lower/ops`). Only products that are waited for at once
can be replaced: their commit, their wait and their fences go too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Container, Mapping

import phalanx.cuda.lower.ops  # noqa: F401  # what the families registered
from phalanx.analysis.divisibility import find_divisibility
from phalanx.cuda.lower.registry import StandIn, expands, stand_ins, without_update
from phalanx.ir.archs import Arch
from phalanx.ir.core import Block, Faster, Function, Op, map_blocks, rewrite, substitute
from phalanx.ir.dots import DotDecision, Unit, decided, decisions_of
from phalanx.ir.effects import GroupAction
from phalanx.ir.engines import Engine
from phalanx.ir.ops.mbarrier import Form
from phalanx.ir.values import Value
from phalanx.ir.views import SharedBuffer
from phalanx.layouts.shared import SharedLayout
from phalanx.passes.mma_fences import insert_mma_fences
from phalanx.passes.registry import counting, in_form
from phalanx.passes.role_sync import insert_role_syncs


def split_products(function: Function) -> Function:
    """The function in which products have their operands where their family wants them: see `registry.expands`.

    For `lower`, before register layouts are chosen.
    """

    def visit(op: Op) -> list[Op] | None:
        expand = expands.of(op)
        return None if expand is None else expand(op)

    body = rewrite(function.body, visit)
    return function if body is function.body else dataclasses.replace(function, body=body)


def replace_missing_products(function: Function, arch: Arch) -> Function:
    """`px.dot` on a target without `wgmma`: the same products by warps, with the barriers that this needs.

    For `lower`. A `px.wgmma` of the user's stays, and is an error there.
    """
    found = _stand_ins(function)
    lacking = [op for op in found if not op.effects().target.supports(arch)]
    if not lacking or any(found[op].make is None for op in lacking):
        return function
    return _replace(function, {op: (f"{arch} has no {op.effects().target.family}", "") for op in lacking})


def plain_products(function: Function, arch: Arch) -> Function:
    """The kernel with each `px.dot` that the target has no such product for as one instruction, over at once.

    For `cuda.prepare`, before the passes. A kernel with a `px.wgmma` of the user's stays as it is.
    """
    found = _stand_ins(function)
    lacking = {op for op in found if not op.effects().target.supports(arch)}
    if not lacking or any(found[op].make is None for op in lacking):
        return function
    return dataclasses.replace(function, body=_without_groups(function.body, _by_engine(found, lacking), {}))


def _by_engine(found: Mapping[Op, StandIn], gone: Collection[Op]) -> dict[Engine, frozenset[Op]]:
    """The products that go, by their engine."""
    return {found[op].engine: frozenset(gone) for op in gone}


def _stand_ins(function: Function) -> dict[Op, StandIn]:
    return {op: describe(op) for op in function.walk() if (describe := stand_ins.of(op)) is not None}


def replace_unreadable_products(
    function: Function, lowered: Function, shared: Mapping[SharedBuffer, SharedLayout]
) -> Function:
    """`px.dot` of buffers whose other uses leave them a layout that `wgmma` can't read: the same products by warps.

    For `lower`: `shared` are the layouts that were chosen for `lowered`, which was made of `function`. It is `function`
    itself if all can be read.
    """
    facts = find_divisibility(lowered)
    reasons: dict[Op, tuple[str, str]] = {}
    for op, now in zip(_stand_ins(function), _stand_ins(lowered).values(), strict=True):
        problem = None if now.make is None else now.unreadable(shared, facts)
        if problem is not None:
            reasons[op] = problem
    return _replace(function, reasons) if reasons else function


def _replace(function: Function, reasons: Mapping[Op, tuple[str, str]]) -> Function:
    """`function` with other products, for these reasons; each comes with its remedy, where there is one."""
    found = _stand_ins(function)
    body = _without_groups(function.body, _by_engine(found, reasons), {})
    before = decisions_of(function.notes)
    decisions = [
        dataclasses.replace(
            before.get(op.loc, DotDecision(op.loc, Unit.WARPS)), unit=Unit.WARPS, why=reason, on_ring=False,
            faster=Faster(remedy) if remedy else None,
        )
        for op, (reason, remedy) in reasons.items()
    ]
    replaced = dataclasses.replace(function, body=body, notes=decided(function.notes, decisions))
    return insert_mma_fences(insert_role_syncs(_plain_arrivals(replaced)))


def _without_groups(block: Block, gone: Mapping[Engine, frozenset[Op]], outer: Mapping[Value, Value]) -> Block:
    """Each fused product that is gone, by its engine, as the one that stands in for it.

    Its commit and wait go too, and what the wait gave is the product. (A wait that other products of the role are in
    flight at covers them as well; it stays then, and so does the commit.) Fences are put anew.
    """
    out: list[Op] = []
    renamed = dict(outer)
    replaced = frozenset().union(*gone.values())
    alone = all(op in replaced for op in block.walk() if stand_ins.of(op) is not None)
    last: Op | None = None
    for before in block.ops:
        op = substitute(before, renamed)
        done = _actions(op, gone)
        describe = stand_ins.of(op)
        if describe is not None and before in replaced:
            stand_in = describe(op)
            assert stand_in.make is not None
            out.append(stand_in.make())
            last = op
        elif GroupAction.FENCE in done or (GroupAction.COMMIT in done and last is not None and alone):
            continue
        elif GroupAction.WAIT in done and last is not None:
            if alone:
                renamed.update((result, acc) for acc, result in op.updates())
            else:
                wait = _wait_for_others(op, last, renamed)
                if wait.updates() or GroupAction.COMMIT not in _actions(out[-1], gone):
                    out.append(wait)
                else:  # it was for this product alone
                    out.pop()
            last = None
        else:
            out.append(map_blocks(op, lambda inner: _without_groups(inner, gone, renamed)))
    return Block(tuple(out))


def _actions(op: Op, engines: Container[Engine]) -> set[GroupAction]:
    """What an instruction does to groups of these engines."""
    return {group.action for group in op.effects().groups if group.engine in engines}


def _wait_for_others(op: Op, product: Op, renamed: dict[Value, Value]) -> Op:
    """A wait without the accumulator of a product that is over already."""
    made = product.defines
    renamed.update((result, acc) for acc, result in op.updates() if acc is made)
    if made is None:
        return op
    changed = without_update.of(op)
    assert changed is not None, f"cuda/lower/ops/{op.family}.py does not say what a wait for others is"
    return changed(op, made)


def _plain_arrivals(function: Function) -> Function:
    """Arrives by one elected thread again: what only the wait of a `wgmma` allowed is decided anew."""

    def visit(op: Op) -> list[Op] | None:
        issue, count = in_form.of(op), counting.of(op)
        plain = issue(op, Form.ELECTED, 1, False) if issue is not None else count(op, 1) if count is not None else op
        return None if plain is op else [plain]

    return dataclasses.replace(function, body=rewrite(function.body, visit))
