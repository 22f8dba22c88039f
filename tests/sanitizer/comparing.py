"""Whether the checks agree with exploration on a program, and the exploration with all interleavings."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import phalanx as px
from phalanx.runtime.launch.specialise import read_arguments, specialise
from phalanx.sanitizer.exploration import Search, Start
from phalanx.sim.events import Process
from phalanx.sim.steps import Steps
from sanitizer.choreographies import arguments, load

LIMIT = 1500
OUTSIDE = {"proxy"}
"""Kinds that no order of events shows."""
SHOWN = {"tx-mismatch", "over-arrival"}
"""Kinds that an order usually shows, and that are counted apart where none does: the rule is broken, and it ends well.
(`fuzz.signals` says why that is so of bytes.)"""


def compare(text: str, folder: Path) -> str:
    """Asserts that the report and the exploration of a program agree; says what the report was."""
    return agree(text, load(text, folder), 2 if "cluster=2" in text else 1, list(arguments()))


def agree(text: str, program: Any, grid: int, args: list[Any], limit: int = LIMIT, alike: bool = True) -> str:
    """Compares the two for one launch; a clean program ends the same in every order, if it is to be `alike`."""
    try:
        report = px.check(program[grid], *args)
    except px.Error as error:
        assert "this is a mistake in Phalanx" not in str(error.remedy), f"failed: {error}\n{text}"
        return f"refused: {error.message}"
    seen = px.explore(program[grid], *args, limit=limit)
    if not seen.complete and not seen.deadlocks and not seen.errors:
        return "too large"
    story = f"{text}\n{report}\n{seen}"
    findings = [finding for finding in report.findings if finding.kind not in OUTSIDE]
    if not findings:
        assert not seen.deadlocks and not seen.errors, f"missed:\n{story}"
        assert seen.outcomes == 1 or not alike, f"missed:\n{story}"
        assert not seen.clashes, f"missed, though all orders end alike: {lines_of(seen.clashes)}\n{story}"
        return "clean"
    for finding in findings:
        if finding.kind == "race":
            assert finding.other is not None
            pair = frozenset((place.file, place.line) for place in (finding.location, finding.other))
            assert pair in seen.clashes or not seen.complete, f"never at the same time:\n{story}"
        if finding.kind == "deadlock":
            assert seen.deadlocks, f"never stuck:\n{story}"
    return findings[0].kind + " alone" * (findings[0].kind in SHOWN and seen.ok)


def lines_of(clashes: Iterable[frozenset[tuple[str, int]]]) -> str:
    """The lines of accesses that may come at the same time."""
    return ", ".join(" and ".join(str(line) for _, line in sorted(clash)) for clash in clashes)


def everything(steps: Steps, limit: int) -> tuple[set[bytes], bool] | None:
    """The outcomes of all interleavings, and whether one of them gets stuck; None where there are more than `limit`.

    Each beginning that is left to do leads to one more interleaving at least. The shortest come first, because the most
    others follow them: so it is soon known if there are too many.
    """
    outcomes: set[bytes] = set()
    stuck, runs = False, 0
    todo: list[tuple[int, int, tuple[Process, ...]]] = [(0, 0, ())]
    number = itertools.count(1)
    while todo:
        choices = list(heapq.heappop(todo)[2])
        steps.reset()
        for process in choices:
            steps.step(process)
        while enabled := steps.enabled():
            for other in enabled[1:]:
                heapq.heappush(todo, (len(choices), next(number), (*choices, other)))
            choices.append(enabled[0])
            steps.step(enabled[0])
        runs += 1
        if runs + len(todo) > limit:
            return None
        if steps.problems or steps.error is not None:
            continue
        if steps.done:
            outcomes.add(steps.outcome())
        else:
            stuck = True
    return outcomes, stuck


def compare_with_everything(text: str, folder: Path, limit: int = 200) -> bool:
    """Whether the program was small enough to run it in all interleavings."""
    return agree_with_everything(text, load(text, folder), 2 if "cluster=2" in text else 1, list(arguments()), limit)


def agree_with_everything(text: str, program: Any, grid: int, args: list[Any], limit: int) -> bool:
    """Compares the exploration with all interleavings of one launch, where there are no more than `limit`."""
    function = specialise(program, read_arguments(program, tuple(args)), {}).prepared
    steps = Steps(function, grid, args)
    seen = everything(steps, limit)
    if seen is None:
        return False
    found = Search(steps, Start(), limit).run()
    assert found.complete, text
    assert (set(found.outcomes), bool(found.deadlocks)) == seen, text
    return True
