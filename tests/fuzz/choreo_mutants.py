"""Kernels with one mistake. The generator marks lines that can't be left out with `# needed`, and byte numbers that can't be
others with `# counted`; only lines that some cluster comes to have these marks."""

from __future__ import annotations

import random
import re

from fuzz.choreo_kernel import Case

MOST = 3


def mutants(case: Case, most: int = MOST) -> list[tuple[int, str]]:
    """Up to `most` texts, each with the number of the line that is gone or says another number."""
    lines = case.text.splitlines()
    rng = random.Random(case.seed)
    marked = [number for number, line in enumerate(lines) if "# needed" in line or "# counted" in line]
    found = []
    for number in sorted(rng.sample(marked, min(most, len(marked)))):
        line = lines[number]
        if "# counted" in line:
            other = re.sub(r"(expect_tx|commit)\((\d+)", lambda m: f"{m[1]}({int(m[2]) + rng.choice((-16, 16))}", line)
        else:
            other = line[: len(line) - len(line.lstrip())] + "pass"
        found.append((number + 1, "\n".join([*lines[:number], other, *lines[number + 1 :]]) + "\n"))
    return found
