"""Whether an instruction reaches into the shared memory of another CTA, read from its effects."""

from __future__ import annotations

from phalanx.ir.core import Function, Op
from phalanx.ir.effects import Arrival, Complete, Effects, Expect


def signals_peer(effects: Effects) -> bool:
    """A barrier of another CTA may be armed, arrived on or credited with bytes: the instruction has a mask."""
    signals: tuple[Arrival | Expect | Complete, ...] = (*effects.arrivals, *effects.expects, *effects.completes)
    return any(signal.mask is not None for signal in signals) or any(c.leaders for c in effects.completes)


def accesses_peer(effects: Effects) -> bool:
    """Data in another CTA's shared memory may be read or written: a multicast, or a view of a named CTA."""
    return any(
        access.mask is not None or access.region.peer is not None for access in effects.accesses
    )


def leaves_work_behind(effects: Effects) -> bool:
    """What it does to a peer may still be on its way when the instruction is over in both CTAs."""
    lasting: list[Arrival | Expect | Complete] = [*effects.arrivals, *effects.expects]
    lasting += [complete for complete in effects.completes if not complete.awaited]
    return accesses_peer(effects) or any(signal.mask is not None for signal in lasting)


def reaches_out(op: Op) -> bool:
    """An instruction, or one inside it, touches a peer's shared memory."""
    own = op.effects()
    return signals_peer(own) or accesses_peer(own) or any(reaches_out(inner) for b in op.blocks() for inner in b.ops)


def touches_peers(function: Function) -> bool:
    """Any instruction of the kernel touches a peer's shared memory. A cluster of one CTA has no peers."""
    return function.cluster_size > 1 and any(reaches_out(op) for op in function.body.ops)
