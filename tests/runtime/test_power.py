"""Energy, power and clock from a library made of Python."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import pytest

from phalanx.runtime.device import power
from phalanx.runtime.device.power import Meter, NoMeter, Reading, meter_of


class Nvml:
    """Enough of NVML: a counter that grows by what the work says, a power and a clock."""

    def __init__(self, missing: tuple[str, ...] = ()) -> None:
        self.millijoules, self.missing, self.bus_ids = 5000, missing, []

    def nvmlInit_v2(self) -> int:
        return 999 if "init" in self.missing else 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus_id: Any, handle: Any) -> int:
        self.bus_ids.append(bus_id.value)
        handle._obj.value = 7
        return 0

    def _give(self, what: str, handle: Any, value: Any, number: int) -> int:
        assert handle.value == 7
        if what in self.missing:
            return 3
        value._obj.value = number
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, value: Any) -> int:
        return self._give("energy", handle, value, self.millijoules)

    def nvmlDeviceGetPowerUsage(self, handle: Any, value: Any) -> int:
        return self._give("power", handle, value, 650_500)

    def nvmlDeviceGetClockInfo(self, handle: Any, which: Any, value: Any) -> int:
        assert which.value == 1, "the SMs' clock"
        return self._give("clock", handle, value, 1500)


def test_what_a_block_of_launches_drew() -> None:
    library = Nvml()
    meter = Meter(library, "00000000:1B:00.0")
    assert library.bus_ids == [b"00000000:1B:00.0"]

    def work() -> str:
        library.millijoules += 3000
        time.sleep(3 * power.SAMPLE_S)
        return "done"

    result, reading = meter.during(work, 10)
    assert result == "done" and reading == Reading(0.3, 650.5, 1500.0)
    assert reading.flops_per_cycle(1e12, 1.0, 100) == pytest.approx(1e12 / (1e-3 * 1500e6 * 100))


def test_work_shorter_than_a_sample_is_looked_at_once() -> None:
    assert Meter(Nvml(), "x").during(lambda: None, 1)[1] == Reading(0.0, 650.5, 1500.0)


def test_figures_that_a_card_does_not_give() -> None:
    reading = Meter(Nvml(missing=("energy", "clock")), "x").during(lambda: None, 1)[1]
    assert reading == Reading(None, 650.5, None)
    assert reading.flops_per_cycle(1e12, 1.0, 100) is None


def test_the_work_may_fail() -> None:
    with pytest.raises(ZeroDivisionError):
        Meter(Nvml(), "x").during(lambda: 1 // 0, 1)


def test_no_meter_says_why(monkeypatch: pytest.MonkeyPatch, library: Any, driver: Any) -> None:
    with pytest.raises(NoMeter, match="nvmlInit_v2 of NVML gave 999"):
        Meter(Nvml(missing=("init",)), "x")

    def missing(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(NoMeter, match=r"libnvidia-ml\.so\.1 is not on this machine"):
        meter_of(0, driver)
    library.failures["cuDeviceGetPCIBusId"] = [101]
    with pytest.raises(NoMeter):
        meter_of(0, driver)
