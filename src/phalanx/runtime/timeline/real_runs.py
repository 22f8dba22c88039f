"""Real launches for `px.trace`: which calls are ones, and the timeline of one."""

from __future__ import annotations

from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.launch.specialise import Spec
from phalanx.runtime.launch.stamping import stamped
from phalanx.runtime.timeline.cards import card_for
from phalanx.runtime.timeline.trace import Trace

GPU, MODEL = "gpu", "model"
"""Where a timeline is taken."""
SAMPLE = 4
"""Clusters that write stamps, where nothing else is said."""
MOST_SAMPLE = 64


def is_real(bound: Any, args: tuple[Any, ...], on: str | None, sample: int) -> bool:
    """Whether a timeline is that of a real launch: as asked for with `on`, else as the arrays lie."""
    if on not in (None, GPU, MODEL):
        raise Error(f"on={on!r}", location=caller_location(), remedy='it is "gpu", "model" or None')
    if type(sample) is not int or not 1 <= sample <= MOST_SAMPLE:
        remedy = f"it is a number of clusters, 1 to {MOST_SAMPLE}"
        raise Error(f"sample={sample!r}", location=caller_location(), remedy=remedy)
    given = bound.kernel.spread(args) if bound.kernel.groups else args
    infos = [describe(value) for value in given if not isinstance(value, Spec)]
    on_gpu = any(info is not None and info.kind != "host" for info in infos)
    if on == GPU and not on_gpu:
        raise Error(
            'px.trace with on="gpu" launches the kernel, and no argument is in the memory of a GPU',
            location=caller_location(), remedy="pass CUDA arrays; NumPy arrays and px.spec are modelled",
        )
    return on_gpu if on is None else on == GPU


def trace_real(bound: Any, args: tuple[Any, ...], constants: dict[str, Any], arch: str | None, sample: int) -> Trace:
    """The timeline of a launch on a GPU, by the stamps of so many of its clusters."""
    from phalanx.runtime.timeline.stamps import trace_of_stamps

    name = bound.kernel.name
    with stamped(sample) as taken:
        bound(*args, **({} if arch is None else {"arch": arch}), **constants)
    if not taken.runs:
        raise Error(f"the grid of kernel '{name}' is empty", location=caller_location(), remedy="trace a grid with CTAs")
    run = taken.runs[-1]
    made = trace_of_stamps(run, card_for(run.arch).rates.clock)
    made.kernel = name
    return made
