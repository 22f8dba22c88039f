"""The runs that the doubts ask for: each doubt alone, the same doubt in all CTAs, and two doubts together.

What a doubt is about may go wrong only where another one goes the rare way too. A wait that comes too late in one CTA may be
saved by its peer, unless that one is late as well: CTAs run the same code. Or a wait comes too late only if a signal is
early, which it is only if a third agent is held back. So what a run leaves in doubt is held back once more, together with
what that run has held back, but no more than two at a time, and `MOST_PAIRS` times.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.sanitizer.doubts import Doubt, Key
from phalanx.sim.scheduler import Hold, Schedule

Held = tuple[Doubt, ...]
"""What a run holds back, the last of it longest."""
MOST_PAIRS = 48


class HeldRuns:
    """The runs that are still to be made."""

    def __init__(self, planned: Iterable[Schedule]) -> None:
        self.first_goes_last = any(schedule.kind == "early" for schedule in planned)
        """Whether a run that shows this is made anyway."""
        self.keys: set[tuple[Key, ...]] = set()
        self.holds: set[tuple[Hold, ...]] = set()
        self.alone: list[Held] = []
        self.alike: dict[Key, dict[Key, Doubt]] = {}
        """Doubts that differ in their CTA alone."""
        self.pairs: list[Held] = []
        self.paired = 0

    def add(self, held: Held, doubts: Iterable[Doubt]) -> None:
        """A run that held that back leaves these doubts."""
        for doubt in doubts:
            if doubt.hold.first and self.first_goes_last:
                continue
            if any(before(doubt, earlier) for earlier in held):
                continue
            self._ask(self.alone, (doubt,))
            self.alike.setdefault(anywhere(doubt), {}).setdefault(doubt.key, doubt)
            if len(held) == 1 and differ(held[0], doubt):
                self._ask(self.pairs, (*held, doubt))

    def _ask(self, runs: list[Held], held: Held) -> None:
        """One more run, unless one of the same lines is known, or one that holds back the same."""
        keys, holds = tuple(doubt.key for doubt in held), tuple(doubt.hold for doubt in held)
        if keys not in self.keys and holds not in self.holds:
            runs.append(held)
        self.keys.add(keys)
        self.holds.add(holds)

    def take(self) -> list[Held]:
        """The next runs: those of single doubts first, then what is the same in all CTAs, pairs at last."""
        runs, self.alone = self.alone, []
        if not runs:
            for same in self.alike.values():
                if len(same) > 1:
                    self._ask(runs, tuple(same.values()))
        if not runs:
            room = MOST_PAIRS - self.paired
            runs, self.pairs = self.pairs[:room], []
            self.paired += len(runs)
        return runs


def anywhere(doubt: Doubt) -> Key:
    """What a doubt has in common with the same one in other CTAs."""
    return doubt.hold.copies, doubt.hold.cluster is not None, doubt.hold.target[1:], doubt.at, doubt.other


def differ(one: Doubt, two: Doubt) -> bool:
    """Whether to hold back both may show more than each alone: not what is the same, or for the same instruction."""
    if one.hold.first or two.hold.first:
        return False
    same_target = (one.hold.copies, one.hold.target) == (two.hold.copies, two.hold.target)
    same_instruction = one.other is not None and one.other == two.other
    return not (same_target or same_instruction or anywhere(one) == anywhere(two))


def before(doubt: Doubt, earlier: Doubt) -> bool:
    """Whether the doubt is that what was held back may come in time: that is how it came before it was held back."""
    return earlier.at is not None and earlier.at == earlier.other and (
        (doubt.other, doubt.whose) == (earlier.other, earlier.whose)
    )
