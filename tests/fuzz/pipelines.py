"""Random kernels with loops that pipeline themselves: as they are written, pipelined, and as NumPy runs them.

`pipeline_parts`, `pipeline_pieces` and `pipeline_programs` write them, `pipeline_numpy` runs their plain text. Of each
seed the launch with `pipelined=False` and the one without are compared, memory by memory: bit by bit where all numbers
are small integers, else within a tolerance (a product may be another instruction then, which adds up in another order).
Some are compared with NumPy, and some are checked, which must find nothing; `pipeline_gpu` runs them on a GPU.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import phalanx as px
from fuzz import pipeline_numpy
from fuzz.outcomes import Options, Outcome
from fuzz.pipeline_programs import LAUNCHES, Case, draw, load

BATCH = 10 * LAUNCHES
WITH_NUMPY = 3
"""Every so many seeds are run by NumPy too."""
CHECKED = 8
"""Every so many seeds are checked."""
TOLERANCE = 2e-2
"""Of what is not exact: factors of bf16 that were rounded the other way."""
BREAK = "break in a loop over px.pipelined"


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """The verdict on each seed: "right", or what went wrong."""
    if options.gpu:
        from fuzz.pipeline_gpu import judged_on_gpu

        yield from judged_on_gpu(list(seeds))
        return
    with tempfile.TemporaryDirectory() as folder:
        kernels: dict[int, Any] = {}
        for seed in seeds:
            yield judged(draw(seed), Path(folder), kernels)


def kernel_of(case: Case, folder: Path, kernels: dict[int, Any]) -> Any:
    """The kernel of a case, which its neighbours share."""
    number = case.program.number
    if number not in kernels:
        kernels.clear()
        kernels[number] = load(case.program.text, folder, f"pipelined_{number}")
    return kernels[number]


def judged(case: Case, folder: Path, kernels: dict[int, Any]) -> Outcome:
    """One seed in the simulator, by NumPy and under the checks."""
    try:
        problem = compared(case, kernel_of(case, folder, kernels))
    except px.Error as error:
        if is_refused(case, error):
            return Outcome(case.seed, "break is refused")
        problem = "refused", str(error)
    except Exception:
        problem = "internal error", traceback.format_exc()
    if problem is None:
        return Outcome(case.seed, "right")
    verdict, story = problem
    return Outcome(case.seed, verdict, f"{verdict}: {story}\n\n{case.describe()}\n\n{case.program.text}")


def is_refused(case: Case, error: px.Error) -> bool:
    """Whether the error is one that the case asks for."""
    return BREAK in error.message and "break" in case.program.features


def compared(case: Case, kernel: Any) -> tuple[str, str] | None:
    """What differs between the runs, if anything does."""
    plain, pipelined = case.arguments(), case.arguments()
    kernel[case.grid](*plain, pipelined=False)
    kernel[case.grid](*pipelined)
    if wrong := differences(case, pipelined, plain):
        return "pipelined differs from plain", wrong
    if case.seed % WITH_NUMPY == 0:
        wanted = case.arguments()
        pipeline_numpy.run(case.program.plain, case.grid, case.program.cluster, wanted)
        if wrong := differences(case, plain, wanted):
            return "plain differs from NumPy", wrong
    if case.seed % CHECKED == 0 and not case.over:
        report = px.check(kernel[case.grid], *case.arguments(), schedules=1 + case.seed % 3)
        if not report.ok:
            return "findings", str(report)
    return None


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
