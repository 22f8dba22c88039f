"""Where the CTAs of a cluster meet, in a kernel whose loops have a producer: barriers, reductions and gathers over it.

A producer takes no part in what the warps that compute tell other CTAs. An exchange (a reduction, a gather) is among these
warps as it is. The barrier of the cluster counts all threads, the producer's among them: an mbarrier takes its place, on
which the warps that compute arrive in every CTA, and at which they wait in their own.
"""

from __future__ import annotations

from phalanx.analysis.across_ranks import AcrossRanks
from phalanx.ir.core import Block, Note, Op, rewrite
from phalanx.ir.effects import Effects, Span
from phalanx.ir.ops.control import For, While
from phalanx.ir.ops.mbarrier import Arrive, Wait
from phalanx.ir.types import I32
from phalanx.ir.values import Const, Var
from phalanx.ir.views import BarrierArray, BarrierRef
from phalanx.passes.pipelining.places import Places
from phalanx.passes.rank_code import LoopCode

ZERO, ONE = Const(0, I32), Const(1, I32)
REMEDY = "bring it under loops and conditions that are the same in all CTAs: of arguments, constants and px.cluster.id()"


def meets(effects: Effects) -> bool:
    """Whether an instruction is a barrier of the cluster's threads, or a half of one."""
    return any(meeting.span is Span.CLUSTER for meeting in effects.rendezvous)


def unequal_meeting(places: Places) -> tuple[str, str] | None:
    """A barrier of the cluster or an exchange that some CTA may come to more often than another, and the remedy.

    `None` where every CTA provably comes to all of them equally often, and so in the same order: then whoever waits in one
    is waited for by nobody else, the producers among them.
    """
    found = [op for op in places.order if op.exchange is not None or meets(op.effects())]
    if not found or places.function.cluster_size == 1:
        return None
    values = AcrossRanks(places.function, places.around)
    for op in found:
        unlike = values.unlike(op)
        if unlike is not None:
            what = "trip counts" if isinstance(unlike, For | While) else "conditions"
            why = f"{op.call} at {op.loc.short} may run unequally often in the CTAs of the cluster, "
            return f"{why}whose {what} at {unlike.loc.short} are not provably the same", REMEDY
    return None


def barrier_of_warps(body: Block, cluster_size: int, name: str) -> tuple[Block, BarrierArray | None, list[Note]]:
    """Replaces the cluster's barrier by an mbarrier; gives the new code, the mbarrier if one is needed, and notes."""
    first = next((op for op in body.walk() if meets(op.effects())), None)
    if first is None:
        return body, None, []
    array = BarrierArray(name, 1, loc=first.loc)
    parity = Var(I32, "cluster_parity")
    barrier = BarrierRef(array, ZERO)
    everywhere = Const((1 << cluster_size) - 1, I32) if cluster_size > 1 else None
    notes: dict[object, Note] = {}

    def visit(op: Op) -> list[Op] | None:
        effects = op.effects()
        if not meets(effects):
            return None
        said = f"{op.call}: on an mbarrier of the warps that compute; those that fetch take no part"
        notes.setdefault(op.loc, Note(said, op.loc))
        code = LoopCode(op.loc)
        for meeting in effects.rendezvous:
            if meeting.arrives:
                code.ops.append(Arrive(barrier, ONE, everywhere, relaxed=not meeting.releases, loc=op.loc))
            if meeting.waits:
                turn = code.read(parity)
                code.ops.append(Wait(barrier, turn, loc=op.loc))
                code.assign(parity, code.binary("xor", turn, ONE))
        return code.ops

    start = LoopCode(first.loc)
    start.assign(parity, ZERO)
    return Block((*start.ops, *rewrite(body, visit).ops)), array, list(notes.values())
