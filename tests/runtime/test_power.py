"""Energy, power and clock from libraries made of Python and of C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from phalanx.runtime.device import power
from phalanx.runtime.device.power import Meter, NoMeter, Reading, median_reading, meter_of, power_of

COMPILER = shutil.which("gcc") or shutil.which("cc")


class Nvml:
    """Enough of NVML: a counter, a power and a clock."""

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

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any, value: Any) -> int:
        return self._give("limit", handle, value, 700_000)

    def nvmlDeviceGetClockInfo(self, handle: Any, which: Any, value: Any) -> int:
        assert which.value == 1, "the SMs' clock"
        return self._give("clock", handle, value, 1500)


class Ticking:
    """A clock and a counter that go on as a block is looked at: a look each `look_s`, a step each `step_s`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, watts: float, look_s: float, step_s: float, looks: int) -> None:
        self.now, self.left, self.library = 100.0, looks, Nvml()
        done = threading.Event()
        watch, start = threading.Event.wait, self.now

        def wait(event: threading.Event, timeout: float | None = None) -> bool:
            if timeout != power.SAMPLE_S:
                return watch(event, timeout)
            self.left -= 1
            if self.left < 0:
                done.set()
                return watch(event, 10.0)
            self.now += look_s
            self.library.millijoules = 5000 + round(1e3 * watts * ((self.now - start) // step_s * step_s))
            return False

        monkeypatch.setattr(threading.Event, "wait", wait)
        monkeypatch.setattr(power.time, "monotonic", lambda: self.now)
        self.work = lambda: watch(done, 10.0)


def test_what_a_block_of_launches_drew(monkeypatch: pytest.MonkeyPatch) -> None:
    ticking = Ticking(monkeypatch, watts=600.0, look_s=0.01, step_s=0.1, looks=47)
    meter = Meter(ticking.library, "00000000:1B:00.0")
    assert ticking.library.bus_ids == [b"00000000:1B:00.0"]
    done, reading = meter.during(ticking.work, 10)
    assert done
    assert reading.watts == pytest.approx(600.0), "of the counter, not the card's own mean of 650.5"
    assert reading.joules == pytest.approx(600.0 * 0.47 / 10), "the whole block, although its steps cover 0.3 s"
    assert reading.megahertz == 1500.0
    assert reading.flops_per_cycle(1e12, 1.0, 100) == pytest.approx(1e12 / (1e-3 * 1500e6 * 100))


def test_a_block_with_too_few_steps_takes_the_power_that_the_card_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    ticking = Ticking(monkeypatch, watts=600.0, look_s=0.01, step_s=0.1, looks=25)
    reading = Meter(ticking.library, "x").during(ticking.work, 1)[1]
    assert reading.watts == 650.5 and reading.joules == pytest.approx(650.5 * 0.25)


@pytest.mark.parametrize(
    ("looks", "watts"),
    [
        ([(0.0, 1000.0), (0.1, 1000.0), (0.2, 3000.0), (0.3, 5000.0), (0.4, 5000.0), (0.5, 9000.0)], 20.0),
        ([(0.0, 1000.0), (0.1, 2000.0), (0.2, 2000.0), (0.3, 3000.0)], None),
        ([(0.0, None), (0.1, None)], None),
        ([], None),
    ],
    ids=["three steps", "two steps", "no counter", "no looks"],
)
def test_power_is_that_between_the_first_and_the_last_step(looks: Any, watts: float | None) -> None:
    found = power_of(looks)
    assert found is None if watts is None else found == pytest.approx(watts)


def test_work_shorter_than_a_sample_is_looked_at_once() -> None:
    reading = Meter(Nvml(), "x").during(lambda: None, 1)[1]
    assert (reading.watts, reading.megahertz) == (650.5, 1500.0)


def test_figures_that_a_card_does_not_give() -> None:
    meter = Meter(Nvml(missing=("energy", "power", "clock", "limit")), "x")
    reading = meter.during(lambda: None, 1)[1]
    assert reading == Reading(None, None, None) and meter.limit() is None
    assert reading.flops_per_cycle(1e12, 1.0, 100) is None


def test_the_power_limit_of_a_card() -> None:
    assert Meter(Nvml(), "x").limit() == 700.0


def test_the_work_may_fail() -> None:
    with pytest.raises(ZeroDivisionError):
        Meter(Nvml(), "x").during(lambda: 1 // 0, 1)


def test_medians_over_blocks() -> None:
    assert median_reading([]) is None
    readings = [Reading(1.0, 600.0, None), Reading(3.0, None, None), Reading(2.0, 700.0, None)]
    assert median_reading(readings) == Reading(2.0, 650.0, None)


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


C_TEXT = r"""
#include <string.h>
static int cards[2];
static unsigned long long looks;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  if (strcmp(bus_id, "00000000:1B:00.0")) return 2;
  *handle = &cards[1];
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* handle, unsigned long long* value) {
  *value = 1ull << 40 | ++looks;  /* more than 32 bits */
  return handle == &cards[1] ? 0 : 2;
}
int nvmlDeviceGetPowerUsage(void* handle, unsigned* value) {
  *value = 650500;
  return handle == &cards[1] ? 0 : 2;
}
int nvmlDeviceGetClockInfo(void* handle, int which, unsigned* value) {
  *value = which == 1 ? 1500 : 0;
  return handle == &cards[1] ? 0 : 2;
}
"""


@pytest.mark.skipif(COMPILER is None, reason="a library of C needs a compiler")
def test_a_library_of_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: Any) -> None:
    """Handles, pointers and numbers of 64 bits pass through ctypes; calls that an older library lacks give nothing."""
    (tmp_path / "nvml.c").write_text(C_TEXT)
    made = tmp_path / "libfake-nvml.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", made, tmp_path / "nvml.c"], check=True)
    monkeypatch.setattr(power, "LIBRARY_NAMES", ("libnot-there.so", str(made)))
    monkeypatch.setattr(driver, "bus_id", lambda ordinal: "00000000:1B:00.0")
    meter = meter_of(0, driver)
    assert meter.millijoules() == float(1 << 40 | 1) and meter.limit() is None
    reading = meter.during(lambda: time.sleep(30 * power.SAMPLE_S), 2)[1]
    assert reading.watts is not None and 0 < reading.watts < 1, "a millijoule each look, some two milliseconds apart"
    assert reading.megahertz == 1500.0
