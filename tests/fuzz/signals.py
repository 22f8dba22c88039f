"""Random programs of barriers: `px.check` at its default settings against the exploration of every order.

What the check calls clean has one outcome and no deadlock in any order; where it finds a race, the two lines meet in some
order; where it finds a deadlock, some order has one. Programs small enough run in all interleavings too, against which the
exploration is held itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from fuzz.outcomes import Options, Outcome
from sanitizer.choreographies import program
from sanitizer.comparing import compare, compare_with_everything

BATCH = 20
SMALL = 60
"""Interleavings that are all run, of every tenth program: there are many more of them than orders that differ."""


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """One program per seed."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            yield judged(seed, Path(folder))


def judged(seed: int, folder: Path) -> Outcome:
    text = program(Random(seed))
    try:
        verdict = compare(text, folder)
        judgeable = verdict != "too large" and not verdict.startswith("refused")
        if judgeable and seed % 10 == 0 and compare_with_everything(text, folder, SMALL):
            verdict += ", all interleavings"
    except AssertionError as problem:
        return Outcome(seed, "disagreement", str(problem))
    except Exception as problem:  # any error of ours is a story too
        return Outcome(seed, "failure", f"{type(problem).__name__}: {problem}\n{text}")
    return Outcome(seed, verdict)
