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
from phalanx.sim.machine import Cluster
from phalanx.sim.run import grid_of, with_counters
from phalanx.sim.timeline.clock import Clock, Places, brought_shares
from phalanx.sim.timeline.rounds import RoundKeeper

WAVES = 3
"""Clusters of one place that are run: where they differ, they are taken evenly from all."""


@frozen
class Glimpse:
    """What a few rounds say of a whole launch: its cycles, and the bytes of each array that all clusters ask for."""

    cycles: float
    reads: dict[int, float]


class GlimpseClock(Clock):
    """A clocked run of a few rounds. One that ends before its agents do has said enough: they wait for rounds left out."""

    def __init__(
        self, function: Function, dims: tuple[int, int, int], args: Sequence[Any], rates: Rates, places: Places,
        missed: dict[int, float],
    ) -> None:
        self.keeper = RoundKeeper(function)
        super().__init__(function, dims, args, rates, places, missed, self.keeper, WAVES)
        self.begun: dict[Cluster, float] = {}
        self.spans: list[float] = []
        self.reads: dict[int, float] = {}

    def start(self, time: float) -> bool:
        found = super().start(time)
        for cluster in self.running:
            self.begun.setdefault(cluster, time)
        return found

    def finish(self, cluster: Cluster, time: float) -> None:
        agents = [agent for cta in cluster.ctas for agent in (cta.main, *cta.main.children)]
        end = max([time, *(self.timer.now[agent] for agent in agents if agent in self.timer.now)])
        left_out = max(self.keeper.left_out(cta.main) for cta in cluster.ctas)
        self.spans.append(end - self.begun.pop(cluster) + left_out)
        for cta in cluster.ctas:
            for array, nbytes in self.keeper.all_reads(cta.main).items():
                self.reads[array] = self.reads.get(array, 0.0) + nbytes
        super().finish(cluster, time)

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


def glimpse(function: Function, grid: int | Sequence[int], args: Sequence[Any], rates: Rates, places: Places) -> float:
    """The cycles of a launch of a prepared kernel on the model of a card, by a few rounds of its loops.

    For choosing among many. `args` are NumPy arrays, which may have one element for all (strides of 0), and numbers.
    """
    dims = grid_of(function, grid)
    given = with_counters(function, args)
    first = GlimpseClock(function, dims, given, rates, places, {})
    asked = first.glimpse().reads
    shares = brought_shares(asked, {number: given[number].nbytes for number in asked}, first.all / first.held, rates)
    return GlimpseClock(function, dims, given, rates, places, shares).glimpse().cycles
