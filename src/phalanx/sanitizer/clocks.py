"""Vector clocks: what each agent knows to have happened.

One vector per agent and per publication, of 64-bit numbers, in sections:

- `V`, what is known in the sense of the memory model. One number per agent (its epochs), one per mbarrier (phases
  whose completion is known, which stand for the copies that completed in them), one or two per agent and engine for its
  groups (that were waited for; and whose reads were, where an engine tells), and one for its reads of inboxes.
  Asynchronous work needs no clock of its own: it is over for whoever knows its phase or its group.
- `X`, the same numbers, but only good enough to let a CTA exit: what a relaxed arrive at the cluster's barrier hands
  on.
- `I`, epochs of each agent before its last `px.fence.barrier_init()`.
- `P`, for each space of the proxy fence, epochs of each agent before its own last fence.
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

A vector is about the agent's own cluster. What it learned of others by an ordered atomic, it keeps apart, a vector for each
of them (`elsewhere`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phalanx.ir.effects import FenceKind
from phalanx.ir.engines import Engine

if TYPE_CHECKING:
    from phalanx.sanitizer.records import Record
    from phalanx.sim.agents import Agent

PROXY_SPACES = (FenceKind.PROXY_CTA, FenceKind.PROXY_CLUSTER, FenceKind.PROXY_GLOBAL)
HISTORY = 32
"""Phases of a barrier whose publications are kept one by one, besides its first."""


class Layout:
    """Where each number of a cluster's vectors stands."""

    __slots__ = (
        "across", "agents", "barrier", "exit", "groups", "handed", "inbox", "init", "knowledge", "per_cta", "prior", "proxy",
        "received", "seen", "sends", "signals", "size", "time",
    )

    def __init__(
        self, ctas: int, agents: int, barriers: int, engines: tuple[Engine, ...], *, relaxed: bool, overlaps: bool,
        handovers: tuple[FenceKind, ...] = (), across: bool = False,
    ) -> None:
        self.across = across
        """Whether clusters hand something on to each other."""
        self.per_cta = agents
        self.agents = ctas * agents
        self.barrier = self.agents
        self.signals = self.barrier + ctas * barriers
        """How many numbers of agents and barriers there are."""
        end = self.signals
        self.groups: dict[Engine, tuple[int, int]] = {}
        """For each engine, where the groups begin that are over, and those that have read their sources."""
        for engine in engines:
            reads = end + self.agents if engine.reads_apart else end
            self.groups[engine] = end, reads
            end = reads + self.agents
        self.inbox = end
        self.knowledge = self.inbox + self.agents
        """The length of V; X has the same."""
        self.exit = self.knowledge if relaxed else 0
        """Where X begins. Without relaxed arrives it is V itself."""
        end = self.exit + self.knowledge
        self.init = end
        self.proxy = {kind: end + (1 + i) * self.agents for i, kind in enumerate(PROXY_SPACES)}
        end += 4 * self.agents
        self.seen = end if ctas > 1 else 0
        """Where S begins, then R. Without peers there is neither."""
        self.received = end + self.agents
        end += 2 * self.agents * (ctas > 1)
        self.handed = {kind: end + i * self.knowledge for i, kind in enumerate(handovers)}
        """Where H begins, for each kind of fence before a signal."""
        self.time = end + len(handovers) * self.knowledge
        """Where T begins: numbers of agents and of barriers as in V."""
        self.prior = self.time + self.signals
        """Where it says that the launch before is over. Without overlap nothing is there: the vector ends before it."""
        self.size = self.prior + overlaps
        self.sends: np.ndarray = np.arange(0)
        """What a send over the cluster hands on: reads of inboxes, and phases of the barriers that belong to them."""


