"""A run in the order of time: agents and copies take turns as the model of the card says.

The simulator's own code runs, so that control flow, barriers and groups are the real ones. One cluster, or as many as one
place of the card holds at a time, stands for all: the others do the same at the same time. What is shared by the whole card
(HBM, the runtime's counters) is divided among them.
"""

from __future__ import annotations

import heapq
import io
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import phalanx.sim.ops
import phalanx.sim.timeline.ops  # noqa: F401  (registers what instructions cost)
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Function
from phalanx.machines.rates import Rates
from phalanx.sim.agents import Agent
from phalanx.sim.machine import Cluster, Machine
from phalanx.sim.report import deadlock
from phalanx.sim.run import check_arguments, code_of, grid_of, with_counters
from phalanx.sim.scheduler import IN_VAIN
from phalanx.sim.timeline.costs import Unit
from phalanx.sim.timeline.events import Run
from phalanx.sim.timeline.rounds import RoundKeeper
from phalanx.sim.timeline.timer import Timer
from phalanx.sim.timeline.units import Sm

GOLDEN = 0.6180339887
FEW_WAVES = 3
"""Clusters of one place that are enough for a glimpse: where they differ, they are taken evenly from all."""
MOST_WAVES = 32
"""Clusters that one place of the card runs one after the other; of more, as many are taken, evenly, and stand for all."""


@frozen
class Places:
    """How a grid lies on a card: `groups` of SMs, each as large as a cluster, that hold `held` clusters at a time."""

    groups: int
    held: int

    def dealt(self, count: int) -> list[int]:
        """The clusters of a grid of so many that one group of SMs runs: the first, then one of each round of all groups.

        Which one of a round it gets depends on who is done first; they are taken evenly from all, since clusters whose
        numbers are as far apart as there are groups may be all long, or all short.
        """
        found: list[int] = []
        for first in range(0, count, self.groups):
            room = min(self.groups, count - first)
            found.append(first + int(len(found) * GOLDEN * room) % room)
        return found


class Clock:
    """One run: the heap of what happens next, and who listens."""

    def __init__(
        self,
        function: Function,
        dims: tuple[int, int, int],
        args: Sequence[Any],
        rates: Rates,
        places: Places,
        missed: dict[int, float],
        keeper: RoundKeeper | None = None,
        most_waves: int = MOST_WAVES,
        last: bool = False,
    ) -> None:
        self.rates = rates
        self.function = function
        self.clusters = dims[0] * dims[1] * dims[2] // function.cluster_size
        crowd = min(places.groups, self.clusters) * function.cluster_size
        self.sms = [Sm(rates, crowd) for _ in range(function.cluster_size)]
        self.timer = Timer(function, rates, self.sms, missed, keeper)
        self.timer.others = max(0, min(self.clusters, places.groups * places.held) - 1)
        self.machine = Machine(
            function,
            dims,
            tuple(args),
            code_of(function, preempt=True, clocked=True),
            early=False,
            monitor=self.timer,
            out=io.StringIO(),
            values=False,
        )
        dealt = [self.clusters - 1] if last else places.dealt(self.clusters)
        self.all = len(dealt)
        if self.machine.asks:
            self.machine.resident = deque(dealt[: places.held])
            self.machine.waiting = deque(dealt[places.held :])
            self.chosen = self.all
        else:
            chosen = dealt if last else some_clusters(places, self.clusters, most_waves)
            self.chosen = len(chosen)
            self.machine.resident, self.machine.waiting = deque(chosen), deque()
        self.held = places.held
        self.heap: list[tuple[float, int, Any, Cluster]] = []
        self.count = 0
        self.running: list[Cluster] = []
        self.free: list[Cluster] = []

    def push(self, time: float, thing: Any, cluster: Cluster) -> None:
        """Something happens then; of what happens at one time, what was said first comes first."""
        self.count += 1
        heapq.heappush(self.heap, (time, self.count, thing, cluster))

    def go(self) -> Run:
        """Until the last cluster is over."""
        for _ in range(self.held):
            if not self.start(self.rates.launch):
                break
        with np.errstate(all="ignore"):
            while self.heap:
                self.step(*heapq.heappop(self.heap))
        if self.running:
            self.stop_short()
        run = self.timer.run
        written = [sm.servers[Unit.HBM].free for sm in self.sms]  # what L2 holds then is in the next launch's way
        run.end = max([event.end for event in run.events] + run.finished + written, default=self.rates.launch)
        for sm in self.sms:
            for unit, server in sm.servers.items():
                run.busy[unit.value] = max(run.busy.get(unit.value, 0.0), server.busy)
        return run

    def start(self, time: float) -> bool:
        """The next cluster begins in a place that is free."""
        index = self.machine.next_cluster()
        if index is None:
            return False
        cluster = self.free.pop() if self.free else Cluster(self.machine)
        self.timer.places.setdefault(cluster, len(self.timer.places))
        self.running.append(cluster)
        cluster.start(index)
        for cta in cluster.ctas:
            self.timer.begin(cta.main, time + self.rates.cta_start)
        self.drain(cluster, time)
        return True

    def step(self, time: float, number: int, thing: Any, cluster: Cluster) -> None:
        """One agent's next instruction, or a copy's next part."""
        if isinstance(thing, Agent):
            self.resume(thing, cluster)
        elif thing.step():
            self.push(self.timer.due(thing, time), thing, cluster)
        else:
            self.machine.vain.clear()
        self.drain(cluster, time)
        if cluster.finished and cluster in self.running:
            self.finish(cluster, time)

    def resume(self, agent: Agent, cluster: Cluster) -> None:
        """Runs an agent up to its next instruction with an effect."""
        before = self.timer.now[agent]
        try:
            code = agent.resume()
        except StopIteration:
            self.timer.run.end = max(self.timer.run.end, before)
            agent.finish()
            return
        if not code:
            self.machine.vain.clear()
            return
        if self.timer.now[agent] == before:
            self.timer.now[agent] += self.rates.query if self.machine.vain.get(agent) else 0.0
        if self.machine.vain.get(agent, 0) > IN_VAIN and not any(
            self.machine.vain.get(other[2], 0) <= IN_VAIN for other in self.heap
        ):
            raise self.stuck()
        self.push(self.timer.now[agent], agent, cluster)

    def drain(self, cluster: Cluster, time: float) -> None:
        """Agents that were woken, and copies that were issued, get their times."""
        while cluster.ready:
            agent = cluster.ready.popleft()
            self.push(self.timer.now[agent], agent, cluster)
        while cluster.pending:
            copy = cluster.pending.popleft()
            self.push(self.timer.due(copy, time), copy, cluster)

    def finish(self, cluster: Cluster, time: float) -> None:
        """Its place is free; the next one begins there."""
        end = max([time, *(self.timer.now[cta.main] for cta in cluster.ctas)])
        self.timer.run.finished.append(end)
        self.running.remove(cluster)
        cluster.clear()
        self.free.append(cluster)
        self.start(end)

    def stop_short(self) -> None:
        """Nothing happens any more, and there are clusters that have not ended."""
        raise self.stuck()

    def stuck(self) -> Error:
        """Nobody can go on: a deadlock, or clusters that wait for clusters which are not run."""
        if self.clusters == self.chosen:
            return deadlock(self.machine, self.running)
        return Error(
            f"a cluster of {self.function.name} waits for others, and the model runs one of {self.clusters} in their place",
            location=self.function.loc,
            remedy="trace a grid that one group of SMs holds; px.check says whether all is well",
        )


