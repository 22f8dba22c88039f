"""Remembered calls: what is launched when a geometry comes again, and when it does not."""

from __future__ import annotations

import gc
import struct
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.kernels.matrices import empty
from phalanx.kernels.products.matmul import matmul
from phalanx.kernels.rowwise.cross_entropy import cross_entropy, losses_of, sum_of_rows
from phalanx.kernels.rowwise.norms import rms_norm
from phalanx.kernels.rowwise.softmax import softmax
from phalanx.runtime.device import arrays
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.launch import memory as module
from phalanx.runtime.launch.replay import remembered
from support.views_of_fakes import Tensor, aligned


@pytest.fixture
def gpu(torch: Any, library: Any, driver: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The fake torch with tensors that have views, on the fake driver; nothing is remembered before or after."""
    torch.Tensor = Tensor

    def new(shape: tuple[int, ...], dtype: Any = None, device: int = 0, offset: int = 0) -> Tensor:
        kinds = {"float32": np.float32, "float16": np.float16, "bfloat16": np.int16, "int64": np.int64, "uint8": np.uint8}
        kind = kinds[dtype.name]
        return Tensor(aligned(shape, kind, offset), dtype, device)

    torch.empty, torch.empty_like = new, lambda x: new(x.shape, x.dtype, x.device)
    torch.empty_strided = lambda shape, strides, dtype, device: new(shape, dtype, device)
    torch.library, torch.is_grad_enabled = library, lambda: False
    monkeypatch.setattr(cuda, "get_driver", lambda: driver)
    monkeypatch.setattr("phalanx.runtime.launch.launcher.cuda.get_driver", lambda: driver)
    module.forget()
    yield torch
    module.forget()


@px.kernel(warps=1)
def scale_rows(X, Y, factor, *, B=16):
    i = px.block_id(0) * B
    px.store(Y[i : i + B], px.load(X[i : i + B]) * factor)


CALLS: list[Any] = []


@remembered("x", "out", writes={"out": "out is not None"})
def scaled(x: Any, factor: float = 2.0, *, out: Any = None) -> Any:
    """A library function as small as can be."""
    CALLS.append(x)
    result = empty(x, tuple(x.shape), "f32") if out is None else out
    scale_rows[px.cdiv(x.shape[0], 16)](x, result, float(factor))
    return result


@pytest.fixture
def calls(gpu: Any) -> list[Any]:
    CALLS.clear()
    return CALLS


def vector(torch: Any, size: int = 64, **how: Any) -> Tensor:
    return torch.empty((size,), torch.float32, **how)


def pointers(launch: Any, *numbers: int) -> list[int]:
    """The addresses of a launch's arguments, as the driver reads them."""
    return [struct.unpack("Q", launch.parameter(number, 8))[0] for number in numbers]


def runs_of(calls: list[Any]) -> list[Any]:
    """The calls that ran: a second geometry is also traced, for the sizes to come (`runtime.planning`)."""
    return [x for x in calls if isinstance(x, Tensor)]


def test_a_known_geometry_launches_without_the_function(gpu: Any, calls: list[Any]) -> None:
    for _ in range(3):
        x = vector(gpu)
        y = scaled(x)
        launch = gpu.library.launches[-1]
        assert pointers(launch, 0, 1) == [x.data_ptr(), y.data_ptr()]
        assert struct.unpack("f", launch.parameter(2, 4)) == (2.0,)
        assert (launch.grid, y.shape, y.dtype) == ((4, 1, 1), (64,), gpu.float32)
    assert len(calls) == 1 and len(gpu.library.launches) == 3


def test_out_is_given_back(gpu: Any, calls: list[Any]) -> None:
    for _ in range(2):
        x, out = vector(gpu), vector(gpu)
        assert scaled(x, out=out) is out
        assert pointers(gpu.library.launches[-1], 0, 1) == [x.data_ptr(), out.data_ptr()]
    assert len(calls) == 1


def test_geometries_do_not_disturb_each_other(gpu: Any, calls: list[Any]) -> None:
    for _ in range(2):
        for size in (64, 80):
            x = vector(gpu, size)
            y = scaled(x)
            assert gpu.library.launches[-1].grid == (size // 16, 1, 1)
            assert pointers(gpu.library.launches[-1], 0, 1) == [x.data_ptr(), y.data_ptr()]
    assert len(runs_of(calls)) == 2


def test_torch_counts_versions_of_what_is_written_alone(gpu: Any, calls: list[Any]) -> None:
    """The whole way, and as a replay."""
    for _ in range(3):
        x, out = vector(gpu), vector(gpu)
        gpu.counted.clear()
        scaled(x, out=out)
        assert out in gpu.counted and x not in gpu.counted
    gpu.counted.clear()
    scaled(x)
    assert x not in gpu.counted


@pytest.mark.parametrize("change", ["size", "stride", "alignment", "device", "option", "type of option", "out"])
def test_another_geometry_goes_the_whole_way(gpu: Any, calls: list[Any], change: str) -> None:
    scaled(vector(gpu))
    x, options = vector(gpu), {}
    if change == "size":
        x = vector(gpu, 48)
    elif change == "stride":
        x = vector(gpu, 128)[::2]
    elif change == "alignment":
        x = vector(gpu, offset=4)
    elif change == "device":
        x = vector(gpu, device=1)
    elif change == "option":
        options = {"factor": 3.0}
    elif change == "type of option":
        options = {"factor": 2}
    elif change == "out":
        options = {"out": vector(gpu)}
    scaled(x, **options)
    assert len(runs_of(calls)) == 2
    scaled(x, **options)
    assert len(runs_of(calls)) == 2


def test_a_gradient_is_never_dropped(gpu: Any, calls: list[Any]) -> None:
    recording = True
    gpu.is_grad_enabled = lambda: recording
    for known in (False, True):
        tracked = vector(gpu)
        tracked.requires_grad = True
        with pytest.raises(px.Error) as caught:
            scaled(tracked)
        assert str(caught.value).splitlines()[0] == (
            "x requires grad, and px.kernels computes no gradients: this one would be lost"
        )
        assert caught.value.remedy == (
            "px.torch has this with gradients; or call it under torch.no_grad(), or pass x.detach()"
        )
        assert caught.value.location.file == __file__
        if not known:
            scaled(vector(gpu))  # from now on that geometry is known
    recording = False
    scaled(tracked)
    assert len(calls) == 1 and len(gpu.library.launches) == 2


@pytest.mark.share(2)
@pytest.mark.parametrize("scale", [None, 2.0])
def test_a_product_drops_no_gradient(gpu: Any, scale: Any) -> None:
    gpu.is_grad_enabled = lambda: True
    a, b = gpu.empty((64, 64), gpu.float16), gpu.empty((64, 64), gpu.float16)
    matmul(a, b, scale_a=scale)
    b.requires_grad = True
    with pytest.raises(px.Error, match="b requires grad"):
        matmul(a, b, scale_a=scale)


def test_another_element_type(gpu: Any) -> None:
    x = gpu.empty((8, 64), gpu.float32)
    softmax(x)
    y = softmax(gpu.empty((8, 64), gpu.float16))
    assert y.dtype is gpu.float16
    assert len(softmax.remembered) == 2 and all(softmax.remembered.values())


def test_arguments_that_share_an_address_are_repeated(gpu: Any, calls: list[Any]) -> None:
    for _ in range(3):
        x = vector(gpu)
        assert scaled(x, out=x) is x
        assert pointers(gpu.library.launches[-1], 0, 1) == [x.data_ptr()] * 2
    assert len(calls) == 1 and all(scaled.remembered.values())


@pytest.mark.parametrize("first", [True, False])
def test_calls_that_share_other_addresses_are_other_calls(gpu: Any, calls: list[Any], first: bool) -> None:
    for shared in (first, not first) * 3:
        x = vector(gpu)
        out = x if shared else vector(gpu)
        assert scaled(x, out=out) is out
        assert pointers(gpu.library.launches[-1], 0, 1) == [x.data_ptr(), out.data_ptr()]
    assert len(runs_of(calls)) == 2 == len(scaled.remembered)


@px.kernel(warps=1)
def add_rows(X, Y, Z, OUT, *, B=16):
    i = px.block_id(0) * B
    px.store(OUT[i : i + B], px.load(X[i : i + B]) + px.load(Y[i : i + B]) * 2 + px.load(Z[i : i + B]) * 3)


@remembered("x", "y", "z")
def added(x: Any, y: Any, z: Any) -> Any:
    """A function that tells which of its arguments is which."""
    CALLS.append(x)
    result = empty(x, tuple(x.shape), "f32")
    add_rows[px.cdiv(x.shape[0], 16)](x, y, z, result)
    return result


def test_every_pattern_of_addresses_has_its_own_pointers(gpu: Any, calls: list[Any]) -> None:
    patterns = ("xxx", "xxy", "xyx", "xyy", "xyz")
    for _ in range(3):
        for pattern in patterns:
            made = {name: vector(gpu) for name in pattern}
            given = [made[name] for name in pattern]
            result = added(*given)
            assert pointers(gpu.library.launches[-1], 0, 1, 2, 3) == [x.data_ptr() for x in (*given, result)]
    assert len(runs_of(calls)) == 2 and len(added.remembered) == len(patterns)  # from the third on by a plan


def test_a_square_of_a_matrix_is_repeated(gpu: Any) -> None:
    """Both operands are the same memory, one of them transposed."""
    for _ in range(3):
        x, made = gpu.empty((256, 256), gpu.bfloat16), len(gpu.library.launches)
        matmul(x, x.swapaxes(0, 1))
        assert len(gpu.library.launches) > made
    assert len(matmul.remembered) == 1 and all(matmul.remembered.values())


def test_a_known_product_does_not_write_where_it_reads(gpu: Any) -> None:
    """That a product into another array came before does not let one into its own operand pass."""
    a, b = gpu.empty((256, 256), gpu.bfloat16), gpu.empty((256, 256), gpu.bfloat16)
    for _ in range(3):
        matmul(a, b, out=gpu.empty((256, 256), gpu.bfloat16))
    with pytest.raises(px.Error, match="out is where b is"):
        matmul(a, b, out=b)


@pytest.mark.parametrize("factor", [0.0, float("nan")])
def test_options_that_equal_others_are_not_looked_up(gpu: Any, calls: list[Any], factor: float) -> None:
    for value in (factor, -factor):
        scaled(vector(gpu), value)
        assert gpu.library.launches[-1].parameter(2, 4) == struct.pack("f", value)
    assert len(calls) == 2


def test_copies_are_made_each_time(gpu: Any) -> None:
    x = gpu.empty((64, 40), gpu.float32)[:, ::2]
    for _ in range(2):
        softmax(x)
        assert pointers(gpu.library.launches[-1], 0) != [x.data_ptr()]
    assert list(softmax.remembered.values()) == [False]


def test_streams(gpu: Any, calls: list[Any]) -> None:
    for stream in (0, 0, 77, 77, 0):
        gpu.streams[0] = stream
        scaled(vector(gpu))
        assert gpu.library.launches[-1].stream == stream
    assert len(calls) == 1


def test_simulated_arrays_are_not_remembered(gpu: Any, calls: list[Any]) -> None:
    x = np.ones(32, np.float32)
    assert np.array_equal(scaled(x), 2 * x)
    assert not scaled.remembered


def test_errors_name_the_caller(gpu: Any) -> None:
    with pytest.raises(px.Error) as caught:
        rms_norm(gpu.empty((8, 64), gpu.float32), gpu.empty((63,), gpu.float32))
    assert caught.value.location.file == __file__


@pytest.mark.parametrize(
    "call",
    [
        lambda: px.kernels.softmax(np.ones((4, 64), np.complex64)),
        lambda: px.kernels.matmul(np.ones((8, 64), np.float16), np.ones((8, 65), np.float16)),
        lambda: px.kernels.attention(*[np.ones((1, 1, 8, 64), np.float16)] * 3, window=3),
        lambda: px.kernels.rms_norm(np.ones((4, 64), np.float32), eps="small"),
        lambda: px.kernels.gather_rows(np.ones((4, 64), np.float32), "abc"),
    ],
)  # fmt: skip
def test_errors_for_numpy_arrays_come_alone(call: Any) -> None:
    """Looking for tensors fails for what are none; that is no part of the user's mistake."""
    with pytest.raises(px.Error) as caught:
        call()
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_a_failed_launch_is_tried_in_the_right_context(gpu: Any, calls: list[Any]) -> None:
    scaled(vector(gpu))
    gpu.library.failures["cuLaunchKernelEx"] = [cuda.INVALID_CONTEXT]
    scaled(vector(gpu))
    assert len(gpu.library.launches) == 2
    gpu.library.failures["cuLaunchKernelEx"] = [700]
    with pytest.raises(px.Error, match="launch of scale_rows"):
        scaled(vector(gpu))


def test_only_so_many_are_kept(gpu: Any, calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaled.memory, "limit", 2)
    for size in (16, 32, 48):
        scaled(vector(gpu, size))
    assert len(scaled.remembered) == 1


def test_threads(gpu: Any, calls: list[Any]) -> None:
    """Every launch has the pointers of its own call."""
    pairs, seen = [], []
    lock = threading.Lock()

    def record(config: int, function: int, parameters: int, extra: Any) -> None:
        from support.fake_driver import Launch

        seen.append(tuple(pointers(Launch(config, function, parameters), 0, 1)))

    scaled(vector(gpu))
    gpu.library._cuLaunchKernelEx = record

    def work() -> None:
        for _ in range(50):
            x, out = vector(gpu), vector(gpu)
            scaled(x, out=out)
            with lock:
                pairs.append((x, out))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted((x.data_ptr(), out.data_ptr()) for x, out in pairs)


FACTOR = 3.0


@px.kernel(warps=1)
def scale_captured(X, Y, *, B=16):
    i = px.block_id(0) * B
    px.store(Y[i : i + B], px.load(X[i : i + B]) * FACTOR)


def test_captured_constants_are_looked_at(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    @remembered("x")
    def scaled_captured(x: Any) -> Any:
        runs.append(x)
        result = empty(x, tuple(x.shape), "f32")
        scale_captured[1](x, result)
        return result

    for _ in range(2):
        scaled_captured(vector(gpu, 16))
    assert len(runs) == 1
    monkeypatch.setattr(f"{__name__}.FACTOR", 4.0)
    for _ in range(3):
        scaled_captured(vector(gpu, 16))
    assert len(runs) == 3


def test_rows(gpu: Any) -> None:
    """Views of the arguments are no copies: a call is remembered with them."""
    for _ in range(2):
        x, weight = gpu.empty((2, 3, 64), gpu.float32), gpu.empty((64,), gpu.float32)
        y = rms_norm(x, weight)
        assert y.shape == (2, 3, 64)
        assert pointers(gpu.library.launches[-1], 0, 1, 2) == [x.data_ptr(), weight.data_ptr(), y.data_ptr()]
    assert len(rms_norm.remembered) == 1 and all(rms_norm.remembered.values())
    rms_norm(gpu.empty((2, 3, 64), gpu.float32))  # without the weight
    assert len(rms_norm.remembered) == 2


def test_losses(gpu: Any) -> None:
    for _ in range(2):
        x, targets = gpu.empty((2, 3, 64), gpu.float32), gpu.empty((2, 3), gpu.int64)
        y = cross_entropy(x, targets, reduction="none")
        assert y.shape == (2, 3)
        places = pointers(gpu.library.launches[-1], 0, 1, 2, 3)
        assert places == [x.data_ptr(), x.data_ptr(), targets.data_ptr(), y.data_ptr()]
    assert len(cross_entropy.remembered) == 1 and all(cross_entropy.remembered.values())
    cross_entropy(x, targets, reduction="none", ignore_index=7)
    assert len(cross_entropy.remembered) == 2


def test_a_mean_is_made_by_the_launch_behind_the_losses(gpu: Any) -> None:
    for _ in range(3):
        x, targets = gpu.empty((6, 64), gpu.float32), gpu.empty((6,), gpu.int64)
        before = len(gpu.library.launches)
        y = cross_entropy(x, targets)
        assert y.shape == () and len(gpu.library.launches) == before + 2
        assert pointers(gpu.library.launches[-1], 1) == [y.data_ptr()]
    assert all(cross_entropy.remembered.values()) and not sum_of_rows.remembered
    x, targets = gpu.empty((3, 50_000), gpu.float32), gpu.empty((3,), gpu.int64)
    for _ in range(3):
        before = len(gpu.library.launches)
        y = cross_entropy(x, targets)
        assert y.shape == () and len(gpu.library.launches) == before + 3  # rows in pieces, which are joined
        assert pointers(gpu.library.launches[-1], 1, 2) == [targets.data_ptr(), y.data_ptr()]
    assert all(cross_entropy.remembered.values()) and not losses_of.remembered


def test_products(gpu: Any) -> None:
    """A transposed operand is passed as it lies, and each array's descriptor is of its own address."""
    for turn in range(3):
        a, b = gpu.empty((64, 1024), gpu.bfloat16), gpu.empty((64, 1024), gpu.bfloat16).swapaxes(0, 1)
        bias = gpu.empty((64,), gpu.bfloat16)
        before = len(gpu.library.encoded)
        c = matmul(a, b, bias)
        assert pointers(gpu.library.launches[-1], 0, 1, 2, 3) == [x.data_ptr() for x in (a, b, c, bias)]
        if turn:
            encoded = {entry["pointer"] for entry in gpu.library.encoded[before:]}
            assert encoded <= {x.data_ptr() for x in (a, b, c)}
    assert len(matmul.remembered) == 1 and all(matmul.remembered.values())


@pytest.fixture
def described(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arrays that were read, each as often as it was: whether its description was asked for more often or not."""
    seen: list[Any] = []

    def counting(read: Any) -> Any:
        def described(x: Any) -> Any:
            seen.append(x)
            return read(x)

        return described

    for kind, read in list(arrays._READERS.items()):
        monkeypatch.setitem(arrays._READERS, kind, counting(read))
    monkeypatch.setattr(arrays, "_READER_OF", arrays._ReaderOf())
    return seen


def times(seen: list[Any], *wanted: Any) -> list[int]:
    return [sum(x is y for y in seen) for x in wanted]


def test_a_product_describes_each_tensor_once(gpu: Any, described: list[Any]) -> None:
    a, b, bias = gpu.empty((64, 64), gpu.bfloat16), gpu.empty((64, 64), gpu.bfloat16), gpu.empty((64,), gpu.bfloat16)
    out = gpu.empty((64, 64), gpu.bfloat16)
    matmul(a, b, bias, out=out)
    assert times(described, a, b, bias, out) == [1, 1, 1, 1]
    assert max(times(described, *described)) == 1, "nor any view of them twice"
    described.clear()
    matmul(a, b, bias, out=out)
    assert not described, "a known geometry is compared, not described"


def test_a_result_is_described_once(gpu: Any, described: list[Any]) -> None:
    x = gpu.empty((8, 64), gpu.float32)
    y = softmax(x)
    assert times(described, x, y) == [1, 1]


def test_a_launch_describes_each_tensor_once(gpu: Any, described: list[Any]) -> None:
    x, y = vector(gpu), vector(gpu)
    scale_rows[4](x, y, 2.0)
    assert times(described, x, y) == [1, 1]
    scale_rows[4](x, y, 3.0)
    assert times(described, x, y) == [1, 1]


def test_the_simulator_describes_each_array_once(gpu: Any, described: list[Any]) -> None:
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    scale_rows[4](x, y, 2.0)
    assert times(described, x, y) == [1, 1]
    a, b = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)
    c = matmul(a, b)
    assert times(described, a, b, c) == [1, 1, 1]


def test_one_memory_is_forgotten_at_once(gpu: Any, calls: list[Any]) -> None:
    x, y = vector(gpu), vector(gpu)
    for _ in range(3):
        scale_rows[4](x, y, 2.0)
    scaled(x)
    bound, memory = scale_rows[4], module.memory_of(scale_rows)
    assert memory.kept and memory.latest and memory.specialisations and bound.last is not None
    module.forget()
    assert not (memory.kept or memory.latest or memory.specialisations or memory.bound or scaled.remembered)
    assert bound.last is None and scale_rows[4] is not bound and module.memory_of(scale_rows) is memory
    bound(x, y, 2.0)
    assert pointers(gpu.library.launches[-1], 0, 1) == [x.data_ptr(), y.data_ptr()]


def test_memory_goes_with_its_kernel(gpu: Any) -> None:
    @px.kernel(warps=1)
    def short_lived(X):
        px.store(X[0], 1.0)

    short_lived[1](vector(gpu))
    memory, kernel = (weakref.ref(x) for x in (module.memory_of(short_lived), short_lived))
    del short_lived
    gc.collect()
    assert memory() is None and kernel() is None


@px.kernel(warps=4)
def product(A, B, C):
    acc = px.zeros((64, 64), px.f32)
    for k in px.pipelined(range(0, A.shape[1], 64)):
        acc = px.dot(px.load(A[0:64, k : k + 64]), px.load(B[0:64, k : k + 64]).T, acc)
    px.store(C[0:64, 0:64], acc)


@pytest.mark.parametrize("order", [(0, 128, 0), (128, 0, 128)])
def test_empty_arrays_select_the_plain_loop_each_time(gpu: Any, order: tuple[int, ...]) -> None:
    """No tensor map describes them. What was launched for the others is not repeated for them, nor the other way round."""
    c, kept = gpu.empty((64, 64), gpu.float32), []
    bound = product[1]
    for depth in [depth for depth in order for _ in range(2)]:
        a, b = (gpu.empty((64, 128), gpu.float16)[:, :depth] for _ in range(2))
        kept += [a, b]  # so that no address comes again
        before = len(gpu.library.encoded)
        bound(a, b, c)
        assert (len(gpu.library.encoded) > before) == (depth > 0), "the copy engine takes part where there is something"
    assert len(gpu.library.launches) == 2 * len(order)


def test_calls_make_no_cells(gpu: Any) -> None:
    """Variables that a function within another uses are cells, which each call would make and drop."""

    @remembered("x")
    def given(x: Any, first: int = 1, *, second: float = 2.0, **others: Any) -> Any:
        seen.append((first, second, others))
        return scaled(x, second)

    seen: list[Any] = []
    assert not given.__code__.co_cellvars
    for size in (32, 48, 64):
        for _ in range(2):
            given(gpu.empty((size,), gpu.float32), 7, second=3.0, third=5)
    assert seen and all(found == (7, 3.0, {"third": 5}) for found in seen)
