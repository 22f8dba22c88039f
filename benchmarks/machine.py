"""What all benchmarks share: what a results file must say about where it came from, and a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.tools.bench.results import commit, gpu, save, stamp

BEHIND = 0.95
"""A drawn shape whose ratio is lower counts as one that falls behind."""


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


def graphed(run: Callable[[], Any], calls: int) -> Callable[[], Any]:
    """So many calls as one CUDA graph, on a card that has seen the call before: launches without the host's time."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    return graph.replay


__all__ = ["BEHIND", "commit", "gpu", "graphed", "milliseconds", "save", "stamp"]
