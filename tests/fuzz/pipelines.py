"""Random kernels with loops that pipeline themselves: as they are written, pipelined, and as NumPy runs them.

`pipeline_parts`, `pipeline_pieces` and `pipeline_programs` write them, `pipeline_numpy` runs their plain text. Of each
seed the launch with `pipelined=False` and the one without are compared, memory by memory: bit by bit where all numbers
are small integers, else within a tolerance (a product may be another instruction then, which adds up in another order).
Some are compared with NumPy, some are checked, which must find nothing, and some run as CUDA text on the host;
`pipeline_gpu` runs them on a GPU.
"""

from __future__ import annotations

import re
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import phalanx as px
from fuzz import pipeline_numpy
from fuzz.outcomes import Options, Outcome
from fuzz.pipeline_meetings import FEATURE
from fuzz.pipeline_programs import LAUNCHES, Case, draw, load
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import generate
from phalanx.ir.archs import arch_of as arch_named
from phalanx.runtime.launch.dispatch import run_simulated
from phalanx.runtime.launch.specialise import read_arguments, specialise

BATCH = 10 * LAUNCHES
WITH_NUMPY = 5
"""Every so many seeds are run by NumPy too."""
CHECKED = 10
"""Every so many seeds are checked."""
ON_HOST = 11
"""Every so many seeds have their text run on the host."""
ARCHS = ("sm_90a", "sm_100a", "sm_90a", "sm_120a")
"""Kernel after kernel, the target for which it is pipelined."""
TOLERANCE = 2e-2
"""Of what is not exact: factors of bf16 that were rounded the other way."""
TOO_LARGE = "the rings of px.pipelined do not fit"
RINGS = re.compile(r"(\d+) stages of ([\d,]+) bytes")
BREAK = "break in a loop over px.pipelined"


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """The verdict on each seed: "right", or what went wrong."""
    if options.gpu:
        from fuzz.pipeline_gpu import judged_on_gpu

        yield from judged_on_gpu(list(seeds))
        return
    with tempfile.TemporaryDirectory() as folder:
        kernels: dict[int, Any] = {}
        plain: dict[int, tuple[Any, list[Any]]] = {}
        found = [judged(draw(seed), Path(folder), kernels, plain) for seed in seeds]
        yield from on_host(found, plain, sanitize=options.sanitize) if options.host else found


def kernel_of(case: Case, folder: Path, kernels: dict[int, Any]) -> Any:
    """The kernel of a case, which its neighbours share."""
    number = case.program.number
    if number not in kernels:
        kernels.clear()
        kernels[number] = load(case.program.text, folder, f"pipelined_{number}")
    return kernels[number]


def judged(
    case: Case, folder: Path, kernels: dict[int, Any], plain: dict[int, tuple[Any, list[Any]]] | None = None
) -> Outcome:
    """One seed in the simulator, by NumPy and under the checks; `plain` gets kernel and result of those for the host."""
    try:
        kernel, result = kernel_of(case, folder, kernels), case.arguments()
        problem = compared(case, kernel, result)
        if plain is not None and case.seed % ON_HOST == 0 and not case.over:  # a launch of those takes the plain version
            plain[case.seed] = kernel, result
    except px.Error as error:
        if is_refused(case, error):
            return Outcome(case.seed, "refused as it should be")
        problem = "refused", str(error)
    except Exception:
        problem = "internal error", traceback.format_exc()
    if problem is None:
        return Outcome(case.seed, "right")
    verdict, story = problem
    return Outcome(case.seed, verdict, story_of(case, verdict, story))


def story_of(case: Case, verdict: str, story: str) -> str:
    """What went wrong, with all that is needed to see it again."""
    return f"{verdict}: for {arch_of(case)}: {story}\n\n{case.describe()}\n\n{case.program.text}"


