"""Rounds: what one arriver does to a barrier between two of its blocking waits.

The arriver is one agent of one rank. Its trace is walked once; for every barrier and every CTA it reaches we
keep the possible numbers of arrivals of the round that is open, a set because run-time branches may go either
way. A blocking wait ends all rounds, as does a loop without a bound that asks a barrier (a spin on `test_wait`). So do
the edges of a run-time loop, for the barriers that are signalled in it: prologue, loop and epilogue are different
rounds. A constant-trip loop without a wait multiplies what it does to an unchanged barrier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from phalanx.analysis.ranks import Term, varies_in
from phalanx.analysis.trace import (
    CTA,
    Agent,
    Branch,
    Exit,
    Fork,
    Inside,
    Loop,
    Node,
    Nodes,
    Region,
    Signal,
    Step,
    Target,
    steps,
    walk,
)
from phalanx.frozen import frozen
from phalanx.ir.location import Location
from phalanx.ir.views import BarrierArray

MANY = 64
"""More possible totals of one round than this are as good as unknown."""

ZERO = frozenset({0})


@frozen
class Key:
    """One barrier of one CTA, as the arriver names it."""

    barrier: BarrierArray
    index: Term
    rank: int


State = dict[Key, frozenset[int]]


@frozen
class Row:
    """One site that arrives: `source` is the arriver's rank, `rank` the CTA of the barrier.

    `element` is None where the index is known only at run time, `rank` and `arrivals` likewise.
    `conditional`: under a run-time branch.
    """

    site: Location
    agent: Agent
    source: int
    rank: int | None
    element: int | None
    arrivals: int | None
    conditional: bool


@dataclass
class Rounds:
    """What an arriver was seen to do: per barrier array and CTA, per element (None: a run-time index), its
    totals.
    """

    source: int
    agent: Agent
    totals: dict[tuple[BarrierArray, int], dict[int | None, set[int]]] = field(default_factory=dict)
    rows: dict[BarrierArray, list[Row]] = field(default_factory=dict)
    problems: dict[BarrierArray, list[str]] = field(default_factory=dict)


def rounds_of(nodes: Nodes, agent: Agent, source: int) -> Rounds:
    """The rounds of `agent` in the trace of rank `source`."""
    walker = _Walker(Rounds(source, agent))
    walker.close(walker.walk(nodes, {}) or {})
    for states in walker.exits.values():
        for state in states:
            walker.close(state)
    return walker.rounds


@dataclass
class _Walker:
    rounds: Rounds
    exits: dict[Target, list[State]] = field(default_factory=dict)
    factors: list[Loop] = field(default_factory=list)
    branches: int = 0

    def walk(self, nodes: Nodes, state: State) -> State | None:
        """The open rounds after `nodes`, None where control does not get there."""
        current: State | None = state
        for node in nodes:
            if current is None:
                return None
            match node:
                case Step():
                    self.step(node, current)
                case Branch():
                    self.branches += 1
                    then = self.walk(node.then, dict(current))
                    current = _joined([then, self.walk(node.orelse, dict(current))])
                    self.branches -= 1
                case Region():
                    body = self.walk(node.body, current)
                    current = _joined([body, *self.exits.pop(node.target, [])])
                case Exit():
                    self.exits.setdefault(node.target, []).append(current)
                    return None
                case Loop():
                    self.loop(node, current)
                case Fork():
                    current = self.fork(node, current)
                case Inside():
                    current = self.walk(node.body, current)
        return current

    def step(self, node: Step, state: State) -> None:
        if node.agent == self.rounds.agent:
            for signal in node.arrivals:
                self.arrive(node, signal, state)
        if node.blocks:
            self.close(state)

    def arrive(self, node: Step, signal: Signal, state: State) -> None:
        for rank in (None,) if signal.ranks is None else signal.ranks:
            times = 1
            for loop in self.factors:
                times *= 1 if varies_in(signal.index, loop.token) else loop.trips or 1
            self.rounds.rows.setdefault(signal.barrier, []).append(
                Row(
                    node.op.loc,
                    node.agent,
                    self.rounds.source,
                    rank,
                    signal.index if isinstance(signal.index, int) else None,
                    None if signal.amount is None else signal.amount * times,
                    self.branches > 0,
                )
            )
        if signal.ranks is None:
            self.problem(signal.barrier, f"the mask at {node.op.loc.short} is known only at run time")
        elif signal.amount is None:
            self.problem(signal.barrier, f"how often {node.op.loc.short} arrives is known only at run time")
        else:
            for rank in signal.ranks:
                self.add(state, Key(signal.barrier, signal.index, rank), frozenset({signal.amount}))

    def fork(self, node: Fork, state: State) -> State | None:
        """The roles' waits stand between what all warps do before and after; roles do not see each other's.
        """
        if self.rounds.agent == CTA:
            if any(_waits(inner) for _, body in node.regions for inner in walk(body)):
                self.close(state)
            return state
        for agent, body in node.regions:
            if agent == self.rounds.agent:
                return self.walk(body, state)
        return state

    def loop(self, node: Loop, state: State) -> None:
        outer_exits, self.exits = self.exits, {}
        if node.multiplies:
            self.factors.append(node)
            body = self.walk(node.body, {})
            self.factors.pop()
            once = _joined([body, *self.exits.pop(Target(node.label, "continue"), [])]) or {}
            for key, sums in once.items():
                if varies_in(key.index, node.token):
                    self.close({key: sums})
                else:
                    self.add(state, key, self.repeated(key, sums, node.trips or 0))
        else:
            self.close(state if node.waits else self.signalled(node, state))
            self.close(self.walk(node.body, {}) or {})
        for target, states in self.exits.items():
            for inner in states:
                self.close(inner)
            if target.label is not node.label:  # it leaves with the rounds that were open around the loop
                outer_exits.setdefault(target, []).append(dict(state))
        self.exits = outer_exits

    def signalled(self, node: Loop, state: State) -> State:
        """The open rounds of barriers that the loop arrives on; taken out of `state`."""
        own = [step for step in steps(node.body) if step.agent == self.rounds.agent]
        arrays = {signal.barrier for step in own for signal in step.arrivals}
        return {key: state.pop(key) for key in list(state) if key.barrier in arrays}

    def repeated(self, key: Key, sums: frozenset[int], trips: int) -> frozenset[int]:
        """All totals of `trips` rounds of which each makes one of `sums` arrivals."""
        if len(sums) == 1:
            return frozenset(total * trips for total in sums)
        if sums == ZERO | {max(sums)}:
            return frozenset(max(sums) * happened for happened in range(min(trips, MANY) + 1))
        self.problem(key.barrier, "the branches inside a loop arrive differently often")
        return ZERO

    def add(self, state: State, key: Key, more: frozenset[int]) -> None:
        sums = frozenset(a + b for a in state.get(key, ZERO) for b in more)
        if len(sums) > MANY:
            self.problem(key.barrier, "there are too many ways through its run-time branches")
            sums = ZERO
        state[key] = sums

    def close(self, state: State) -> None:
        """Ends the open rounds; one in which nothing arrived did not happen."""
        for key, sums in state.items():
            element = key.index if isinstance(key.index, int) else None
            happened = sums - ZERO
            if happened:
                totals = self.rounds.totals.setdefault((key.barrier, key.rank), {})
                totals.setdefault(element, set()).update(happened)
        state.clear()

    def problem(self, barrier: BarrierArray, reason: str) -> None:
        reasons = self.rounds.problems.setdefault(barrier, [])
        if reason not in reasons:
            reasons.append(reason)


def _waits(node: Node) -> bool:
    return node.blocks if isinstance(node, Step) else isinstance(node, Loop) and node.waits


def _joined(states: Iterable[State | None]) -> State | None:
    """The rounds that may be open where several ways meet."""
    reached = [state for state in states if state is not None]
    if not reached:
        return None
    keys = {key for state in reached for key in state}
    return {key: frozenset().union(*(state.get(key, ZERO) for state in reached)) for key in keys}
