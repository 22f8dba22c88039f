"""Places of a kernel that can report from the GPU."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.ops.control import span_text
from phalanx.location import NOWHERE, Location


@frozen
class Stamp:
    """What a stamp says of its place beside its times, its index and one more number.

    `kind`: "wait", "signal", "copy", "store", "product", "close" (of a group), "sync" (of the agent's threads), "step" (of
    a loop), "begin" and "end" (of an agent). `barrier`: the array that is waited for or signalled, of `barriers` barriers;
    the stamp's index is that of the barrier. Without one, and without an engine, the cluster's barrier is meant. The number
    is the parity of a wait, or, where `masked`, the CTAs of a signal or copy; with `leaders`, it reaches the even one of
    their pair. `engine`: who carries the work out, or whose groups are closed or waited for; with `closes`, its group is
    closed as well. `pending`: groups that may be open behind a wait, which with `reads` is over when they have read their
    sources.
    """

    kind: str
    barrier: str = ""
    barriers: int = 0
    masked: bool = False
    leaders: bool = False
    engine: str = ""
    closes: bool = False
    pending: int = -1
    reads: bool = False
    nbytes: int = 0


@dataclass
class Stamping:
    """What a writer keeps for stamps: commits that another stamp speaks for, and the work since the last stamp."""

    folded: set[Op] = field(default_factory=set)
    work: Location = NOWHERE
    weight: int = 0
    turn: int = 0
    """The warp of the agent that wrote the last stamp."""
    rings: dict[object, str] = field(default_factory=dict)
    """What the ring of an agent is called."""

    def take(self) -> Location:
        """Where the largest tile was computed since the last stamp; NOWHERE if none was."""
        found = self.work
        self.work, self.weight = NOWHERE, 0
        return found


@frozen
class Site:
    """A place of the text that the host hears of: one that can stop the kernel, or delay it, or that writes stamps.

    `kind` is "wait" (`name` is the barrier array's), "assert" (`name` is the message), "delay" or "stamp" (`name` is the
    instruction's); `role` is empty outside roles. `copies`: of a role with copies, the first warp and the warps of one.
    `warps`: those of the agent. `work`: the line that took most of the time before a stamp.
    """

    kind: str
    name: str
    role: str
    location: Location
    copies: tuple[int, int] | None = None
    warps: int = 0
    stamp: Stamp | None = None
    work: Location = NOWHERE

    def who(self, warp: int) -> str:
        """The agent that a warp of the CTA belongs to, as a report names it."""
        if self.copies is None:
            return self.role or "all warps"
        first, count = self.copies
        return span_text(first + (warp - first) // count * count, count)

    def to_json(self) -> list[Any]:
        """Itself as JSON takes it; `from_json` is the way back."""
        told = self.stamp
        return [
            self.kind, self.name, self.role, _place_to_json(self.location), self.copies, self.warps,
            None if told is None else astuple(told), _place_to_json(self.work),
        ]  # fmt: skip

    @staticmethod
    def from_json(data: list[Any]) -> Site:
        """The site that `to_json` wrote."""
        kind, name, role, location, copies, warps, told, work = data
        stamp = None if told is None else Stamp(*told)
        shared = None if copies is None else (copies[0], copies[1])
        return Site(kind, name, role, _place_from_json(location), shared, warps, stamp, _place_from_json(work))


def _place_to_json(place: Location) -> list[Any] | None:
    if place is NOWHERE:
        return None
    return [place.file, place.line, place.column, place.end_column, place.text, place.function]


def _place_from_json(data: list[Any] | None) -> Location:
    if data is None:
        return NOWHERE
    file, line, column, end, text, function = data
    return Location(file, line, column, line, end, text, function)
