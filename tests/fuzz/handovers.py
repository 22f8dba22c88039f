"""Random programs of commits, polls that give up, expects for peers, atomics and counters: checks against exploration.

As `fuzz.signals` judges them: what the check calls clean has one outcome, no deadlock and no two accesses that may come at
the same time, in any order; a race that it finds is two such accesses, and a deadlock shows in some order. Of every tenth
program that is small enough all interleavings are run, too.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from fuzz.outcomes import Options, Outcome
from sanitizer.choreographies import load
from sanitizer.comparing import agree, agree_with_everything
from sanitizer.handovers import WORDS, given, grid_of, handover

BATCH = 20
ORDERS = 200
"""So many orders are explored: programs with more count as too large."""
SMALL = 60


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """One program per seed."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            yield judged(seed, Path(folder))


def breaks_a_lock(text: str) -> bool:
    """Whether somebody takes the lock and another gives it back: then its word ends as the order of two atomics has it.

    That is no finding of `px.check`, which knows of no order in which atomics ought to come.
    """
    count: Counter[str] = Counter()
    for rank, line in re.findall(r"if (rank == \d):\n\s+(.*)", text):
        count[rank] += line.startswith(f"while px.atomic_cas(W[{WORDS - 1}], 0, 1)")
        count[rank] -= f"px.atomic_exch(W[{WORDS - 1}], 0)" in line
    return any(count.values())


def judged(seed: int, folder: Path) -> Outcome:
    text = handover(Random(seed))
    try:
        program = load(text, folder)
        args, grid = given(program), grid_of(text)
        verdict = agree(text, program, grid, args, ORDERS, alike=not breaks_a_lock(text))
        judgeable = verdict != "too large" and not verdict.startswith("refused")
        if judgeable and seed % 10 == 0 and agree_with_everything(text, program, grid, args, SMALL):
            verdict += ", all interleavings"
    except AssertionError as problem:
        return Outcome(seed, "disagreement", str(problem))
    except Exception as problem:  # any error of ours is a story too
        return Outcome(seed, "failure", f"{type(problem).__name__}: {problem}\n{text}")
    return Outcome(seed, verdict)
