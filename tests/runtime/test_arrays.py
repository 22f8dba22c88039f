"""Describing arguments: NumPy, ml_dtypes, torch, CuPy, the CUDA array interface, DLPack, scalars."""

from __future__ import annotations

import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
from phalanx.errors import Error
from phalanx.runtime.device import arrays, host_copies
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device.arrays import (
    DTYPE_NAMES,
    ITEM_BYTES,
    ArrayInfo,
    call_key,
    dense_strides,
    describe,
    numpy_dtype,
    scalar_dtype,
)
from phalanx.runtime.device.host_copies import put_back, to_host
from phalanx.runtime.device.streams import current_stream


def test_numpy_array_and_views() -> None:
    x = np.zeros((6, 10), np.float32)
    assert describe(x) == ArrayInfo("host", -1, x.ctypes.data, (6, 10), (10, 1), "f32")
    view = x[1::2, 4:1:-1]
    assert describe(view) == ArrayInfo("host", -1, view.ctypes.data, (3, 3), (20, -1), "f32")
    transposed = describe(x.T)
    assert transposed is not None and transposed.strides == (1, 10)


@pytest.mark.parametrize("name", sorted(DTYPE_NAMES))
def test_every_dtype_has_a_name_and_a_size(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    info = describe(np.zeros(4, dtype))
    assert info is not None
    assert info.dtype_name == DTYPE_NAMES[name]
    assert ITEM_BYTES[info.dtype_name] == dtype.itemsize
    assert numpy_dtype(info.dtype_name) == dtype


@pytest.mark.parametrize("dtype", ["complex64", ">f4", "M8[s]", "S4", "O", ml_dtypes.float8_e4m3])
def test_other_dtypes_are_refused(dtype: Any) -> None:
    with pytest.raises(Error, match="can't be kernel arguments") as error:
        describe(np.zeros(3, dtype))
    assert "bf16" in (error.value.remedy or "")


def test_strides_that_are_no_whole_elements() -> None:
    records = np.zeros(4, np.dtype([("a", "u1"), ("b", "<f4")]))
    with pytest.raises(Error, match="does not step in whole elements"):
        describe(records["b"])


@pytest.mark.parametrize(
    ("pointer", "shape", "strides", "dtype", "contiguous_inner", "aligned16"),
    [
        (0x100, (4, 8), (8, 1), "f32", True, True),
        (0x108, (4, 8), (8, 1), "f32", True, False),
        (0x100, (4, 6), (6, 1), "f32", True, False),
        (0x100, (4, 8), (8, 1), "bf16", True, True),
        (0x100, (4, 8), (4, 1), "bf16", True, False),
        (0x100, (4, 8), (16, 2), "f32", False, True),
        (0x100, (4, 1), (4, 9), "f32", True, True),  # one element per row: its stride is never used
        (0x100, (1, 8), (3, 1), "f32", True, True),  # one row
        (0x100, (4, 8), (0, 1), "f32", True, True),  # broadcast
        (0x100, (8,), (1,), "i8", True, True),
        (0x100, (8,), (2,), "i8", False, True),
        (0x100, (), (), "f32", True, True),
        (0x104, (), (), "f32", True, False),
        (0, (0, 8), (8, 1), "f32", True, True),
    ],
)
def test_specialising_facts(
    pointer: int, shape: Any, strides: Any, dtype: str, contiguous_inner: bool, aligned16: bool
) -> None:
    info = ArrayInfo("cuda", 0, pointer, shape, strides, dtype)
    assert (info.contiguous_inner, info.aligned16) == (contiguous_inner, aligned16)


@pytest.mark.parametrize("shape", [(0, 64), (64, 0), (0, 0), (0,), (3, 0, 64)])
def test_an_array_without_elements_lies_well(shape: tuple[int, ...]) -> None:
    """NumPy's strides of it are all 0, which no copy could take."""
    info = describe(np.zeros(shape, np.float32))
    assert info is not None and info.contiguous_inner and info.aligned16 and info.whole_rows
    assert info.facts == describe(np.zeros([max(size, 64) for size in shape], np.float32)).facts  # type: ignore[union-attr]


def test_torch(torch: Any) -> None:
    x = torch.Tensor(0x1000, (4, 8), (8, 1), "bfloat16", device=1)
    assert describe(x) == ArrayInfo("cuda", 1, 0x1000, (4, 8), (8, 1), "bf16")
    host = torch.Tensor(0x1000, (4,), (1,), device=-1)
    assert describe(host) == ArrayInfo("host", -1, 0x1000, (4,), (1,), "f32")
    with pytest.raises(Error, match="complex64"):
        describe(torch.Tensor(0, (), (), "complex64"))


def test_torch_subclass_and_stream(torch: Any) -> None:
    class Parameter(torch.Tensor):
        pass

    x = Parameter(0x1000, (4,), (1,), device=1)
    assert describe(x) is not None
    torch.streams[1] = 77
    assert current_stream(x) == 77


class FakeCupy:
    """cupy.ndarray as far as it is looked at."""

    def __init__(self, pointer: int, host: np.ndarray) -> None:
        self.data, self.device = types.SimpleNamespace(ptr=pointer), types.SimpleNamespace(id=1)
        self.shape, self.strides, self.dtype = host.shape, host.strides, host.dtype
        self._host = host

    def get(self) -> np.ndarray:
        return self._host


FakeCupy.__name__, FakeCupy.__module__ = "ndarray", "cupy._core.core"


def test_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    host = np.arange(12, dtype=np.int16).reshape(3, 4)
    x = FakeCupy(0x2000, host)
    assert describe(x) == ArrayInfo("cuda", 1, 0x2000, (3, 4), (4, 1), "i16")
    assert to_host(x) is host
    module: Any = types.ModuleType("cupy")
    module.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=55))
    monkeypatch.setitem(sys.modules, "cupy", module)
    assert current_stream(x) == 55


