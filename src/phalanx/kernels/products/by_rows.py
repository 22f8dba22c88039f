"""Choices for products that are kept by their rows: weights stay while rows change from call to call.

A choice takes most of a millisecond. A second number of rows of the same weights is a sign of more: then it is made for all
numbers of a window at once, an octave most often, and later calls find theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from phalanx.kernels.products.matmul_cuts import Problem
from phalanx.runtime.device.devices import Device

EIGHT = 8
"""Rows that have one choice, as `Problem.in_eights` says."""
FEWEST = 16
"""Eights of rows of the first window."""
CHOICES = 1 << 15
"""Choices that are kept: a model in service has dozens of weights, and batches of any size."""

Choice = TypeVar("Choice")
_MISSING: Any = object()


def window(eights: int, longest: int) -> range:
    """The eights of rows that are chosen for at once with this one: an octave, or a part of one that is longer."""
    if eights <= FEWEST:
        return range(1, FEWEST + 1)
    length = min(1 << (eights - 1).bit_length() - 1, longest)
    start = (eights - 1) // length * length + 1
    return range(start, start + length)


class ByRows(Generic[Choice]):
    """The choices that were made, by product and device, and the windows of rows of which one was.

    `choose` makes those of products that differ in their rows alone, in ascending order. A window has at most `longest`
    eights of rows; other numbers of rows are chosen for one by one.
    Example: ``ByRows(choose, 64).of(Problem(128, 4096, 4096), device)``.
    """

    def __init__(self, choose: Callable[[Sequence[Problem], Device], Sequence[Choice]], longest: int) -> None:
        self.choose, self.longest = choose, longest
        self.made: dict[tuple[Problem, Device], Choice] = {}
        self.windows: set[tuple[Problem, Device]] = set()

    def of(self, problem: Problem, device: Device) -> Choice:
        """The choice for a product."""
        found = self.made.get((problem, device), _MISSING)
        return self._make(problem, device) if found is _MISSING else found

    def _make(self, problem: Problem, device: Device) -> Choice:
        """Makes the choice, and with it those for all rows of its window where it is the second one there."""
        problems = [problem]
        if problem.by_k[0] and problem.m and problem.m % EIGHT == 0:  # lengths in memory, and few others, are not in eights
            rows = window(problem.m // EIGHT, self.longest)
            first = replace(problem, m=EIGHT * rows[0]), device
            if first in self.windows:
                problems = [replace(problem, m=EIGHT * eights) for eights in rows]
            self.windows.add(first)
        if len(self.made) + len(problems) > CHOICES:
            self.clear()
        chosen = dict(zip(((each, device) for each in problems), self.choose(problems, device)))
        self.made.update(chosen)
        return chosen[problem, device]

    def clear(self) -> None:
        """Forgets them all."""
        self.made.clear()
        self.windows.clear()


__all__ = ["CHOICES", "EIGHT", "ByRows", "window"]
