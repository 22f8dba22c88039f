"""What a GPU draws while it works: energy, power and clock, through NVML and ctypes.

A large product runs at the card's power limit, so fewer joules are speed; and FLOP per cycle per SM compares two kernels
whatever the clock did meanwhile. NVML is part of the driver; where it is missing, a `NoMeter` says why.

The card adds to its energy counter every 20 to 100 ms (an H200 every 100), and a look at it takes a millisecond. So a block
of launches is not charged the difference between its start and its end, which may be a whole step off, but the power between
the first and the last step that was seen in it.
"""

from __future__ import annotations

import ctypes
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from phalanx.frozen import frozen

Result = TypeVar("Result")

LIBRARY_NAMES = ("libnvidia-ml.so.1", "libnvidia-ml.so")
SAMPLE_S = 0.002
"""Between two looks at the energy counter: a step is seen that much too late at most."""
LOOKS_AT_CLOCK = 5
"""After each step of the counter, clock and power are read in this many looks; each of them delays the next look."""
LEAST_STEPS = 3
"""Steps of the energy counter that a block needs for a power of its own; with fewer, what the card reports counts."""
_SM_CLOCK = 1


class NoMeter(Exception):
    """Nothing can be read of this card; the message says why."""


@frozen
class Reading:
    """What a block of launches drew: joules of one launch, and over the block the mean watts and megahertz of the SMs.

    A figure that the card does not give is None. Blocks of a third of a second are good to a few hundredths, of a second to
    one; shorter ones are not worth reading. Whether power holds the clock down is told by the watts, beside `Meter.limit`:
    NVML's reasons for a clock name power also where a card draws 418 of 700 W.
    """

    joules: float | None
    watts: float | None
    megahertz: float | None

    def flops_per_cycle(self, flops: float, milliseconds: float, sms: int) -> float | None:
        """Operations of one launch over the cycles it took and the SMs that could have done them."""
        if not self.megahertz or milliseconds <= 0:
            return None
        return flops / (milliseconds * 1e-3 * self.megahertz * 1e6 * sms)


def median_reading(readings: Sequence[Reading]) -> Reading | None:
    """Medians over blocks, figure by figure; None without readings."""
    if not readings:
        return None
    middle = (
        [value for reading in readings if (value := getattr(reading, name)) is not None]
        for name in ("joules", "watts", "megahertz")
    )
    return Reading(*(statistics.median(known) if known else None for known in middle))


class Meter:
    """One card's energy counter, power and SM clock. Made by `meter_of`, or from any library with NVML's calls."""

    def __init__(self, library: Any, bus_id: str) -> None:
        self.library = library
        self._call("nvmlInit_v2")
        self.handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByPciBusId_v2", ctypes.c_char_p(bus_id.encode()), ctypes.byref(self.handle))

    def _call(self, name: str, *arguments: Any) -> None:
        status = int(getattr(self.library, name)(*arguments))
        if status:
            raise NoMeter(f"{name} of NVML gave {status}")

    def _number(self, name: str, kind: Any, *arguments: Any) -> float | None:
        """A figure of the card, None where it has none."""
        value = kind()
        try:
            self._call(name, self.handle, *arguments, ctypes.byref(value))
        except (NoMeter, AttributeError):
            return None
        return float(value.value)

    def millijoules(self) -> float | None:
        """Energy since the driver was loaded."""
        return self._number("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)

    def watts(self) -> float | None:
        """Power as the card reports it, on recent cards the mean of the last second."""
        found = self._number("nvmlDeviceGetPowerUsage", ctypes.c_uint)
        return None if found is None else found / 1e3

    def limit(self) -> float | None:
        """The power, in watts, that the card holds itself to."""
        found = self._number("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint)
        return None if found is None else found / 1e3

    def megahertz(self) -> float | None:
        """The SMs' clock now."""
        return self._number("nvmlDeviceGetClockInfo", ctypes.c_uint, ctypes.c_int(_SM_CLOCK))

    def during(self, work: Callable[[], Result], launches: int) -> tuple[Result, Reading]:
        """What `work` gives, which ends when the GPU is done with its launches, and what the card drew meanwhile."""
        counter: list[tuple[float, float | None]] = []
        looks: list[tuple[float | None, float | None]] = []
        over = threading.Event()

        def look() -> None:
            same, before = 0, None  # looks at the counter since its last step
            while not over.wait(SAMPLE_S):
                energy = self.millijoules()
                counter.append((time.monotonic(), energy))
                same, before = same + 1 if energy == before else 0, energy
                if same < LOOKS_AT_CLOCK or energy is None:
                    looks.append((self.watts(), self.megahertz()))

        watcher = threading.Thread(target=look, daemon=True)
        began = time.monotonic()
        watcher.start()
        try:
            result = work()
        finally:
            took = time.monotonic() - began
            over.set()
            watcher.join()
        if not looks:
            looks.append((self.watts(), self.megahertz()))
        watts, megahertz = (_mean(look[which] for look in looks) for which in (0, 1))
        drawn = power_of(counter)
        watts = watts if drawn is None else drawn
        return result, Reading(None if watts is None else watts * took / launches, watts, megahertz)


def power_of(counter: Iterable[tuple[float, float | None]]) -> float | None:
    """Watts from looks (seconds, millijoules) at an energy counter: between the first and the last of its steps.

    None where fewer than `LEAST_STEPS` are seen.
    """
    steps: list[tuple[float, float]] = []
    before: float | None = None
    for seconds, energy in counter:
        if energy is None:
            return None
        if before is not None and energy != before:
            steps.append((seconds, energy))
        before = energy
    if len(steps) < LEAST_STEPS:
        return None
    (began, first), (ended, last) = steps[0], steps[-1]
    return (last - first) * 1e-3 / (ended - began)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def meter_of(ordinal: int, driver: Any = None) -> Meter:
    """The meter of CUDA device `ordinal` of this process; raises `NoMeter` with the reason where there is none."""
    from phalanx.runtime.device.driver import DriverError, get_driver

    try:
        driver = get_driver() if driver is None else driver
        bus_id = driver.bus_id(ordinal)
    except DriverError as error:
        raise NoMeter(error.text) from None
    for name in LIBRARY_NAMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return Meter(library, bus_id)
    raise NoMeter(f"{LIBRARY_NAMES[0]} is not on this machine")
