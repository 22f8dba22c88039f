"""Random kernels for Blackwell's tensor cores that are built right: products of every kind, rings, pairs, epilogues.

Each is judged by the simulator against NumPy under several schedules, by `px.check`, which must find nothing, by its text on
the host under two schedules, and some by NVRTC; and one instruction of some of them is left out or changed, which
`px.check` must notice, unless the result stays right under every schedule that is tried. What the language refuses is drawn
anew; an internal error is none of these refusals. The parts:

- `tensor_values`: types, scales and the product in NumPy; `tensor_case`: a kernel with its launch;
- `tensor_plan` and `tensor_roles`: kernels with roles; `tensor_alone`: one agent that does all, `px.dot` among them;
- `tensor_kernel`: which of them a seed is; `tensor_mutants`: kernels with one mistake.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

import phalanx as px
from fuzz.outcomes import Options, Outcome
from fuzz.tensor_case import ARCH, Case
from fuzz.tensor_kernel import draw
from fuzz.tensor_mutants import missed
from phalanx.sim.run import simulate
from phalanx.sim.scheduler import Schedule

BATCH = 10
SCHEDULES = (Schedule("late"), Schedule("early"), Schedule("random", 1), Schedule("random", 2))
MUTATED = 2
"""Every so many seeds have mutants judged."""
COMPILED = 8
"""Every so many seeds are compiled."""
HOST_SEEDS = (1, 2)

Problem = tuple[str, str] | None


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """The verdict on each seed: "right", or what went wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: dict[int, Outcome] = {}
        cases = []
        for seed in seeds:
            found[seed], case = judged(seed, folder, compiled=options.host and seed % COMPILED == 0)
            if case is not None and found[seed].problem is None:
                cases.append(case)
        if options.host:
            found |= {outcome.seed: outcome for outcome in on_host(cases, sanitize=options.sanitize)}
        yield from found.values()


def judged(seed: int, folder: Path, *, compiled: bool = False) -> tuple[Outcome, Case | None]:
    """One seed in the simulator, under the checks, and compiled where asked for."""
    case = None
    try:
        case = draw(seed, folder)
        problem = simulated(case) or checked(case)
        if problem is None and compiled:
            px.compile(case.kernel[case.grid], *case.given(), arch=ARCH)
        if problem is None and seed % MUTATED == 0 and (story := missed(case)) is not None:
            problem = "missed", story
    except px.Error as error:
        problem = ("refused", str(error))
    except Exception:
        problem = ("internal error", traceback.format_exc())
    if problem is None:
        return Outcome(seed, "right"), case
    return failed(seed, *problem, case), case


def failed(seed: int, verdict: str, story: str, case: Case | None) -> Outcome:
    return Outcome(seed, verdict, f"{verdict}: {story}\n\n{'' if case is None else case.text}")


def simulated(case: Case) -> Problem:
    """The plain run under several schedules against NumPy."""
    for schedule in SCHEDULES:
        arguments = case.copies()
        simulate(case.function, (case.grid, 1, 1), arguments, schedule=schedule)
        if wrong := case.differences(arguments):
            return "simulator differs from NumPy", f"{schedule}: {wrong}"
    return None


def checked(case: Case) -> Problem:
    """The checks find nothing."""
    report = px.check(case.kernel[case.grid], *case.given(), arch=ARCH, schedules=3)
    return None if report.ok else ("false alarm", str(report))


def on_host(cases: list[Case], *, sanitize: bool) -> Iterator[Outcome]:
    """The text of cases as the CPU runs it, against NumPy; of those that went wrong."""
    from fuzz.host import HostCase, run_batch  # needs a C++ compiler
    from support.host_build import COMPILER

    if COMPILER is None or not cases:
        return
    launches = [HostCase(case.module, case.grid, case.given(), seed) for case in cases for seed in HOST_SEEDS]
    owners = [case for case in cases for _ in HOST_SEEDS]
    for case, launch, result in zip(owners, launches, run_batch(launches, sanitize=sanitize), strict=True):
        wrong = result.failure or case.differences(result.args)
        if wrong:
            yield failed(case.seed, "host differs", f"order {launch.seed}: {wrong}", case)
