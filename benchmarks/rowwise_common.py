"""What the benchmarks of row-wise kernels share: the matrices, and taking turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import machine

from phalanx.runtime.device.timing import Mode, take_turns

SIZES = ((32768, 4096), (16384, 16384), (8192, 65536), (4096, 131072), (2048, 262144))
Run = Callable[[], Any]


def alternate(runs: dict[str, Run], rounds: int, budget_ms: float) -> dict[str, float]:
    """The median milliseconds of each, measured in turns of about `budget_ms`."""
    times = take_turns(runs, machine.milliseconds, Mode("block", budget_ms, 0.0, rounds))
    return {name: statistics.median(found) for name, found in times.items()}
