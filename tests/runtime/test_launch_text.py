"""Launches of plans as one piece of memory: what is packed once, what is bytes of the text, and what comes of it."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import phalanx as px
from fake_driver import plain_argument
from phalanx.kernels.matrices import empty
from phalanx.runtime.device import torch_memory
from phalanx.runtime.device.counters import RING, SLOT_BYTES
from phalanx.runtime.launch.replay import recording, remembered
from phalanx.runtime.planning import plan_text
from phalanx.runtime.planning.launch_text import Field, _format, joined
from planned_calls import Watched, watched_gpu


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Watched]:
    with watched_gpu(monkeypatch, tmp_path) as found:
        yield found


@px.kernel(warps=1)
def add_rows(X, Y, Z, factor, *, B=16):
    i = px.block_id(0) * B
    px.store(Z[i : i + B], px.load(X[i : i + B]) + px.load(Y[i : i + B]) * factor)


@remembered("x", "y")
def summed(x: Any, y: Any, *, factor: float = 2.0) -> Any:
    """Two launches, all of whose arrays have the same sizes."""
    between, result = empty(x, tuple(x.shape), "f32"), empty(x, tuple(x.shape), "f32")
    add_rows[px.cdiv(x.shape[0], 16)](x, y, between, factor)
    add_rows[px.cdiv(x.shape[0], 16)](between, y, result, factor)
    return result


@px.kernel(warps=1)
def count_rows(X, Y, *, B=16):
    seen = px.counters(1)
    i = px.block_id(0) * B
    px.store(Y[i : i + B], px.load(X[i : i + B]))
    px.atomic_add(seen[0], 1)


def vector(gpu: Watched, size: int, step: int = 1) -> Any:
    return gpu.torch.distinct((size * step,), gpu.torch.float32)[::step]


def whole(gpu: Watched, call: Any) -> Any:
    with recording():
        return gpu.run(call)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of plans that are made meanwhile."""
    found: list[str] = []
    plain = plan_text._compiled

    def compiled(lines: list[str], scope: Any, name: str) -> Any:
        found.extend(["\n".join(lines)] if name == "plan" else [])
        return plain(lines, scope, name)

    monkeypatch.setattr(plan_text, "_compiled", compiled)
    return found


def test_what_is_always_the_same_becomes_one_piece() -> None:
    two, three, size = Field("2s", "", b"ab"), Field("3s", "", b"cde"), Field("q", "s0_0")
    nothing = Field("0s", "", b"")
    assert joined([two, nothing, three, size, nothing, two]) == (
        Field("5s", "b'abcde'", b"abcde"), size, Field("2s", "", b"ab"),
    )  # fmt: skip


def test_arrays_of_the_same_sizes_are_packed_once(gpu: Watched, texts: list[str]) -> None:
    for size in (64, 80, 96, 112):
        x, y = vector(gpu, size), vector(gpu, size)
        quick = gpu.run(lambda x=x, y=y: summed(x, y))  # type: ignore[misc]
        assert whole(gpu, lambda x=x, y=y: summed(x, y)) == quick  # type: ignore[misc]
    text = texts[-1]
    assert text.count("g0 = ") == 1 and "g1 = " not in text
    [line] = [line for line in text.splitlines() if "stream," in line]
    assert line.count("g0") == 6, "each array of both launches, which are written at once"
    assert line.count("stream") == text.count("status = ") == 2
    assert text.count("stream_of(") == 1 and "2.0" not in text


def test_other_strides_are_packed_for_themselves(gpu: Watched) -> None:
    """Arrays that differ from each other, after some that were alike, and the other way round."""
    for number, (a, b) in enumerate(((1, 1), (1, 1), (2, 1), (1, 3), (2, 2), (1, 1), (3, 2), (2, 1))):
        x, y = vector(gpu, 64 + 16 * number, a), vector(gpu, 64 + 16 * number, b)
        quick = gpu.run(lambda x=x, y=y: summed(x, y))  # type: ignore[misc]
        assert whole(gpu, lambda x=x, y=y: summed(x, y)) == quick, (a, b)  # type: ignore[misc]


