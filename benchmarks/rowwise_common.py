"""What the benchmarks of row-wise kernels share: the matrices, the names of configurations, taking turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import machine

from phalanx.kernels.rowwise.rows import RowConfig
from phalanx.kernels.rowwise.rows_ring import RingConfig
from phalanx.kernels.rowwise.spans import SpanConfig
from phalanx.kernels.rowwise.stream import StreamConfig
from phalanx.runtime.device.timing import Mode, take_turns

SIZES = ((32768, 4096), (16384, 16384), (8192, 65536), (4096, 131072), (2048, 262144))
Config = RowConfig | RingConfig | StreamConfig | SpanConfig
Run = Callable[[], Any]


def shown(config: Config) -> str:
    """In one word per property; what is off is left out."""
    if isinstance(config, RowConfig):
        shape = f"rows C{config.cluster} W{config.warps} R{config.rows} P{config.parts} B{config.per_sm}"
        flags = {"once": config.once, "ahead": config.ahead}
    elif isinstance(config, SpanConfig):
        shape = f"spans L{config.lanes} E{config.each} R{config.rows} V{config.vectors} S{config.spans} W{config.warps}"
        flags = {}
    elif isinstance(config, StreamConfig):
        shape = f"stream C{config.cluster} W{config.warps} S{config.stages}x{config.step} K{config.kept} G{config.group}"
        shape += f" B{config.per_sm}"
        flags = {"once": config.once, "streamed": config.streamed}
    else:
        shape = f"ring C{config.cluster} W{config.warps} P{config.parts} B{config.per_sm} S{config.stages}x{config.step}"
        shape += f" {config.weights}"
        flags = {
            "producer": config.producer, "early": config.early, "reread": not config.held, "once": config.once,
            "streamed": config.streamed,
        }  # fmt: skip
    return " ".join([shape, *(name for name, on in flags.items() if on)])


def alternate(runs: dict[str, Run], rounds: int, budget_ms: float) -> dict[str, float]:
    """The median milliseconds of each, measured in turns of about `budget_ms`."""
    times = take_turns(runs, machine.milliseconds, Mode("block", budget_ms, 0.0, rounds))
    return {name: statistics.median(found) for name, found in times.items()}
