"""Events of a run that is driven step by step: who did what to which bytes and barriers, and which of them commute."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from phalanx.ir.core import Op

Process = tuple[Any, ...]
"""An agent, ("agent", cluster, CTA, number), or a copy, ("copy", *its agent, number): the same in every run."""


class Touch(NamedTuple):
    """One thing that an event did to something shared. Plain numbers, so that it can be sent to another process."""

    kind: str
    """"memory", "barrier", "cluster", or "grid" for the clusters that have not started."""
    key: tuple[Any, ...]
    """The memory or the barrier, by its number and its place."""
    mode: str
    """Memory: read, write, atomic, "fold add" for atomics that commute. Barriers: signal (an arrival, bytes), expect,
    wait, test that said yes, no for one that did not, life; arrive, wait."""
    number: int = 0
    """Memory: a bit per byte. Barriers: the phase it was done in; for a wait the parity."""
    flips: bool = False
    """A signal that completed its phase."""
    before: tuple[int, int] = (0, 0)
    """A signal: the barrier's pending arrivals and outstanding bytes before it."""
    change: tuple[int, int] = (0, 0)
    """A signal: its arrivals, and the bytes it adds to those outstanding."""
    alone: bool = False
    """A signal of a barrier that got more bytes than it expected: none of these commute."""
    atomic: bool = False
    """Memory: by one of the instructions that are no race with each other, whatever they do."""
    reached: int = 0
    """A wait or a test that said yes: the phase that the barrier is in; those before it are complete."""

    def completes_before(self, other: Touch) -> bool:
        """Whether this signal would have completed the phase, had it come right before the other one."""
        return self.change[0] == other.before[0] and self.change[1] == -other.before[1]


class Order(IntEnum):
    """How two events stand to each other."""

    FREE = 0
    """They commute."""
    FIXED = 1
    """The first made the second possible."""
    RACE = 2
    """The other way round may end differently."""


@dataclass(eq=False)
class Event:
    """What one process did between two choices of the driver."""

    process: Process
    number: int
    """The how many-th event of its process, from 1."""
    touches: list[Touch] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    """The instruction of each touch."""
    clock: dict[Process, int] = field(default_factory=dict)
    """The last event of each process that comes before it, or is it."""
    known: dict[Process, int] = field(default_factory=dict)
    """`clock` without what its copies' issuers did: a copy that lands publishes itself alone."""
    own: dict[Process, int] = field(default_factory=dict)
    """The events of a copy so far, and the writes that it read."""
    hands: list[tuple[int, int]] = field(default_factory=list)
    """Elements of global memory (array, a bit each) where it hands on what its agent knows, and takes over what is there."""
    keys: set[tuple[Any, ...]] = field(default_factory=set)
    """What it touched."""
    changes: bool = True
    """Whether it may have left memory or a barrier otherwise than it was."""

    def changes_nothing(self) -> None:
        """Atomics that left memory as it was only read it."""
        self.touches = [touch._replace(mode="read") if touch.mode == "atomic" else touch for touch in self.touches]
        self.changes = any(touch.mode != "read" and not touch.mode.startswith("fold") for touch in self.touches)

    def reads_from(self, other: Event) -> bool:
        """Whether it reads what another event wrote."""
        return any(
            second.kind == "memory" and second.mode == "read" and first.mode == "write"
            and first.kind == second.kind and first.key == second.key and first.number & second.number
            for first in other.touches for second in self.touches
        )

    def changed(self) -> set[tuple[Any, ...]]:
        """What it may have left otherwise than it was."""
        if not self.changes:
            return set()
        return {touch.key for touch in self.touches if touch.mode not in ("read", "test", "no")}

    def meets(self, other: Event) -> bool:
        """Whether both hand on what they know at the same element."""
        return any(mine[0] == theirs[0] and mine[1] & theirs[1] for mine in self.hands for theirs in other.hands)

    def follows(self, other: Event) -> bool:
        """Whether another event happens before this one, or is it."""
        return self.clock.get(other.process, 0) >= other.number


def order(first: Touch, second: Touch) -> Order:
    """Whether `second`, done after `first`, could have been done before it, and with the same result."""
    if first.key != second.key or first.kind != second.kind:
        return Order.FREE
    one, two = first.mode, second.mode
    if first.kind == "memory":
        if (one == two and one not in ("write", "atomic")) or not first.number & second.number:
            return Order.FREE
        return Order.RACE
    if first.kind == "cluster":
        return Order.FIXED if one == "arrive" and two == "wait" and first.number <= second.number else Order.FREE
    if first.kind == "grid":  # who comes first gets the next one
        return Order.RACE
    if "life" in (one, two):
        return Order.RACE
    asks = ("wait", "test", "no")
    if one in asks and two in asks:
        return Order.FREE
    if two == "wait":  # before a signal of a phase of its own parity it could not have passed
        return Order.RACE if (first.number ^ second.number) & 1 else Order.FIXED
    if one in asks or two in asks:
        return Order.RACE
    # Arrivals and bytes of one phase commute, unless it completes without the first. An expect alone does not commute: the
    # phase may complete without it.
    if first.number != second.number or "expect" in (one, two) or first.alone or second.completes_before(first):
        return Order.RACE
    return Order.FREE


def tells(first: Touch, second: Touch) -> bool:
    """Whether whoever does `second` learns of all that came before `first`, and not just of what both touch."""
    if first.key != second.key or first.kind != second.kind:
        return False
    if first.kind == "cluster":
        return order(first, second) is not Order.FREE
    if first.kind == "barrier":
        passes = first.mode == "signal" and second.mode in ("wait", "test") and first.number < second.reached
        return passes or "life" in (first.mode, second.mode)
    return False


def orders(first: Event, second: Event) -> Order:
    """The strongest relation of what two events touched."""
    found = Order.FREE
    for a in first.touches:
        for b in second.touches:
            found = max(found, order(a, b))
            if found is Order.RACE:
                return found
    return found


def wakes(done: list[Touch], asleep: list[Touch]) -> bool:
    """Whether an event changes what a process that was put off would do."""
    for a in done:
        for b in asleep:
            if order(a, b) or order(b, a) or (a.flips and a.key == b.key and a.kind == b.kind):
                return True
    return False
