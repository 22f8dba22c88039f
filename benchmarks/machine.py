"""What all benchmarks share: what a results file must say about where it came from, and a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.tools.bench.results import commit, gpu, save, stamp


def milliseconds(run: Callable[[], Any], repeats: int) -> float:
    """Time per run on the GPU, by events around all of them."""
    import torch

    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        run()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / repeats


__all__ = ["commit", "gpu", "milliseconds", "save", "stamp"]
