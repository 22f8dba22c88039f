"""Kernels with one mistake. The generator marks lines that can't be left out with `# needed`, counts and byte numbers that
can't be others with `# counted`, multicasts that everybody in the mask needs with `# masked`. Only lines that some cluster
comes to have these marks."""

from __future__ import annotations

import random
import re

from fuzz.choreo_kernel import Case

MOST = 3
MARKS = ("# needed", "# counted", "# masked")


def mutants(case: Case, most: int = MOST) -> list[tuple[int, str]]:
    """Up to `most` texts, each with the number of the line that is gone or says another number."""
    lines = case.text.splitlines()
    rng = random.Random(case.seed)
    marked = [number for number, line in enumerate(lines) if any(mark in line for mark in MARKS)]
    found = []
    for number in sorted(rng.sample(marked, min(most, len(marked)))):
        other = changed(lines[number], rng)
        found.append((number + 1, "\n".join([*lines[:number], other, *lines[number + 1 :]]) + "\n"))
    return found


def changed(line: str, rng: random.Random) -> str:
    """The line with its mistake."""
    if "# masked" in line:  # the CTA of rank 0 or 1 gets nothing
        return re.sub(r"multicast=(.*)\)  #", rf"multicast=(\1) & ~{rng.choice((1, 2))})  #", line)
    if "# counted" in line:
        line = re.sub(r"(expect_tx|commit)\((\d+)", lambda m: f"{m[1]}({int(m[2]) + rng.choice((-16, 16))}", line)
        return re.sub(r"(init\(|count=)(\d+)", lambda m: f"{m[1]}{int(m[2]) + 1}", line)
    return line[: len(line) - len(line.lstrip())] + "pass"
