"""Descriptors that are packed by what the driver's own say of their layout."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.matrices import empty
from phalanx.runtime.device import map_layout as layouts
from phalanx.runtime.device.map_layout import UNIT, WORD, map_layout
from phalanx.runtime.device.tensormap import Geometry, encode
from phalanx.runtime.launch.launch_list import recording
from phalanx.runtime.launch.replay import remembered
from support.planned_calls import Watched, described, plain_argument, watched_gpu


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Watched]:
    with watched_gpu(monkeypatch, tmp_path) as found:
        yield found


def kind(rank: int) -> Geometry:
    return Geometry("bf16", (1,) * rank, (16,) * (rank - 1), (64, 32, 2, 1, 1)[:rank], 128, 256, False)


@pytest.mark.parametrize("rank", range(1, 6))
def test_what_is_packed_is_what_the_driver_encodes(gpu: Watched, rank: int) -> None:
    fixed, rng = kind(rank), random.Random(rank)
    layout = map_layout(gpu.torch.driver, fixed)
    assert layout is not None
    for _ in range(50):
        pointer = UNIT * rng.randint(1, 1 << 42)
        dims = tuple(rng.choice((1, 7, 4096, WORD - 1, WORD)) for _ in range(rank))
        strides = tuple(UNIT * rng.choice((1, 64, 12345, WORD - 1)) for _ in range(rank - 1))
        assert layout.packed(pointer, dims, strides) == encode(
            gpu.torch.driver, pointer, fixed._replace(dims=dims, byte_strides=strides)
        )


def test_the_driver_is_asked_once_for_a_kind(gpu: Watched) -> None:
    first = map_layout(gpu.torch.driver, kind(3))
    encoded = gpu.encoded
    assert map_layout(gpu.torch.driver, kind(3)) is first and gpu.encoded == encoded
    assert map_layout(gpu.torch.driver, kind(2)) is not first and gpu.encoded > encoded


def test_descriptors_that_say_nothing_have_no_layout(gpu: Watched) -> None:
    gpu.opaque = True
    assert map_layout(gpu.torch.driver, kind(3)) is None
    assert map_layout(gpu.torch.driver, kind(3)._replace(expands=True, dtype="f4e2m1")) is None


def spoilt(gpu: Watched, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """A driver whose descriptors `change` changes, given their numbers and bytes."""

    def write(out: int, told: tuple[Any, ...]) -> None:
        _, rank, _, dims, strides, *_ = told
        sizes = [int.from_bytes(dims[8 * axis : 8 * axis + 8], "little") for axis in range(rank)]
        steps = [int.from_bytes(strides[8 * axis : 8 * axis + 8], "little") for axis in range(rank - 1)]
        image = bytearray(described(*told))
        change(image, told[2], sizes, steps)
        ctypes.memmove(plain_argument(out), bytes(image), 128)

    monkeypatch.setattr(gpu, "_write", write)


@pytest.mark.parametrize("where", ["both", "far", "large", "nowhere", "product", "counted"])
def test_fields_that_depend_on_each_other_are_noticed(gpu: Watched, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Such as another bit where two sizes are large, or where one is beyond 24 bits."""

    def change(image: bytearray, pointer: int, sizes: list[int], steps: list[int]) -> None:
        if where == "both":
            image[100] ^= sizes[0] > 1 << 20 and sizes[1] > 1 << 20
        elif where == "far":
            image[100] ^= pointer > 1 << 40 and steps[0] > 1 << 30
        elif where == "large":
            image[3] ^= sizes[2] >= 1 << 28
        elif where == "nowhere":
            image[36:40] = bytes(4)
        elif where == "product":
            image[110:118] = (sizes[0] * sizes[1]).to_bytes(8, "little")
        else:
            image[32] = (image[32] + 1) % 256

    spoilt(gpu, monkeypatch, change)
    assert map_layout(gpu.torch.driver, kind(3)) is None


def test_a_driver_that_refuses_samples_has_none(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gpu.torch.driver.functions, "cuTensorMapEncodeTiled", lambda *_: 1)
    assert map_layout(gpu.torch.driver, kind(2)) is None
    monkeypatch.setattr(layouts, "SAMPLES", 4)
    asked = iter(range(1000))
    plain = gpu._encode
    monkeypatch.setitem(
        gpu.torch.driver.functions, "cuTensorMapEncodeTiled", lambda *given: plain(*given) if next(asked) < 5 else 1
    )
    assert map_layout(gpu.torch.driver, kind(2)._replace(swizzle=64)) is None, "one of four is not enough"


@px.kernel(warps=1)
def load_block(X, Y):
    tile, full = px.shared((16, 32), X.dtype), px.barrier()
    with full.transaction():
        px.tma.load(X[0:16, 0:32], tile, full)
    full.wait(0)
    px.store(Y[0:16, 0:32], px.load(tile))


@remembered("x")
def loaded(x: Any) -> Any:
    y = empty(x, (16, 32), "f32")
    load_block[1](x, y)
    return y


def test_strides_beyond_a_word_take_the_whole_way(gpu: Watched) -> None:
    """Rows 64 GB and more apart: their descriptors come from the driver, and those of others are packed again after them."""
    for number, step in enumerate((64, 128, 192, 1 << 34, (1 << 34) + 64, 256, 1 << 35, 320)):
        x = gpu.torch.empty_strided((16, 32), (step, 1), dtype=gpu.torch.float32)
        before = gpu.encoded
        quick = gpu.run(lambda x=x: loaded(x))  # type: ignore[misc]
        assert number < 2 or (gpu.encoded > before) is (step >= 1 << 34)
        with recording():
            assert gpu.run(lambda x=x: loaded(x)) == quick, step  # type: ignore[misc]
    (plan,) = loaded.memory.plans.values()
    assert plan.why == ["NotPlanned: the function does not repeat itself"] * 3


def test_descriptors_whose_fields_lie_elsewhere(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(image: bytearray, pointer: int, sizes: list[int], steps: list[int]) -> None:
        image[:] = image[-8:] + image[:-8]

    spoilt(gpu, monkeypatch, change)
    for step in (64, 128, 192, 256):
        x = gpu.torch.empty_strided((16, 32), (step, 1), dtype=gpu.torch.float32)
        quick = gpu.run(lambda x=x: loaded(x))  # type: ignore[misc]
        with recording():
            assert gpu.run(lambda x=x: loaded(x)) == quick  # type: ignore[misc]


def test_nothing_is_planned_where_nobody_knows_the_layout(gpu: Watched) -> None:
    gpu.opaque = True
    for step in (64, 128, 192, 256):
        x = gpu.torch.empty_strided((16, 32), (step, 1), dtype=gpu.torch.float32)
        quick = gpu.run(lambda x=x: loaded(x))  # type: ignore[misc]
        with recording():
            assert gpu.run(lambda x=x: loaded(x)) == quick  # type: ignore[misc]
    (plan,) = loaded.memory.plans.values()
    assert plan.why == ["NotPlanned: nobody knows where the driver's descriptors have their numbers"] * 3
