"""Reading an array through DLPack: the fields of the C struct behind its capsule, nothing is taken over."""

from __future__ import annotations

import ctypes
from typing import Any

from phalanx.frozen import frozen

# Device types and dtype codes of dlpack.h.
HOST_DEVICES = (1, 3)  # CPU, CUDA pinned host memory
CUDA_DEVICES = (2, 13)  # CUDA, CUDA managed
DTYPE_NAMES = {
    (0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64",
    (1, 8): "u8", (1, 16): "u16", (1, 32): "u32", (1, 64): "u64",
    (2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16",
    (6, 8): "bool", (10, 8): "f8e4m3", (12, 8): "f8e5m2", (14, 8): "f8e8m0",
    (15, 6): "f6e2m3", (16, 6): "f6e3m2", (17, 4): "f4e2m1",
}  # fmt: skip
"""Element types by DLPack's code and bits; elements of 6 and 4 bits lie there with no bit between them."""
DENSE_BITS = 6


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


@frozen
class Tensor:
    """The fields of a DLTensor; `strides` is None for a dense row-major array."""

    pointer: int
    device_type: int
    device_id: int
    code: int
    bits: int
    lanes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None


def read(x: Any) -> Tensor:
    """Describe `x` by its DLPack capsule. The capsule is let go again, so `x` keeps owning its memory."""
    capsule = x.__dlpack__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # A DLManagedTensor starts with its DLTensor.
    tensor = _DLTensor.from_address(get_pointer(capsule, b"dltensor"))
    rank = tensor.ndim
    return Tensor(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        device_type=tensor.device_type,
        device_id=tensor.device_id,
        code=tensor.code,
        bits=tensor.bits,
        lanes=tensor.lanes,
        shape=tuple(tensor.shape[:rank]),
        strides=tuple(tensor.strides[:rank]) if tensor.strides else None,
    )
