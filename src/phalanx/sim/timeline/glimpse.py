"""How long a launch takes, by a few rounds of its loops: prologue, steady state, end, and how often that comes.

What is run is a clocked run as any other, in which loops make few rounds (`rounds.py`) and few clusters stand for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.core import Function
from phalanx.machines.rates import Rates
from phalanx.sim.machine import Cluster, Cta
from phalanx.sim.run import grid_of, with_counters
from phalanx.sim.timeline.clock import FEW_WAVES, Clock, Places, brought_shares
from phalanx.sim.timeline.closed import AgentBody, Closed, body_of
from phalanx.sim.timeline.numbers import Unknown
from phalanx.sim.timeline.rounds import RoundKeeper, Rounds


@frozen
class Glimpse:
    """What a few rounds say of a whole launch: its cycles, and the bytes of each array that all clusters ask for."""

    cycles: float
    reads: dict[int, float]


@frozen
class Look:
    """What the agents of a CTA have done: the rounds that were run, the time of one on average, and its rank."""

    ran: int
    pace: float
    bodies: list[AgentBody]
    rank: int


class GlimpseClock(Clock):
    """A clocked run of a few rounds. One that ends before its agents do has said enough: they wait for rounds left out."""

    def __init__(
        self, function: Function, dims: tuple[int, int, int], args: Sequence[Any], rates: Rates, places: Places,
        missed: dict[int, float],
    ) -> None:
        self.keeper = RoundKeeper(function)
        super().__init__(function, dims, args, rates, places, missed, self.keeper, FEW_WAVES)
        self.begun: dict[Cluster, float] = {}
        self.spans: list[float] = []
        self.reads: dict[int, float] = {}
        self.looks: list[Look] = []
        """The slowest CTA of each cluster."""

    def start(self, time: float) -> bool:
        found = super().start(time)
        for cluster in self.running:
            self.begun.setdefault(cluster, time)
        return found

    def finish(self, cluster: Cluster, time: float) -> None:
        agents = [agent for cta in cluster.ctas for agent in (cta.main, *cta.main.children)]
        end = max([time, *(self.timer.now[agent] for agent in agents if agent in self.timer.now)])
        slowest = max(cluster.ctas, key=lambda cta: self.keeper.left_out(cta.main))
        begun = self.begun.pop(cluster)
        span = end - begun + self.keeper.left_out(slowest.main)
        self.spans.append(span)
        roots = [self.keeper.roots[agent] for agent in agents if agent.cta is slowest and agent in self.keeper.roots]
        ran, trips = (sum(map(count, roots)) for count in (Rounds.all_ran, Rounds.all_trips))
        self.looks.append(Look(ran, span / max(1, trips), self.bodies_of(slowest, begun), slowest.rank))
        for cta in cluster.ctas:
            for array, nbytes in self.keeper.all_reads(cta.main).items():
                self.reads[array] = self.reads.get(array, 0.0) + nbytes
        super().finish(cluster, time)

    def bodies_of(self, cta: Cta, begun: float) -> list[AgentBody]:
        """What the agents of a CTA have done: first the code around roles."""
        bodies = [body_of(cta.main, None, self.keeper, begun)]
        for (role, _, _), agent in zip(self.machine.code.main.children, cta.main.children):
            if agent in self.keeper.roots:
                bodies.append(body_of(agent, role, self.keeper, begun))
        return bodies

    def closed_form(self) -> Closed | None:
        """The time as a function of sizes; None where data decide how long loops are."""
        most = max(look.ran for look in self.looks)
        like = sorted((look for look in self.looks if look.ran == most), key=lambda look: look.pace)
        look = like[len(like) // 2]
        try:
            return Closed(self.function, look.bodies, look.rank, self.rates)
        except Unknown:
            return None

    def stop_short(self) -> None:
        while self.running:
            cluster = self.running[0]
            agents = [agent for cta in cluster.ctas for agent in (cta.main, *cta.main.children)]
            self.finish(cluster, max(self.timer.now.get(agent, 0.0) for agent in agents))
            self.heap.clear()

    def glimpse(self) -> Glimpse:
        """Runs it."""
        self.go()
        scale = self.clusters / max(1, len(self.spans))
        if self.all <= self.held:
            cycles = max(self.spans)
        else:
            cycles = fsum(self.spans) / len(self.spans) * self.all / self.held
        return Glimpse(self.rates.launch + cycles, {array: nbytes * scale for array, nbytes in self.reads.items()})


def glimpse(
    function: Function, grid: int | Sequence[int], args: Sequence[Any], rates: Rates, places: Places
) -> tuple[float, Closed | None]:
    """The cycles of a launch of a prepared kernel on the model of a card, by a few rounds of its loops.

    Beside them is the time of launches of other sizes, in closed form, where data do not decide how long loops are. For
    choosing among many. `args` are NumPy arrays and numbers.
    """
    dims = grid_of(function, grid)
    given = with_counters(function, args)
    first = GlimpseClock(function, dims, given, rates, places, {})
    asked = first.glimpse().reads
    shares = brought_shares(asked, {number: given[number].nbytes for number in asked}, first.all / first.held, rates)
    second = GlimpseClock(function, dims, given, rates, places, shares)
    return second.glimpse().cycles, second.closed_form()