def some_clusters(places: Places, count: int, waves: int = FEW_WAVES) -> list[int]:
    """A few clusters of a grid of so many that stand for those of one place."""
    dealt = places.dealt(count)
    most = waves * places.held
    return dealt if len(dealt) <= most else spread(dealt, most)


def spread(dealt: list[int], most: int) -> list[int]:
    """As many clusters of the list as `most`, taken evenly."""
    return [dealt[number * len(dealt) // most] for number in range(most)]


def clocked(
    function: Function, grid: int | Sequence[int], args: Sequence[Any], rates: Rates, places: Places
) -> tuple[Run, float]:
    """Runs a prepared kernel on the model of a card; gives what was written down, and the cycles of the whole launch.

    For `px.trace`. `args` are NumPy arrays, which change as in any run, and numbers. Where every place of the card runs one
    cluster, the first and the last one are run, and the longer stands for all: at the edges of arrays there are zeros to
    write, and at their corner most of them.
    """
    dims = grid_of(function, grid)
    given = with_counters(function, args)
    check_arguments(function, given)
    first = Clock(function, dims, [copied(arg) for arg in given], rates, places, {})
    missed = shares_missed(first.go(), first, given)
    alone = first.all == 1 and first.clusters > 1 and not first.machine.asks
    clocks = [Clock(function, dims, given, rates, places, missed, last=last) for last in (False, True)[: 1 + alone]]
    run, clock = max(((clock.go(), clock) for clock in clocks), key=lambda item: item[0].end)
    return run, launch_cycles(run, clock)


def copied(arg: Any) -> Any:
    """An array that a run may change."""
    return arg.copy() if isinstance(arg, np.ndarray) else arg


def launch_cycles(run: Run, clock: Clock) -> float:
    """The cycles of all clusters of a place, of which a part may have been run."""
    if clock.chosen == clock.all:
        return run.end
    return clock.rates.launch + (run.end - clock.rates.launch) * clock.all / clock.chosen


def shares_missed(run: Run, clock: Clock, args: Sequence[Any]) -> dict[int, float]:
    """The share of each array's bytes that HBM brings, where all clusters ask for as much as those that were run.

    What L2 holds is brought once; where the arrays are larger than it, each wave of clusters brings its part anew.
    """
    scale = clock.clusters / max(1, clock.chosen)
    if clock.machine.asks or clock.function.counters:
        scale = clock.clusters / max(1, len(run.finished))
    asked = {number: nbytes * scale for number, nbytes in run.requested.items()}
    return brought_shares(asked, {number: args[number].nbytes for number in asked}, clock.all / clock.held, clock.rates)


def brought_shares(
    asked: Mapping[int, float], sizes: Mapping[int, int], waves: float, rates: Rates
) -> dict[int, float]:
    """The share of what all clusters ask for of each array that HBM brings; `sizes` are the bytes of the arrays."""
    total = sum(sizes.values())
    found: dict[int, float] = {}
    for number, nbytes in asked.items():
        by_all = max(1.0, nbytes)
        brought = min(by_all, sizes[number])
        if total > rates.l2_bytes:
            brought = min(by_all, brought * max(1.0, min(waves, by_all / sizes[number]) ** 0.5))
        found[number] = brought / by_all
    return found
