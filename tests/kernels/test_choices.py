"""Which configurations the library chooses, over random products, matrices and rows: the numbers change if a choice does.

After a change on purpose, compare both commits by `python -m golden.choices FILE`, read the lines that differ, and write the
numbers of the failing test here.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict

import pytest

import phalanx as px
from golden.choices import choices

COUNT = 60
"""Cases of each kind."""
EXPECTED = {
    "tiles": "872653a633f7", "side": "fd159f456061", "split": "9fabb44a2003", "grouped": "c5eef3ea6ea7",
    "rows": "e133446fe210", "move": "d614cfcc0665", "slices": "3af9f75ed515",
    "matmul": "b53ba162e8b4", "groups": "77487838a7be", "rowwise": "8c86c82766e1", "moves": "71fe9bed1927",
}  # fmt: skip


def test_choices_are_those_of_before() -> None:
    if not px.device().simulated:
        pytest.skip("the numbers are those of the simulated H200")
    lines = defaultdict(list)
    for kind, line in choices(COUNT):
        lines[kind].append(line)
    assert {kind: hashlib.sha256("\n".join(each).encode()).hexdigest()[:12] for kind, each in lines.items()} == EXPECTED
