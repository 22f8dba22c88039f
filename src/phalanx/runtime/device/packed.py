"""Arrays whose elements share bytes: two of 4 bits to a byte, the even one in its lower bits, as on a GPU.

Elements of 6 bits have a byte each, or in a dense array lie four to three bytes, the first one in the lowest bits.

An array is given by its bytes and what they are (`px.packed`), as torch's ``float4_e2m1fn_x2``, or in the simulator as
a NumPy array of ml_dtypes' type, whose elements have a byte each. The simulator computes with elements: bytes are taken
apart before a run and put together behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phalanx.errors import Error, caller_location
from phalanx.ir.types import DTYPES, DType


class Packed:
    """The bytes of an array, and the type of the elements in them; `dense`: those of 6 bits lie four to three bytes."""

    __slots__ = ("__weakref__", "data", "dense", "dtype")

    def __init__(self, data: Any, dtype: DType, dense: bool = False) -> None:
        self.data = data
        self.dtype = dtype
        self.dense = dense

    def __repr__(self) -> str:
        return f"<packed {self.dtype}{', dense,' * self.dense} in {self.data!r}>"


def packed(array: Any, dtype: DType, dense: bool = False) -> Packed:
    """Bytes as an array of floats of 8 bits or less, or integers of 4: where the library at hand has no such type.

    Anyone may call it, outside kernels. `array` is a u8 array (NumPy, torch, CuPy, anything with DLPack or the CUDA array
    interface), into which the kernel writes. f4e2m1, i4 and u4 have two elements in a byte, the even one in its lower bits:
    rows are contiguous, and the kernel sees a last axis twice as long. f6e2m3 and f6e3m2 have a byte for each, in the low
    bits; with ``dense=True`` four elements lie in three bytes, the first one in the lowest bits, which only `px.tma.load`
    into a buffer with ``padded=True`` reads; in the simulator a NumPy array of ml_dtypes' type, with a byte for each, stands
    for one, too. For other types `dense` says nothing new.
    Example: ``dequantize[64](px.packed(codes, px.f4e2m1), out)``.
    """
    if not isinstance(dtype, DType) or not dtype.is_storage:
        names = ", ".join(f"px.{name}" for name, item in DTYPES.items() if item.is_storage)
        raise Error(
            f"px.packed of {dtype!r}", location=caller_location(),
            remedy=f"bytes can be {names}; arrays of other types are passed as they are",
        )
    return Packed(array, dtype, is_dense(dtype, dense))


def is_dense(dtype: DType, dense: bool) -> bool:
    """Whether `dense=` makes a difference: elements of 6 bits alone have bits between them otherwise."""
    return dense and dtype.bits == 6


def unpacked(data: np.ndarray, dtype: DType, dense: bool = False) -> np.ndarray:
    """A copy of packed bytes with one element to a byte of the host."""
    if dense:
        bits = np.unpackbits(np.ascontiguousarray(data), axis=-1, bitorder="little")
        each = bits.reshape(*data.shape[:-1], data.shape[-1] * 8 // dtype.bits, dtype.bits)
        return np.packbits(each, axis=-1, bitorder="little")[..., 0].view(dtype.numpy)
    codes = np.stack([data >> np.uint8(dtype.bits * part) for part in range(dtype.per_byte)], -1)
    codes &= np.uint8((1 << dtype.bits) - 1)
    return codes.reshape(*data.shape[:-1], data.shape[-1] * dtype.per_byte).view(dtype.numpy)


def packed_bytes(elements: np.ndarray, dtype: DType, dense: bool = False) -> np.ndarray:
    """The bytes of an array that has one element to a byte."""
    if dense:
        bits = np.unpackbits(np.ascontiguousarray(elements).view(np.uint8)[..., None], axis=-1, bitorder="little")
        each = bits[..., : dtype.bits].reshape(*elements.shape[:-1], elements.shape[-1] * dtype.bits)
        return np.packbits(each, axis=-1, bitorder="little")
    codes = np.ascontiguousarray(elements).view(np.uint8) & np.uint8((1 << dtype.bits) - 1)
    codes = codes.reshape(*elements.shape[:-1], elements.shape[-1] // dtype.per_byte, dtype.per_byte)
    parts = [codes[..., part] << np.uint8(dtype.bits * part) for part in range(dtype.per_byte)]
    return np.bitwise_or.reduce(parts)
