"""Everything the checks keep of one cluster: the clocks of its agents and barriers, the shadow of each CTA's memory."""

from __future__ import annotations

import numpy as np

from phalanx.sanitizer.abroad import NOTHING, Abroad, joined
from phalanx.sanitizer.barriers import BarrierClock
from phalanx.sanitizer.clocks import AgentClock, Layout
from phalanx.sanitizer.publications import Publication
from phalanx.sanitizer.shared import SharedShadow
from phalanx.sanitizer.traits import Traits
from phalanx.sim.machine import Cluster


class ClusterState:
    """Everything about one cluster slot of the machine."""

    def __init__(self, cluster: Cluster, traits: Traits, *, overlaps: bool) -> None:
        self.cluster = cluster
        ctas = cluster.ctas
        agents = [[cta.main, *cta.main.children] for cta in ctas]
        barriers = [[barrier for array in cta.barriers.values() for barrier in array] for cta in ctas]
        self.layout = Layout(len(ctas), len(agents[0]), len(barriers[0]), traits, overlaps=overlaps)
        self.clocks: list[AgentClock] = []
        self.barriers: list[BarrierClock] = []
        self.shadows: list[SharedShadow] = []
        self.meetings = Publication()
        self.flags: dict[object, tuple[np.ndarray, Abroad]] = {}
        """What agents knew at their last fence of the cluster before an atomic, by the element (or cell) that it touched."""
        for rank, cta in enumerate(ctas):
            for i, agent in enumerate(agents[rank]):
                agent.watch = AgentClock(agent, rank * len(agents[rank]) + i, self.layout)
                self.clocks.append(agent.watch)
            for i, barrier in enumerate(barriers[rank]):
                dim = self.layout.barrier + rank * len(barriers[rank]) + i
                barrier.watch = BarrierClock(barrier, dim, tracked=barrier.array in traits.tracked)
                self.barriers.append(barrier.watch)
            cta.watch = SharedShadow(cta)
            self.shadows.append(cta.watch)
        inboxes = range(self.layout.inbox, self.layout.inbox + self.layout.agents)
        phases = [barrier.dim for barrier in self.barriers if barrier.barrier.array.exchange]
        self.layout.sends = np.array([*inboxes, *phases])

    def reset(self) -> None:
        """Another cluster of the grid begins in the same slot of the machine."""
        for clock in self.clocks:
            clock.reset(self.cluster.index)
        for barrier in self.barriers:
            barrier.reset()
        for shadow in self.shadows:
            shadow.reset()
        self.meetings.reset()
        self.flags.clear()

    def pass_flag(self, clock: AgentClock, place: object, *, tells: bool) -> None:
        """An atomic touches `place`: an update tells what came before its agent's fence; it brings what others told.

        What it brings is known behind the agent's next fence. All atomics but loads read and write, so that each goes on
        with what those before it told.
        """
        found = self.flags.get(place)
        if found is not None:
            clock.look(*found)
        if tells and clock.fenced is not None:
            vector, abroad = (clock.fenced, NOTHING) if found is None else found
            self.flags[place] = np.maximum(vector, clock.fenced), joined(abroad, clock.fenced_abroad)
