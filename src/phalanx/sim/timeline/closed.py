"""The time of a launch as a function of its sizes: prologue and end, and for each loop its rounds times their steady time.

It is written from a modelled run of a few rounds of each loop (`glimpse.py`), and asks nobody but the bounds of the loops.
So hundreds of candidates are ranked for new sizes in milliseconds. Where the bounds depend on data, there is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from statistics import fmean
from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.ops.control import Break, Continue, For, If, Leave, Role, Roles, Scope, While
from phalanx.machines.rates import Rates
from phalanx.sim.agents import Agent
from phalanx.sim.timeline.clock import Places, some_clusters
from phalanx.sim.timeline.numbers import Numbers, Unknown
from phalanx.sim.timeline.rounds import OUTER, RoundKeeper, Rounds


class Stale(Exception):
    """A loop makes more rounds than its time is known for: it was not in its steady state when it was looked at."""


@frozen
class Steady:
    """What is known of a loop: the rounds that were run, how long one takes, and the most that would have been run."""

    ran: float
    cycles: float
    most: int

    @property
    def enough(self) -> int:
        """Rounds after which its time is known: two of a loop with loops inside, else as many as would have been run."""
        return 2 if self.most == OUTER else self.most


@dataclass
class AgentBody:
    """An agent of a cluster: its role and copy, when it ended after the cluster's start, and its loops."""

    role: Role | None
    copy: int
    end: float
    loops: dict[Op, Steady]


def body_of(agent: Agent, role: Role | None, keeper: RoundKeeper, begun: float) -> AgentBody:
    """What a modelled run of a few rounds says of an agent; `role` is what it runs, None for the code around roles."""
    found: dict[Op, list[Rounds]] = defaultdict(list)

    def collect(rounds: Rounds) -> None:
        for loops in rounds.inner:
            for loop in loops:
                assert loop.op is not None
                found[loop.op].append(loop)
                collect(loop)

    collect(keeper.roots[agent])
    loops = {
        op: Steady(fmean(one.ran for one in all_of), fmean(one.steady for one in all_of), keeper.most[op])
        for op, all_of in found.items()
    }
    return AgentBody(role, agent.copy, keeper.now[agent] - begun, loops)


