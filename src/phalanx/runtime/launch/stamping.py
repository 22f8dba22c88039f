"""Launches that write stamps: when agents of sampled CTAs waited, signalled, copied and multiplied (`cuda/text/stamps`).

As launches with delays they are builds of their own. The stamps lie in memory of the device while the kernel runs, and are
read when it is over; `runtime/timeline/stamps.py` makes a timeline of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from phalanx.cuda.abi import stamp_words
from phalanx.runtime.device.driver import DriverError
from phalanx.runtime.launch.launch_list import recording

if TYPE_CHECKING:
    from phalanx.cuda.text.sites import Site
    from phalanx.runtime.compiled import Compiled


@dataclass(frozen=True)
class StampedRun:
    """The stamps of one launch: the buffer as 64-bit words, and what its numbers mean."""

    kernel: str
    card: str
    arch: str
    sites: tuple[Site, ...]
    grid: tuple[int, int, int]
    cluster: tuple[int, int, int]
    warps: int
    words: np.ndarray


@dataclass
class Stamps:
    """Stamps that are asked for: in how many clusters of each launch, and what was written so far."""

    sample: int
    runs: list[StampedRun] = field(default_factory=list)


_WANTED: list[Stamps] = []


def wanted_stamps() -> Stamps | None:
    """The stamps that kernels launched now write; None outside `stamped`."""
    return _WANTED[-1] if _WANTED else None


@contextmanager
def stamped(sample: int) -> Iterator[Stamps]:
    """Kernels that are launched meanwhile, those of the library too, write stamps in so many of their clusters."""
    wanted = Stamps(sample)
    _WANTED.append(wanted)
    try:
        with recording():
            yield wanted
    finally:
        _WANTED.pop()


def sampled_ctas(grid: tuple[int, ...], cluster: tuple[int, ...], sample: int) -> int:
    """The CTAs that write stamps: those of every n-th cluster, so that there are `sample` clusters at most."""
    clusters = prod(grid) // prod(cluster)
    every = -(-clusters // sample)
    return -(-clusters // every) * prod(cluster)


def run_stamped(launcher: Any, compiled: Compiled, grid: tuple[int, int, int], values: list[Any], ordinal: int) -> None:
    """Launches, waits for the end, and keeps the stamps."""
    wanted = wanted_stamps()
    assert wanted is not None
    driver = launcher.driver
    words = np.zeros(stamp_words(sampled_ctas(grid, compiled.cluster, wanted.sample), compiled.warps), np.uint64)
    with driver.context(ordinal):
        buffer = driver.allocate_zeros(words.nbytes)
        launcher.launch(grid, values, debug=buffer)
        try:
            driver.synchronize()
        except DriverError:
            launcher.abandon()
            raise
        driver.copy_to_host(words.ctypes.data, buffer, words.nbytes)
        driver.free(buffer)
    card = driver.device(ordinal).name
    wanted.runs.append(
        StampedRun(compiled.name, card, compiled.arch, compiled.sites, grid, compiled.cluster, compiled.warps, words)
    )
