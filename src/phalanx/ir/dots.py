"""What each `px.dot` becomes: a decision for each place in the kernel, which passes fill in one after the other.

The front end begins it, where the operands as they are written leave no choice. Then `passes/pipelining/write.py` decides
for products that read rings, `passes/operand_staging.py` for those whose operands it moves, `passes/tensor_products.py`
where there is tensor memory, and `cuda/lower/mma_fallback.py` for those that shared memory can't be laid out for. A later
word takes the place of an earlier one; what is left is a note to the user.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from enum import Enum

from phalanx.frozen import frozen
from phalanx.ir.core import Faster, Note
from phalanx.location import Location

TOPIC = "px.dot"
WAITED = "waited for at once"
"""Said of a product whose sum is there before anything else runs."""
BEGUN_EARLY = "begun before the last product of the step before is over"


class Unit(Enum):
    """The instructions of the tensor cores that a product may become."""

    WARPS = "mma.sync"
    WARPGROUPS = "wgmma"
    TENSOR_MEMORY = "tcgen05"


@frozen
class DotDecision:
    """What the product at one place becomes.

    `why`: what speaks against an instruction of more threads. `how`: where its operands and its accumulator are, and when it
    is waited for; with `on_ring` it reads tiles that a producer fetched. `faster`: what the user can do about speed that is
    lost by it.
    """

    loc: Location
    unit: Unit
    why: str = ""
    how: str = ""
    on_ring: bool = False
    faster: Faster | None = None

    @property
    def message(self) -> str:
        """The decision in words."""
        ring = " on the ring, " if self.on_ring else ": "
        return f"{TOPIC} runs as {self.unit.value}{ring}{'; '.join(filter(None, (self.why, self.how)))}"


def decided(notes: Iterable[Note], decisions: Iterable[DotDecision]) -> tuple[Note, ...]:
    """The notes with these decisions in the place of earlier ones for the same products."""
    new = tuple(dict.fromkeys(decisions))
    places = {decision.loc for decision in new}
    kept = (note for note in notes if not isinstance(note.decision, DotDecision) or note.loc not in places)
    return (*kept, *(Note(decision.message, decision.loc, decision.faster, decision) for decision in new))


def waited_for(notes: Iterable[Note], places: Collection[Location]) -> tuple[Note, ...]:
    """The notes, where the products on rings at these places are waited for at once after all."""
    notes = tuple(notes)
    found = [note.decision for note in notes if isinstance(note.decision, DotDecision) and note.decision.loc in places]
    made = []
    for decision in found:
        *parts, when = decision.how.split(", ")
        if decision.on_ring and when not in (WAITED, BEGUN_EARLY):
            made.append(dataclasses.replace(decision, how=", ".join((*parts, WAITED))))
    return decided(notes, made)


def decisions_of(notes: Iterable[Note]) -> dict[Location, DotDecision]:
    """What is decided so far, by place."""
    return {note.loc: note.decision for note in notes if isinstance(note.decision, DotDecision)}