class WithInterface:
    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "typestr": "<f4", "shape": (2, 3), "data": (0x3000, False), **self.fields}


def test_cuda_array_interface(driver: cuda.Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "get_driver", lambda: driver)
    assert describe(WithInterface()) == ArrayInfo("cuda", 0, 0x3000, (2, 3), (3, 1), "f32")
    other = WithInterface(data=(1 << 40, True), strides=(32, 8), typestr="<f8")
    assert describe(other) == ArrayInfo("cuda", 1, 1 << 40, (2, 3), (4, 1), "f64")
    empty = WithInterface(data=(None, False), shape=(0, 3))
    assert describe(empty) == ArrayInfo("cuda", 0, 0, (0, 3), (3, 1), "f32")
    assert current_stream(WithInterface()) == 0
    assert current_stream(WithInterface(stream=None)) == 0
    assert current_stream(WithInterface(stream=1)) == 1


class WithDlpack:
    """An array known by DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_dlpack() -> None:
    base = np.arange(40, dtype=np.float16).reshape(5, 8)
    x = WithDlpack(base[1:, ::2])
    assert describe(x) == ArrayInfo("host", -1, base[1:].ctypes.data, (4, 4), (8, 2), "f16")
    assert current_stream(x) == 0
    shared = to_host(x)
    assert np.array_equal(shared, base[1:, ::2])
    base[1, 0] = 99
    assert shared[0, 0] == 99


def test_dlpack_dtype_without_a_name() -> None:
    with pytest.raises(Error, match="DLPack code 5, 64 bits"):
        describe(WithDlpack(np.zeros(3, np.complex64)))


def test_copy_from_a_device(driver: cuda.Driver, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "get_driver", lambda: driver)
    found = to_host(WithInterface(strides=(32, 8), typestr="<f8"))
    assert found.shape == (2, 3) and found.dtype == np.float64
    (copy,) = (call for call in library.calls if call[0] == "cuMemcpyDtoH_v2")
    assert copy[2:] == (0x3000, (4 + 2 + 1) * 8)  # the last element is one row and two columns away
    assert to_host(WithInterface(shape=(0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, "bool"), (np.True_, "bool"), (0, "i32"), (2**31 - 1, "i32"), (-(2**31), "i32"), (2**31, "i64"),
        (-(2**31) - 1, "i64"), (2**63, "u64"), (np.int64(5), "i32"), (np.uint8(5), "i32"), (1.5, "f32"),
        (np.float64(1.5), "f32"), (np.float32(1.5), "f32"), (ml_dtypes.bfloat16(1.5), "f32"), ("text", None),
        (None, None),
    ],
)  # fmt: skip
def test_scalars(value: Any, dtype: str | None) -> None:
    assert scalar_dtype(value) == dtype
    assert describe(value) is None
    if dtype is not None:
        assert call_key((value,)) == ((dtype,), [value])


def test_what_is_no_argument() -> None:
    with pytest.raises(Error, match="the integer 18446744073709551616 does not fit 64 bits"):
        scalar_dtype(2**64)
    with pytest.raises(Error, match="a value of type str can't be a run-time argument"):
        call_key(("text",))
    with pytest.raises(Error, match="a value of type dict can't be"):
        to_host({})


def test_call_key_separates_geometry_from_values(torch: Any) -> None:
    def key(*arguments: Any, **fields: Any) -> Any:
        return call_key((torch.Tensor(*arguments, **fields),))[0]

    base = key(0x1000, (4, 8), (8, 1))
    assert key(0x2000, (4, 8), (8, 1)) == base
    assert hash(key(0x2000, (4, 8), (8, 1))) == hash(base)
    others = [
        key(0x1008, (4, 8), (8, 1)),
        key(0x1000, (4, 7), (8, 1)),
        key(0x1000, (4, 8), (16, 1)),
        key(0x1000, (4, 8), (8, 1), dtype="int32"),
        key(0x1000, (4, 8), (8, 1), device=1),
    ]
    assert base not in others and len(set(others)) == 5
    x = np.zeros((2, 3), np.int8)
    assert call_key((x, 3, 2.5)) == (
        (("i8", (2, 3), (3, 1), x.ctypes.data & 15, -1, False), "i32", "f32"),
        [x.ctypes.data, 3, 2.5],
    )


def test_dense_strides() -> None:
    assert dense_strides((2, 3, 4)) == (12, 4, 1)
    assert dense_strides((2, 0, 4)) == (4, 4, 1)
    assert dense_strides(()) == ()


def test_numpy_to_host_is_itself() -> None:
    x = np.zeros(3)
    assert to_host(x) is x


def test_no_framework_is_imported() -> None:
    assert arrays.describe(np.zeros(1)) is not None
    assert "cupy" not in sys.modules


FP4 = ml_dtypes.float4_e2m1fn


def test_elements_that_share_bytes() -> None:
    """Shapes and strides count elements; what a GPU gets counts bytes."""
    codes = np.zeros((4, 32), np.uint8)
    info = describe(px.packed(codes, px.f4e2m1))
    assert info == ArrayInfo("host", -1, codes.ctypes.data, (4, 64), (64, 1), "f4e2m1")
    assert info.in_bytes == ArrayInfo("host", -1, codes.ctypes.data, (4, 32), (32, 1), "u8")
    assert info.aligned16 and info.whole_rows and not describe(px.packed(codes[:, :24], px.f4e2m1)).whole_rows  # type: ignore[union-attr]
    assert not describe(px.packed(np.zeros((4, 24), np.uint8), px.f4e2m1)).aligned16  # type: ignore[union-attr]
    plain = np.zeros((4, 64), FP4)
    assert describe(plain) == ArrayInfo("host", -1, plain.ctypes.data, (4, 64), (64, 1), "f4e2m1")


def test_torch_has_two_to_an_element(torch: Any) -> None:
    torch.float4_e2m1fn_x2 = type(torch.float32)("float4_e2m1fn_x2")
    x = torch.Tensor(0x1000, (4, 32), (32, 1), "float4_e2m1fn_x2", device=1)
    assert describe(x) == ArrayInfo("cuda", 1, 0x1000, (4, 64), (64, 1), "f4e2m1")
    scales = torch.Tensor(0x1000, (4, 32), (32, 1), "float8_e8m0fnu", device=1)
    assert describe(scales) == ArrayInfo("cuda", 1, 0x1000, (4, 32), (32, 1), "f8e8m0")
    bytes_ = torch.Tensor(0x1000, (4, 32), (32, 1), "uint8", device=1)
    assert describe(px.packed(bytes_, px.f4e2m1)) == describe(x)
    torch.streams[1] = 9
    assert current_stream(px.packed(bytes_, px.f4e2m1)) == 9
    with pytest.raises(Error, match="have a stride of 4 where neighbours share a byte"):
        describe(torch.Tensor(0x1000, (4, 32), (1, 4), "float4_e2m1fn_x2", device=1))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((4, 7), FP4), r"shape \(4, 7\) and strides \(7, 1\) does not consist of whole bytes"),
        (np.zeros((), FP4), "does not consist of whole bytes"),
        (np.zeros((4, 8), FP4).T, "does not consist of whole bytes"),
        (np.zeros((4, 9), FP4)[:, :8], "rows of an array of f4e2m1 are 9 elements apart"),
        (px.packed(np.zeros((4, 8), np.int16), px.f4e2m1), "px.packed of an array of i16"),
        (px.packed(3, px.f4e2m1), "px.packed of a value of type int"),
        (px.packed(np.zeros((4, 8), np.uint8).T, px.f4e2m1), "have a stride of 8 where neighbours share a byte"),
    ],
)
def test_arrays_of_no_whole_bytes(array: Any, message: str) -> None:
    with pytest.raises(Error, match=message):
        describe(array)


@pytest.mark.parametrize("dtype", [px.f6e2m3, px.f6e3m2, px.f8e8m0, px.f8e4m3])
def test_bytes_of_elements_alone(dtype: px.DType) -> None:
    """Any strides will do; the array of the simulator is the caller's memory."""
    codes = np.arange(64, dtype=np.uint8).reshape(8, 8)
    assert describe(px.packed(codes.T, dtype)) == ArrayInfo("host", -1, codes.ctypes.data, (8, 8), (1, 8), dtype.name)
    elements = to_host(px.packed(codes, dtype))
    assert elements.dtype == dtype.numpy and np.shares_memory(elements, codes)
    elements[0, 0] = 1.0
    put_back(px.packed(codes, dtype), elements)
    assert codes[0, 0] == np.ones(1, dtype.numpy).view(np.uint8)[0]


