"""Copies of arrays on the host, for the simulator, and the way back of what it wrote: `to_host`, `put_back`."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.runtime.device.arrays import (
    PER_BYTE,
    ArgumentKind,
    ArrayInfo,
    describe,
    describe_torch,
    kind_of,
    not_an_argument,
    numpy_dtype,
    torch_dtypes,
)


def to_host(x: Any, info: ArrayInfo | None = None) -> np.ndarray:
    """The array as NumPy: a view of it in host memory, else a copy. `info` is its description, where it is known.

    Elements that share bytes are always a copy, with a byte each; `put_back` writes them.
    """
    kind = kind_of(x)
    if kind is ArgumentKind.PACKED:
        data = to_host(x.data)
        shared = (x.dense or x.dtype.name in PER_BYTE) and data.dtype != x.dtype.numpy
        return _unpacked(data, x.dtype.name, x.dense) if shared else data.view(x.dtype.numpy)
    if kind is ArgumentKind.NUMPY:
        return x
    if kind is ArgumentKind.TORCH:
        return _torch_to_host(x)
    if kind is ArgumentKind.CUPY:
        return x.get()
    info = info or describe(x)
    if info is None:
        raise not_an_argument(x)
    if info.kind == "host":
        return _at_pointer(info) if kind is ArgumentKind.JAX else np.from_dlpack(x)
    return _copy_from_device(info)


def _at_pointer(info: ArrayInfo) -> np.ndarray:
    """The memory of an array of the host, to be read and written: JAX's own view is read-only, and lacks some types."""
    dtype = numpy_dtype(info.dtype_name)
    if 0 in info.shape:
        return np.empty(info.shape, dtype)
    span = 1 + sum((size - 1) * stride for size, stride in zip(info.shape, info.strides))
    raw = np.ctypeslib.as_array((ctypes.c_ubyte * (span * dtype.itemsize)).from_address(info.pointer)).view(dtype)
    return np.lib.stride_tricks.as_strided(raw, info.shape, [stride * dtype.itemsize for stride in info.strides])


def _torch_to_host(x: Any) -> np.ndarray:
    torch = sys.modules["torch"]
    tensor = x.detach().cpu()
    name = describe_torch(tensor).dtype_name
    if name in PER_BYTE:
        return _unpacked(tensor.view(torch.uint8).numpy(), name)
    if name in ("bf16", "f8e4m3", "f8e5m2", "f8e8m0"):  # NumPy knows them through ml_dtypes, torch's bridge does not
        carrier = torch.int16 if name == "bf16" else torch.uint8
        return tensor.view(carrier).numpy().view(numpy_dtype(name))
    return tensor.numpy()


def _unpacked(data: np.ndarray, name: str, dense: bool = False) -> np.ndarray:
    """Elements of their own for bytes that several share; read-only where the bytes are."""
    from phalanx.ir.types import DTYPES
    from phalanx.runtime.device.packed import unpacked

    elements = unpacked(data, DTYPES[name], dense)
    elements.flags.writeable = data.flags.writeable
    return elements


def put_back(x: Any, elements: Any) -> None:
    """Writes what a run left of `to_host(x)` into the bytes of `x`, if its elements share them and it is in host memory."""
    kind = kind_of(x)
    data = x.data if kind is ArgumentKind.PACKED else x
    if kind is ArgumentKind.TORCH:
        if torch_dtypes().get(x.dtype) not in PER_BYTE:
            return
        data = x.detach().view(sys.modules["torch"].uint8)
    elif kind is not ArgumentKind.PACKED or not (x.dense or x.dtype.name in PER_BYTE):
        return
    info = describe(data)
    if info is None or info.kind != "host" or info.dtype_name != "u8":
        return
    from phalanx.ir.types import FROM_NUMPY
    from phalanx.runtime.device.packed import packed_bytes

    target = to_host(data)
    if target.flags.writeable:
        target[...] = packed_bytes(elements, FROM_NUMPY[elements.dtype], kind is ArgumentKind.PACKED and x.dense)


def _copy_from_device(info: ArrayInfo) -> np.ndarray:
    from phalanx.runtime.device.driver import get_driver

    if info.dtype_name in PER_BYTE:
        return _unpacked(_copy_from_device(info.in_bytes), info.dtype_name)
    if info.dense:
        sizes = (*info.shape[:-1], info.bytes_of(info.shape[-1])), (*map(info.bytes_of, info.strides[:-1]), 1)
        data = _copy_from_device(ArrayInfo("cuda", info.device, info.pointer, *sizes, "u8"))
        return _unpacked(data, info.dtype_name, dense=True)
    dtype = numpy_dtype(info.dtype_name)
    if any(stride < 0 for stride in info.strides):
        raise Error(
            "a CUDA array with negative strides can't be copied to the host", remedy="pass a copy of it"
        )
    if 0 in info.shape:
        return np.empty(info.shape, dtype)
    span = 1 + sum((size - 1) * stride for size, stride in zip(info.shape, info.strides))
    raw = np.empty(span, dtype)
    driver = get_driver()
    with driver.context(info.device):
        driver.synchronize()
        driver.copy_to_host(raw.ctypes.data, info.pointer, raw.nbytes)
    byte_strides = [stride * dtype.itemsize for stride in info.strides]
    return np.lib.stride_tricks.as_strided(raw, info.shape, byte_strides).copy()
