"""Makes the text of a case that went wrong shorter: statements are dropped as long as it still goes wrong.

`python -m fuzz.shrinking SEED` prints the story of a random tile kernel with a shorter text; options as of `make fuzz`.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable

from fuzz.outcomes import Options, Outcome
from fuzz.tile_programs import Case, draw

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


def main() -> int:
    from fuzz.tiles import judged

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--no-host", action="store_true")
    parser.add_argument("--sanitize", action="store_true")
    given = parser.parse_args()
    options = Options(given.gpu, not given.no_host, given.sanitize)

    def outcome(case: Case) -> Outcome | None:
        return judged([case], options)[0].outcome

    first = outcome(draw(given.seed))
    if first is None or first.problem is None:
        print(f"seed {given.seed}: {'agreed' if first is None else first.verdict}")
        return 0

    def fails(case: Case) -> bool:
        found = outcome(case)
        return found is not None and found.problem is not None and found.verdict == first.verdict

    last = outcome(shrunk(draw(given.seed), fails))
    print(first.problem if last is None else last.problem)
    return 1


if __name__ == "__main__":
    sys.exit(main())
