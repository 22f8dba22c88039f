"""Dataflow over structured control flow: what holds after a piece of code, given what held before it.

`Walk` goes forward over sequences, branches, loops, scopes and roles, and along the exits that leave them. A domain is a
subclass of it: `transfer` says what an instruction does to a state, `join` what is known where several ways meet, `fork`
what roles that run side by side leave behind. States are values: nobody changes one that was handed to him. `OpWalk` walks
the instructions of a kernel, `analysis.trace.TraceWalk` the barrier traffic of one rank.

A loop is run from ever larger states at its head until nothing new comes back to it. A domain that must not go round, since
it adds up what one iteration does, overrides `loop`. Code that control never reaches is not walked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

from phalanx.ir.core import Op
from phalanx.ir.ops.control import Break, Continue, For, If, Leave, Roles, Scope, While
from phalanx.ir.values import Label

Node = TypeVar("Node")
State = TypeVar("State")


class ExitKind(Enum):
    """What an exit does: it ends a loop, goes to the loop's next iteration, or goes to the end of a scope."""

    BREAK = "break"
    CONTINUE = "continue"
    LEAVE = "leave"


class ExitTarget(NamedTuple):
    """Where an exit goes: the loop or scope of that label, in one of its ways."""

    label: Label
    kind: ExitKind


def exit_target(op: Break | Continue | Leave) -> ExitTarget:
    """Where an instruction that leaves a loop or a scope goes."""
    match op:
        case Break():
            return ExitTarget(op.label, ExitKind.BREAK)
        case Continue():
            return ExitTarget(op.label, ExitKind.CONTINUE)
    return ExitTarget(op.label, ExitKind.LEAVE)


@dataclass
class Outcome(Generic[State]):
    """Where code leads from a state: the state after it, None if its end is never reached, and the exits out of it.

    `notes` is what the domain found on the way, by node. Of a loop only the notes of its last run count, in which the
    state at its head was complete.
    """

    out: State | None
    exits: dict[ExitTarget, list[State]] = field(default_factory=dict)
    notes: dict[Any, Any] = field(default_factory=dict)

    def absorb(self, part: Outcome[State]) -> None:
        """Adds the exits and notes of a part; `out` stays as it is."""
        for target, states in part.exits.items():
            self.exits.setdefault(target, []).extend(states)
        if part.notes:
            self.notes.update(part.notes)

    def take(self, target: ExitTarget) -> list[State]:
        """Removes the exits to `target`, which end here, and returns their states in program order."""
        return self.exits.pop(target, [])


@dataclass(frozen=True, eq=False)
class Cycle(Generic[Node]):
    """A loop, as it is walked: `test` and then, unless the loop is over, `body`; a counted loop has an empty test."""

    node: Node
    label: Label
    body: Iterable[Node]
    test: Iterable[Node] = ()

    @property
    def past(self) -> ExitTarget:
        """Where `break` goes."""
        return ExitTarget(self.label, ExitKind.BREAK)

    @property
    def again(self) -> ExitTarget:
        """Where `continue` goes."""
        return ExitTarget(self.label, ExitKind.CONTINUE)


