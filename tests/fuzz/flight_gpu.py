"""Products in flight on a GPU: `python -m fuzz.flight_gpu` takes seeds, and gives the verdict on each.

What the GPU leaves in memory is compared with NumPy's results: the simulator is left out, since it would take most of the
time. Each case is launched several times: what chance makes of registers differs from launch to launch.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.choreo_gpu import judged_on_gpu as judged_by
from fuzz.choreo_gpu import to_gpu, to_host
from fuzz.gpu_process import child, compile_here
from fuzz.outcomes import Outcome

COMMAND = [sys.executable, "-m", "fuzz.flight_gpu"]
PATIENCE = 30.0
"""Seconds for all launches of a case."""
LAUNCHES = 4
FOLDER = tempfile.TemporaryDirectory(prefix="phalanx-flights-")


def judged_on_gpu(seeds: Iterable[int]) -> Iterator[Outcome]:
    """The verdict on each seed, in their order, from a process that may be lost."""
    return judged_by(seeds, COMMAND, patience=PATIENCE)


def answered(seed: int, compiled: Callable[[], None]) -> tuple[Outcome, bool]:
    """The verdict on a seed, and whether its case may have spoilt the GPU's context."""
    import phalanx as px
    from fuzz.flight_programs import draw
    from fuzz.flights import refused, told

    case = draw(seed)
    try:
        story = run(case, compiled)
    except px.Error as error:
        problem = refused(error)
        return told(case, *(problem or ("error", str(error)))), problem is None
    except Exception:
        story = traceback.format_exc()
        return told(case, "lost", f"{story.strip().splitlines()[-1]}\n{story}"), True
    return (Outcome(seed, "right") if story is None else told(case, "the GPU differs", story)), False


def run(case: Any, compiled: Callable[[], None]) -> str | None:
    """The case on the GPU, several times; what differs from NumPy's results, if anything does."""
    import torch

    from fuzz import flight_numpy
    from fuzz.flights import differences

    def tensors() -> list[Any]:
        return [to_gpu(torch, x) if isinstance(x, np.ndarray) else x for x in case.copies()]

    kernel = case.load(Path(FOLDER.name))
    compile_here(kernel[1], *tensors())
    compiled()
    wanted = flight_numpy.run(case)
    wrong = []
    for _ in range(LAUNCHES):
        given = tensors()
        kernel[1](*given)
        torch.cuda.synchronize()
        got = {name: to_host(torch, x, wanted[name]) for name, x in case.results(given).items()}
        wrong.append(differences(case, got, wanted))
    bad = [story for story in wrong if story]
    return f"in {len(bad)} of {LAUNCHES} launches; in the first of them {bad[0]}" if bad else None


if __name__ == "__main__":
    child(answered)
