"""What a GPU draws while it works: energy, power and clock, through NVML and ctypes.

A large product runs at the card's power limit, so fewer joules are speed; and FLOP per cycle per SM compares two kernels
whatever the clock did meanwhile. NVML is part of the driver; where it is missing, a `NoMeter` says why.
"""

from __future__ import annotations

import ctypes
import statistics
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.frozen import frozen

Result = TypeVar("Result")

LIBRARY_NAMES = ("libnvidia-ml.so.1", "libnvidia-ml.so")
SAMPLE_S = 0.01
"""Between two looks at clock and power."""
_SM_CLOCK = 1


class NoMeter(Exception):
    """Nothing can be read of this card; the message says why."""


@frozen
class Reading:
    """What a block of launches drew: joules of one launch, and over the block the mean watts and megahertz of the SMs.

    A figure that the card does not give is None. The card counts energy in steps of some 20 to 100 ms, so blocks of a
    third of a second are good to a few hundredths, shorter ones are not worth reading.
    """

    joules: float | None
    watts: float | None
    megahertz: float | None

    def flops_per_cycle(self, flops: float, milliseconds: float, sms: int) -> float | None:
        """Operations of one launch over the cycles it took and the SMs that could have done them."""
        if not self.megahertz or milliseconds <= 0:
            return None
        return flops / (milliseconds * 1e-3 * self.megahertz * 1e6 * sms)


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
        """Power now."""
        found = self._number("nvmlDeviceGetPowerUsage", ctypes.c_uint)
        return None if found is None else found / 1e3

    def megahertz(self) -> float | None:
        """The SMs' clock now."""
        return self._number("nvmlDeviceGetClockInfo", ctypes.c_uint, ctypes.c_int(_SM_CLOCK))

    def during(self, work: Callable[[], Result], launches: int) -> tuple[Result, Reading]:
        """What `work` gives, which ends when the GPU is done with its launches, and what the card drew meanwhile."""
        looks: list[tuple[float | None, float | None]] = []
        over = threading.Event()

        def look() -> None:
            while not over.wait(SAMPLE_S):
                looks.append((self.watts(), self.megahertz()))

        watcher = threading.Thread(target=look, daemon=True)
        before = self.millijoules()
        watcher.start()
        try:
            result = work()
        finally:
            over.set()
            watcher.join()
        after = self.millijoules()
        if not looks:
            looks.append((self.watts(), self.megahertz()))
        joules = None if before is None or after is None else (after - before) * 1e-3 / launches
        watts, megahertz = (_mean([look[which] for look in looks]) for which in (0, 1))
        return result, Reading(joules, watts, megahertz)


def _mean(values: list[float | None]) -> float | None:
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
