"""Describing arguments: NumPy, ml_dtypes, torch, CuPy, the CUDA array interface, DLPack, scalars."""

from __future__ import annotations

import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from phalanx.errors import Error
from phalanx.runtime.device import arrays
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device.arrays import (
    DTYPE_NAMES,
    ITEM_BYTES,
    ArrayInfo,
    call_key,
    current_stream,
    dense_strides,
    describe,
    numpy_dtype,
    scalar_dtype,
    to_host,
)


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
    info = describe(np.zeros(3, dtype))
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
        (("i8", (2, 3), (3, 1), x.ctypes.data & 15, -1), "i32", "f32"),
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
