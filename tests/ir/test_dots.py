"""Decisions on `px.dot`: how they read, and that a later one takes the place of an earlier one."""

from __future__ import annotations

import dataclasses

import pytest

from phalanx.ir.core import Faster, Note
from phalanx.ir.dots import DotDecision, Unit, decided, decisions_of
from support.hand_ir import at

CASES = [
    (DotDecision(at(3), Unit.WARPS, "b is a register tile"), "px.dot runs as mma.sync: b is a register tile"),
    (
        DotDecision(at(3), Unit.WARPS, "b is a register tile", "a is read from 's'"),
        "px.dot runs as mma.sync: b is a register tile; a is read from 's'",
    ),
    (DotDecision(at(3), Unit.WARPGROUPS, how="a is read from 's'"), "px.dot runs as wgmma: a is read from 's'"),
    (
        DotDecision(at(3), Unit.WARPGROUPS, how="waited for at once", on_ring=True),
        "px.dot runs as wgmma on the ring, waited for at once",
    ),
]


@pytest.mark.parametrize(("decision", "text"), CASES, ids=["why", "why and how", "how", "on the ring"])
def test_a_decision_in_words(decision: DotDecision, text: str) -> None:
    assert decision.message == text


def test_a_later_decision_takes_the_place_of_an_earlier_one() -> None:
    other = Note("px.load is staged", at(3))
    first, elsewhere = DotDecision(at(3), Unit.WARPS, "one"), DotDecision(at(4), Unit.WARPS, "two")
    notes = decided([other], [first, elsewhere, first])
    assert [note.message for note in notes] == ["px.load is staged", first.message, elsewhere.message]
    last = dataclasses.replace(first, unit=Unit.TENSOR_MEMORY, why="", how="three", faster=Faster("four"))
    notes = decided(notes, [last])
    assert notes[:2] == (other, Note(elsewhere.message, at(4), None, elsewhere))
    assert notes[2].message == "px.dot runs as tcgen05: three" and notes[2].faster == Faster("four")
    assert decisions_of(notes) == {at(3): last, at(4): elsewhere}
