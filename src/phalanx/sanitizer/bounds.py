"""Regions that reach outside a global array: legal, since elements outside are masked, and told on request.

`px.check(..., bounds="report")` gives its first run a `Bounds`. Patches of a convolution reach outside by their nature, and
a view with `.within(start, stop)` says itself which elements are there: neither is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from phalanx.ir.core import Op
from phalanx.ir.effects import Access, Mode
from phalanx.sanitizer.findings import Finding
from phalanx.sanitizer.records import VERBS, Actor, actor_of, array_text
from phalanx.sim.agents import Agent
from phalanx.sim.places import GlobalPlace, RowsPlace

FATES = {
    Mode.READ: ("loads as fill", "load as fill"),
    Mode.WRITE: ("is not stored", "are not stored"),
    Mode.ATOMIC: ("is left out", "are left out"),
}
"""What becomes of one element outside, and of several."""


@dataclass
class Outside:
    """What one instruction names of one array that is not there: the region that misses most, and how many do."""

    access: Access
    region: str
    shape: tuple[int, ...]
    missing: int
    elements: int
    actor: Actor
    regions: int = 1


class Bounds:
    """Takes note of regions outside their arrays, by instruction and access."""

    def __init__(self) -> None:
        self.found: dict[tuple[Op, int], Outside] = {}

    def look(self, agent: Agent, op: Op, access: Access, place: GlobalPlace | RowsPlace) -> None:
        """Takes note of an access of memory that all CTAs reach, if elements of its region are not there."""
        view = access.region
        if view.limits or view.patches is not None:
            return
        elements = prod(place.window.shape)
        missing = elements - present(place, elements)
        if not missing:
            return
        key = op, op.effects().accesses.index(access)
        known = self.found.get(key)
        if known is None or missing > known.missing:
            region = array_text(view, place)
            shape = place.window.array.shape
            count = 0 if known is None else known.regions
            known = self.found[key] = Outside(access, region, shape, missing, elements, actor_of(agent), count)
        known.regions += 1

    def findings(self, schedule: str, seed: int) -> list[Finding]:
        """One finding for each instruction and array."""
        return [
            Finding(
                "out-of-bounds", message(op, outside), op.loc, None, (outside.actor,),
                label=f"{VERBS[outside.access.mode]} {outside.region} ({outside.actor})", count=outside.regions,
                schedule=schedule, seed=seed,
            )
            for (op, _), outside in self.found.items()
        ]


def present(place: GlobalPlace | RowsPlace, elements: int) -> int:
    """How many of a region's elements the array has."""
    if isinstance(place, RowsPlace):
        rest, rows = place.rest.view, place.window.array.shape[place.window.row_axis]
        return 0 if rest is None else len(place.valid) * (rest.size // rows)
    if place.inside is None:
        return elements
    return 0 if place.view is None else place.view.size


def message(op: Op, outside: Outside) -> str:
    """What is not there of the region that misses most, what becomes of it, and what would fix it."""
    shape = f"({', '.join(map(str, outside.shape))}{',' * (len(outside.shape) == 1)})"
    several = outside.missing != 1
    if outside.elements == 1:
        what = "this element is outside"
    elif outside.missing == outside.elements:
        what = f"all {outside.elements:,} elements are outside"
    else:
        what = f"{outside.missing:,} of {outside.elements:,} elements {'are' if several else 'is'} outside"
    fate = FATES[outside.access.mode][several]
    array = outside.access.region.memory.name
    return (
        f"{op.call} {VERBS[outside.access.mode]} {outside.region}, and {array} has the shape {shape}: {what} and {fate}; "
        f"that is legal: if it is meant, leave bounds= out, otherwise look at the index and at the grid"
    )


__all__ = ["Bounds"]
