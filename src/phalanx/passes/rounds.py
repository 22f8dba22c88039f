"""Rounds: what one arriver does to a barrier between two of its blocking waits.

The arriver is one agent of one rank. Its trace is walked once; for every barrier and every CTA it reaches we
keep the possible numbers of arrivals of the round that is open, a set because run-time branches may go either
way. A blocking wait ends all rounds, as does a loop without a bound that asks a barrier (a spin on `test_wait`). So do
the edges of a run-time loop, for the barriers that are signalled in it: prologue, loop and epilogue are different
rounds. A constant-trip loop without a wait multiplies what it does to an unchanged barrier.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from phalanx.analysis.flow import Cycle, Outcome
from phalanx.analysis.ranks import Term, varies_in
from phalanx.analysis.trace import CTA, Fork, Loop, Node, Nodes, Signal, Step, TracedAgent, TraceWalk, steps, walk
from phalanx.frozen import frozen
from phalanx.ir.views import BarrierArray
from phalanx.location import Location

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
    agent: TracedAgent
    source: int
    rank: int | None
    element: int | None
    arrivals: int | None
    conditional: bool


@dataclass
class Rounds:
    """What an arriver was seen to do: per barrier array and CTA, per element (None: a run-time index), its totals."""

    source: int
    agent: TracedAgent
    totals: dict[tuple[BarrierArray, int], dict[int | None, set[int]]] = field(default_factory=dict)
    rows: dict[BarrierArray, list[Row]] = field(default_factory=dict)
    problems: dict[BarrierArray, list[str]] = field(default_factory=dict)


def rounds_of(nodes: Nodes, agent: TracedAgent, source: int) -> Rounds:
    """The rounds of `agent` in the trace of rank `source`."""
    walker = _Walker(Rounds(source, agent))
    outcome = walker.run(nodes, {})
    walker.close(outcome.out or {})
    for states in outcome.exits.values():
        for state in states:
            walker.close(state)
    return walker.rounds


class _Walker(TraceWalk[State]):
    """Walks the trace of one rank with the rounds that are open; those that end go to `rounds`.

    `factors` are the loops around that multiply what they do, `branches` the number of run-time branches around.
    """

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.factors: list[Loop] = []
        self.branches = 0

    def join(self, states: Sequence[State]) -> State:
        """The rounds that may be open where several ways meet."""
        keys = {key for state in states for key in state}
        return {key: frozenset().union(*(state.get(key, ZERO) for state in states)) for key in keys}

    def branch(self, node: Node, arms: Iterable[Iterable[Node]], state: State) -> Outcome[State]:
        """A run-time branch; what is inside knows of it."""
        self.branches += 1
        outcome = super().branch(node, arms, state)
        self.branches -= 1
        return outcome

    def transfer(self, node: Node, state: State) -> State:
        """The open rounds after an instruction: its arrivals are in them, and a blocking wait has ended them all."""
        if not isinstance(node, Step):
            return state
        if node.arrivals and node.agent == self.rounds.agent:
            state = dict(state)
            for signal in node.arrivals:
                self.arrive(node, signal, state)
        if not node.blocks:
            return state
        self.close(state)
        return {}

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

    def fork(self, fork: Fork, state: State) -> Outcome[State]:
        """The roles' waits stand between what all warps do before and after; roles do not see each other's."""
        if self.rounds.agent == CTA:
            if any(_waits(inner) for _, body in fork.regions for inner in walk(body)):
                self.close(state)
                return Outcome({})
            return Outcome(state)
        for agent, body in fork.regions:
            if agent == self.rounds.agent:
                return self.run(body, state)
        return Outcome(state)

    def loop(self, cycle: Cycle[Node], entry: State) -> Outcome[State]:
        """The loop's own rounds, from one walk over its body; exits leave with the rounds that were open around it."""
        loop = cycle.node
        assert isinstance(loop, Loop)
        state = dict(entry)
        if loop.multiplies:
            self.factors.append(loop)
            body = self.run(loop.body, {})
            self.factors.pop()
            once = self.meet([body.out, *body.take(cycle.again)]) or {}
            for key, sums in once.items():
                if varies_in(key.index, loop.token):
                    self.close({key: sums})
                else:
                    self.add(state, key, self.repeated(key, sums, loop.trips or 0))
        else:
            ended = set(state) if loop.waits else self.signalled(loop, state)
            self.close({key: state.pop(key) for key in list(state) if key in ended})
            body = self.run(loop.body, {})
            self.close(body.out or {})
        outcome = Outcome(state)
        for target, states in body.exits.items():
            for inner in states:
                self.close(inner)
            if target.label is not loop.label:
                outcome.exits[target] = [state]
        return outcome

    def signalled(self, loop: Loop, state: State) -> set[Key]:
        """The open rounds of barriers that the loop arrives on."""
        own = [step for step in steps(loop.body) if step.agent == self.rounds.agent]
        arrays = {signal.barrier for step in own for signal in step.arrivals}
        return {key for key in state if key.barrier in arrays}

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

    def problem(self, barrier: BarrierArray, reason: str) -> None:
        reasons = self.rounds.problems.setdefault(barrier, [])
        if reason not in reasons:
            reasons.append(reason)


def _waits(node: Node) -> bool:
    return node.blocks if isinstance(node, Step) else isinstance(node, Loop) and node.waits
