"""Loops that ask memory or a barrier again and again, and so must let others run in between.

Such a loop is endless for as long as nobody else does anything if a round leaves what decides about the next one as it
was: the variables that its ways out depend on, and the memory that it updates. Nothing in its text says so: `Rounds`
compares, round by round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.core import Block, Function, Op
from phalanx.ir.effects import Effects, Mode, Span, When
from phalanx.ir.ops.control import Assign, Break, Continue, For, If, Leave, ReadVar, Roles, While
from phalanx.ir.values import Value, Var
from phalanx.sim.agents import POLL, STEP, TRY, Agent

LONGEST_CIRCLE = 64
"""Rounds after which a loop may be back where it was, to count as one that goes in circles."""


@frozen
class Polling:
    """What is known of a loop that asks before it runs."""

    carried: tuple[Var, ...]
    """The variables that its ways out depend on, by their values or by the conditions under which they get them."""
    acts: bool
    """Others notice more of it than what it asks and updates: it may be waited for, whatever it carries."""
    asks_barrier: bool
    whole: bool
    """A round asks one thing and depends on no round before it: only others can end the loop, and a round is one event."""

    @property
    def moved(self) -> int:
        """What the loop yields after a round that changed something."""
        return TRY if self.asks_barrier else STEP

    @property
    def probes(self) -> bool:
        """Whether its rounds do little but ask."""
        return self.asks_barrier or not (self.acts or self.carried)


def polling(loop: While) -> Polling | None:
    """How a loop asks; nothing for one that asks nothing, which ends or blocks by itself."""
    effects = [op.effects() for block in loop.blocks() for op in block.walk()]
    asking = [e for e in effects if _tests(e) or _reads(e)]
    if not asking:
        return None
    asks_barrier = any(map(_tests, effects))
    below = [op for block in loop.blocks() for op in block.walk()]
    if any(map(_acts, effects)) or any(isinstance(op, Roles) for op in below):
        return Polling((), acts=True, asks_barrier=asks_barrier, whole=False)
    flow = _Flow(loop)
    carried = flow.deciding()
    alone = len(asking) == 1 and not any(isinstance(op, For | While) for op in below)
    whole = alone and not any(var in flow.variables(flow.assigned[var]) for var in carried)
    return Polling(carried, acts=False, asks_barrier=asks_barrier, whole=whole)


def tries(loop: For) -> bool:
    """Whether a loop over a range asks a barrier."""
    return any(_tests(op.effects()) for op in loop.body.walk())


def asks_memory(function: Function) -> bool:
    """Whether some loop asks memory alone, which may be what other clusters write."""
    return any(
        isinstance(op, While) and (asks := polling(op)) is not None and not asks.asks_barrier for op in function.walk()
    )


def spinning_tests(function: Function) -> set[Op]:
    """Tests of barriers in loops that only others can end: to them a no means nothing but to ask again, as in a wait."""
    return {
        op
        for loop in function.walk() if isinstance(loop, While) and (asks := polling(loop)) is not None and asks.whole
        for block in loop.blocks() for op in block.walk() if _tests(op.effects())
    }


def _tests(effects: Effects) -> bool:
    return any(not wait.blocking for wait in effects.waits)


def _reads(effects: Effects) -> bool:
    return any(access.mode is not Mode.WRITE and access.when is When.NOW for access in effects.accesses)


def _acts(effects: Effects) -> bool:
    """Whether others notice it. Of an update that is over at once one sees whether it has changed anything."""
    return (
        any(wait.blocking for wait in effects.waits)
        or bool(effects.arrivals or effects.expects or effects.completes or effects.groups or effects.lifecycle)
        or any(access.mode is Mode.WRITE for access in effects.accesses)
        or any(access.mode is Mode.ATOMIC and access.when is not When.NOW for access in effects.accesses)
        or any(meeting.span is not Span.AGENT for meeting in effects.rendezvous)
    )


class _Flow:
    """Where the values in a loop come from: by what they are computed, and under which conditions."""

    def __init__(self, loop: While) -> None:
        self.made: dict[Value, Op] = {}
        self.assigned: dict[Var, list[Value]] = {}
        """What is assigned to each variable, and what decides whether it is."""
        self.leaving: list[Value] = [loop.cond]
        """The conditions of the loop itself, and of all that jumps."""
        for block in loop.blocks():
            self._read(block, ())

    def _read(self, block: Block, around: tuple[Value, ...]) -> None:
        for op in block:
            for value in op.defined_values():
                self.made[value] = op
            inside = around
            if isinstance(op, Assign):
                self.assigned.setdefault(op.var, []).extend((op.value, *around))
            elif isinstance(op, If | While):
                inside = (*around, op.cond)
            elif isinstance(op, For):
                inside = (*around, op.start, op.stop, op.step)
            elif isinstance(op, Break | Continue | Leave):
                self.leaving += around
            for inner in op.blocks():
                self._read(inner, inside)

    def deciding(self) -> tuple[Var, ...]:
        """The loop's variables that its end depends on."""
        found = self.variables(self.leaving)
        return tuple(var for var in self.assigned if var in found)

    def variables(self, roots: list[Value]) -> set[Var]:
        """The loop's variables that `roots` depend on."""
        seen: set[Value] = set()
        found: set[Var] = set()
        stack = list(roots)
        while stack:
            value = stack.pop()
            op = self.made.get(value)
            if value in seen or op is None:
                continue
            seen.add(value)
            for part in (op, *_inside(op)):
                stack += part.operands()
                if isinstance(part, ReadVar) and part.var in self.assigned and part.var not in found:
                    found.add(part.var)
                    stack += self.assigned[part.var]
        return found


