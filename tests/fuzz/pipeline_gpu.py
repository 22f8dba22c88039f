"""Pipelined kernels on a GPU: `python -m fuzz.pipeline_gpu` takes seeds, and gives the verdict on each.

What the GPU leaves in memory is compared with what the plain loop leaves there in the simulator. Arguments lie in the GPU's
memory as in the host's: strides, beginnings and what they share are the same.
"""

from __future__ import annotations

import dataclasses
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
from fuzz.pipeline_programs import Case

COMMAND = [sys.executable, "-m", "fuzz.pipeline_gpu"]
UNBOUNDED = 3
"""Every so many kernels are launched without bounds on their waits too, which is another text to compile."""
FOLDER = tempfile.TemporaryDirectory(prefix="phalanx-pipelines-")
KERNELS: dict[int, Any] = {}


def judged_on_gpu(seeds: Iterable[int]) -> Iterator[Outcome]:
    """The verdict on each seed, in their order, from processes that may be lost."""
    return judged_by(seeds, COMMAND)


def answered(seed: int, compiled: Callable[[], None]) -> tuple[Outcome, bool]:
    """The verdict on a seed, and whether its case may have spoilt the GPU's context."""
    import phalanx as px
    from fuzz.pipeline_programs import draw
    from fuzz.pipelines import is_refused

    case = draw(seed)
    try:
        story = run(case, compiled)
    except px.Error as error:
        if is_refused(case, error):
            return Outcome(seed, "refused as it should be"), False
        return Outcome(seed, "refused", f"refused: {error}\n\n{case.describe()}\n\n{case.program.text}"), True
    except Exception:
        story = traceback.format_exc()
        first = f"failed: {story.strip().splitlines()[-1]}"
        return Outcome(seed, "lost", f"{first}\n{story}\n{case.describe()}\n\n{case.program.text}"), True
    if story is None:
        return Outcome(seed, "right"), False
    return Outcome(seed, "differs", f"{story}\n\n{case.describe()}\n\n{case.program.text}"), False


def run(case: Case, compiled: Callable[[], None]) -> str | None:
    """The case in the simulator, plain, and on the GPU, pipelined; what differs, if anything does."""
    import torch

    from fuzz.pipelines import differences, kernel_of

    kernel = kernel_of(case, Path(FOLDER.name), KERNELS)
    launches = [dataclasses.replace(kernel, watchdog=True)]
    if case.program.number % UNBOUNDED == 0:
        launches.append(dataclasses.replace(kernel, watchdog=False))
    for launch in launches:
        compile_here(launch[case.grid], *tensors(torch, case.arguments()))
    compiled()
    wanted = case.arguments()
    kernel[case.grid](*wanted, pipelined=False)
    for number, launch in enumerate(launches):
        given = tensors(torch, case.arguments())
        launch[case.grid](*given)
        torch.cuda.synchronize()
        got = [to_host(torch, g, w) if isinstance(w, np.ndarray) else w for g, w in zip(given, wanted, strict=True)]
        wrong = differences(case, got, wanted)
        if wrong:
            return f"the GPU differs from the plain loop in launch {number}: {wrong}"
    return None


def tensors(torch: Any, arguments: list[Any]) -> list[Any]:
    """The arguments on the GPU. Arrays that share memory on the host share it there."""
    moved: dict[int, Any] = {}
    made = []
    for x in arguments:
        if not isinstance(x, np.ndarray):
            made.append(x)
            continue
        root = x
        while isinstance(root.base, np.ndarray):
            root = root.base
        if id(root) not in moved:
            moved[id(root)] = to_gpu(torch, root)
        size = x.dtype.itemsize
        offset = (x.__array_interface__["data"][0] - root.__array_interface__["data"][0]) // size if x.size else 0
        made.append(moved[id(root)].as_strided(x.shape, [stride // size for stride in x.strides], offset))
    return made


if __name__ == "__main__":
    child(answered)
