"""One cluster sync at the start, so that no CTA touches the shared memory of a peer that has not started."""

from __future__ import annotations

import dataclasses

from phalanx.analysis.peers import accesses_peer, signals_peer, touches_peers
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.effects import Span
from phalanx.ir.ops.cluster import ClusterSync
from phalanx.ir.ops.control import Scope

REASON = "entry: all CTAs of the cluster have started before one touches another's shared memory"


def insert_entry_sync(function: Function) -> Function:
    """Puts the sync first where a kernel reaches into a peer before any cluster barrier of its own.

    Kernels whose barriers the compiler initialises have it from `insert_barrier_init`. It publishes nothing, so it need
    not wait for memory.
    """
    if any(barrier.init for barrier in function.barriers) or not touches_peers(function) or _meets(function.body):
        return function
    start = ClusterSync(REASON, relaxed=True, loc=function.loc)
    return dataclasses.replace(function, body=Block((start, *function.body.ops)))


def _meets(block: Block) -> bool:
    """Whether a whole cluster barrier, in one piece or two, comes on every path before anything that reaches a peer."""
    for op in block.ops:
        if isinstance(op, Scope):
            return _meets(op.body)
        if _reaches(op):
            return False
        if any(meeting.span is Span.CLUSTER and meeting.waits for meeting in op.effects().rendezvous):
            return True
    return False


def _reaches(op: Op) -> bool:
    inside = (inner for block in op.blocks() for inner in block.walk())
    return any(signals_peer(e) or accesses_peer(e) for e in (part.effects() for part in (op, *inside)))
