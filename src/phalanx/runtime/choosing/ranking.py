"""Ranks the combinations of a launch by the time that they take on the model of a card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.archs import Arch
from phalanx.language.kernel import Kernel
from phalanx.runtime.choosing.candidates import chosen_part, named
from phalanx.runtime.choosing.estimates import Estimate, estimate, planned
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.specialise import Argument, Specialisation, specialise

MOST_TOLD = 12
"""Refused combinations that an error lists."""


@frozen
class Ranked:
    """A combination by its number: its time on the model, or why it has none. `refused`: it does not compile, or fit."""

    number: int
    estimate: Estimate | None
    why: str = ""
    refused: bool = False

    @property
    def order(self) -> tuple[bool, float, int]:
        """By what combinations are sorted: tiles that registers hold first, then time, then the order of writing."""
        if self.estimate is None:
            return True, float("inf"), self.number
        return *self.estimate.order, self.number


def ranking(
    kernel: Kernel, candidates: list[dict[str, Any]], grids: list[Any], arguments: list[Argument], arch: Arch
) -> list[Ranked]:
    """Every combination, the quickest first; behind them those that the model can't time, and those that are refused.

    `grids` has the grid of each, or the error that it ends with.
    """
    found = [judged(kernel, number, candidates[number], grids[number], arguments, arch) for number in range(len(candidates))]
    return sorted(found, key=lambda item: (item.refused, *item.order))


def judged(
    kernel: Kernel, number: int, constants: dict[str, Any], grid: Any, arguments: list[Argument], arch: Arch
) -> Ranked:
    """One combination."""
    try:
        if isinstance(grid, Error):
            raise grid
        specialisation = specialise(kernel, arguments, constants)
        made = planned(specialisation, arch)
        dims = specialisation.fitting(grid, arguments, numbers=True) if leaves_grid(grid) else grid
    except Error as error:
        return Ranked(number, None, error.message, refused=True)
    try:
        return Ranked(number, estimate(made, dims, arguments))
    except Error as error:
        return Ranked(number, None, error.message)


def best_of(
    kernel: Kernel, constants: dict[str, Any], candidates: list[dict[str, Any]], grids: list[Any],
    arguments: list[Argument], arch: Arch, compiles: Callable[[Specialisation], object] | None = None,
) -> tuple[int, str]:
    """The number of the quickest combination, and what is said of the choice; an error where none compiles and fits.

    With `compiles`, which raises an error where it can't, the quickest of those that it compiles.
    """
    ranked = ranking(kernel, candidates, grids, arguments, arch)
    parts = [named(chosen_part(constants, candidate)) for candidate in candidates]
    good = [item for item in ranked if not item.refused]
    bad = [item for item in ranked if item.refused]
    while good and compiles is not None:
        try:
            compiles(specialise(kernel, arguments, candidates[good[0].number]))
            break
        except Error as error:
            bad.append(Ranked(good.pop(0).number, None, error.message, refused=True))
    if not good:
        raise none_fits(kernel, sorted(bad, key=lambda item: item.number), parts)
    return good[0].number, told(good, len(ranked), parts)


def none_fits(kernel: Kernel, ranked: list[Ranked], parts: list[str]) -> Error:
    """The error for a launch of which no combination can be taken: why, one by one."""
    lines = [f"{parts[item.number]}: {item.why}" for item in ranked[:MOST_TOLD]]
    if len(ranked) > MOST_TOLD:
        lines.append(f"and {len(ranked) - MOST_TOLD} more")
    return Error(
        f"none of the {len(ranked)} combinations of px.choose compiles and fits for kernel '{kernel.name}'",
        location=kernel.location,
        details="\n".join(lines),
        remedy="add smaller values; a launch with one of them by itself shows its whole message",
    )


def told(good: list[Ranked], count: int, parts: list[str]) -> str:
    """What the note on a choice says: the time of the one that is taken, the next one's, and how many were refused."""
    best = good[0]
    head = f"{parts[best.number]} (px.choose)"
    if best.estimate is None:
        return f"{head}: the first of {count} that compiles and fits; the model of time can't rank them: {best.why}"
    text = f"{head}: {shown(best)} on the model of the {best.estimate.rates.name}, the quickest of {count}"
    if len(good) > 1 and good[1].estimate is not None:
        text += f"; next {parts[good[1].number]}: {shown(good[1])}"
    refused = count - len(good)
    return text + (f"; {refused} {'do' if refused > 1 else 'does'} not compile or fit" if refused else "")


def shown(item: Ranked) -> str:
    """The time of a combination, as notes have it."""
    assert item.estimate is not None
    return f"{item.estimate.microseconds:.3g} us" + (", with tiles that spill" if item.estimate.spills else "")