class AgentClock:
    """What one agent knows. `now` is a view of `vector` that is cheap to read number by number."""

    __slots__ = (
        "agent", "cluster", "commits", "dim", "elsewhere", "fenced", "fenced_elsewhere", "groups", "last_read", "layout",
        "locally", "now", "own", "rank", "received", "seen", "taken", "unacquired", "vector",
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
        self.elsewhere: dict[int, np.ndarray] = {}
        """What it knows of other clusters, by their numbers: vectors of theirs, none of which ever changes."""
        self.fenced_elsewhere: dict[FenceKind, dict[int, np.ndarray]] = {}
        """For each space, what it knew of them at its own last fence."""
        self.locally: dict[FenceKind, np.ndarray] = {}
        """For each space, what it knew at its own last fence: epochs of agents, phases, groups whose stores had landed."""
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
        self.last_read: dict[Engine, Record] = {}
        """For each engine, the last read of shared memory by work in its groups."""
        self.fenced: np.ndarray | None = None
        self.unacquired: np.ndarray | None = None
        """Stores of other CTAs that a wait of CTA scope did not acquire; a fence may."""
        if self.elsewhere:
            self.elsewhere = {}
        if self.fenced_elsewhere:
            self.fenced_elsewhere = {}
        if self.locally:
            self.locally.clear()
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
        child.elsewhere = self.elsewhere
        child.fenced_elsewhere = dict(self.fenced_elsewhere)
        child.locally = dict(self.locally)
        child.taken = dict(self.taken)
        child.fenced = self.fenced
        child.unacquired = self.unacquired
        self.tick()

    def join(self, child: AgentClock) -> None:
        """This agent goes on with all that the child did or observed."""
        self.take(child.vector)
        self.elsewhere = joined(self.elsewhere, child.elsewhere)
        for kind, known in child.fenced_elsewhere.items():
            self.fenced_elsewhere[kind] = joined(self.fenced_elsewhere.get(kind, {}), known)
        for kind, fenced in child.locally.items():
            mine = self.locally.get(kind)
            self.locally[kind] = fenced if mine is None else np.maximum(mine, fenced)
        child.tick()

    # --- other clusters ---------------------------------------------------------------------------------------------

    def shake_hands(self, published: dict[int, np.ndarray]) -> None:
        """Adds what it knows to what is published at an element of global memory, and takes over what was there.

        Other roles of its cluster learn of other clusters by a fork, a join or an element of their own, not by barriers.
        """
        here = self.cluster
        before = published.get(here)
        mine = self.exposed() if before is None else np.maximum(self.exposed(), before)
        self.elsewhere = joined(self.elsewhere, {index: vector for index, vector in published.items() if index != here})
        if before is not None:
            self.take(before)
        published.update(self.elsewhere)
        published[here] = mine.copy()
        self.tick()

    # --- fences -----------------------------------------------------------------------------------------------------

    def fence(self, kind: FenceKind) -> None:
        """What the agent did before is ordered in the way of that fence."""
        layout = self.layout
        if kind is FenceKind.ACQ_REL_CLUSTER:
            if self.unacquired is not None:
                np.maximum(self.vector[self.seen], self.unacquired, out=self.vector[self.seen])
                self.unacquired = None
            self.fenced = self.exposed().copy()
        elif kind is FenceKind.BARRIER_INIT:
            self._mark(layout.init)
        elif kind in layout.handed:
            self._hand(layout.handed[kind])
        elif kind in layout.proxy:
            kinds = (kind, FenceKind.PROXY_CTA) if kind is FenceKind.PROXY_CLUSTER else (kind,)
            for covered in kinds:
                self._mark(layout.proxy[covered])
                self.locally[covered] = self.vector[: layout.knowledge].copy()
                if self.elsewhere:
                    self.fenced_elsewhere[covered] = self.elsewhere
        else:  # behind a wait
            self.taken[kind] = self.vector.copy()
        self.tick()

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


def joined(some: dict[int, np.ndarray], more: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """What is known of each cluster, one way or the other."""
    if not more or some is more:
        return some
    out = dict(some)
    for cluster, vector in more.items():
        known = out.get(cluster)
        out[cluster] = vector if known is None else np.maximum(known, vector)
    return out


class Publication:
    """What was published to a barrier, phase by phase, each with what came before it: phases complete in order."""

    __slots__ = ("history", "open", "phase")

    def __init__(self) -> None:
        self.open: np.ndarray | None = None
        self.phase = 0
        self.history: dict[int, np.ndarray] = {}

    def reset(self) -> None:
        """A barrier begins anew: nothing is published."""
        self.open = None
        self.phase = 0
        if self.history:
            self.history.clear()

    def add(self, phase: int, vector: np.ndarray) -> None:
        """`vector` is published to `phase`, the current one."""
        before = self.open
        if before is None:
            self.open = vector.copy()
            self.phase = phase
        elif phase == self.phase:
            np.maximum(before, vector, out=before)
        else:
            self.history[self.phase] = before
            if len(self.history) > HISTORY:
                del self.history[list(self.history)[1]]  # the first stays
            self.open = np.maximum(before, vector)
            self.phase = phase

    def upto(self, phase: int) -> np.ndarray | None:
        """What `phase` and those before it published, as far as it was kept."""
        if self.open is not None and phase >= self.phase:
            return self.open
        found = self.history.get(phase)
        if found is None:
            found = next((vector for kept, vector in reversed(self.history.items()) if kept <= phase), None)
        return found
