"""One cluster sync before exit, so that no CTA leaves while a peer may still touch its shared memory."""

from __future__ import annotations

import dataclasses

import phalanx.passes.ops  # noqa: F401  # what the families registered
from phalanx.analysis.peers import leaves_work_behind, touches_peers
from phalanx.errors import Error
from phalanx.ir.core import Block, Function
from phalanx.ir.effects import Span, When
from phalanx.ir.ops.cluster import ClusterSync
from phalanx.ir.ops.control import Leave, Scope
from phalanx.passes.registry import needs_peers

REASON = "exit: peers may still touch this CTA's shared memory"


def insert_exit_sync(function: Function) -> Function:
    """Appends the sync after the kernel's scope, where early returns and all roles end up too.

    `exit_sync=False` opts out, where no instruction needs all CTAs of the cluster to be there: for those nobody shows that
    they are. A kernel whose last instruction on every path is a cluster sync already has it. Where
    everything sent to a peer has arrived before either of the two goes on, the sync need not wait for memory.
    """
    if not touches_peers(function) or _ends_together(function.body):
        return function
    if not function.exit_sync:
        _require_peers(function)
        return function
    relaxed = not any(leaves_work_behind(op.effects()) for op in function.walk())
    end = ClusterSync(REASON, relaxed=relaxed, loc=function.loc)
    return dataclasses.replace(function, body=Block((*function.body.ops, end)))


def _require_peers(function: Function) -> None:
    """Refuses an instruction that needs its peers in a kernel whose CTAs may exit one by one.

    A CTA that ends while its pair multiplies, or while a commit is on its way to it, takes memory away that is in use; that
    it has waited for all of it can't be shown here.
    """
    remedy = "leave exit_sync= out, or end the kernel, on every way out of it, with px.cluster.sync()"
    for op in function.walk():
        effects = op.effects()
        needs = needs_peers.of(op)
        if needs is not None and needs(op):
            raise Error(
                f"{op.call} in a cluster needs all its CTAs, and with exit_sync=False one may have exited before it is over",
                location=op.loc, remedy=remedy,
            )
        works = any(access.when is When.COMMIT and access.region.peer is not None for access in effects.accesses)
        if works or any(arrival.after is not None and arrival.mask is not None for arrival in effects.arrivals):
            does = "works in the memory of both CTAs of a pair" if works else "arrives in other CTAs"
            raise Error(
                f"{op.call} {does}, and with exit_sync=False one may have exited before that is over",
                location=op.loc, kind="pair" if works else "exit-hazard", remedy=remedy,
            )


def _ends_together(block: Block) -> bool:
    """Whether a full cluster barrier is the last thing that every path through `block` runs."""
    if not block.ops:
        return False
    last = block.ops[-1]
    if isinstance(last, Scope):
        returns_early = any(isinstance(op, Leave) and op.label is last.label for op in last.body.walk())
        return not returns_early and _ends_together(last.body)
    return any(
        meeting.span is Span.CLUSTER and meeting.arrives and meeting.waits and meeting.releases
        for meeting in last.effects().rendezvous
    )