@pytest.mark.parametrize("dtype", [px.u8, px.f16, px.bool, "f4e2m1"])
def test_only_some_types_are_packed(dtype: Any) -> None:
    with pytest.raises(Error, match=r"px\.packed of") as error:
        px.packed(np.zeros(8, np.uint8), dtype)
    assert "px.f4e2m1" in (error.value.remedy or "")


def test_bytes_become_elements_and_bytes_again() -> None:
    every = np.arange(256, dtype=np.uint8).reshape(4, 64)
    elements = to_host(px.packed(every, px.f4e2m1))
    assert elements.shape == (4, 128) and elements.dtype == FP4
    assert np.array_equal(elements.view(np.uint8)[..., 0::2], every & 15)
    assert np.array_equal(elements.view(np.uint8)[..., 1::2], every >> 4)
    again = np.zeros_like(every)
    put_back(px.packed(again, px.f4e2m1), elements)
    assert np.array_equal(again, every)


class Capsuled:
    """An array that is known through DLPack alone."""

    def __init__(self, fields: Any) -> None:
        self.fields = fields

    def __dlpack__(self) -> Any:
        return self.fields

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


@pytest.mark.parametrize(("lanes", "shape"), [(1, (4, 64)), (2, (4, 32))])
def test_dlpack_has_four_bits(monkeypatch: pytest.MonkeyPatch, lanes: int, shape: tuple[int, ...]) -> None:
    tensor = arrays.dlpack.Tensor(0x1000, 2, 3, 17, 4, lanes, shape, None)
    monkeypatch.setattr(arrays.dlpack, "read", lambda x: tensor)
    assert describe(Capsuled(None)) == ArrayInfo("cuda", 3, 0x1000, (4, 64), (64, 1), "f4e2m1")


