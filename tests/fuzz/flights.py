"""Random products whose left operand is computed in registers while others are in flight.

`flight_draft` collects what a program is made of, `flight_operands` has the ways to make an operand, `flight_forms` what
stands around the products, `flight_programs` puts them together; `flight_numpy` runs them by NumPy, where a product is over
at once. Each seed runs in the simulator and under `px.check`, which must find nothing; it is compiled for sm_90a, where it
may neither be refused nor touch registers in flight (`phalanx.cuda.assembly`), and its text runs on the host, products as
late as they may. `flight_gpu` runs it on a GPU.
"""

from __future__ import annotations

import re
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

import phalanx as px
from fuzz import flight_numpy
from fuzz.flight_programs import Case, draw
from fuzz.outcomes import Options, Outcome
from phalanx.runtime import compiled

BATCH = 24
ARCH = "sm_90a"
TOLERANCE = 2e-2
"""Of sums of f16, which every instruction rounds, relative to the largest."""
IN_FLIGHT = "would touch registers in flight"
TOUCHED = ("writes an operand register", "reads a result register", "writes a result register")
Problem = tuple[str, str] | None


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """The verdict on each seed: "right", or what went wrong."""
    if options.gpu:
        from fuzz.flight_gpu import judged_on_gpu

        yield from judged_on_gpu(list(seeds))
        return
    with tempfile.TemporaryDirectory() as folder:
        cases = [draw(seed) for seed in seeds]
        wanted = {case.seed: flight_numpy.run(case) for case in cases}
        found = [judged(case, Path(folder), wanted[case.seed]) for case in cases]
        if options.host:
            found = on_host(cases, found, wanted, Path(folder), sanitize=options.sanitize)
        yield from found


def told(case: Case, verdict: str, story: str) -> Outcome:
    """What went wrong with a case, with all that is needed to see it again."""
    return Outcome(case.seed, verdict, f"{verdict}: {story}\n\n{', '.join(case.features)}\n\n{case.text}")


def judged(case: Case, folder: Path, wanted: dict[str, np.ndarray]) -> Outcome:
    """One case in the simulator, under the checks, and compiled."""
    try:
        problem = simulated(case, folder, wanted) or checked(case, folder) or compiles(case, folder)
    except px.Error as error:
        problem = ("error", str(error))
    except Exception:
        problem = ("internal error", traceback.format_exc())
    return Outcome(case.seed, "right") if problem is None else told(case, *problem)


def differences(case: Case, got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> str:
    """Which outputs are not what they should be."""
    found = []
    for name, want in wanted.items():
        a, b = got[name].astype(np.float64), want.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = a == b if case.exact else np.abs(a - b) <= TOLERANCE * max(1.0, float(np.abs(b).max()))
        if not near.all():
            places = np.argwhere(~near)
            first = tuple(int(i) for i in places[0])
            found.append(f"{name}: {len(places)} of {a.size} differ, at {first} {a[first]}, not {b[first]}")
    return "; ".join(found)


def simulated(case: Case, folder: Path, wanted: dict[str, np.ndarray]) -> Problem:
    """The run in the simulator against NumPy."""
    arguments = case.copies()
    case.load(folder)[1](*arguments)
    wrong = differences(case, case.results(arguments), wanted)
    return ("simulator differs from NumPy", wrong) if wrong else None


def checked(case: Case, folder: Path) -> Problem:
    """The checks find nothing."""
    report = px.check(case.load(folder)[1], *case.copies())
    return None if report.ok else ("false alarm", str(report))


def compiles(case: Case, folder: Path) -> Problem:
    """It is compiled: not refused, and nothing touches registers in flight."""
    try:
        px.compile(case.load(folder)[1], *case.copies(), arch=ARCH)
    except px.Error as error:
        problem = refused(error)
        if problem is None:
            raise
        return problem
    return None


def refused(error: px.Error) -> Problem:
    """What is said of a program that is right, and that the compiler does not take; None for other errors."""
    story = str(error)
    if isinstance(error, compiled.LossOfPerformance):
        return f"refused, {' '.join(sorted(set(re.findall(r'C75[0-9]{2}', story))))}", story
    if IN_FLIGHT in error.message:
        return "touches registers in flight" if any(told in story for told in TOUCHED) else "behind no fence", story
    return None


def on_host(
    cases: list[Case], found: list[Outcome], wanted: dict[int, dict[str, np.ndarray]], folder: Path, *, sanitize: bool
) -> list[Outcome]:
    """The text of all cases that get as far, as the CPU runs it, against NumPy; also of those that NVRTC refuses."""
    from fuzz.host import HostCase, run_batch  # needs a C++ compiler
    from support.host_build import COMPILER
    from support.host_cuda import module_for

    chosen = [
        case for case, outcome in zip(cases, found, strict=True)
        if outcome.verdict.startswith(("right", "refused", "touches", "behind"))
    ]
    if COMPILER is None or not chosen:
        return found
    launches, wrong = [], {}
    for case in chosen:
        arguments = case.copies()
        module = module_for(case.load(folder), tuple(arguments))
        launches.append(HostCase(module, 1, arguments, case.seed))
    for case, result in zip(chosen, run_batch(launches, sanitize=sanitize), strict=True):
        story = result.failure or differences(case, case.results(result.args), wanted[case.seed])
        if story:
            wrong[case.seed] = story
    return [
        outcome if case.seed not in wrong
        else told(case, f"host differs, {outcome.verdict}", wrong[case.seed])
        for case, outcome in zip(cases, found, strict=True)
    ]