def test_threads_take_turns(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch has the sizes of one call, whoever launches beside it while the driver reads them."""

    def launch(*given: Any) -> int:
        time.sleep(2e-4)
        return gpu._launch(*given)

    monkeypatch.setitem(gpu.torch.driver.functions, "cuLaunchKernelEx", launch)
    for size in (64, 80, 96):
        summed(vector(gpu, size), vector(gpu, size))
    gpu.launches = []
    sizes = range(128, 128 + 16 * 30, 16)

    def work(first: int) -> None:
        for size in sizes[first::3]:
            summed(vector(gpu, size), vector(gpu, size))

    threads = [threading.Thread(target=work, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shapes = [(grid[0] * 16, int.from_bytes(image[16:20], "little")) for _, _, grid, _, _, image in gpu.launches]
    assert sorted(shapes) == sorted([(size, size) for size in sizes] * 2)


@remembered("x")
def counted(x: Any) -> Any:
    result = empty(x, tuple(x.shape), "f32")
    count_rows[px.cdiv(x.shape[0], 16)](x, result)
    return result


def test_counters_are_of_the_stream(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    from phalanx.runtime.device import counters

    streams: list[int] = []
    plain = counters.Counters.take

    def take(self: Any, stream: int) -> int:
        streams.append(stream)
        return plain(self, stream)

    monkeypatch.setattr(counters.Counters, "take", take)
    for size in (64, 80, 96):
        counted(vector(gpu, size))
    for stream in (77, 0, 78):
        gpu.torch.streams[0] = stream
        x = vector(gpu, 128 + stream)
        quick = gpu.run(lambda x=x: counted(x))  # type: ignore[misc]
        assert streams[-1] == gpu.launches[-1][4] == stream
        assert whole(gpu, lambda x=x: counted(x)) == quick  # type: ignore[misc]
    gpu.torch.streams[0] = 0


def test_each_launch_gets_counters_of_its_own(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """By plans and in the end by a replay; one that the driver refuses leaves its ring behind."""
    places: list[int] = []

    def launch(*given: Any) -> int:
        slot = next(iter(gpu.launchers.values())).signature.layout.slots[-1]
        base = ctypes.c_void_p.from_address(plain_argument(given[2])).value or 0
        places.append(ctypes.c_uint64.from_address(base + slot).value)
        return gpu.status

    monkeypatch.setitem(gpu.torch.driver.functions, "cuLaunchKernelEx", launch)
    for size in (64, 80, 96, 112, *[128] * 8):
        counted(vector(gpu, size))
    assert [place - places[0] for place in places] == [SLOT_BYTES * number for number in range(len(places))]
    assert gpu.torch.library.names().count("cuStreamIsCapturing") == len(places)
    start = places[0]
    for size in (144, 128):
        gpu.status = 700
        with pytest.raises(px.Error):
            counted(vector(gpu, size))
        gpu.status = 0
        counted(vector(gpu, size + 16))
        assert not start <= places[-1] < start + RING * SLOT_BYTES
        start = places[-1]


def test_formats_are_the_machines_own_where_there_are_no_gaps() -> None:
    pointer, size, two = Field("Q", "p0"), Field("i", "s0_0"), Field("2s", "", b"ab")
    assert _format([pointer, Field("q", "t0_0"), size, size]) == "@Nnii"
    assert _format([size, size, pointer, two]) == "@iiN2s"
    assert _format([size, pointer]) == "<iQ" and _format([two, size]) == "<2si"


def test_a_short_way_to_tensors_that_makes_others_is_not_taken(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    guards = gpu.torch._C._dynamo.guards
    plain = guards._empty_strided_cuda
    assert torch_memory.TorchMemory(gpu.torch, 0).empty is plain
    wrong = [
        lambda shape, strides, dtype: plain(shape, strides, gpu.torch.float32),
        lambda shape, strides, dtype: plain(shape[::-1], strides, dtype),
        lambda shape, strides, dtype: plain(shape, (2, 1), dtype),
        lambda shape, strides, dtype: gpu.torch.empty_strided(shape, strides, dtype=dtype, device=1),
        lambda shape, strides, dtype, device: plain(shape, strides, dtype),
    ]
    for function in wrong:
        monkeypatch.setattr(guards, "_empty_strided_cuda", function)
        assert torch_memory.TorchMemory(gpu.torch, 0).empty is None
    monkeypatch.delattr(gpu.torch._C, "_dynamo")
    assert torch_memory.TorchMemory(gpu.torch, 0).empty is None


def test_the_short_way_is_that_of_the_current_device(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's function makes tensors on the current device: those of another one are made the long way."""
    current = [0]
    monkeypatch.setattr(gpu.torch._C, "_cuda_getDevice", lambda: current[0])
    torch_memory._memory.cache_clear()
    for number, now in enumerate((0, 0, 0, 1, 0, 1)):
        current[0] = now
        x = vector(gpu, 64 + 16 * (number % 5))
        for _ in range(1 + 7 * (number > 3)):  # by a plan, and in the end by a replay
            result = summed(x, x[:])
            assert result.get_device() == 0 and tuple(result.shape) == tuple(x.shape)
    torch_memory._memory.cache_clear()


def test_one_device_is_always_the_current_one(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nobody asks which it is; launches and results are the same, by plans and in the end by a replay."""
    monkeypatch.setattr(gpu.torch._C, "_cuda_getDeviceCount", lambda: 1, raising=False)
    torch_memory._memory.cache_clear()
    memory = torch_memory.torch_memory(0)
    assert memory.alone
    memory.current = lambda: pytest.fail("there is no other")
    for size in (64, 80, 96, *[112] * 7):
        x, y = vector(gpu, size), vector(gpu, size)
        quick = gpu.run(lambda x=x, y=y: summed(x, y))  # type: ignore[misc]
        assert whole(gpu, lambda x=x, y=y: summed(x, y)) == quick  # type: ignore[misc]
    torch_memory._memory.cache_clear()
