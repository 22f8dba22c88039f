"""Random tile kernels: the simulator says what they write, their text on the host and on a GPU must write the same."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

import phalanx as px
from fuzz.agreement import disagreement
from fuzz.outcomes import Options, Outcome
from fuzz.tile_programs import Case, draw
from fuzz.tile_runs import checked, load_kernel, module_of, on_host, simulated

BATCH = 20
CHECKED = 5
"""One case in so many is checked by the sanitizer too."""


def story(case: Case, what: str) -> str:
    """What a person needs to see the case again."""
    return f"{what}\n\n{case.describe()}\n\n{case.text}"


def judge(seeds: Iterable[int], options: Options) -> Iterator[Outcome]:
    """Draws the case of each seed and says how it went."""
    with tempfile.TemporaryDirectory(prefix="phalanx-tiles-") as folder:
        for seed in seeds:
            yield judged(draw(seed), options, Path(folder))


def judged(case: Case, options: Options, folder: Path) -> Outcome:
    stage = "reading"
    try:
        kernel = load_kernel(case, folder)
        stage = "simulator"
        want = simulated(case, kernel)
        if case.seed % CHECKED == 0:
            stage = "check"
            found = checked(case, kernel)
            if found is not None:
                return Outcome(case.seed, "found by the check", story(case, found))
        stage = "text"
        module = module_of(case, kernel)
        if options.host:
            stage = "host"
            wrong = disagreement(case.arrays, on_host(case, module), want)
            if wrong is not None:
                return Outcome(case.seed, "host differs", story(case, f"host and simulator differ\n{wrong}"))
    except px.Error as error:
        if error.location is None:
            return Outcome(case.seed, "error without a place", story(case, f"{stage}: {error}"))
        return Outcome(case.seed, "refused", None)
    except Exception as error:
        what = f"{stage}: {type(error).__name__}: {error}\n{traceback.format_exc()}"
        return Outcome(case.seed, f"failed in {stage}", story(case, what))
    return Outcome(case.seed, "agreed")