@pytest.mark.parametrize(("code", "name"), [(15, "f6e2m3"), (16, "f6e3m2")])
def test_dlpack_has_six_bits_without_gaps(monkeypatch: pytest.MonkeyPatch, code: int, name: str) -> None:
    tensor = arrays.dlpack.Tensor(0x1000, 2, 3, code, 6, 1, (4, 128), None)
    monkeypatch.setattr(arrays.dlpack, "read", lambda x: tensor)
    assert describe(Capsuled(None)) == ArrayInfo("cuda", 3, 0x1000, (4, 128), (128, 1), name, True)


def test_a_dense_array_of_a_device_comes_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.arange(2 * 96, dtype=np.uint8).reshape(2, 96)
    seen = []

    def copied(info: ArrayInfo) -> np.ndarray:
        if info.dense:
            return real(info)
        seen.append(info)
        return codes

    real = host_copies._copy_from_device
    monkeypatch.setattr(host_copies, "_copy_from_device", copied)
    monkeypatch.setattr(arrays.dlpack, "read", lambda x: arrays.dlpack.Tensor(0x1000, 2, 3, 15, 6, 1, (2, 128), None))
    found = to_host(Capsuled(None))
    assert seen == [ArrayInfo("cuda", 3, 0x1000, (2, 96), (96, 1), "u8")]
    assert np.array_equal(found.view(np.uint8), to_host(px.packed(codes, px.f6e2m3, dense=True)).view(np.uint8))


