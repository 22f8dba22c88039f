"""A call with sizes that never came before, of a kernel that is loaded: what is done for it, and what is not done again."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.errors import Error
from phalanx.kernels.matrices import empty
from phalanx.kernels.products import tile_model
from phalanx.runtime.device import tensormap
from phalanx.runtime.launch import dispatch, specialise
from phalanx.runtime.launch.launch_list import refuse_recording
from phalanx.runtime.launch.replay import remembered
from support.fake_torch import Tensor, fake_torch_gpu


@pytest.fixture
def gpu() -> Iterator[Any]:
    with fake_torch_gpu() as torch:
        yield torch


@px.kernel(warps=1)
def scale_rows(X, Y, factor, *, B=16):
    i = px.block_id(0) * B
    px.store(Y[i : i + B], px.load(X[i : i + B]) * factor)


@px.kernel(warps=1)
def copy_tiles(X, W, Y, *, B=32):
    x, w, full = px.shared((B, B), X.dtype), px.shared((B, B), W.dtype), px.barrier(1)
    i = px.block_id(0) * B
    with full[0].transaction():
        px.tma.load(X[i : i + B, 0:B], x, full[0])
        px.tma.load(W[0:B, 0:B], w, full[0])
    full[0].wait(0)
    px.store(Y[i : i + B, 0:B], px.load(x) + px.load(w))


class Counted:
    """Calls of a function, which still does what it did."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        return self.function(*args, **options)


@pytest.fixture
def whole_ways(monkeypatch: pytest.MonkeyPatch) -> dict[str, Counted]:
    """How often a kernel was looked for by its types and constants, read, compiled, loaded, its geometry worked out."""
    places = {
        "specialise": (dispatch, "specialise"), "read": (specialise, "read_kernel"), "load": (dispatch, "load_launcher"),
        "geometry": (tensormap, "geometry"), "grid": (dispatch, "normalise_grid"),
    }  # fmt: skip
    made = {}
    for name, (module, attribute) in places.items():
        made[name] = Counted(getattr(module, attribute))
        monkeypatch.setattr(module, attribute, made[name])
    return made


def counts(ways: dict[str, Counted]) -> dict[str, int]:
    return {name: way.calls for name, way in ways.items()}


def vector(torch: Any, size: int, **how: Any) -> Tensor:
    return torch.empty((size,), torch.float32, **how)


def words(launch: Any, number: int, form: str) -> tuple[Any, ...]:
    return struct.unpack(form, launch.parameter(number, struct.calcsize(form)))


