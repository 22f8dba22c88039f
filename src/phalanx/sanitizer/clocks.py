"""Vector clocks: what each agent knows to have happened.

One vector per agent and per publication, of 64-bit numbers, in sections:

- `V`, what is known in the sense of the memory model. One number per agent (its epochs), one per mbarrier (phases
  whose completion is known, which stand for the copies that completed in them), one or two per agent and engine for its
  groups (that were waited for; and whose reads were, where an engine tells), and one for its reads of inboxes.
  Asynchronous work needs no clock of its own: it is over for whoever knows its phase or its group.
- `X`, the same numbers, but only good enough to let a CTA exit: what a relaxed arrive at the cluster's barrier hands
  on.
- `I`, epochs of each agent before its last `px.fence.barrier_init()`.
- `P`, for each kind of proxy fence, and for `shared::cta` for the memory of each CTA: what of V came before such a fence
  that is known, whoever ran it. A fence counts for all accesses that it comes after and for all that come after it.
- `S` and `R`, only in clusters: epochs of each agent whose ordinary stores have reached this CTA. A signal of CTA scope
  orders what comes after it, but the stores of another CTA are seen only by way of a release and an acquire at cluster
  scope. `S` is what is seen; `R`, in publications, is what arrived from another CTA and waits to be acquired.
- `H`, one for each kind of memory that threads hand to each other with fences before the signal and behind the wait
  (`Space.handover`): the numbers of V as far as their agent had them at its last fence before a signal.
- `T`, what is known about time alone, whatever the order of memory: one number per agent (how many signals it has given),
  one per mbarrier (its phases that are complete), and, in kernels that begin before the launch before them has ended, 1 if
  that launch is over. Copies that land, and relaxed arrives, hand it on too: whoever waits for the phase of a copy comes
  after all that its issuer did before it, though not all of that need be visible.

Taking over a publication is an element-wise maximum of whole vectors.

A vector is about the agent's own cluster. What it learned of others, it keeps apart, a vector for each of them
(`sanitizer/abroad.py`), and hands on with its own by every release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phalanx.ir.effects import FenceKind
from phalanx.ir.engines import Engine
from phalanx.sanitizer.abroad import NOTHING, Abroad, joined

if TYPE_CHECKING:
    from phalanx.sanitizer.records import Record
    from phalanx.sanitizer.traits import Traits
    from phalanx.sim.agents import Agent

COMMON_FENCES = (FenceKind.PROXY_CLUSTER, FenceKind.PROXY_GLOBAL)
"""Proxy fences that are good for the memory of all CTAs."""


class Layout:
    """Where each number of a cluster's vectors stands."""

    __slots__ = (
        "across", "agents", "barrier", "exit", "fenced", "groups", "handed", "inbox", "init", "knowledge", "per_cta",
        "prior", "proxy", "received", "seen", "sends", "signals", "size", "time",
    )

    def __init__(self, ctas: int, agents: int, barriers: int, traits: Traits, *, overlaps: bool) -> None:
        self.across = traits.across
        """Whether clusters hand something on to each other."""
        self.per_cta = agents
        self.agents = ctas * agents
        self.barrier = self.agents
        self.signals = self.barrier + ctas * barriers
        """How many numbers of agents and barriers there are."""
        end = self.signals
        self.groups: dict[Engine, tuple[int, int]] = {}
        """For each engine, where the groups begin that are over, and those that have read their sources."""
        for engine in traits.engines:
            reads = end + self.agents if engine.reads_apart else end
            self.groups[engine] = end, reads
            end = reads + self.agents
        self.inbox = end
        self.knowledge = self.inbox + self.agents
        """The length of V; X has the same."""
        self.exit = self.knowledge if traits.relaxed else 0
        """Where X begins. Without relaxed arrives it is V itself."""
        end = self.exit + self.knowledge
        self.init = end
        end += self.agents
        self.fenced = self.knowledge if traits.lands else self.agents
        """The length of each part of P: without ordinary accesses that land later only epochs of agents are asked for."""
        self.proxy: dict[FenceKind, list[int]] = {}
        """Where P begins, for each kind of proxy fence, for the memory of each CTA."""
        for kind in COMMON_FENCES:
            self.proxy[kind] = [end] * ctas
            end += self.fenced
        self.proxy[FenceKind.PROXY_CTA] = [end + rank * self.fenced for rank in range(ctas)]
        end += ctas * self.fenced
        self.seen = end if ctas > 1 else 0
        """Where S begins, then R. Without peers there is neither."""
        self.received = end + self.agents
        end += 2 * self.agents * (ctas > 1)
        self.handed = {kind: end + i * self.knowledge for i, kind in enumerate(traits.handovers)}
        """Where H begins, for each kind of fence before a signal."""
        self.time = end + len(traits.handovers) * self.knowledge
        """Where T begins: numbers of agents and of barriers as in V."""
        self.prior = self.time + self.signals
        """Where it says that the launch before is over. Without overlap nothing is there: the vector ends before it."""
        self.size = self.prior + overlaps
        self.sends: np.ndarray = np.arange(0)
        """What a send over the cluster hands on: reads of inboxes, and phases of the barriers that belong to them."""


