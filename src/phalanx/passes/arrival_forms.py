"""How an arrive is issued: by one thread for all, or by one of each warp or warpgroup, and what that makes of counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from math import lcm

import phalanx.passes.ops  # noqa: F401  # what the families registered
from phalanx.ir.core import Function, Op, rewrite
from phalanx.ir.effects import Life
from phalanx.ir.ops.mbarrier import Form
from phalanx.ir.views import BarrierArray
from phalanx.passes.registry import counting, in_form, registered


def choose_forms(function: Function, shares: Mapping[Op, tuple[Form, int]], elected: Container[Op]) -> Function:
    """The kernel in which the arrives of `shares` are made by one thread of each of so many warps or warpgroups.

    An arrive in several CTAs is spread over the lanes of a warp, unless it is one of `elected`, which follow
    something that only the elected thread did.

    The language counts an arrive of a role as one. On the barriers concerned the hardware counts `factor` for it:
    each of the threads that issue it brings its share, and an elected thread brings them all.
    """
    factors: dict[BarrierArray, int] = {}
    for op, (_, number) in shares.items():
        barrier = op.effects().arrivals[0].barrier.barrier
        factors[barrier] = lcm(factors.get(barrier, 1), number)

    def visit(op: Op) -> list[Op] | None:
        effects = op.effects()
        for life in effects.lifecycle:
            if life.life is Life.INIT and life.barrier in factors:
                counted = registered(counting, op)(op, factors[life.barrier])
                return None if counted is op else [counted]
        for arrival in effects.arrivals:
            form = shares[op][0] if op in shares else Form.ELECTED
            spread = arrival.mask is not None and op not in elected
            issue = in_form.of(op)
            issued = op if issue is None else issue(op, form, factors.get(arrival.barrier.barrier, 1), spread)
            return None if issued is op else [issued]
        return None

    body = rewrite(function.body, visit)
    return function if body is function.body else dataclasses.replace(function, body=body)
