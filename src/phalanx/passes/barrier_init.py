"""Barriers are initialised before their first use, with the fence and the CTA or cluster sync this needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.cluster import ClusterSync
from phalanx.ir.ops.control import Sync
from phalanx.ir.ops.mbarrier import BarrierInit, FenceBarrierInit
from phalanx.ir.views import BarrierArray
from phalanx.passes.peers import touches_peers

Counts = tuple[tuple[int, ...], ...]
"""Arrival counts: one row per CTA rank, one number per barrier of the array."""

LOCAL = "barriers are initialised before their first use"
CLUSTER = "barriers are initialised before a peer reaches them"


def insert_barrier_init(function: Function, counts: Mapping[BarrierArray, Counts]) -> Function:
    """Puts the initialisation of every barrier array declared with `init=True` at the start of the kernel.

    A cluster sync follows where any instruction reaches into another CTA: its barriers must be ready before this
    CTA's first signal gets there. Otherwise the CTA's own threads are all that can be early.
    """
    inits: list[Op] = [
        BarrierInit(barrier=barrier, counts=counts[barrier], loc=barrier.loc)
        for barrier in function.barriers
        if barrier.init
    ]
    if not inits:
        return function
    # The init fence publishes the barriers, so the arrival need not: a release would cost a GPU-wide memory barrier.
    meets_peers = touches_peers(function)
    sync: Op = ClusterSync(CLUSTER, relaxed=True, loc=function.loc) if meets_peers else Sync(LOCAL, loc=function.loc)
    prologue = (*inits, FenceBarrierInit(loc=function.loc), sync)
    return dataclasses.replace(function, body=Block(prologue + function.body.ops))
