"""Choreographies on a GPU, in a process of their own: one that crashes or hangs loses its case, not the others.

The child is `python -m fuzz.choreo_gpu SEED ...`: it runs each seed in the simulator and on the GPU, and prints a line of
JSON for it. Waits are bounded in the first launches; in some cases one without bounds follows.
"""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.outcomes import Outcome

PATIENCE = 120.0
"""Seconds that a case may take before its process is given up."""
BOUNDED_LAUNCHES = 2
UNBOUNDED = 3
"""Every so many seeds are launched without bounds too, which is another text to compile."""
COMMAND = (sys.executable, "-m", "fuzz.choreo_gpu")
_CARRIER = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def judged_on_gpu(
    seeds: list[int], command: tuple[str, ...] = COMMAND, patience: float = PATIENCE
) -> Iterator[Outcome]:
    """The verdict on each seed, in their order, from children that `command` starts."""
    left = list(seeds)
    while left:
        done = 0
        for outcome in _child(left, command, patience):
            done += 1
            yield outcome
            if outcome.verdict in ("lost", "hung"):
                break
        left = left[max(done, 1) :]


def _child(seeds: list[int], command: tuple[str, ...], patience: float) -> Iterator[Outcome]:
    """What a child says of its seeds; the last word on one that it died of, or hung in, is the parent's."""
    environment = {**os.environ, "PHALANX_CACHE": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            [*command, *map(str, seeds)], stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
        assert child.stdout is not None
        said: queue.Queue[str | None] = queue.Queue()

        def listen() -> None:
            for line in child.stdout or ():
                said.put(line)
            said.put(None)

        threading.Thread(target=listen, daemon=True).start()
        try:
            for seed in seeds:
                try:
                    line = said.get(timeout=patience)
                except queue.Empty:
                    yield Outcome(seed, "hung", f"hung: no answer in {patience:.0f} s")
                    return
                if line is None:
                    child.wait()
                    errors.seek(0)
                    story = f"lost: the process ended with {child.returncode}\n{errors.read()[-4000:]}"
                    yield Outcome(seed, "lost", story)
                    return
                yield Outcome(*json.loads(line))
        finally:
            child.kill()
            child.wait()


def main(seeds: list[int]) -> None:
    """The child: prints a line for each seed, and ends after a case that may have spoilt the GPU's context."""
    from fuzz.choreo_kernel import draw

    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            case = draw(seed)
            try:
                story = run(case, Path(folder))
            except Exception:
                story = traceback.format_exc()
                first = f"failed: {story.strip().splitlines()[-1]}"
                print(json.dumps([seed, "lost", f"{first}\n{story}\n{case.text}"]), flush=True)
                return
            verdict = "right" if story is None else "differs"
            print(json.dumps([seed, verdict, None if story is None else f"{story}\n\n{case.text}"]), flush=True)


def run(case: Any, folder: Path) -> str | None:
    """The case in the simulator and on the GPU, several times; what differs, if anything does."""
    import torch

    from fuzz.choreography import differences, outputs

    kernel = case.load(folder)
    arguments = case.copies()
    kernel[case.grid](*arguments)
    wanted = outputs(case, arguments)
    wrong = differences(case, wanted, case.expected)
    if wrong:
        return f"simulator differs from NumPy: {wrong}"
    for launch in range(BOUNDED_LAUNCHES + (case.seed % UNBOUNDED == 0)):
        watched = dataclasses.replace(kernel, watchdog=launch < BOUNDED_LAUNCHES)
        tensors = [to_gpu(torch, x) if isinstance(x, np.ndarray) else x for x in case.copies()]
        watched[case.grid](*tensors)
        torch.cuda.synchronize()
        got = {name: to_host(torch, x, wanted[name]) for name, x in outputs(case, tensors).items()}
        wrong = differences(case, got, wanted)
        if wrong:
            return f"the GPU differs from the simulator in launch {launch}: {wrong}"
    return None


def to_gpu(torch: Any, x: np.ndarray) -> Any:
    carried = torch.from_numpy(np.ascontiguousarray(x).view(_CARRIER[x.dtype.itemsize]).copy()).cuda()
    return carried.view(getattr(torch, x.dtype.name))


def to_host(torch: Any, x: Any, like: np.ndarray) -> np.ndarray:
    carrier = torch.from_numpy(np.zeros(1, _CARRIER[like.dtype.itemsize])).dtype
    return x.view(carrier).cpu().numpy().view(like.dtype)


if __name__ == "__main__":
    main([int(seed) for seed in sys.argv[1:]])
