"""Choices for products that are kept by their rows: weights stay while rows change from call to call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from phalanx.kernels.products.matmul_cuts import Problem
from phalanx.kernels.windows import Choice, Windows
from phalanx.runtime.device.devices import Device

EIGHT = 8
"""Rows that have one choice, as `Problem.in_eights` says."""
FEWEST = 16
"""Eights of rows of the first window."""


def octave(eights: int, longest: int) -> range:
    """The eights of rows that are chosen for at once with this one: an octave, or a part of one that is longer."""
    if eights <= FEWEST:
        return range(1, FEWEST + 1)
    length = min(1 << (eights - 1).bit_length() - 1, longest)
    start = (eights - 1) // length * length + 1
    return range(start, start + length)


class ByRows(Windows[tuple[Problem, Device], Choice]):
    """Choices by product and device, of which a window has at most `longest` eights of rows.

    Other numbers of rows are chosen for one by one. `choose` makes the choices for products that differ in their rows
    alone, in ascending order. Example: ``ByRows(choose, 64).of(Problem(128, 4096, 4096), device)``.
    """

    def __init__(self, choose: Callable[[Sequence[Problem], Device], Sequence[Choice]], longest: int) -> None:
        super().__init__(lambda asked: choose([problem for problem, _ in asked], asked[0][1]))
        self.longest = longest

    def of(self, problem: Problem, device: Device) -> Choice:
        """The choice for a product."""
        return self.find((problem, device))

    def window(self, asked: tuple[Problem, Device]) -> range:
        """The eights of rows: none where A lies across K, whose rows are lengths in memory that `in_eights` leaves as they
        are, nor where a caller did not round them."""
        rows = asked[0].m
        in_eights = asked[0].by_k[0]
        return octave(rows // EIGHT, self.longest) if in_eights and rows and rows % EIGHT == 0 else range(0)

    def numbered(self, asked: tuple[Problem, Device], number: int) -> tuple[Problem, Device]:
        """The product with so many eights of rows."""
        return replace(asked[0], m=EIGHT * number), asked[1]
