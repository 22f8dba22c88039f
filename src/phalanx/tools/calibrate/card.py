"""Takes the times of probes on a GPU: launches behind a long one, so that the host is never waited for."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import phalanx as px
from phalanx.errors import Error
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device.device_array import DeviceArray
from phalanx.runtime.device.devices import Device
from phalanx.runtime.device.timing import EventTimer
from phalanx.tools.calibrate.probe import Probe
from phalanx.tools.calibrate.threads import chain

ROUNDS = 7
BLOCK_MS = 1.0
MOST_LAUNCHES = 40
LEAST_LAUNCHES = 3
BURST_MS, REST_S, BURSTS = 6.0, 0.25, 3
AHEAD = 3000
"""Steps of the kernel that runs while the host enqueues what is timed: some milliseconds."""
WARM_S = 0.5
FLUSHED = 2
"""How many times L2 is overwritten where nothing is to be left in it."""


class GpuArrays:
    """Arrays of a card, which are given back all at once."""

    real = True

    def __init__(self, here: Device) -> None:
        self.sms = here.sms
        self.ordinal = here.ordinal or 0
        self.made: list[DeviceArray] = []

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array of zeros."""
        made = DeviceArray.zeros(shape, dtype.name, dtype.itemsize, device=self.ordinal)
        self.made.append(made)
        return made

    def numbers(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Random numbers: tensor cores draw more power for them than for zeros."""
        return self._of(np.random.default_rng(0).standard_normal(shape).astype(dtype.numpy), dtype)

    def indices(self, values: Any) -> Any:
        """A table of indices."""
        return self._of(np.asarray(values, np.int32), px.i32)

    def _of(self, values: Any, dtype: Any) -> Any:
        made = self.zeros(values.shape, dtype)
        made.write(values)
        return made

    def free(self) -> None:
        """Gives back the memory of all arrays."""
        driver = cuda.get_driver()
        with driver.context(self.ordinal):
            driver.synchronize()
            for each in self.made:
                driver.free(each.base)
        self.made.clear()


class Card:
    """A GPU that is measured."""

    def __init__(self, here: Device) -> None:
        if here.ordinal is None:
            raise Error(
                "phalanx calibrate measures a GPU, and there is none here",
                remedy="run it on the machine whose card is to be modelled; PHALANX_CARD names the file that it writes",
            )
        if not here.arch.startswith("sm_90"):
            raise Error(
                f"phalanx calibrate measures Hopper's tensor cores, and the {here.name} is {here.arch}",
                remedy="what ships for such a card are public figures; px.trace uses those",
            )
        self.here, self.ordinal = here, here.ordinal
        self.driver = cuda.get_driver()
        self.behind = EventTimer(self.ordinal)
        self.cold = EventTimer(self.ordinal, flush_bytes=FLUSHED * here.l2_bytes)
        self.arrays = GpuArrays(here)
        self.word = DeviceArray.zeros((32,), "f32", 4, device=self.ordinal)
        self.waits = chain[1]
        self.warm()

    def warm(self) -> None:
        """Lets the clock rise that a card has lowered while it had nothing to do."""
        until = time.monotonic() + WARM_S
        while time.monotonic() < until:
            with self.driver.context(self.ordinal):
                self.waits(self.word, AHEAD)
                self.driver.synchronize()

    def microseconds(self, probe: Probe) -> float:
        """Microseconds of a step of a probe: the middle one of several rounds."""
        few, many = probe.card
        try:
            given = probe.arrays(self.arrays, max(probe.card))
            runs = [self.launch(probe, given, steps) for steps in probe.card]
            for run in runs:
                run()
            if probe.by_launch:
                return 1e3 * statistics.median(self.timed(probe, runs[1]) for _ in range(ROUNDS))
            rounds = BURSTS if probe.at_work else ROUNDS
            found = []
            for _ in range(rounds):
                short, long = (self.timed(probe, run) for run in runs)
                found.append((long - short) / (many - few))
            return 1e3 * statistics.median(found)
        finally:
            self.arrays.free()

    def launch(self, probe: Probe, given: tuple[Any, ...], steps: int) -> Callable[[], Any]:
        """A launch of so many steps."""
        bound, constants, last = probe.bound(self.here.sms, steps), dict(probe.constants), probe.given(steps)
        return lambda: bound(*given, last, **constants)

    def timed(self, probe: Probe, run: Callable[[], Any]) -> float:
        """Milliseconds of a launch."""
        if probe.cold:
            return self.cold(run, LEAST_LAUNCHES)
        if probe.at_work:
            time.sleep(REST_S)
            once = self.queued(run, 1)
            time.sleep(REST_S)
            return self.queued(run, max(1, round(BURST_MS / once)))
        once = self.queued(run, LEAST_LAUNCHES)
        return self.queued(run, max(LEAST_LAUNCHES, min(MOST_LAUNCHES, round(BLOCK_MS / max(once, 1e-3)))))

    def queued(self, run: Callable[[], Any], repeats: int) -> float:
        """Milliseconds of each of some launches, which are all enqueued before the first of them begins."""
        with self.driver.context(self.ordinal):
            self.waits(self.word, AHEAD)
            return self.behind(run, repeats)
