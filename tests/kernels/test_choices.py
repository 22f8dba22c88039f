"""Which configurations the library chooses, over random products, matrices and rows: of each choice a digest is kept.

A test that fails prints the first choice that is another one. After a change on purpose, compare both commits by
`python -m golden.choices FILE`, read the lines that differ, and run this test with `--regenerate`.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path

import pytest

import phalanx as px
from golden.choices import choices

COUNT = 60
"""Cases of each kind."""
KEPT = Path(__file__).resolve().parents[1] / "golden" / "expected" / "choices.txt"
"""A line for each kind: its name, and a digest of each case."""


def digest(line: str) -> str:
    """Four digits of what a case asks and gets: of 60 cases that change together some are noticed for certain."""
    return hashlib.sha256(line.encode()).hexdigest()[:4]


def differing(lines: dict[str, list[str]], kept: dict[str, list[str]]) -> list[str]:
    """What is said of each kind whose choices are not those that were kept."""
    said = []
    for kind, each in lines.items():
        before = kept.get(kind, [])
        changed = [line for n, line in enumerate(each) if before[n : n + 1] != [digest(line)]]
        if changed or len(before) > len(each):
            head = f"{kind}: {len(changed)} of {len(each)} choices are others (kept: {len(before)}), first"
            said.append(f"{head}\n    {changed[:1]}")
    return said + [f"{kind}: no such choices any more" for kind in kept.keys() - lines.keys()]


def test_choices_are_those_of_before(regenerate: bool) -> None:
    if not px.device().simulated:
        pytest.skip("the digests are those of the simulated H200")
    lines = defaultdict(list)
    for kind, line in choices(COUNT):
        lines[kind].append(line)
    if regenerate:
        KEPT.write_text("".join(f"{kind} {' '.join(map(digest, each))}\n" for kind, each in lines.items()))
    kept = {kind: digests for kind, *digests in (line.split() for line in KEPT.read_text().splitlines())}
    said = differing(lines, kept)
    assert not said, "\n".join(said)


def test_the_first_choice_that_differs_is_named() -> None:
    lines = {"tiles": ["a -> 1", "b -> 2", "c -> 3"], "rows": ["d -> 4"]}
    kept = {kind: [digest(line) for line in each] for kind, each in lines.items()}
    assert differing(lines, kept) == []
    lines["tiles"][1:] = ["b -> 5", "c -> 6"]
    assert differing(lines, kept | {"old": []}) == [
        "tiles: 2 of 3 choices are others (kept: 3), first\n    ['b -> 5']", "old: no such choices any more",
    ]