def on_host(found: list[Outcome], plain: dict[int, tuple[Any, list[Any]]], *, sanitize: bool) -> list[Outcome]:
    """The text of some cases that were right so far, as the CPU runs it, against the plain loop in the simulator."""
    from fuzz.host import HostCase, run_batch  # needs a C++ compiler
    from support.host_build import COMPILER

    cases = [draw(outcome.seed) for outcome in found if outcome.verdict == "right" and outcome.seed in plain]
    if COMPILER is None or not cases:
        return found
    launches, told = {}, {}
    for case in cases:
        kernel, given, arch = plain[case.seed][0], case.arguments(), arch_named(arch_of(case))
        prepared = specialise(kernel, read_arguments(kernel, tuple(given)), {}).prepared_for(arch)  # known already
        try:
            module = generate(lower(prepared, arch))
        except px.Error as error:
            refused = Outcome(case.seed, "refused", story_of(case, "refused", str(error)))
            told[case.seed] = Outcome(case.seed, "refused as it should be") if is_refused(case, error) else refused
        else:
            launches[case.seed] = HostCase(module, case.grid, given, case.seed)
    cases = [case for case in cases if case.seed in launches]
    for case, result in zip(cases, run_batch(list(launches.values()), sanitize=sanitize), strict=True):
        if result.unsupported:
            told[case.seed] = Outcome(case.seed, "right, without the host")
            continue
        wrong = result.failure or differences(case, result.args, plain[case.seed][1])
        if wrong:
            told[case.seed] = Outcome(case.seed, "host differs", story_of(case, "host differs", wrong))
    return [told.get(outcome.seed, outcome) for outcome in found]


def is_refused(case: Case, error: px.Error) -> bool:
    """Whether the error is one that the case asks for."""
    early = "break" in case.program.features and "producer=False" in case.program.features
    return is_too_large(case, str(error)) or (early and BREAK in error.message)


def is_too_large(case: Case, told: str) -> bool:
    """Whether rings that a case asks for do not fit; on sm_120a two stages may be too many, a CTA has 99 KB there."""
    arch, text = arch_named(arch_of(case)), case.program.text
    if TOO_LARGE in told:
        rings = sum(int(count) * int(each.replace(",", "")) for count, each in RINGS.findall(told))
        return arch.name == "sm_120a" or rings > arch.shared_limit
    given = text.count("px.pipelined(") == text.count("stages=")  # else there are fewer, or none
    return f"bytes of shared memory; a CTA on {arch.name} has" in told and arch.name == "sm_120a" and given


def arch_of(case: Case) -> str:
    """The target for which a case is pipelined."""
    return ARCHS[case.program.number % len(ARCHS)]


def compared(case: Case, kernel: Any, plain: list[Any]) -> tuple[str, str] | None:
    """What differs between the runs, if anything does; `plain` are arguments, and then what the plain loop leaves there."""
    pipelined, arch = case.arguments(), arch_of(case)
    kernel[case.grid](*plain, pipelined=False)
    run_ahead(kernel, case, pipelined, arch)
    if wrong := differences(case, pipelined, plain):
        return "pipelined differs from plain", wrong
    if case.seed % WITH_NUMPY == 0 and FEATURE not in case.program.features:  # NumPy runs a CTA after the other
        wanted = case.arguments()
        pipeline_numpy.run(case.program.plain, case.grid, case.program.cluster, wanted)
        if wrong := differences(case, plain, wanted):
            return "plain differs from NumPy", wrong
    if case.seed % CHECKED == 0 and not case.over:
        report = px.check(kernel[case.grid], *case.arguments(), schedules=1 + case.seed % 3, arch=arch)
        if not report.ok:
            return "findings", str(report)
        refused = [note for note in report.notes if "px.compile refuses" in note and not is_too_large(case, note)]
        if refused:
            return "refused", refused[0]
    return None


def run_ahead(kernel: Any, case: Case, arguments: list[Any], arch: str) -> None:
    """A launch of the pipelined kernel; also where an array is empty, for which a launch takes the plain one.

    Arrays that share memory leave it to the launch, which takes the plain one for them, too.
    """
    if case.over or all(x.size for x in arguments if isinstance(x, np.ndarray)):
        kernel[case.grid](*arguments, arch=arch)
        return
    given = read_arguments(kernel, tuple(arguments))
    run_simulated(specialise(kernel, given, {}), (*case.grid, 1, 1)[:3], given, arch_named(arch))


def differences(case: Case, got: list[Any], want: list[Any]) -> str:
    """Which arguments differ; the sign of a zero does not count."""
    found = []
    for name, g, w in zip(case.program.names, got, want, strict=True):
        if not isinstance(g, np.ndarray):
            continue
        a, b = g.astype(np.float64), w.astype(np.float64)
        same = a == b if case.program.exact else np.abs(a - b) <= TOLERANCE * np.maximum(1.0, np.abs(b))
        if not same.all():
            places = np.argwhere(~same)
            first = tuple(int(i) for i in places[0])
            found.append(f"{name}: {len(places)} of {a.size} differ, at {first} {a[first]}, not {b[first]}")
    return "; ".join(found)