class Walk(Generic[Node, State]):
    """A forward dataflow problem together with the walk that solves it."""

    # --- what a domain says -----------------------------------------------------------------------------------------

    def transfer(self, node: Node, state: State) -> State | None:
        """The state after an instruction; None if control does not get past it."""
        raise NotImplementedError

    def join(self, states: Sequence[State]) -> State:
        """What is known where these ways meet, at least one: first the straight one, then the exits in program order."""
        raise NotImplementedError

    def step(self, node: Node, state: State) -> Outcome[State]:
        """The outcome of an instruction by itself; for domains that leave notes."""
        return Outcome(self.transfer(node, state))

    def runs_surely(self, cycle: Cycle[Node]) -> bool:
        """Whether the loop makes an iteration before it ends, so that its end is reached from the end of one alone."""
        return False

    def next_iteration(self, cycle: Cycle[Node], state: State) -> State:
        """What becomes of the state at the end of an iteration at the start of the next."""
        return state

    # --- the walk ---------------------------------------------------------------------------------------------------

    def visit(self, node: Node, state: State) -> Outcome[State]:
        """The outcome of one node: which of the ways below it takes, the kind of tree decides."""
        raise NotImplementedError

    def run(self, nodes: Iterable[Node], state: State | None) -> Outcome[State]:
        """The outcome of nodes in sequence. None: their beginning is never reached, and nor is any of them."""
        outcome = Outcome(state)
        for node in nodes:
            if outcome.out is None:
                break
            part = self.visit(node, outcome.out)
            outcome.absorb(part)
            outcome.out = part.out
        return outcome

    def meet(self, ways: Iterable[State | None]) -> State | None:
        """The state where ways meet; None if none of them gets there."""
        reached = [state for state in ways if state is not None]
        return self.join(reached) if reached else None

    def inside(self, node: Node, bodies: Iterable[Iterable[Node]], state: State) -> Outcome[State]:
        """An instruction, then the code inside it, once."""
        outcome = self.step(node, state)
        for body in bodies:
            part = self.run(body, outcome.out)
            outcome.absorb(part)
            outcome.out = part.out
        return outcome

    def branch(self, node: Node, arms: Iterable[Iterable[Node]], state: State) -> Outcome[State]:
        """One of several arms, known only at run time."""
        return self.either(node, [self.run(arm, state) for arm in arms])

    def either(self, node: Node, parts: Sequence[Outcome[State]]) -> Outcome[State]:
        """The outcome of a branch, from those of its arms."""
        outcome = Outcome(self.meet(part.out for part in parts))
        for part in parts:
            outcome.absorb(part)
        return outcome

    def scope(self, target: ExitTarget, body: Iterable[Node], state: State) -> Outcome[State]:
        """Code whose end is where exits to `target` go."""
        outcome = self.run(body, state)
        outcome.out = self.meet([outcome.out, *outcome.take(target)])
        return outcome

    def leave(self, node: Node, target: ExitTarget, state: State) -> Outcome[State]:
        """An exit: control goes to `target`, and nothing behind it is reached."""
        return Outcome(None, {target: [state]})

    def loop(self, cycle: Cycle[Node], entry: State) -> Outcome[State]:
        """The outcome of a loop from a fixpoint at its head."""
        head = entry
        while True:
            outcome, back = self.iteration(cycle, head)
            wider = head if back is None else self.join([head, back])
            if wider == head:
                break
            head = wider
        # What the larger states changed on the way may have made less come back than was collected: the smaller state
        # at the head is taken if it holds. It is the same one where more before a loop never means less after it.
        narrow = entry if back is None else self.join([entry, back])
        if narrow != head:
            again, back = self.iteration(cycle, narrow)
            if back is None or self.join([narrow, back]) == narrow:
                return again
        return outcome

    def iteration(self, cycle: Cycle[Node], head: State) -> tuple[Outcome[State], State | None]:
        """One run of a loop from the state at its head: its outcome, and the state that comes back to the head."""
        outcome = self.run(cycle.test, head)
        ended = outcome.out
        body = self.run(cycle.body, ended)
        outcome.absorb(body)
        back = self.meet([body.out, *outcome.take(cycle.again)])
        if self.runs_surely(cycle):
            ended = back
        outcome.out = self.meet([ended, *outcome.take(cycle.past)])
        return outcome, None if back is None else self.next_iteration(cycle, back)


class OpWalk(Walk[Op, State]):
    """A walk over the instructions of a kernel."""

    def fork(self, roles: Roles, state: State) -> Outcome[State]:
        """The outcome of roles that run side by side; the domain says it."""
        raise NotImplementedError

    def visit(self, node: Op, state: State) -> Outcome[State]:
        """The outcome of one instruction and of what is inside it."""
        match node:
            case If():
                return self.branch(node, (node.then, node.orelse), state)
            case For():
                return self.loop(Cycle(node, node.label, node.body), state)
            case While():
                return self.loop(Cycle(node, node.label, node.body, node.test), state)
            case Scope():
                return self.scope(ExitTarget(node.label, ExitKind.LEAVE), node.body, state)
            case Break() | Continue() | Leave():
                return self.leave(node, exit_target(node), state)
            case Roles():
                return self.fork(node, state)
        return self.inside(node, node.blocks(), state)
