"""Cards are read from files of numbers: what a file may say, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.common.cards import text_of
from phalanx.frozen import frozen
from phalanx.machines.h200 import H200
from phalanx.machines.model import Machine
from phalanx.machines.reading import read

CARD = Path(__file__).resolve().parents[2] / "src" / "phalanx" / "machines" / "h200.json"


@frozen
class Costs:
    rate: float
    steps: int


@frozen
class Card:
    quick: Costs
    slow: Costs
    table: Mapping[tuple[int, bool], tuple[tuple[int, int], ...]]
    counts: Mapping[int, int]
    names: Mapping[str, int]


GIVEN = {
    "quick": {"rate": 2.5, "steps": 3}, "slow": {"like": "quick", "rate": 0.5}, "table": {"2, true": [[1, 2], [3, 4]]},
    "counts": {"8": 15}, "names": {"sms": 132},
}  # fmt: skip


def test_objects_keys_and_lists() -> None:
    found = read(Card, GIVEN)
    assert found.slow == Costs(0.5, 3) and found.quick == Costs(2.5, 3)
    assert found.table == {(2, True): ((1, 2), (3, 4))} and found.counts == {8: 15} and found.names == {"sms": 132}


def test_what_a_card_has_no_field_for_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Costs has no \['speed'\]"):
        read(Card, GIVEN | {"quick": {"rate": 2.5, "steps": 3, "speed": 1}})
    with pytest.raises(TypeError, match="steps"):
        read(Card, GIVEN | {"quick": {"rate": 2.5}})


def test_the_file_is_laid_out_as_a_script_writes_it() -> None:
    card = json.loads(CARD.read_text())
    assert CARD.read_text() == text_of(card) + "\n"
    assert read(Machine, card) == H200


def test_the_package_does_not_read_it() -> None:
    told = "import sys, phalanx; print(any(name.startswith('phalanx.machines') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout == "False\n"
