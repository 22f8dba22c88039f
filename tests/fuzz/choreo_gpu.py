"""Choreographies on a GPU: `python -m fuzz.choreo_gpu` takes seeds, and gives the verdict on each.

It runs each of them in the simulator and on the GPU. Waits are bounded in the first launches; in some cases one without
bounds follows.
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

from fuzz.gpu_process import COMPILING, GpuFailure, GpuHang, GpuProcess, SlowCompilation, child, compile_here
from fuzz.outcomes import Outcome

PATIENCE = 120.0
"""Seconds for the simulator and the launches."""
BOUNDED_LAUNCHES = 2
UNBOUNDED = 3
"""Every so many seeds are launched without bounds too, which is another text to compile."""
COMMAND = [sys.executable, "-m", "fuzz.choreo_gpu"]
_CARRIER = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def judged_on_gpu(
    seeds: Iterable[int], command: list[str] = COMMAND, compiling: float = COMPILING, patience: float = PATIENCE
) -> Iterator[Outcome]:
    """The verdict on each seed, in their order, from processes that `command` starts."""
    process = GpuProcess(command, compiling, patience)
    try:
        for seed in seeds:
            process.begin(seed)
            try:
                yield process.finish()
            except SlowCompilation:
                yield Outcome(seed, "slow to compile")
            except GpuHang as hang:
                yield Outcome(seed, "hung", f"hung: {hang}")
            except GpuFailure as failure:
                yield Outcome(seed, "lost", f"lost: {failure}")
    finally:
        process.stop()


def answered(seed: int, compiled: Callable[[], None]) -> tuple[Outcome, bool]:
    """The verdict on a seed, and whether its case may have spoilt the GPU's context."""
    from fuzz.choreo_kernel import draw

    case = draw(seed)
    try:
        with tempfile.TemporaryDirectory() as folder:
            story = run(case, Path(folder), compiled)
    except Exception:
        story = traceback.format_exc()
        first = f"failed: {story.strip().splitlines()[-1]}"
        return Outcome(seed, "lost", f"{first}\n{story}\n{case.text}"), True
    if story is None:
        return Outcome(seed, "right"), False
    return Outcome(seed, "differs", f"{story}\n\n{case.text}"), False


def run(case: Any, folder: Path, compiled: Callable[[], None]) -> str | None:
    """The case in the simulator and on the GPU, several times; what differs, if anything does."""
    import torch

    from fuzz.choreography import differences, outputs

    def tensors() -> list[Any]:
        return [to_gpu(torch, x) if isinstance(x, np.ndarray) else x for x in case.copies()]

    kernel = case.load(folder)
    launches = [dataclasses.replace(kernel, watchdog=True)] * BOUNDED_LAUNCHES
    if case.seed % UNBOUNDED == 0:
        launches.append(dataclasses.replace(kernel, watchdog=False))
    for watched in (launches[0], launches[-1]):
        compile_here(watched[case.grid], *tensors())
    compiled()
    arguments = case.copies()
    kernel[case.grid](*arguments)
    wanted = outputs(case, arguments)
    wrong = differences(case, wanted, case.expected)
    if wrong:
        return f"simulator differs from NumPy: {wrong}"
    for number, watched in enumerate(launches):
        given = tensors()
        watched[case.grid](*given)
        torch.cuda.synchronize()
        got = {name: to_host(torch, x, wanted[name]) for name, x in outputs(case, given).items()}
        wrong = differences(case, got, wanted)
        if wrong:
            return f"the GPU differs from the simulator in launch {number}: {wrong}"
    return None


def to_gpu(torch: Any, x: np.ndarray) -> Any:
    carried = torch.from_numpy(np.ascontiguousarray(x).view(_CARRIER[x.dtype.itemsize]).copy()).cuda()
    return carried.view(getattr(torch, x.dtype.name))


def to_host(torch: Any, x: Any, like: np.ndarray) -> np.ndarray:
    carrier = torch.from_numpy(np.zeros(1, _CARRIER[like.dtype.itemsize])).dtype
    return x.view(carrier).cpu().numpy().view(like.dtype)


if __name__ == "__main__":
    child(answered)