class HostTensor:
    """A torch tensor in host memory: bytes with a dtype, as far as the simulator asks."""

    requires_grad = False

    def __init__(self, data: np.ndarray, dtype: Any) -> None:
        self.data, self.dtype, self.shape = data, dtype, data.shape

    def data_ptr(self) -> int:
        return self.data.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(stride // self.data.itemsize for stride in self.data.strides)

    def get_device(self) -> int:
        return -1

    def detach(self) -> HostTensor:
        return self

    cpu = detach

    def view(self, dtype: Any) -> HostTensor:
        return HostTensor(self.data, dtype)

    def numpy(self) -> np.ndarray:
        assert self.dtype.name == "uint8", "torch hands NumPy no other small type"
        return self.data


HostTensor.__module__, HostTensor.__name__ = "torch", "Tensor"


@px.kernel(warps=4)
def dequantized(P, S, Y, Q):
    """Two elements to a byte and a scale for a row, and the numbers back into bytes."""
    y = px.load(P[0:8, 0:64]).to(px.f32) * px.load(S[0:8]).to(px.f32)[:, None]
    px.store(Y[0:8, 0:64], y)
    px.store(Q[0:8, 0:64], (-y).to(px.f4e2m1))


def test_the_simulator_takes_torch_s_small_types(torch: Any) -> None:
    """`float4_e2m1fn_x2` and `float8_e8m0fnu` of host memory, read and written."""
    torch.float4_e2m1fn_x2 = type(torch.float32)("float4_e2m1fn_x2")
    codes = np.arange(8 * 32, dtype=np.uint8).reshape(8, 32)
    powers, y, out = np.full(8, 127, np.uint8), np.zeros((8, 64), np.float32), np.zeros((8, 32), np.uint8)
    tensors = HostTensor(codes, torch.float4_e2m1fn_x2), HostTensor(powers, torch.float8_e8m0fnu)
    result = HostTensor(out, torch.float4_e2m1fn_x2)
    dequantized[1](*tensors, y, result)
    elements = np.stack([codes & 15, codes >> 4], -1).reshape(8, 64).view(FP4)
    assert np.array_equal(y, elements.astype(np.float32))
    back = np.stack([out & 15, out >> 4], -1).reshape(8, 64).view(FP4)
    assert np.array_equal(back.astype(np.float32), -elements.astype(np.float32))


class Interfaced:
    """A CUDA array interface of bytes, which is all that has a name there."""

    __cuda_array_interface__ = {"shape": (4, 96), "strides": None, "typestr": "|u1", "data": (0x2000, False), "version": 3}


def test_bytes_of_a_cuda_array_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_device_of_pointer", lambda pointer: 1)
    assert describe(px.packed(Interfaced(), px.f4e2m1)) == ArrayInfo("cuda", 1, 0x2000, (4, 192), (192, 1), "f4e2m1")
    assert describe(px.packed(Interfaced(), px.f8e8m0)) == ArrayInfo("cuda", 1, 0x2000, (4, 96), (96, 1), "f8e8m0")
    dense = describe(px.packed(Interfaced(), px.f6e3m2, dense=True))
    assert dense == ArrayInfo("cuda", 1, 0x2000, (4, 128), (128, 1), "f6e3m2", True)


@pytest.mark.parametrize(("code", "bits", "lanes"), [(15, 6, 4), (17, 4, 3), (14, 8, 2)])
def test_dlpack_types_that_no_kernel_takes(monkeypatch: pytest.MonkeyPatch, code: int, bits: int, lanes: int) -> None:
    tensor = arrays.dlpack.Tensor(0x1000, 2, 3, code, bits, lanes, (4, 64), None)
    monkeypatch.setattr(arrays.dlpack, "read", lambda x: tensor)
    with pytest.raises(Error, match=f"DLPack code {code}, {bits} bits, {lanes} lanes"):
        describe(Capsuled(None))


def test_four_elements_in_three_bytes() -> None:
    """A dense array is counted in elements everywhere; its bytes are told by strides and alignment."""
    codes = np.arange(4 * 96, dtype=np.uint32).astype(np.uint8).reshape(4, 96)
    info = describe(px.packed(codes, px.f6e3m2, dense=True))
    assert info == ArrayInfo("host", -1, codes.ctypes.data, (4, 128), (128, 1), "f6e3m2", True)
    assert info.in_bytes == info and info.aligned16 and info.whole_rows and info.bytes_of(128) == 96
    assert call_key((px.packed(codes, px.f6e3m2, dense=True),)) != call_key((px.packed(codes, px.f6e3m2),))
    elements = to_host(px.packed(codes, px.f6e3m2, dense=True))
    words = codes.reshape(4, 32, 3).astype(np.uint32) @ np.array([1, 1 << 8, 1 << 16], np.uint32)
    assert elements.dtype == px.f6e3m2.numpy
    assert np.array_equal(elements.view(np.uint8), np.stack([words >> 6 * n & 63 for n in range(4)], -1).reshape(4, 128))
    again = np.zeros_like(codes)
    put_back(px.packed(again, px.f6e3m2, dense=True), elements)
    assert np.array_equal(again, codes)


def test_elements_that_stand_for_a_dense_array() -> None:
    x = np.zeros((4, 128), px.f6e2m3.numpy)
    info = ArrayInfo("host", -1, x.ctypes.data, (4, 128), (128, 1), "f6e2m3", True)
    assert describe(px.packed(x, px.f6e2m3, dense=True)) == info
    assert np.shares_memory(to_host(px.packed(x, px.f6e2m3, dense=True)), x)
    with pytest.raises(Error, match="can't be dense: 4 elements lie in 3 bytes"):
        describe(px.packed(x[:, :126], px.f6e2m3, dense=True))
    assert not px.packed(np.zeros(8, np.uint8), px.f4e2m1, dense=True).dense  # says nothing new
