"""Makes the text of a case that went wrong shorter: statements are dropped as long as it still goes wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fuzz.tile_programs import Case

ATTEMPTS = 120


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def without(lines: list[str], n: int) -> list[str]:
    """The lines without the statement at `n` and the block under it."""
    end = n + 1
    while end < len(lines) and lines[end].strip() and indentation(lines[end]) > indentation(lines[n]):
        end += 1
    rest = [*lines[:n], *lines[end:]]
    alone = n == len(rest) or indentation(rest[n]) < indentation(lines[n])
    if alone and lines[n - 1].rstrip().endswith(":"):
        rest.insert(n, " " * indentation(lines[n]) + "pass")
    return rest


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The shortest text found that still fails, from the last statement to the first, until nothing more can go."""
    attempts, lines = 0, case.text.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("def program")) + 1
    before: list[str] = []
    while lines != before:
        before = lines
        for n in reversed(range(first, len(lines))):
            if n >= len(lines) or lines[n].strip() == "pass" or attempts >= ATTEMPTS:
                continue
            attempts += 1
            fewer = without(lines, n)
            if fails(dataclasses.replace(case, text="\n".join(fewer) + "\n")):
                lines = fewer
    return dataclasses.replace(case, text="\n".join(lines) + "\n")
