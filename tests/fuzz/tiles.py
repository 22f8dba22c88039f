"""Random tile kernels: the simulator says what they write, their text on the host and on a GPU must write the same."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import phalanx as px
from fuzz.agreement import disagreement
from fuzz.gpu_process import GpuFailure, GpuProcess, GpuRefusal, SlowCompilation
from fuzz.outcomes import Options, Outcome
from fuzz.tile_gpu import COMMAND
from fuzz.tile_programs import Case, draw
from fuzz.tile_runs import checked, load_kernel, module_of, on_host, simulated
from phalanx.location import NOWHERE

BATCH = 25
CHECKED = 5
"""One case in so many is checked by the sanitizer too."""

LONG, ANYWAY = 18_000, 10
"""Texts of more characters, which take the compiler as long as ten others, go to the GPU from one seed in ten only."""

GPU = GpuProcess(COMMAND)


@dataclass
class Trial:
    """A case on its way: what the simulator left in memory, the text, and the verdict once there is one."""

    case: Case
    want: list[np.ndarray] | None = None
    module: Any = None
    outcome: Outcome | None = None

    def wrong(self, verdict: str, what: str) -> None:
        """The story has all that a person needs to see the case again."""
        problem = f"{verdict}: {what}\n\n{self.case.describe()}\n\n{self.case.text}"
        self.outcome = Outcome(self.case.seed, verdict, problem)


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """Draws the case of each seed and says how it went."""
    for trial in judged([draw(seed) for seed in seeds], options):
        yield trial.outcome or Outcome(trial.case.seed, "agreed")


def judged(cases: list[Case], options: Options) -> list[Trial]:
    """All cases in the simulator, then on the GPU and on the host, as the options say."""
    trials = [Trial(case) for case in cases]
    with tempfile.TemporaryDirectory(prefix="phalanx-tiles-") as folder:
        for trial in trials:
            simulate(trial, Path(folder))
            if options.gpu and trial.outcome is None:
                compare_gpu(trial)
    if options.host:
        compare_host([t for t in trials if t.outcome is None and "far" not in t.case.needs], options.sanitize)
    return trials


def simulate(trial: Trial, folder: Path) -> None:
    """The simulator's word, and the text; a px.Error that names a line is a refusal, everything else is a mistake."""
    stage = "read"
    try:
        kernel = load_kernel(trial.case, folder)
        stage = "simulator"
        trial.want = simulated(trial.case, kernel)
        if trial.case.seed % CHECKED == 0 and "far" not in trial.case.needs:
            stage = "check"
            found = checked(trial.case, kernel)
            if found is not None:
                trial.wrong("found by the check", found)
                return
        stage = "text"
        trial.module = module_of(trial.case, kernel)
    except px.Error as error:
        if error.location is NOWHERE:
            trial.wrong("error without a place", f"{stage}: {error}")
        else:
            trial.outcome = Outcome(trial.case.seed, "refused")
    except Exception as error:
        trial.wrong(f"failed in {stage}", f"{type(error).__name__}: {error}\n{traceback.format_exc()}")


def compare_gpu(trial: Trial) -> None:
    if len(trial.module.source) > LONG and trial.case.seed % ANYWAY:
        trial.outcome = Outcome(trial.case.seed, "too long a text")
        return
    GPU.begin(trial.case)
    try:
        got = GPU.finish()
    except GpuRefusal:
        trial.outcome = trial.outcome or Outcome(trial.case.seed, "refused")
        return
    except SlowCompilation:
        trial.outcome = trial.outcome or Outcome(trial.case.seed, "slow to compile")
        return
    except GpuFailure as failure:
        trial.wrong("failed on the GPU", str(failure))
        return
    if trial.want is not None and trial.outcome is None:
        wrong = disagreement(trial.case.arrays, got, trial.want)
        if wrong is not None:
            trial.wrong("GPU differs", wrong)


def compare_host(trials: list[Trial], sanitize: bool) -> None:
    results = on_host([trial.case for trial in trials], [trial.module for trial in trials], sanitize)
    for trial, got in zip(trials, results, strict=True):
        if isinstance(got, str):
            trial.wrong("failed on the host", got)
            continue
        assert trial.want is not None
        wrong = disagreement(trial.case.arrays, got, trial.want)
        if wrong is not None:
            trial.wrong("host differs", wrong)
