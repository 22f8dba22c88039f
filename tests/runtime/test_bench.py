"""`px.bench` on a fake GPU, whose clock counts a millisecond for each CTA that a launch has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.runtime.device import timing
from phalanx.runtime.tuning import bench as room
from support.fake_driver import OnGpu, fake_gpu


@px.kernel(warps=1)
def fill(X, value, *, BN=64):
    n = px.block_id(0) * BN
    px.store(X[n : n + BN], px.full((BN,), value, px.f32))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(timing.time, "sleep", lambda seconds: None)
    with fake_gpu() as library:
        yield library


def test_a_kernel_beside_another_function(gpu: Any) -> None:
    x = OnGpu(1024)
    found = px.bench(fill[3], x, 1.0, nbytes=6e6, flops=9e9, against={"wider": lambda: fill[6](x, 1.0)})
    assert (found.ms, found.gbs, found.tflops, found.ratios) == (3.0, 2.0, 3.0, {"wider": 2.0})
    assert len(found.times) == found.mode.rounds == 5 and found.joules is None
    assert str(found) == """\
mode burst, 5 rounds
┏━━━━━━━┳━━━━━━━━┳━━━━━━┳━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━┓
┃       ┃     ms ┃ GB/s ┃ TFLOP/s ┃ time over the first ┃
┡━━━━━━━╇━━━━━━━━╇━━━━━━╇━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━┩
│ fill  │ 3.0000 │    2 │     3.0 │               1.000 │
│ wider │ 6.0000 │    1 │     1.5 │               2.000 │
└───────┴────────┴──────┴─────────┴─────────────────────┘"""


def test_l2_is_emptied_before_each_launch(gpu: Any) -> None:
    before = len(gpu.calls)
    assert px.bench(fill[2], OnGpu(64), 1.0, mode="cold", rounds=2).ms == 2.0
    assert "cuMemsetD8Async" in gpu.names()[before:]


def test_any_function_is_measured(gpu: Any) -> None:
    x = OnGpu(64)
    found = px.bench(lambda: fill[4](x, 0.0))
    assert found.ms == 4.0 and found.gbs is found.tflops is None and found.timings[0].name == "<lambda>"


def test_energy_of_a_steady_run(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Meter:
        def during(self, work: Any, launches: int) -> tuple[Any, timing.Reading]:
            return work(), timing.Reading(0.5, 650.0, 1700.0)

    monkeypatch.setattr(room, "meter_of", lambda ordinal: Meter())
    found = px.bench(fill[7], OnGpu(64), 1.0, mode="steady", rounds=1)
    assert found.joules == 0.5 and "650" in str(found)


def test_a_card_without_a_meter(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(ordinal: int) -> Any:
        raise room.NoMeter("nothing to read")

    monkeypatch.setattr(room, "meter_of", refuse)
    assert px.bench(fill[7], OnGpu(64), 1.0, mode="steady", rounds=1).joules is None


def test_what_can_not_be_measured(gpu: Any) -> None:
    with pytest.raises(px.Error) as caught:
        px.bench(fill[1], np.zeros(64, np.float32), 1.0)
    assert caught.value.message == "px.bench measures on a GPU, and the arguments are host arrays"
    with pytest.raises(px.Error) as caught:
        px.bench(fill[1], OnGpu(64), 1.0, against={"fill": lambda: None})
    assert caught.value.message == "px.bench: the measured function and one of against= are both called 'fill'"
    with pytest.raises(px.Error) as caught:
        px.bench(fill[1], OnGpu(64), 1.0, mode="fast")
    assert caught.value.remedy == "the modes are turns, steady, burst, cold"


def test_without_a_gpu() -> None:
    with pytest.raises(px.Error) as caught:
        px.bench(fill[1], np.zeros(64, np.float32), 1.0)
    assert caught.value.message == "px.bench measures on a GPU, and there is none"