def test_other_sizes_find_the_kernel_by_its_types(gpu: Any, whole_ways: dict[str, Counted]) -> None:
    for size in (64, 80, 96, 4096):
        x, y = vector(gpu, size), vector(gpu, size)
        scale_rows[size // 16](x, y, float(size))
        launch = gpu.library.launches[-1]
        assert launch.grid == (size // 16, 1, 1)
        assert words(launch, 0, "<Qqi") == (x.data_ptr(), 1, size)
        assert words(launch, 1, "<Qqi") == (y.data_ptr(), 1, size)
        assert words(launch, 2, "f") == (float(size),)
    assert counts(whole_ways) == {"specialise": 1, "read": 1, "load": 1, "geometry": 0, "grid": 1}


def test_only_the_descriptors_that_changed_are_encoded(gpu: Any, whole_ways: dict[str, Counted]) -> None:
    weights = gpu.empty((32, 32), gpu.float32)
    for rows in (32, 64, 96):
        x, y = gpu.empty((rows, 32), gpu.float32), gpu.empty((rows, 32), gpu.float32)
        copy_tiles[rows // 32](x, weights, y)
    assert [found["dims"] for found in gpu.library.encoded] == [[32, 32], [32, 32], [32, 64], [32, 96]]
    assert counts(whole_ways) == {"specialise": 1, "read": 1, "load": 1, "geometry": 4, "grid": 1}
    other = gpu.empty((32, 32), gpu.float32)
    copy_tiles[3](x, other, y)
    assert len(gpu.library.encoded) == 5, "another address is another descriptor"


@pytest.mark.parametrize("change", ["strided", "unaligned", "ragged", "type", "constant", "float for int", "none"])
def test_other_types_and_constants_do_not(gpu: Any, whole_ways: dict[str, Counted], change: str) -> None:
    scale_rows[4](vector(gpu, 64), vector(gpu, 64), 2.0)
    x, y, factor, constants = vector(gpu, 128), vector(gpu, 128), 2.0, {}
    if change == "strided":
        x = vector(gpu, 256)[::2]
    elif change == "unaligned":
        x = vector(gpu, 128, offset=4)
    elif change == "ragged":
        x, y = vector(gpu, 130), vector(gpu, 130)
    elif change == "type":
        x = gpu.empty((128,), gpu.float16)
    elif change == "constant":
        constants = {"B": 32}
    elif change == "float for int":
        factor = 2
    elif change == "none":
        with pytest.raises(Error):
            scale_rows[4](x, None, factor)
        return
    scale_rows[4](x, y, factor, **constants)
    assert whole_ways["specialise"].calls == 2
    assert len(gpu.library.launches) == 2


def test_constants_that_are_equal_and_not_the_same(gpu: Any) -> None:
    @px.kernel(warps=1)
    def fill(X, *, VALUE, B=16):
        px.store(X[0:B], px.full((B,), VALUE, px.f32))

    for number, value in enumerate((1, 1.0, True, 0.0, -0.0), 1):
        fill[1](vector(gpu, 16 * number), VALUE=value)
        assert len(dispatch.memory_of(fill).specialisations) == number


def test_what_is_wrong_is_said_as_ever(gpu: Any) -> None:
    scale_rows[4](vector(gpu, 64), vector(gpu, 64), 2.0)
    with pytest.raises(Error, match="takes 3 run-time arguments, not 2"):
        scale_rows[4](vector(gpu, 80), vector(gpu, 80))
    with pytest.raises(Error, match="are in different places: 'X' is on CUDA device 0 and 'Y' is on CUDA device 1"):
        scale_rows[4](vector(gpu, 80), vector(gpu, 80, device=1), 2.0)
    with pytest.raises(Error, match="are in different places: 'X' is on CUDA device 0 and 'Y' is a host array"):
        scale_rows[4](vector(gpu, 80), np.zeros(80, np.float32), 2.0)
    with pytest.raises(Error, match="has 2147483648 CTAs along axis 0"):
        scale_rows[1 << 31](vector(gpu, 80), vector(gpu, 80), 2.0)
    with pytest.raises(Error, match="does not fit 64 bits"):
        scale_rows[4](vector(gpu, 80), vector(gpu, 80), 1 << 70)
    long = vector(gpu, 80)
    long.shape = (1 << 31,)
    with pytest.raises(Error, match="argument 'Y' has an axis of 2147483648 elements"):
        scale_rows[4](vector(gpu, 80), long, 2.0)
    before = len(gpu.library.launches)
    scale_rows[0](vector(gpu, 80), vector(gpu, 80), 2.0)
    assert len(gpu.library.launches) == before, "an empty grid launches nothing"


FACTOR = 2.0


@px.kernel(warps=1)
def scale_captured(X, Y, *, B=16):
    px.store(Y[0:B], px.load(X[0:B]) * FACTOR)


def test_captured_constants_are_looked_at(gpu: Any, whole_ways: dict[str, Counted], monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (16, 32):
        scale_captured[1](vector(gpu, size), vector(gpu, size))
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    scale_captured[1](vector(gpu, 48), vector(gpu, 48))
    assert whole_ways["read"].calls == 2


def test_the_choice_of_tiles_is_made_from_one_table(gpu: Any) -> None:
    weights = gpu.empty((256, 128), gpu.bfloat16)
    px.kernels.matmul(gpu.empty((512, 128), gpu.bfloat16), weights.T)
    made = tile_model.table_for.cache_info().misses
    for rows in (520, 528):
        px.kernels.matmul(gpu.empty((rows, 128), gpu.bfloat16), weights.T)
    assert tile_model.table_for.cache_info().misses == made


# Calls of the library ------------------------------------------------------------------------------------------

CALLS: list[str] = []


@remembered("x", "out")
def halves(x: Any, *, both: bool = True, out: Any = None, fills: bool = False, **options: int) -> Any:
    """Two results by way of an array in between: a call as complicated as any of the library."""
    CALLS.append("halves")
    between = empty(x, tuple(x.shape), "f32")
    if fills:
        between[...] = 0
        refuse_recording()
    first = empty(x, (2, x.shape[0] // 2), "f32").swapaxes(0, 1)
    second = empty(x, tuple(x.shape), "f32") if both else None
    grid = px.cdiv(x.shape[0], 16)
    scale_rows[grid](x, between, 2.0, **options)
    scale_rows[grid](between, first.swapaxes(0, 1).reshape(-1), 3.0, **options)
    if second is not None:
        scale_rows[grid](between, second, 4.0, **options)
    return (first, second) if out is None else (first, out)


@pytest.fixture
def calls(gpu: Any) -> list[str]:
    CALLS.clear()
    return CALLS


def pointers(launch: Any) -> list[int]:
    return [words(launch, number, "Q")[0] for number in (0, 1)]


def test_results_and_what_lies_between_are_made_anew(gpu: Any, calls: list[str]) -> None:
    seen = []
    library_launch = gpu.library._cuLaunchKernelEx
    gpu.library._cuLaunchKernelEx = lambda *given: (library_launch(*given), seen.append(pointers(gpu.library.launches[-1])))
    for _ in range(3):
        x = vector(gpu, 64)
        seen.clear()
        first, second = halves(x)
        assert (first.shape, first.stride(), second.shape) == ((32, 2), (1, 32), (64,))
        between = seen[0][1]
        assert seen == [[x.data_ptr(), between], [between, first.data_ptr()], [between, second.data_ptr()]]
        assert len({x.data_ptr(), between, first.data_ptr(), second.data_ptr()}) == 4
    assert calls == ["halves"]


def test_none_and_arguments_come_back_in_tuples(gpu: Any, calls: list[str]) -> None:
    out = vector(gpu, 64)
    for _ in range(3):
        first, second = halves(vector(gpu, 64), both=False)
        assert second is None and first.shape == (32, 2)
        assert halves(vector(gpu, 64), out=out)[1] is out
    assert len(calls) == 2


def test_what_is_filled_in_between_is_filled_each_time(gpu: Any, calls: list[str]) -> None:
    for _ in range(3):
        halves(vector(gpu, 64), fills=True)
    assert len(calls) == 3


def test_named_options_are_told_apart(gpu: Any, calls: list[str]) -> None:
    for options in ({}, {"B": 16}, {"B": 32}, {}, {"B": 32}):
        halves(vector(gpu, 64), **options)
    assert len(calls) == 3


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["quantize", "kv_compact", "gather", "pack_scales"])
def test_functions_of_the_library_are_repeated(gpu: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    scales = gpu.empty((128, 8), gpu.float8_e8m0fnu)
    cache, keep = gpu.empty((2, 32, 4, 16), gpu.float16), gpu.empty((2, 8), gpu.int32)
    calls = {
        "quantize": lambda: px.kernels.quantize(gpu.empty((128, 128), gpu.bfloat16), "mxfp8"),
        "pack_scales": lambda: px.kernels.pack_scales(scales),
        "kv_compact": lambda: px.kernels.kv_compact(cache, keep, inplace=True),
        "gather": lambda: px.kernels.gather_rows(cache[0, 0], keep[0]),
    }
    calls[name]()
    monkeypatch.setattr(dispatch.BoundLaunch, "launch", lambda *_: pytest.fail("the whole way once more"))
    before = len(gpu.library.launches)
    calls[name]()
    assert len(gpu.library.launches) == before + 1
