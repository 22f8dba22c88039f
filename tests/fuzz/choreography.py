"""Random choreographies that are built right: rings, multicasts, pushes, reductions, products, sinks.

Each is judged by the simulator against NumPy, by `px.check`, which must find nothing, by its text on the host, and on a
GPU against the simulator; and a line that it needs is taken out of some of them, which `px.check` must notice. The parts:

- `choreo_parts`: types, clusters, loops; `choreo_rings`: the rings; `choreo_feeds`: from global memory into a ring;
- `choreo_works` and `choreo_products`: what is done with a tile; `choreo_passing`: from registers into the next ring;
- `choreo_sinks`: where tiles go; `choreo_chains` and `choreo_kernel`: what all that is put together to;
- `choreo_mutants`: kernels with a line too few; `choreo_gpu`: the runs on a GPU, in processes that may be lost.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import phalanx as px
from fuzz.choreo_gpu import judged_on_gpu
from fuzz.choreo_kernel import Case, draw
from fuzz.choreo_mutants import mutants
from fuzz.outcomes import Options, Outcome

BATCH = 12
MUTATED = 5
"""Every so many seeds have their mutants judged."""
COMPILED = 4
"""Every so many seeds are compiled for sm_90a, where the text is asked for; as many others run on the host."""


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """The verdict on each seed: "right", or what went wrong."""
    if options.gpu:
        yield from judged_on_gpu(list(seeds))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = [judged(seed, Path(folder), compiled=options.host and seed % COMPILED == 0) for seed in seeds]
        if options.host:
            found = on_host(found, Path(folder), sanitize=options.sanitize)
        yield from found


def judged(seed: int, folder: Path, *, compiled: bool = False) -> Outcome:
    """One seed in the simulator, under the checks, and as text where `compiled`."""
    case = draw(seed)
    try:
        problem = simulated(case, folder) or checked(case, folder)
        if problem is None and compiled:
            problem = compiles(case, folder)
        if problem is None and seed % MUTATED == 0:
            problem = noticed(case, folder)
    except px.Error as error:
        problem = ("refused", str(error))
    except Exception:
        problem = ("internal error", traceback.format_exc())
    if problem is None:
        return Outcome(seed, "right")
    verdict, story = problem
    return Outcome(seed, verdict, f"{verdict}: {story}\n\n{case.text}")


Problem = tuple[str, str] | None


def differences(case: Case, results: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> str:
    """Which outputs are not what they should be; the sign of a zero does not count."""
    found = []
    for name, want in wanted.items():
        got, wide = results[name].astype(np.float64), want.astype(np.float64)
        if got.shape != wide.shape or not np.array_equal(got, wide):
            places = np.argwhere(got != wide)
            first = tuple(int(i) for i in places[0])
            found.append(f"{name}: {len(places)} of {got.size} differ, at {first} {got[first]}, not {wide[first]}")
    return "; ".join(found)


def outputs(case: Case, arguments: list[Any]) -> dict[str, Any]:
    return {name: arguments[case.names.index(name)] for name in case.expected}


def simulated(case: Case, folder: Path) -> Problem:
    """The plain run against NumPy."""
    arguments = case.copies()
    case.load(folder)[case.grid](*arguments)
    wrong = differences(case, outputs(case, arguments), case.expected)
    return ("simulator differs from NumPy", wrong) if wrong else None


def checked(case: Case, folder: Path) -> Problem:
    """The checks find nothing."""
    report = px.check(case.load(folder)[case.grid], *case.copies())
    return None if report.ok else ("false alarm", str(report))


def compiles(case: Case, folder: Path) -> Problem:
    """The text is accepted by NVRTC, and its products run beside each other. (A warp with a large tile may spill.)"""
    made = px.compile(case.load(folder)[case.grid], *case.copies(), arch="sm_90a")
    serial = [note for note in made.notes if "serial" in note]
    return ("serialised", "; ".join(serial)) if serial else None


def on_host(found: list[Outcome], folder: Path, *, sanitize: bool) -> list[Outcome]:
    """The text of the cases that were right so far, as the CPU runs it, against NumPy."""
    from fuzz.host import HostCase, run_batch  # needs a C++ compiler
    from support.host_build import COMPILER
    from support.host_cuda import module_for

    chosen = [outcome.seed for outcome in found if outcome.problem is None and outcome.seed % COMPILED == COMPILED // 2]
    cases = [draw(seed) for seed in chosen]
    if COMPILER is None or not cases:
        return found
    launches, told = {}, {}
    for case in cases:
        arguments = case.copies()
        try:
            module = module_for(case.load(folder), tuple(arguments))
        except px.Error as error:
            told[case.seed] = Outcome(case.seed, "refused", f"refused: {error}\n\n{case.text}")
        else:
            launches[case.seed] = HostCase(module, case.grid, arguments, case.seed)
    cases = [case for case in cases if case.seed in launches]
    for case, result in zip(cases, run_batch(list(launches.values()), sanitize=sanitize), strict=True):
        if result.unsupported:
            told[case.seed] = Outcome(case.seed, "right, without the host")
            continue
        wrong = result.failure or differences(case, outputs(case, result.args), case.expected)
        if wrong:
            told[case.seed] = Outcome(case.seed, "host differs", f"host differs: {wrong}\n\n{case.text}")
    return [told.get(outcome.seed, outcome) for outcome in found]


def noticed(case: Case, folder: Path) -> Problem:
    """Every line that the kernel needs is missed when it is gone."""
    for number, (line, text) in enumerate(mutants(case)):
        kernel = case.load(folder, text, f"mutant_{number}")
        try:
            report = px.check(kernel[case.grid], *case.copies())
        except px.Error:
            continue
        if report.ok:
            return "missed", f"nothing is found without line {line}"
    return None
