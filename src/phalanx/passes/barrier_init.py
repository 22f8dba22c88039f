"""Barriers are initialised before their first use, with the fence and the CTA or cluster sync this needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from phalanx.ir.core import Block, Function, Op
from phalanx.ir.effects import Executor, Mode, When
from phalanx.ir.ops.cluster import ClusterArrive, ClusterSync, ClusterWait
from phalanx.ir.ops.control import Sync
from phalanx.ir.ops.mbarrier import BarrierInit, FenceBarrierInit
from phalanx.ir.views import BarrierArray, GlobalView
from phalanx.passes.peers import touches_peers

Counts = tuple[tuple[int, ...], ...]
"""Arrival counts: one row per CTA rank, one number per barrier of the array."""

LOCAL = "barriers are initialised before their first use"
CLUSTER = "barriers are initialised before a peer reaches them"


def insert_barrier_init(function: Function, counts: Mapping[BarrierArray, Counts]) -> Function:
    """Puts the initialisation of every barrier array declared with `init=True` at the start of the kernel.

    A cluster sync follows where any instruction reaches into another CTA: its barriers must be ready before this
    CTA's first signal gets there; arithmetic and loads of global memory that come first go between its two halves.
    Otherwise the CTA's own threads are all that can be early.
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
    if not touches_peers(function):
        return dataclasses.replace(function, body=Block((*prologue, Sync(LOCAL, loc=loc), *ops)))
    early = next((n for n, op in enumerate(ops) if not _needs_no_barrier(op)), len(ops))
    if not any(op.effects().accesses for op in ops[:early]):  # nothing that takes time
        return dataclasses.replace(function, body=Block((*prologue, ClusterSync(CLUSTER, relaxed=True, loc=loc), *ops)))
    halves = ClusterArrive(relaxed=True, reason=CLUSTER, loc=loc), ClusterWait(CLUSTER, loc=loc)
    return dataclasses.replace(function, body=Block((*prologue, halves[0], *ops[:early], halves[1], *ops[early:])))


def _needs_no_barrier(op: Op) -> bool:
    """Arithmetic, or a plain read of global memory: nothing that a barrier, a peer or another thread has a part in."""
    if any(True for _ in op.blocks()):
        return False
    effects = op.effects()
    plain = (isinstance(a.region, GlobalView) and a.mode is Mode.READ and a.when is When.NOW for a in effects.accesses)
    return all(plain) and dataclasses.replace(effects, accesses=()).is_pure and effects.executor is Executor.ALL
