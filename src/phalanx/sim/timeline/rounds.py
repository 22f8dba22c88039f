"""Loops of a modelled run of which a few rounds stand for all: how long they took, and how long all would.

A loop that makes more rounds than its ring has stages, twice over, is in its steady state: every further round takes as
long as the last ones. So a few are run, and the rest is a product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import fsum

from phalanx.ir.core import Function, Op
from phalanx.ir.ops.control import For, While
from phalanx.sim.agents import Agent

OUTER = 3
"""Rounds of a loop with loops inside that are run: its first one, one from its middle, its last one."""
BESIDE_RINGS = 6
"""Rounds that are run of a loop without loops inside, beside two for each stage of the longest ring."""


@dataclass
class Rounds:
    """One execution of a loop by an agent: `trips` rounds, of which some were run; `times` has when each began.

    The last time is that of its end. `inner`: loops inside, round by round. `reads`: bytes of each array that its own
    instructions read, by the array's number. The code around all loops is a loop of one round, without a loop's `op`.
    """

    op: Op | None
    trips: int = 1
    times: list[float] = field(default_factory=list)
    inner: list[list[Rounds]] = field(default_factory=lambda: [[]])
    reads: dict[int, int] = field(default_factory=dict)

    @property
    def ran(self) -> int:
        """The rounds that were run."""
        return max(1, len(self.times) - 1) if self.op is not None else 1

    @property
    def steady(self) -> float:
        """How long a round takes, once there have been some: by the second half of those that were run."""
        first = len(self.times) // 2
        if len(self.times) < 2:
            return 0.0
        first = min(first, len(self.times) - 2)
        return (self.times[-1] - self.times[first]) / (len(self.times) - 1 - first)

    @property
    def left_out(self) -> float:
        """Cycles of the rounds that were not run."""
        inside = fsum(loop.left_out for loops in self.inner for loop in loops)
        return (self.trips - self.ran) * self.steady + inside * self.trips / self.ran

    def all_ran(self) -> int:
        """Rounds that were run, those of loops inside among them."""
        return self.ran + sum(loop.all_ran() for loops in self.inner for loop in loops)

    def all_trips(self) -> int:
        """Rounds of itself, and of loops inside as far as they were come to."""
        return self.trips + sum(loop.all_trips() for loops in self.inner for loop in loops)

    def all_reads(self) -> dict[int, float]:
        """Bytes of each array that all rounds read."""
        found: dict[int, float] = dict(self.reads)
        for loops in self.inner:
            for loop in loops:
                for array, nbytes in loop.all_reads().items():
                    found[array] = found.get(array, 0.0) + nbytes
        return {array: nbytes * self.trips / self.ran for array, nbytes in found.items()}


class RoundKeeper:
    """Says which rounds of loops are run, and keeps their times: one for each modelled run."""

    def __init__(self, function: Function) -> None:
        ring = max((barrier.n for barrier in function.barriers), default=1)
        self.most = {op: (OUTER if has_loop(op) else 2 * ring + BESIDE_RINGS) for op in function.walk() if has_effect(op)}
        self.now: dict[Agent, float] = {}
        """The clock of each agent: the timer's."""
        self.open: dict[Agent, list[Rounds]] = {}
        self.roots: dict[Agent, Rounds] = {}

    def begin(self, agent: Agent) -> None:
        """An agent begins its program."""
        self.roots[agent] = Rounds(None)
        self.open[agent] = [self.roots[agent]]

    def read(self, agent: Agent, array: int, nbytes: int) -> None:
        """An agent's instruction reads an array."""
        reads = self.open[agent][-1].reads
        reads[array] = reads.get(array, 0) + nbytes

    def rounds(self, op: Op, agent: Agent) -> Callable[[range], Iterable[int]] | None:
        """The numbers that an agent's loop runs through."""
        most = self.most.get(op)
        if most is None:
            return None

        def run(numbers: range) -> Iterator[int]:
            kept = Rounds(op, len(numbers), inner=[])
            self.open[agent][-1].inner[-1].append(kept)
            self.open[agent].append(kept)
            try:
                for number in some_of(numbers, most):
                    kept.times.append(self.now[agent])
                    kept.inner.append([])
                    yield number
            finally:
                kept.times.append(self.now[agent])
                self.open[agent].pop()

        return run

    def left_out(self, agent: Agent) -> float:
        """Cycles of the rounds that an agent and its roles did not run; roles go at the same time."""
        own = self.roots[agent].left_out if agent in self.roots else 0.0
        return own + max((self.left_out(child) for child in agent.children), default=0.0)

    def all_reads(self, agent: Agent) -> dict[int, float]:
        """Bytes of each array that an agent and its roles would read in all rounds."""
        found = self.roots[agent].all_reads() if agent in self.roots else {}
        for child in agent.children:
            for array, nbytes in self.all_reads(child).items():
                found[array] = found.get(array, 0.0) + nbytes
        return found


def has_loop(op: Op) -> bool:
    """Whether there are loops inside a loop."""
    return any(isinstance(inner, For | While) for block in op.blocks() for inner in block.walk())


def has_effect(op: Op) -> bool:
    """Whether it is a counted loop that does more than arithmetic of its own."""
    return isinstance(op, For) and any(not inner.effects().is_pure for inner in op.body.walk())


def some_of(numbers: range, most: int) -> Iterable[int]:
    """As many of a loop's numbers: of few the first, one from the middle and the last, else the first ones and the last."""
    if len(numbers) <= most:
        return numbers
    if most == OUTER:
        return numbers[0], numbers[len(numbers) // 2], numbers[-1]
    return (*numbers[: most - 1], numbers[-1])
