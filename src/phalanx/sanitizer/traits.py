"""What of the model a kernel has use for: vectors have no numbers that nothing in it would ever set."""

from __future__ import annotations

from phalanx.ir import effects as fx
from phalanx.ir.core import Function, Op
from phalanx.ir.engines import Engine
from phalanx.ir.views import BarrierArray


class Traits:
    """Read from the effects of a prepared kernel, once for a run."""

    def __init__(self, function: Function) -> None:
        effects = {op: op.effects() for op in function.walk()}
        self.relaxed_arrivals: set[Op] = set()
        """Arrives that release nothing."""
        self.cluster_scoped: set[Op] = set()
        """Arrives and waits of cluster scope."""
        self.arriving: set[Op] = set()
        engines: dict[Engine, None] = {}
        self.tracked: set[BarrierArray] = set()
        """Barriers that something may end."""
        for op, mine in effects.items():
            scopes = [arrival.scope for arrival in mine.arrivals] + [wait.scope for wait in mine.waits]
            if fx.Span.CLUSTER in scopes:
                self.cluster_scoped.add(op)
            if mine.arrivals:
                self.arriving.add(op)
            if any(not arrival.releases for arrival in mine.arrivals):
                self.relaxed_arrivals.add(op)
            named = [access.engine for access in mine.accesses] + [arrival.after for arrival in mine.arrivals]
            engines |= dict.fromkeys(engine for engine in named if engine is not None)
            engines |= dict.fromkeys(group.engine for group in mine.groups)
            self.tracked |= {life.barrier for life in mine.lifecycle if life.life is fx.Life.INVALIDATE}
        self.engines = tuple(engines)
        """Engines that get work, or are told to arrive when they have none left."""
        meetings = [meeting for mine in effects.values() for meeting in mine.rendezvous]
        self.relaxed = bool(self.relaxed_arrivals) or any(not meeting.releases for meeting in meetings)
        """Whether somebody arrives without releasing anything."""
        self.across = any(mine.handshakes for mine in effects.values())
        """Whether clusters hand something on to each other."""
        accesses = [access for mine in effects.values() for access in mine.accesses]
        spaces = dict.fromkeys(access.region.space for access in accesses)
        self.handovers = tuple(space.handover[0] for space in spaces if space.handover is not None)
        """The fences before a signal by which threads hand memory to each other."""
        self.mixed = len({access.region.dtype.itemsize for access in accesses if access.atomic}) > 1
        """Whether atomics take elements of different sizes."""
        fences = [kind for mine in effects.values() for kind in mine.fences]
        self.fenced_flags = fx.FenceKind.ACQ_REL_CLUSTER in fences and any(access.atomic for access in accesses)
        """Whether fences on both sides of an atomic may hand on what atomics alone do not."""
        self.lands = any(map(lands, accesses))
        """Whether ordinary accesses end later than their instruction, or with something else than it."""


def lands(access: fx.Access) -> bool:
    """Whether an ordinary access may need a proxy fence behind it, and is not over with its agent's next epoch."""
    space = access.region.space
    fenceable = space.own_fence is not None or space.common_fence is not None
    later = access.when is not fx.When.NOW or (access.exchange and not access.fenced)
    return access.proxy is fx.Proxy.GENERIC and fenceable and later
