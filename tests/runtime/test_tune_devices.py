"""`px.tune` on a driver made of Python: machine code, L2, hangs, meters."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device.power import NoMeter, Reading
from phalanx.runtime.launch.specialise import spec
from phalanx.runtime.tuning import worker
from phalanx.runtime.tuning.arguments import ArrayPlan, plan_arguments
from runtime.tuning_kernels import X, blocks, double

pytestmark = pytest.mark.usefixtures("tuning_cache")


def test_machine_code_is_loaded_tried_and_timed(tuning_gpu: Any) -> None:
    """The fake GPU takes a millisecond for each CTA, so that the wider block wins."""
    args = (spec((256,), px.f32), spec((256,), px.f32))
    tuned = px.tune(double, [dict(BM=32), dict(BM=64)], args, grid=blocks, isolate=False, rounds=2, keep=9)
    assert [(row.config["BM"], row.ms) for row in tuned.table] == [(64, 4.0), (32, 8.0)]
    assert tuned.device == "Fake GPU"
    assert tuning_gpu.names().count("cuModuleLoadData") == 4, "each with bounded waits first, then as it is"
    assert [launch.grid[0] for launch in tuning_gpu.launches[:4]] == [8, 8, 4, 4]


def test_l2_is_emptied_where_the_mode_says_so(tuning_gpu: Any) -> None:
    args = (spec((256,), px.f32), spec((256,), px.f32))
    tuned = px.tune(double, [dict(BM=64)], args, grid=blocks, isolate=False, mode="cold", rounds=1)
    assert tuned.table[0].ms == 4.0
    flushes = [call for call in tuning_gpu.calls if call[0] == "cuMemsetD8Async"]
    assert flushes and all(call[3] == 2 * (60 << 20) for call in flushes)


def test_a_hang_on_the_gpu_is_told_by_the_watchdog(tuning_gpu: Any) -> None:
    """The driver reports a trap, and the record says which wait it was."""
    args = (spec((256,), px.f32), spec((256,), px.f32))
    tuning_gpu.failures["cuCtxSynchronize"] = [719]
    host = tuning_gpu._cuMemHostAlloc

    def launch(config: int, function: int, parameters: int, extra: Any) -> None:
        original(config, function, parameters, extra)
        if records:
            import ctypes

            ctypes.c_uint64.from_address(records[0]).value = 1

    records: list[int] = []
    original = tuning_gpu._cuLaunchKernelEx

    def allocate(out: int, nbytes: int, flags: int) -> None:
        import ctypes

        host(out, nbytes, flags)
        records.append(ctypes.c_void_p.from_address(out).value or 0)

    tuning_gpu._cuMemHostAlloc, tuning_gpu._cuLaunchKernelEx = allocate, launch
    tuned = px.tune(double, [dict(BM=32), dict(BM=64)], args, grid=blocks, isolate=False, rounds=1)
    assert [row.status for row in tuned.table] == ["ok", "hangs"]
    assert "a wait did not end on the GPU: bar[0]" in tuned.table[1].note


def test_host_arrays_where_there_is_a_gpu(tuning_gpu: Any) -> None:
    with pytest.raises(px.Error, match=r"px\.tune measures on a GPU, and the arguments are host arrays"):
        px.tune(double, [dict(BM=32)], (X, X.copy()), grid=blocks)


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "has_gpu", lambda: False)
    with pytest.raises(px.Error, match=r"px\.tune measures on a GPU, and there is none here") as error:
        px.tune(double, [dict(BM=32)], (spec((256,), px.f32), spec((256,), px.f32)), grid=blocks)
    assert "on a machine with a GPU" in (error.value.remedy or "")


def test_plans_name_the_device() -> None:
    (plan,) = plan_arguments((spec((4,), px.f32),), 0)
    assert isinstance(plan, ArrayPlan) and (plan.library, plan.device) == ("plain", 0)


# What the candidates draw ---------------------------------------------------------------------------------


class FakeMeter:
    """A card at 1 GHz that draws 500 W, and as many joules as a launch has CTAs."""

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu

    def during(self, work: Any, launches: int) -> tuple[Any, Reading]:
        took = work()
        return took, Reading(float(self.gpu.launches[-1].grid[0]), 500.0, 1000.0)


def steady(**options: Any) -> Any:
    args = (spec((256,), px.f32), spec((256,), px.f32))
    configs = [dict(BM=32), dict(BM=64), dict(BM=96, COUNT=0)]
    return px.tune(double, configs, args, grid=blocks, isolate=False, mode="steady", rounds=2, keep=9, **options)


@pytest.mark.long
def test_the_energy_of_a_launch_stands_beside_steady_times(tuning_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "meter_of", lambda ordinal: FakeMeter(tuning_gpu))
    for from_cache in (False, True):
        tuned = steady(flops=4e-3 * 1e9 * 132 * 7)
        assert tuned.from_cache == from_cache
        drawn = [Reading(joules, 500.0, 1000.0) for joules in (4.0, 8.0)]
        assert [row.drawn for row in tuned.table] == [*drawn, None]
        assert [row.rate for row in tuned.table] == [pytest.approx(7.0), pytest.approx(3.5), None]
        lines = str(tuned).splitlines()
        head, best = ([cell.strip() for cell in lines[n][1:].split(bar)] for n, bar in ((2, "┃"), (4, "│")))
        assert head[2:9] == ["ms", "speed", "J", "W", "MHz", "FLOP/cycle/SM", "status"]
        assert best[2:9] == ["4.0000", "1.000", "4", "500", "1000", "7", "ok"]
    assert [row.rate for row in steady().table] == [None] * 3, "nobody said how many operations there are"


@pytest.mark.long
def test_without_a_meter_the_table_says_why(tuning_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(ordinal: int) -> Any:
        raise NoMeter("no NVML here")

    monkeypatch.setattr(worker, "meter_of", none)
    for _ in range(2):
        tuned = steady(flops=1e9)
        assert tuned.unmetered == "no NVML here" and all(row.drawn is None and row.rate is None for row in tuned.table)
        assert str(tuned).splitlines()[-1] == "no energy, power or clock: no NVML here"
        assert "FLOP" not in str(tuned)


@pytest.mark.long
def test_only_steady_blocks_are_long_enough_for_the_meter(tuning_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "meter_of", lambda ordinal: 1 // 0)
    args = (spec((256,), px.f32), spec((256,), px.f32))
    tuned = px.tune(double, [dict(BM=32)], args, grid=blocks, isolate=False, rounds=1)
    assert tuned.table[0].drawn is None and not tuned.unmetered


@pytest.mark.parametrize("flops", [0, -1.0, float("inf"), "2 * M * N * K"])
def test_operations_are_a_number(flops: Any) -> None:
    with pytest.raises(px.Error, match=r"flops=") as error:
        px.tune(double, [dict(BM=32)], (X, X.copy()), grid=blocks, flops=flops)
    assert error.value.remedy == "pass the operations of one launch: 2 * M * N * K of a product"