class Closed:
    """The cycles of a cluster's run as a Python function, and those of a launch from it.

    The first of `agents` runs the code around roles; the others are its roles, which it waits for.
    """

    def __init__(self, function: Function, agents: Sequence[AgentBody], rank: int, rates: Rates) -> None:
        self.function, self.rates = function, rates
        agents[0].end -= max((agent.end for agent in agents[1:]), default=0.0)
        self.depends = False
        """Whether clusters differ."""
        parts: list[str] = []
        space: dict[str, Any] = {"Stale": Stale, "shape": function.cluster}
        for number, agent in enumerate(agents):
            writer = Writer(function, rank, agent)
            lines = writer.written(f"agent{number}")
            self.depends |= bool(writer.numbers.used & {"cluster", "place"})
            space |= writer.numbers.functions()
            parts += lines
        calls = [f"agent{number}(sizes, args, grid, clusters, cluster, place)" for number in range(len(agents))]
        roles = f" + max({', '.join(calls[1:])}, 0.0)" if len(calls) > 1 else ""
        parts += ["def cycles(sizes, args, grid, clusters, cluster, place):", f"    return {calls[0]}{roles}"]
        self.source = "\n".join(parts)
        exec(compile(self.source, "<closed form>", "exec"), space)
        self.of_cluster = space["cycles"]

    def launch(self, grid: tuple[int, int, int], sizes: Sequence[Any], args: Sequence[Any], places: Places) -> float:
        """The cycles of a launch: what `glimpse` would say. Raises `Stale` where that has to be asked."""
        shape = self.function.cluster
        width, height = grid[0] // shape[0], grid[1] // shape[1]
        clusters = prod(grid) // self.function.cluster_size
        rounds = -(-clusters // places.groups) / places.held
        picked = some_clusters(places, clusters) if self.depends else [0]
        spans = []
        try:
            for index in picked:
                place = (index % width * shape[0], index // width % height * shape[1], index // (width * height) * shape[2])
                spans.append(self.of_cluster(sizes, args, grid, clusters, index, place))
        except ZeroDivisionError:
            raise Stale from None
        return self.rates.launch + (max(spans) if rounds <= 1 else sum(spans) / len(spans) * rounds)


class Writer:
    """Writes the cycles of one agent: its end in the run that was looked at, and what more or fewer rounds add."""

    def __init__(self, function: Function, rank: int, agent: AgentBody) -> None:
        self.agent = agent
        self.numbers = Numbers(function, rank, agent.copy)
        self.body = function.body if agent.role is None else agent.role.body

    def written(self, name: str) -> list[str]:
        """The text of the function; raises `Unknown` where a loop depends on data."""
        numbers = self.numbers
        numbers.line(f"time = {self.agent.end!r}")
        self.block(self.body, "1")
        numbers.line("return time")
        return [f"def {name}(sizes, args, grid, clusters, cluster, place):", *numbers.lines]

    def block(self, block: Block, often: str) -> None:
        """The loops of a block, which is run so often."""
        for op in block.ops:
            match op:
                case For():
                    self.loop(op, often)
                case If():
                    self.branch(op, often)
                case Scope():
                    self.block(op.body, often)
                case While() if any(not inner.effects().is_pure for part in op.blocks() for inner in part.walk()):
                    raise Unknown
                case Break() | Continue() | Leave():
                    raise Unknown
                case Roles():
                    pass

    def branch(self, op: If, often: str) -> None:
        """The arm that is taken, where it has loops; both, as far as they were run, where only a run knows which."""
        if not any(isinstance(inner, For | While) for part in (op.then, op.orelse) for inner in part.walk()):
            return
        try:
            cond = self.numbers.expr(op.cond)
        except Unknown:
            self.block(op.then, often)
            self.block(op.orelse, often)
            return
        for test, arm in ((f"if {cond}:", op.then), (f"if not {cond}:", op.orelse)):
            with self.numbers.inside(test):
                self.numbers.line("pass")
                self.block(arm, often)

    def loop(self, op: For, often: str) -> None:
        """A loop: its rounds less those that were run, times their time; then the loops in it."""
        numbers = self.numbers
        known = self.agent.loops.get(op)
        if known is None:
            if all(inner.effects().is_pure for inner in op.body.walk()):
                return
            known = Steady(0.0, 0.0, 0)
        span = f"range({numbers.expr(op.start)}, {numbers.expr(op.stop)}, {numbers.expr(op.step)})"
        name = f"n{len(numbers.lines)}"
        numbers.line(f"{name}s = {span}")
        numbers.line(f"{name} = len({name}s)")
        if known.ran < min(known.most, known.enough) or not known.most:
            numbers.line(f"if {name} > {max(1.0, known.ran) if known.most else 0}: raise Stale")
        if known.cycles:
            numbers.line(f"time += {often} * ({name} - {known.ran!r}) * {known.cycles!r}")
        if not any(isinstance(inner, For | While) for inner in op.body.walk()):
            return
        number = len(numbers.lines)
        numbers.line(f"picks{number} = {{{name}s[0], {name}s[{name} // 2], {name}s[-1]}} if {name} else ()")
        numbers.line(f"often{number} = {often} * {name} / max(1, len(picks{number}))")
        with numbers.inside(f"for i{number} in picks{number}:"):
            numbers.name(op.index, f"i{number}")
            numbers.line("pass")
            self.block(op.body, f"often{number}")
        if f"i{number}" not in numbers.used:  # all rounds are alike: one stands for them
            numbers.lines[number] = numbers.lines[number].partition("=")[0] + f"= {name}s[:1]"
