"""Launches with random delays, tried by their seeds, and the fewest delays that still make a launch fail.

A right kernel is right however late its agents are. One that is clean in `px.check` and wrong when it is shaken shows a
mistake of the checks, or of the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phalanx.cuda.text.delays import DELAY
from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.device.host_copies import to_host
from phalanx.runtime.launch.watchdog import Delays, shaken

Fails = Callable[[tuple[int, ...]], str]
"""What goes wrong with delays at these sites alone; empty where nothing does."""
REPEATS = 3
"""Launches with the same delays, of which one that fails counts: a delay makes a wrong order likely, not certain."""


@frozen
class DelaySite:
    """A place that may delay: its number in the kernel, the instruction, its role, and the user's line."""

    number: int
    instruction: str
    role: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.instruction}, {self.role or 'all warps'}"


def delay_sites(bound: Any, args: Sequence[Any], constants: dict[str, Any], arch: str) -> list[DelaySite]:
    """The places of a kernel that may delay, in a build for a target; needs no GPU."""
    from phalanx.runtime.launch.dispatch import compile

    with shaken(Delays(0)):
        made = compile(bound, *args, arch=arch, **constants)
    return [
        DelaySite(number, site.name, site.role, site.location.short.partition(":")[0], site.location.line)
        for number, site in enumerate(made.sites)
        if site.kind == DELAY
    ]


def fewest(sites: Sequence[int], fails: Fails) -> tuple[int, ...]:
    """A part of the sites that still fails and of which none can be left out, by halves, quarters and so on.

    `fails` says of all sites that they fail; what follows is delta debugging: parts of them alone, then all but a part.
    """
    kept, parts = tuple(sites), 2
    while len(kept) > 1:
        size = -(-len(kept) // parts)
        chunks = [kept[start : start + size] for start in range(0, len(kept), size)]
        smaller = next((chunk for chunk in chunks if fails(chunk)), None)
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        others = (tuple(site for site in kept if site not in chunk) for chunk in chunks) if len(chunks) > 2 else ()
        smaller = next((rest for rest in others if fails(rest)), None)
        if smaller is not None:
            kept, parts = smaller, max(2, parts - 1)
        elif size == 1:
            break
        else:
            parts = min(len(kept), 2 * parts)
    return kept


class ShakenLaunch:
    """One launch with host arrays, tried on the GPU with delays: what it must give is what the simulator gives."""

    def __init__(self, bound: Any, args: Sequence[Any], constants: dict[str, Any]) -> None:
        from phalanx.sanitizer.runs import copies_of

        self.bound, self.constants, self.args = bound, constants, list(args)
        self.expected = copies_of(self.args)
        bound(*self.expected, **constants)

    def trial(self, seed: int, sites: tuple[int, ...] | None) -> str:
        """What goes wrong with these delays, in one of a few launches; empty where nothing does."""
        for _ in range(REPEATS):
            arrays = [on_device(value) for value in self.args]
            with shaken(Delays(seed, sites)):
                self.bound(*arrays, **self.constants)
            wrong = self._wrong(arrays)
            if wrong:
                return wrong
        return ""

    def _wrong(self, arrays: Sequence[Any]) -> str:
        from phalanx.runtime.tuning.worker import distance, tolerance_of

        names = self.bound.kernel.parameters
        for name, got, want in zip(names, arrays, self.expected, strict=False):
            if not isinstance(want, np.ndarray):
                continue
            error = distance(np.asarray(to_host(got)), want)
            if error > tolerance_of(want):
                return f"'{name}' is off by {error:.2g} of its largest element"
        return ""


def on_device(value: Any) -> Any:
    """A host array copied to the GPU, whole; anything else as it is."""
    from phalanx.runtime.device.device_array import DeviceArray

    info = describe(value)
    if info is None:
        return value
    if not isinstance(value, np.ndarray):
        raise Error("phalanx shake takes launches on NumPy arrays", remedy="pass NumPy arrays in the example")
    dense = np.ascontiguousarray(value)
    strides = tuple(stride // dense.itemsize for stride in dense.strides)
    return DeviceArray(dense, dense.shape, strides, info.dtype_name, device=0, low=0)
