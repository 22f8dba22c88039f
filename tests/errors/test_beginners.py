"""What beginners get wrong: every message stands at what is wrong, says what it is, and says what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from errors.beginners import FILES, Mistake, error_of, mistakes

ALL = [mistake for file in FILES for mistake in mistakes(file)]
VAGUE = ("docs/reference.md lists what there is", "this is a bug of phalanx")
"""Remedies that help nobody who does not know the word already."""


@pytest.mark.parametrize("mistake", ALL, ids=lambda mistake: mistake.name)
def test_the_message_helps(mistake: Mistake, tmp_path: Path) -> None:
    error = error_of(mistake, tmp_path)
    place = error.location
    assert place.file == str(tmp_path / f"{mistake.name}.py")
    end = place.end_column if place.end_line == place.line else len(place.text.rstrip())
    assert (place.line, place.column, end) == mistake.place, str(error)
    assert error.message == mistake.message
    assert mistake.remedy in (error.remedy or ""), error.remedy
    assert not any(vague in (error.remedy or "") for vague in VAGUE)


def test_there_are_many_and_no_two_alike() -> None:
    assert len(ALL) >= 200
    assert len({mistake.name for mistake in ALL}) == len({mistake.program for mistake in ALL}) == len(ALL)