def _inside(op: Op) -> Iterator[Op]:
    for block in op.blocks():
        yield from block.walk()


class Rounds:
    """The rounds of one loop, for one agent: what it yields at the end of each.

    `POLL` while the loop goes in circles: what it carries is as it was at most `LONGEST_CIRCLE` rounds before, and it has
    changed nothing since. The one state that is kept to compare with is a new one after 1, 2, 4 ... rounds, so that a
    circle of any length is found. `agent.circle` is the number of rounds of a circle that has just been closed, else 0.
    """

    __slots__ = ("agent", "asks", "changes", "circle", "count", "kept", "room", "vain")

    def __init__(self, agent: Agent, asks: Polling) -> None:
        self.agent = agent
        self.asks = asks
        self.vain = agent.cta.cluster.machine.vain
        self._keep(())
        self.circle = 0

    def _keep(self, state: tuple[Any, ...]) -> None:
        self.kept = state
        self.changes = self.agent.changes
        self.count = 0
        self.room = 1

    def begin(self, *state: Any) -> None:
        """The loop begins, which is a sign that something has happened."""
        self.agent.loops += 1
        self.vain.clear()
        self._keep(state)
        self.circle = 0

    def end(self, *state: Any) -> int:
        """A round is over."""
        agent = self.agent
        agent.circle = 0
        self.count += 1
        if self.changes == agent.changes and not self.asks.acts:
            if same(state, self.kept) and self.count <= LONGEST_CIRCLE:
                agent.circle = self.circle = self.count
                self.count = 0
            if self.count < self.circle:  # as far as one can see it goes on as in the circle before
                self.vain[agent] = self.vain.get(agent, 0) + 1
                return POLL
        if self.circle or self.changes != agent.changes or self.count >= self.room:
            room = 1 if self.circle else 2 * self.room
            self._keep(state)
            self.circle = 0
            self.room = room
        self.vain.clear()
        return self.asks.moved


def same(state: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether all variables are as they were; each is a number or a tile."""
    return all(
        one is two or (np.array_equal(one, two) if isinstance(one, np.ndarray) else one == two)
        for one, two in zip(state, other, strict=True)
    )