class AgentClock:
    """What one agent knows. `now` is a view of `vector` that is cheap to read number by number."""

    __slots__ = (
        "abroad", "agent", "cluster", "commits", "dim", "fenced", "fenced_abroad", "groups", "last_local", "layout", "now",
        "own", "rank", "received", "seen", "taken", "told", "told_abroad", "unacquired", "unacquired_abroad", "vector",
    )

    def __init__(self, agent: Agent, dim: int, layout: Layout) -> None:
        self.agent = agent
        self.rank = agent.cta.rank
        self.dim = dim
        self.layout = layout
        self.groups = {engine: (over + dim, read + dim) for engine, (over, read) in layout.groups.items()}
        """For each engine, the numbers of its groups that are over, and that have read their sources."""
        self.vector = np.zeros(layout.size, np.int64)
        first = self.rank * layout.per_cta
        self.own = slice(first, first + layout.per_cta)
        """The agents of its CTA."""
        self.seen = slice(layout.seen, layout.seen + layout.agents)
        self.received = slice(layout.received, layout.received + layout.agents)
        self.now = memoryview(self.vector)  # type: ignore[arg-type]
        self.cluster = 0
        self.abroad: Abroad = NOTHING
        """What it knows of other clusters."""
        self.taken: dict[FenceKind, np.ndarray] = {}
        """For each kind of fence behind a wait, its vector at its last one: what it knew then it may act upon."""
        self.reset(0)

    def reset(self, cluster: int) -> None:
        """The CTA begins, in that cluster of the grid."""
        self.cluster = cluster
        self.vector.fill(0)
        self.now[self.dim] = 1
        self.commits = dict.fromkeys(self.groups, 0)
        """For each engine, how many groups were committed."""
        self.last_local: dict[Engine, Record] = {}
        """For each engine, the last access of its CTA's memory by work in its groups."""
        self.fenced: np.ndarray | None = None
        """What it knew at its last `px.fence.cluster()`; and of other clusters."""
        self.fenced_abroad: Abroad = NOTHING
        self.unacquired: np.ndarray | None = None
        """Stores of other CTAs that a wait of CTA scope did not bring, and what they knew of other clusters: a fence may."""
        self.unacquired_abroad: Abroad = NOTHING
        self.told: np.ndarray | None = None
        """What others knew at a fence, before an atomic that came before one of its own: its next fence acquires that."""
        self.told_abroad: Abroad = NOTHING
        self.abroad = NOTHING
        if self.taken:
            self.taken.clear()

    def tick(self) -> None:
        """A new epoch: what follows is not part of what was just published or fenced."""
        self.now[self.dim] += 1

    def knows_start(self, rank: int) -> bool:
        """Whether that CTA is known to have started: something that its own code did, or a relaxed arrive, says so."""
        first = rank * self.layout.per_cta
        return bool(self.now[first] or self.now[self.layout.exit + first])

    def take(self, published: np.ndarray) -> None:
        """Takes over all that was published."""
        np.maximum(self.vector, published, out=self.vector)

    # --- fork and join ----------------------------------------------------------------------------------------------

    def fork(self, child: AgentClock) -> None:
        """The child begins with all that this agent knows; its threads took part in this agent's fences."""
        own = child.now[child.dim]
        child.take(self.vector)
        child.now[child.dim] = max(own, child.now[child.dim]) + 1
        child.abroad = self.abroad
        child.taken = dict(self.taken)
        child.fenced, child.fenced_abroad = self.fenced, self.fenced_abroad
        child.unacquired, child.unacquired_abroad = self.unacquired, self.unacquired_abroad
        self.tick()

    def join(self, child: AgentClock) -> None:
        """This agent goes on with all that the child did or observed."""
        self.take(child.vector)
        self.abroad = joined(self.abroad, child.abroad)
        child.tick()

    # --- other clusters ---------------------------------------------------------------------------------------------

    def shake_hands(self, published: Abroad) -> Abroad:
        """Takes over what is published at an element of global memory; what is published there from now on."""
        before = published.known.get(self.cluster)
        if before is not None:
            self.take(before)
        self.abroad = joined(self.abroad, published.without(self.cluster))
        mine = self.abroad.adding(self.cluster, self.exposed().copy())
        self.tick()
        return mine

    def take_abroad(self, near: Abroad, far: Abroad, *, wide: bool) -> None:
        """What a phase brought of other clusters: from within its own CTA, and, good at cluster scope alone, from others."""
        self.abroad = joined(self.abroad, near)
        if wide:
            self.abroad = joined(self.abroad, far)
        else:
            self.unacquired_abroad = joined(self.unacquired_abroad, far)

    def look(self, told: np.ndarray, abroad: Abroad) -> None:
        """An atomic of its own came after one that followed a fence of another: with a fence it will be synchronised."""
        self.told = told.copy() if self.told is None else np.maximum(self.told, told)
        self.told_abroad = joined(self.told_abroad, abroad)

    # --- fences -----------------------------------------------------------------------------------------------------

    def fence(self, kind: FenceKind) -> None:
        """What the agent did before is ordered in the way of that fence."""
        layout = self.layout
        if kind is FenceKind.ACQ_REL_CLUSTER:
            self._acquire_all()
            self.fenced = self.exposed().copy()
            self.fenced_abroad = self.abroad
        elif kind is FenceKind.BARRIER_INIT:
            self._mark(layout.init)
        elif kind in layout.handed:
            self._hand(layout.handed[kind])
        elif kind in layout.proxy:
            first = layout.proxy[kind][self.rank]
            self.vector[first : first + layout.fenced] = self.vector[: layout.fenced]
            if kind is FenceKind.PROXY_GLOBAL and self.abroad is not NOTHING:
                self.abroad = self.abroad.fenced()
        else:  # behind a wait
            self.taken[kind] = self.vector.copy()
        self.tick()

    def _acquire_all(self) -> None:
        """What signals and atomics have brought that only a fence makes visible."""
        seen = self.vector[self.seen]
        if self.unacquired is not None:
            np.maximum(seen, self.unacquired, out=seen)
            self.unacquired = None
        self.abroad = joined(self.abroad, self.unacquired_abroad)
        self.unacquired_abroad = NOTHING
        if self.told is not None:
            self.take(self.told)
            self.abroad = joined(self.abroad, self.told_abroad.without(self.cluster))
            self.told = None
            self.told_abroad = NOTHING

    def _mark(self, section: int) -> None:
        """The epochs so far of this agent, and of the roles that joined it, are fenced: its threads are theirs."""
        now = self.now
        now[section + self.dim] = now[self.dim]
        if self.agent.parent is None:
            for dim in range(self.dim + 1, self.dim + self.layout.per_cta):
                now[section + dim] = now[dim]

    def _hand(self, section: int) -> None:
        """What this agent, and the roles that joined it, did so far may be handed over by a signal."""
        agents = [self.dim] if self.agent.parent is not None else range(self.own.start, self.own.stop)
        for first in {0, *(first for groups in self.layout.groups.values() for first in groups)}:
            for dim in agents:
                self.now[section + first + dim] = self.now[first + dim]

    def inboxes_read(self) -> np.ndarray:
        """What a send over the cluster hands on besides itself: which inboxes are known to be full, and to be read."""
        layout = self.layout
        out = self.timed()
        out[layout.sends] = self.vector[layout.sends]
        return out

    def timed(self) -> np.ndarray:
        """What a copy hands on to its phase besides itself: that it comes after all that its issuer knows to be over."""
        time = self.layout.time
        out = np.zeros(self.layout.size, np.int64)
        out[time:] = self.vector[time:]
        return out

    def count(self) -> int:
        """One more signal is given; its number."""
        at = self.layout.time + self.dim
        number = self.now[at] + 1
        self.now[at] = number
        return number

    def knows_signal(self, other: AgentClock, number: int) -> bool:
        """Whether that signal of the other agent is known to have been given."""
        return bool(self.now[self.layout.time + other.dim] >= number)

    # --- what is published ------------------------------------------------------------------------------------------

    def exposed(self) -> np.ndarray:
        """All that it knows, what its CTA stored included: a release at cluster scope."""
        if self.layout.seen:
            self.vector[self.seen][self.own] = self.vector[self.own]
        return self.vector

    def sent(self, *, wide: bool, releases: bool) -> np.ndarray:
        """What an arrive on a barrier of another CTA hands on: stores only at cluster scope, or after a fence."""
        if not releases:
            out = self.relaxed()
            out[self.received] = out[self.seen]
        else:
            out = (self.exposed() if wide else self.vector).copy()
            fenced = None if self.fenced is None else self.fenced[self.seen]
            out[self.received] = out[self.seen] if wide else 0 if fenced is None else fenced
        out[self.seen] = 0
        return out

    def acquire(self, wide: bool) -> None:
        """A publication was taken over: what other CTAs stored is seen if the wait is of cluster scope."""
        received = self.vector[self.received]
        if received.any():
            if wide:
                np.maximum(self.vector[self.seen], received, out=self.vector[self.seen])
            else:
                self.unacquired = received.copy() if self.unacquired is None else np.maximum(received, self.unacquired)
            received.fill(0)

    def relaxed(self) -> np.ndarray:
        """What a relaxed arrive hands on: fenced inits, what a `px.fence.cluster()` follows, the licence to exit, time."""
        layout = self.layout
        size = layout.knowledge
        out = np.zeros(layout.size, np.int64) if self.fenced is None else self.fenced.copy()
        if layout.exit:
            exits = slice(layout.exit, layout.exit + size)
            out[exits] = np.maximum(self.vector[:size], self.vector[exits])
        inits = slice(layout.init, layout.init + layout.agents)
        out[inits] = self.vector[inits]
        out[layout.time :] = self.vector[layout.time :]
        return out
