"""Kernels with one mistake, made where `mutation` finds something to change: a wait, a commit, an arrival, a mask, a count.

Each is found by the checks, or has the right result whatever the order; small launches often have no second turn that
a mistake would harm.
"""

from __future__ import annotations

import random

from fuzz.tensor_case import Case
from mutation.mutation import Mutant, mutants
from phalanx.errors import Error
from phalanx.ir.verifier import verify
from phalanx.sanitizer.runs import run_checked, schedules_of

MOST = 3
"""Mutants of a case that are judged."""
SCHEDULES = 5


def missed(case: Case, most: int = MOST) -> str | None:
    """The story of a mutant that nothing is found in, and whose result is wrong; None where there is none."""
    every = list(mutants(case.function))
    rng = random.Random(case.seed)
    for mutant in rng.sample(every, min(most, len(every))):
        if (story := survived(case, mutant)) is not None:
            return f"{mutant}: {story}"
    return None


def survived(case: Case, mutant: Mutant) -> str | None:
    """How the result of a mutant is wrong that no schedule finds anything in."""
    wrong = None
    try:
        verify(mutant.function)
        for schedule in schedules_of(SCHEDULES, case.seed):
            arguments = case.copies()
            if run_checked(mutant.function, (case.grid, 1, 1), arguments, schedule, quiet=True):
                return None
            wrong = wrong or case.differences(arguments)
    except Error:
        return None
    return wrong or None
