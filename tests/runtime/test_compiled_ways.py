"""Ways that are compiled: for arrays that are alike or not, with counters, on any stream, device and thread."""

from __future__ import annotations

import ctypes
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.matrices import empty
from phalanx.runtime.device import torch_memory
from phalanx.runtime.device.counters import RING, SLOT_BYTES
from phalanx.runtime.launch import replay
from phalanx.runtime.launch.launch_list import recording
from phalanx.runtime.launch.replay import remembered
from phalanx.runtime.planning import plans
from phalanx.runtime.planning.compiled_ways import Kind
from support.fake_driver import plain_argument
from support.planned_calls import Watched, watched_gpu


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Watched]:
    monkeypatch.setattr(replay, "PLANNED_TIMES", 4)
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


def test_arrays_alike_and_not(gpu: Watched) -> None:
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


@px.kernel(warps=1)
def add_blocks(X, Y, Z, rows):
    ring, full = px.shared((2, 16, 32), X.dtype), px.barrier()
    i, j = px.block_id(0) * 16, px.block_id(1) * 32
    with full.transaction():
        px.tma.load(X[i : i + 16, j : j + 32], ring[0], full)
        px.tma.load(Y[i : i + 16, j : j + 32], ring[1], full)
    full.wait(0)
    if rows > 0:
        px.store(Z[i : i + 16, j : j + 32], px.load(ring[0]) + px.load(ring[1]))


@remembered("x", "y")
def added(x: Any, y: Any, *, turned: bool = False) -> Any:
    """The rows of both that there are; wide ones by another way."""
    result = empty(x, (min(x.shape[0], y.shape[0]), min(x.shape[1], y.shape[1])), "f32")
    rows = result.shape[0] if x.shape[1] < 256 else result.shape[0] + 1
    add_blocks[px.cdiv(result.shape[0], 16), px.cdiv(result.shape[1], 32)](x, y, result, rows)
    return result


def pair(gpu: Watched, rng: random.Random) -> tuple[Any, Any]:
    """Two matrices: alike, or of another height, or with gaps between the rows of the second."""
    rows, columns = rng.randint(1, 9) * 16 + rng.randint(0, 7), rng.choice((64, 96, 512))
    how = rng.choice(("alike", "alike", "alike", "higher", "apart"))
    x = gpu.torch.distinct((rows, columns), gpu.torch.float32)
    size = rows + 5 * (how == "higher"), columns + 32 * (how == "apart")
    y = gpu.torch.distinct(size, gpu.torch.float32)
    return x, y[:, :columns] if how == "apart" else y


@pytest.mark.parametrize("most", [0, 1, 8])
def test_arrays_alike_and_unlike_get_the_descriptors_of_the_whole_way(
    gpu: Watched, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """In any order, and where there are more manners of likeness than trees for them."""
    monkeypatch.setattr(plans, "MOST_ALIKE", most)
    rng = random.Random(811)
    for number in range(60):
        x, y = pair(gpu, rng)
        quick = gpu.run(lambda x=x, y=y: added(x, y))  # type: ignore[misc]
        with recording():
            wanted = gpu.run(lambda x=x, y=y: added(x, y))  # type: ignore[misc]
        assert quick == wanted, f"call {number}"
    (plan,) = added.memory.plans.values()
    assert set(plan.trees) == ({(0, 1)} if most == 0 else {(0, 0), (0, 1)}) and not plan.why
    assert sum(len(tree.ways) for tree in plan.trees.values()) >= 2


def test_which_arrays_are_alike() -> None:
    one, other = ("bf16", (4, 8), (8, 1), 0, 0), ("bf16", (4, 8), (16, 1), 0, 0)
    rest = (None, ("f32", (4, 8), (8, 1), 0, 0), ("bf16", (4,), (1,), 0, 0))
    kind = Kind([2, 2, None, 2, 1], ["bf16", "bf16", None, "f32", "bf16"], 1)
    same, apart = (None, one, one, *rest), (None, one, other, *rest)
    assert (kind.alike(same), kind.alike(apart)) == ((0, 0, 2, 3, 4), (0, 1, 2, 3, 4))
    holds = kind.holds((0, 0, 2, 3, 4))
    assert holds(same) and not holds(apart) and kind.holds((0, 1, 2, 3, 4))(same)
    assert kind.names((0, 0, 2, 3, 4))[5:9] == ("s0_0", "s0_1", "p0_0", "p0_1")
    assert kind.values((0, 0, 2, 3, 4))(same, (1, 2, 0, 3, 4))[:9] == (1, 2, 0, 3, 4, 4, 8, 8, 1)
