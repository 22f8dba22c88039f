"""Roles whose work one warp can do: a producer that owns a whole warpgroup only to give its registers away.

Where a role of several warps computes scalars, waits for barriers and lets its elected thread act, all but one of its
warps would only keep it company, and every step would cost a barrier of them all. Such a role's body is run by its
first warp.
"""

from __future__ import annotations

import dataclasses

import phalanx.passes.ops  # noqa: F401  # what the families registered
from phalanx.ir.core import Function, Op, rewrite
from phalanx.ir.effects import Executor, Mode
from phalanx.ir.memory import Region
from phalanx.ir.ops.control import Role, Roles
from phalanx.ir.types import TileType
from phalanx.ir.views import View
from phalanx.passes.registry import takes_every_warp


def choose_active_warps(function: Function) -> Function:
    """The kernel with `active=1` on every role of several warps that needs only one."""

    def visit(op: Op) -> list[Op] | None:
        if not isinstance(op, Roles):
            return None
        regions = tuple(
            dataclasses.replace(role, active=1) if role.count > 1 and needs_one_warp(role) else role
            for role in op.regions
        )
        return [dataclasses.replace(op, regions=regions)]

    if not any(isinstance(op, Roles) for op in function.walk()):
        return function
    return dataclasses.replace(function, body=rewrite(function.body, visit))


def needs_one_warp(role: Role) -> bool:
    """Whether the first warp can run the body for all of them."""
    return all(_is_narrow(op) for op in role.body.walk())


def _is_narrow(op: Op) -> bool:
    """Scalar arithmetic and reads, control flow, waits, what the elected thread does, elements that one thread writes."""
    if op in takes_every_warp or any(isinstance(v.type, TileType) for v in (*op.operands(), *op.defined_values())):
        return False
    effects = op.effects()
    if effects.executor is Executor.ONE:
        return True
    if any(access.mode is not Mode.READ and not _is_element(access.region) for access in effects.accesses):
        return False
    return not (effects.rendezvous or effects.handshakes or effects.fences or effects.groups or effects.accumulations)


def _is_element(region: Region) -> bool:
    return isinstance(region, View) and not region.shape
