"""Accesses as the shadow state remembers them, and who made them, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.effects import Access, Mode, Proxy, Use, When
from phalanx.ir.engines import Engine
from phalanx.ir.views import View
from phalanx.sim.barriers import MBarrier

if TYPE_CHECKING:
    from phalanx.sanitizer.clocks import AgentClock
    from phalanx.sim.agents import Agent

WRITE, ASYNC, COMMIT = Mode.WRITE, Proxy.ASYNC, When.COMMIT
VERBS = {Mode.READ: "reads", Mode.WRITE: "writes", Mode.ATOMIC: "updates"}


@frozen
class Actor:
    """Who did it: a role of a CTA (or all its warps), or the engine that works for one."""

    cluster: int
    cta: int
    role: str
    first_warp: int
    warps: int
    engine: str | None = None

    def __str__(self) -> str:
        who = self.role
        if self.engine is not None:
            who = f"the {self.engine} for {who}"
        return f"{who}, CTA {self.cta}, cluster {self.cluster}"


def does(role: str, verb: str) -> str:
    """What a role does: `warp 1 waits`, `warps 0-3 wait`."""
    return f"{role} {verb}{'s' if role.startswith('warp ') else ''}"


def actor_of(agent: Agent, cluster: int | None = None, engine: str | None = None) -> Actor:
    """The words for an agent; `cluster` where its slot may have moved on to another one."""
    cta = agent.cta
    index = cta.cluster.index if cluster is None else cluster
    return Actor(index, cta.rank, agent.role, agent.first, agent.warps, engine)


class CopyWork:
    """One asynchronous copy: who issued it, and the phase of each barrier that it was issued to."""

    __slots__ = ("barriers", "clock", "faulty", "op", "phases")

    def __init__(self, clock: AgentClock, op: Op, barriers: tuple[MBarrier, ...], phases: tuple[int, ...]) -> None:
        self.clock = clock
        self.op = op
        self.barriers = barriers
        self.phases = phases
        self.faulty = False
        """A finding already says what is wrong with it."""


class Record:
    """One access: it is over for whoever knows `epoch` of number `dim` (or of one of `also`) of cluster `cluster`."""

    __slots__ = (
        "access", "also", "clock", "cluster", "dim", "engine", "epoch", "mode", "op", "place", "raced", "rank", "strong",
        "work",
    )

    def __init__(
        self, clock: AgentClock, op: Op, access: Access | None, place: Any, rank: int, dim: int, epoch: int,
        work: CopyWork | None = None,
    ) -> None:
        self.clock = clock
        self.cluster = clock.cluster
        self.op = op
        self.access = access
        """None: a signal of the mbarrier `place`, or its init or end."""
        if access is None:
            self.mode, self.engine, self.strong = WRITE, False, False
        else:
            self.mode, self.engine = access.mode, access.proxy is ASYNC
            self.strong = access.atomic
        self.place = place
        self.rank = rank
        """The CTA whose shared memory it touches."""
        self.dim = dim
        self.epoch = epoch
        self.work = work
        self.also: tuple[tuple[int, int], ...] = ()
        self.raced = False

    @property
    def verb(self) -> str:
        """What the access does, as a verb."""
        if self.access is None:
            return "signals"
        return VERBS[self.mode]

    @property
    def element_size(self) -> int:
        """The bytes of an element as this access takes it."""
        assert self.access is not None
        return self.access.region.dtype.itemsize

    def stands_beside(self, other: Record) -> bool:
        """Whether both are atomic, element by element of one size: then neither minds the other."""
        return self.strong and other.strong and self.element_size == other.element_size

    def stands_for(self, other: Record) -> bool:
        """Whether whoever knows that this access is over, and fenced, knows it of the other, earlier one."""
        return (
            self.dim == other.dim and self.cluster == other.cluster and self.epoch >= other.epoch and not self.also
            and self.engine is other.engine and self.strong is other.strong
        )

    @property
    def is_published(self) -> bool:
        """Whether its end is told by a barrier: who learns of it knows that it happened, and the writes that it read."""
        if self.work is None or self.access is None:
            return False
        return bool(self.work.barriers) or self.access.when is COMMIT

    @property
    def gives_back(self) -> bool:
        """Whether it ends the life of its memory."""
        return self.access is not None and self.access.use is Use.RELEASE

    @property
    def worker(self) -> Engine | None:
        """The engine that does it; None where a thread does, or a store that is on its way."""
        return None if self.access is None else self.access.engine

    def actor(self) -> Actor:
        """Who did it, in words."""
        engine = None
        if self.work is not None:
            worker = self.worker
            if worker is None:
                engine = "store in flight"
            elif not worker.waits_late:  # else it is the threads' own work, to whoever wrote no wait for it
                engine = worker.name
        return actor_of(self.clock.agent, self.cluster, engine)

    def region(self) -> str:
        """The bytes it touches, as the user would write them."""
        if self.access is None:
            text = self.place.name
        elif self.access.region.space.is_common:
            return array_text(self.access.region, self.place)
        else:
            text = buffer_text(self.access.region, self.place)
        if len(self.clock.agent.cta.cluster.ctas) > 1:
            text += f" of CTA {self.rank}"
        return text


def buffer_text(view: View, place: Any) -> str:
    """`stages[2]`, `s[0:32, 16:32]`."""
    key = [part for part in place.key if part is not Ellipsis]
    shape = view.sizes
    if view.index_axis is not None:
        key[view.index_axis] = "rows"
    while key and isinstance(key[-1], slice) and key[-1] == slice(0, shape[len(key) - 1]):
        key.pop()
    inside = ", ".join(f"{p.start}:{p.stop}" if isinstance(p, slice) else str(p) for p in key)
    return f"{view.memory.name}[{inside}]" if inside else view.memory.name


def array_text(view: View, place: Any) -> str:
    """`Y[0:64, 64:128]`, `X[rows, 0:64]`."""
    parts = []
    for axis, (start, extent) in enumerate(zip(place.starts, view.extents)):
        if not isinstance(start, int):
            parts.append("rows")
        else:
            parts.append(f"{start}:{start + extent}" if axis in view.kept else str(start))
    return f"{view.memory.name}[{', '.join(parts)}]"
