"""How tiles lie in registers that come from tensor memory, or go there."""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.analysis.divisibility import Divisibility
from phalanx.cuda.lower.layout_rules import OneOf, Same, Wish, asks
from phalanx.cuda.lower.registry import unreadables, without_update
from phalanx.cuda.tiles.tcgen05_operands import read_operand
from phalanx.cuda.tiles.tensor_views import accesses_of
from phalanx.cuda.tiles.wgmma_operands import Problem
from phalanx.ir.core import Op
from phalanx.ir.ops.tcgen05 import Tcgen05Load, Tcgen05Mma, Tcgen05Store, Tcgen05WaitLoads
from phalanx.ir.values import Value
from phalanx.ir.views import SharedBuffer, in_shared
from phalanx.layouts.shared import SharedLayout


@asks(Tcgen05Load)
def _load(op: Tcgen05Load) -> list[Wish]:
    return [OneOf(op.result, tuple(dict.fromkeys(way.layout for way in accesses_of(op.src, op))))]


@asks(Tcgen05WaitLoads)
def _wait(op: Tcgen05WaitLoads) -> list[Wish]:
    return [Same((result, tile)) for tile, result in op.updates()]


@without_update(Tcgen05WaitLoads)
def _without_update(op: Tcgen05WaitLoads, old: Value) -> Op:
    return op.handing_on([pair for pair in op.updates() if pair[0] is not old])


@asks(Tcgen05Store)
def _store(op: Tcgen05Store) -> list[Wish]:
    return [OneOf(op.tile, tuple(dict.fromkeys(way.layout for way in accesses_of(op.dst, op))))]


@unreadables(Tcgen05Mma)
def _unreadable(op: Tcgen05Mma, shared: Mapping[SharedBuffer, SharedLayout], facts: Divisibility) -> str | None:
    for view, k_axis in ((op.a, 1), (op.b, 0)):
        if in_shared(view):
            found = read_operand(view, k_axis, op.kind, shared[view.buffer], facts)
            if isinstance(found, Problem):
                return found.what
    return None
