"""Barriers are initialised before their first use, with the fence and the CTA or cluster sync this needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from phalanx.analysis.peers import reaches_out, touches_peers
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.effects import Executor, Mode, Span, When
from phalanx.ir.ops.cluster import ClusterArrive, ClusterSync, ClusterWait
from phalanx.ir.ops.control import Leave, Role, Roles, Sync
from phalanx.ir.ops.mbarrier import BarrierInit, FenceBarrierInit
from phalanx.ir.views import BarrierArray
from phalanx.passes.active_warps import needs_one_warp

Counts = tuple[tuple[int, ...], ...]
"""Arrival counts: one row per CTA rank, one number per barrier of the array."""

LOCAL = "barriers are initialised before their first use"
CLUSTER = "barriers are initialised before a peer reaches them"


def insert_barrier_init(function: Function, counts: Mapping[BarrierArray, Counts]) -> Function:
    """Puts the initialisation of every barrier array declared with `init=True` at the start of the kernel.

    A cluster sync follows where any instruction reaches into another CTA: its barriers must be ready before this
    CTA's first signal gets there; arithmetic, prefetches and loads of global memory that come first go between its two
    halves.
    Where roles come next and one of them keeps to this CTA, as a producer does that loads for no other, the second half
    goes into the roles, in that one to its end. Otherwise the CTA's own threads are all that can be early: they meet behind
    what comes first.
    """
    inits: list[Op] = [
        BarrierInit(barrier=barrier, counts=counts[barrier], loc=barrier.loc)
        for barrier in function.barriers
        if barrier.init
    ]
    if not inits:
        return function
    # The init fence publishes the barriers, so the arrival need not: a release would cost a GPU-wide memory barrier.
    ops, loc = function.body.ops, function.loc
    prologue = (*inits, FenceBarrierInit(loc=loc))
    early = next((n for n, op in enumerate(ops) if not _needs_no_barrier(op)), len(ops))
    if not touches_peers(function):
        return dataclasses.replace(function, body=Block((*prologue, *ops[:early], Sync(LOCAL, loc=loc), *ops[early:])))
    arrive, wait = ClusterArrive(relaxed=True, reason=CLUSTER, loc=loc), ClusterWait(CLUSTER, loc=loc)
    if early < len(ops) and (roles := _waiting_inside(ops[early], wait, function.warps)):
        start = (*prologue, arrive, *ops[:early], Sync(LOCAL, loc=loc), roles)
        return dataclasses.replace(function, body=Block((*start, *ops[early + 1 :])))
    if early == 0:
        return dataclasses.replace(function, body=Block((*prologue, ClusterSync(CLUSTER, relaxed=True, loc=loc), *ops)))
    return dataclasses.replace(function, body=Block((*prologue, arrive, *ops[:early], wait, *ops[early:])))


def _waiting_inside(op: Op, wait: ClusterWait, warps: int) -> Roles | None:
    """The roles, each with the wait: at its end where it keeps to this CTA, else at its start.

    None where that is no gain, since no role that starts copies keeps to this CTA, or where a warp would come past the
    wait: one without a role, one of a role that one of its warps runs for all, or one that leaves early.
    """
    if not isinstance(op, Roles) or not any(_loads_for_itself(role) for role in op.regions):
        return None
    if sum(role.span for role in op.regions) != warps or any(needs_one_warp(r) for r in op.regions if r.count > 1):
        return None
    if any(isinstance(inner, Leave) for role in op.regions for inner in role.body.walk()):
        return None
    regions = []
    for role in op.regions:
        ops, late = role.body.ops, dataclasses.replace(wait)
        body = Block((*ops, late) if _keeps_to_itself(role) else (late, *ops))
        regions.append(dataclasses.replace(role, body=body))
    return dataclasses.replace(op, regions=tuple(regions))


def _loads_for_itself(role: Role) -> bool:
    return _keeps_to_itself(role) and any(op.effects().completes for op in role.body.walk())


def _keeps_to_itself(role: Role) -> bool:
    """It neither touches a peer's memory nor meets it at a barrier of the cluster."""
    meetings = (meeting for op in role.body.walk() for meeting in op.effects().rendezvous)
    return not reaches_out(role) and not any(meeting.span is Span.CLUSTER for meeting in meetings)


def _needs_no_barrier(op: Op) -> bool:
    """Arithmetic, a prefetch, or a plain read of global memory by all threads, or branches with nothing else in them:
    nothing that a barrier, a peer or another thread has a part in. A scope that may be left early counts as a whole: one
    instruction in it that needs a barrier keeps all of it behind."""
    if any(not _needs_no_barrier(inner) for block in op.blocks() for inner in block.ops):
        return False
    effects = op.effects()
    plain = (
        a.region.space.is_common and a.mode is Mode.READ and not a.strong and a.when is When.NOW for a in effects.accesses
    )
    rest = dataclasses.replace(effects, accesses=(), executor=Executor.ALL)
    return all(plain) and rest.is_pure and (effects.executor is Executor.ALL or not effects.accesses)
