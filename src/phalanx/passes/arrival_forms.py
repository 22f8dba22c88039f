"""How an arrive is issued: by one thread for all, or by one of each warpgroup, and what that makes of the counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from math import lcm

from phalanx.ir.core import Function, Op, rewrite
from phalanx.ir.ops.mbarrier import Arrive, BarrierInit
from phalanx.ir.views import BarrierArray

WARPGROUP = 4  # warps


def choose_forms(function: Function, groups: Mapping[Op, int], elected: Container[Op]) -> Function:
    """The kernel in which the arrives of `groups` are made by one thread of each of so many warpgroups.

    An arrive in several CTAs is spread over the lanes of a warp, unless it is one of `elected`, which follow
    something that only the elected thread did.

    The language counts an arrive of a role as one. On the barriers concerned the hardware counts `factor` for it:
    each of the threads that issue it brings its share, and an elected thread brings them all.
    """
    factors: dict[BarrierArray, int] = {}
    for op, number in groups.items():
        assert isinstance(op, Arrive)
        factors[op.bar.barrier] = lcm(factors.get(op.bar.barrier, 1), number)

    def visit(op: Op) -> list[Op] | None:
        if isinstance(op, BarrierInit) and op.barrier in factors:
            return [dataclasses.replace(op, factor=factors[op.barrier])]
        if isinstance(op, Arrive):
            form = "per_warpgroup" if op in groups else "elected"
            factor, spread = factors.get(op.bar.barrier, 1), op.ctas is not None and op not in elected
            if form != op.form or factor != op.factor or spread != op.spread:
                return [dataclasses.replace(op, form=form, factor=factor, spread=spread)]
        return None

    body = rewrite(function.body, visit)
    return function if body is function.body else dataclasses.replace(function, body=body)
