"""Loops whose products overlap with other work: one of three forms is chosen for each, or none."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from phalanx.frozen import frozen
from phalanx.ir.archs import WARPGROUP, Feature
from phalanx.ir.core import Faster, Op
from phalanx.ir.dots import BEGUN_EARLY, WAITED, DotDecision, Unit
from phalanx.ir.ops.control import Break, For
from phalanx.ir.views import SharedBuffer
from phalanx.location import Location
from phalanx.passes.pipelining.alternation import Alternation, find_alternation
from phalanx.passes.pipelining.operands import Operands
from phalanx.passes.pipelining.products import Flight, Products
from phalanx.passes.pipelining.rotation import Rotation, find_rotation


@frozen
class Overlaps:
    """The loops of a kernel by their form: `Flight`s in `products.py`, the others in modules of their names."""

    flights: dict[For, Flight]
    rotations: dict[For, Rotation]
    alternations: dict[For, Alternation]

    @property
    def buffers(self) -> tuple[SharedBuffer, ...]:
        """Memory for operands that steps compute."""
        return tuple(buffer for form in self.alternations.values() for buffer in form.buffers)

    def without_buffers(self) -> Overlaps:
        """Leaves out the alternating loops that need buffers, for when shared memory has no room for them."""
        alternations = {loop: form for loop, form in self.alternations.items() if not form.buffers}
        return dataclasses.replace(self, alternations=alternations)

    @property
    def products(self) -> frozenset[Location]:
        """Where the products stand that overlap."""
        return frozenset(
            op.loc for loop in (*self.flights, *self.rotations, *self.alternations)
            for op in loop.body.walk() if op.product is not None
        )

    def decisions(self, products: Products) -> list[DotDecision]:
        """What each product of the loops becomes, for the notes."""
        found = [
            DotDecision(made.op.loc, Unit.WARPGROUPS, how=_alternating(made.op, form), on_ring=True)
            for form in self.alternations.values() for made in form.products
        ]
        told = {made.op for form in self.alternations.values() for made in form.products}
        flying = {op for flight in self.flights.values() for op in flight.products}
        put_off = {form.second: form.first for form in self.rotations.values()}
        warps = products.places.function.warps
        for op, made in products.found.items():
            if op in told:
                continue
            if made.along is None:
                faster = None if warps % WARPGROUP else Faster(made.remedy, (Feature.WGMMA,))
                found.append(DotDecision(op.loc, Unit.WARPS, made.why, faster=faster))
                continue
            how = "one group stays in flight" if op in flying else WAITED
            if op in put_off:
                how = f"beside the next step's product at line {put_off[op].loc.line}"
            elif op in put_off.values():
                how = BEGUN_EARLY
            found.append(DotDecision(op.loc, Unit.WARPGROUPS, how=how, on_ring=True))
        return found


def find_overlaps(
    operands: Operands, products: Products, loops: list[For], alone: Collection[For], taken: set[str]
) -> Overlaps:
    """The form of each loop; those that are `alone` fetch for themselves, and have the first form or none."""
    places = products.places
    flights: dict[For, Flight] = {}
    rotations: dict[For, Rotation] = {}
    alternations: dict[For, Alternation] = {}
    early = {leaving.label for leaving in places.exits if isinstance(leaving, Break)}
    for loop in loops:
        if (flight := products.flight(loop)) is not None:
            flights[loop] = flight
        elif loop in alone or loop.label in early:
            continue  # what is over, and what was begun, is not the same at every way out
        elif (rotation := find_rotation(places, operands, products, loop)) is not None:
            rotations[loop] = rotation
        elif (alternation := find_alternation(places, operands, products, loop, taken)) is not None:
            alternations[loop] = alternation
    return Overlaps(flights, rotations, alternations)


def _alternating(op: Op, form: Alternation) -> str:
    """What is said of a product whose steps alternate."""
    parts = []
    if (item := form.written.get(op)) is not None:
        parts.append(f"b goes through {item.buffer.nbytes} bytes of shared memory, a place for each of two steps")
    if form.begins_anew(op):
        parts.append("its sum is used while the next step's product runs")
    else:
        parts.append("the next step's operands are computed while it runs")
    return ", ".join(parts)
