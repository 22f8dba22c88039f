"""Random programs of barriers: `px.check` at its default settings against the exploration of every order.

What the check calls clean has one outcome and no deadlock in any order; where it finds a race, the two lines meet in some
order; where it finds a deadlock, some order has one. Programs small enough run in all interleavings too, against which the
exploration is held itself.

A verdict with "alone" is a finding that no explored order shows, and right all the same: seven of 5,000 programs have a
`tx-mismatch` like that. The bytes that a phase expects and those that its copies bring differ, or nothing orders the expect
before the arrive that completes the phase, as the finding says. An order shows it only to somebody who looks:

- Nobody waits for the phase, so nobody notices that it never completes or completes without its copy: barriers armed for
  bytes that no copy brings (seeds 1028 and 2284), a copy to a phase that expects nothing or less (666, 3645).
- Somebody waits for it and may go on before the copy has landed, but reads nothing that it brings (2054, 2090, 4096).

With one more line, such a wait or such a read, each of these programs has a deadlock or a second outcome:
`test_signals.py` adds it. The exploration knows no end of a CTA while a copy is on its way, which is wrong, too.
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
