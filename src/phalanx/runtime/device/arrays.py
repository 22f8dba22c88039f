"""What a kernel's arguments are: where an array lies, its shape, strides and dtype, and its current stream.

NumPy, torch, CuPy, anything with the CUDA array interface or DLPack. No framework is imported: a type is
looked at once, by the modules of its bases, and remembered.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir.archs import COPY_CHUNK, MAX_STRIDE
from phalanx.ir.types import chunk_axes
from phalanx.runtime.device import dlpack
from phalanx.runtime.device.outlines import is_outlined
from phalanx.runtime.device.torch_tensors import TENSORS, address_of

HOST = -1  # the device number of host memory

DTYPE_NAMES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float8_e8m0fnu": "f8e8m0",
    "float6_e2m3fn": "f6e2m3",
    "float6_e3m2fn": "f6e3m2",
    "float4_e2m1fn": "f4e2m1",
    "int4": "i4",
    "uint4": "u4",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "bool",
}
ITEM_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "f8e8m0": 1, "f6e2m3": 1, "f6e3m2": 1,
    "f4e2m1": 1, "i4": 1, "u4": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "bool": 1,
}  # fmt: skip
"""Bytes of an element alone; those of `PER_BYTE` share a byte in memory."""
PER_BYTE = {"f4e2m1": 2, "i4": 2, "u4": 2}
DENSE_ELEMENTS, DENSE_BYTES = 4, 3
"""Elements of 6 bits in a dense array, and the bytes that they share."""
TORCH_PACKED = {"float4_e2m1fn_x2": "f4e2m1"}
"""Types of torch whose element is a byte with two of ours."""


ArrayFacts = tuple[int, str, bool, bool, bool, tuple[int, ...], bool]
"""Rank, element type, `contiguous_inner`, `aligned16`, `whole_rows`, `chunk` and `dense` of an array."""


EMPTY_ROW = 128
"""How many elements lie between the rows of an array that has none in them: whole vectors, of whatever type."""


class ArrayInfo:
    """One array argument. `strides` count elements; `device` is the CUDA ordinal, or HOST. `dense`: elements of 6 bits lie
    four to three bytes, of which a GPU is told as elements, too: it has them in a descriptor alone.

    It never changes. What follows from its fields is worked out when it is first asked for: a launch asks often.
    """

    __slots__ = ("_aligned", "_facts", "dense", "device", "dtype_name", "kind", "pointer", "shape", "strides")

    def __init__(
        self, kind: str, device: int, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype_name: str,
        dense: bool = False,
    ) -> None:
        self.kind = kind  # "host" or "cuda"
        self.device = device
        self.pointer = pointer
        self.shape = shape
        self.strides = strides
        self.dtype_name = dtype_name
        self.dense = dense
        self._aligned: bool | None = None
        self._facts: ArrayFacts | None = None

    def _fields(self) -> tuple[Any, ...]:
        return self.kind, self.device, self.pointer, self.shape, self.strides, self.dtype_name, self.dense

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, ArrayInfo) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"ArrayInfo{self._fields()}"

    @property
    def contiguous_inner(self) -> bool:
        """The last axis has stride 1, or at most one element."""
        return not self.shape or self.strides[-1] == 1 or self.shape[-1] <= 1

    @property
    def aligned16(self) -> bool:
        """The base and every outer stride (of an axis longer than 1) are multiples of 16 bytes, forward and below 2**40."""
        found = self._aligned
        if found is None:
            found = self._aligned = self._is_aligned()
        return found

    def _is_aligned(self) -> bool:
        if self.pointer % COPY_CHUNK:
            return False
        bytes_of = self.bytes_of
        for size, stride in zip(self.shape[:-1], self.strides):
            if size > 1:
                nbytes = bytes_of(stride)
                if nbytes % COPY_CHUNK or not 0 <= nbytes < MAX_STRIDE:
                    return False
        return True

    @property
    def chunk(self) -> tuple[int, ...]:
        """The last axes that together are 16 bytes in a row, where only their strides keep it from being aligned."""
        if self.aligned16 or self.pointer % COPY_CHUNK or self.dense or self.dtype_name in PER_BYTE:
            return ()
        strides = tuple(map(self.bytes_of, self.strides))
        return chunk_axes(self.shape, strides, ITEM_BYTES[self.dtype_name])

    @property
    def whole_rows(self) -> bool:
        """Rows are contiguous, begin at multiples of 16 bytes and end there too."""
        if not self.shape or not self.contiguous_inner or not self.aligned16:
            return False
        return self.bytes_of(self.shape[-1]) % COPY_CHUNK == 0

    @property
    def facts(self) -> ArrayFacts:
        """All that kernels are specialised for: equal facts are equal types of arguments."""
        found = self._facts
        if found is None:
            aligned, inner = self.aligned16, self.contiguous_inner
            found = self._facts = (
                len(self.shape), self.dtype_name, inner, aligned, aligned and inner and self.whole_rows,
                () if aligned else self.chunk, self.dense,
            )  # fmt: skip
        return found

    def bytes_of(self, count: int) -> int:
        """The bytes that so many neighbours take in memory."""
        if self.dense:
            return count * DENSE_BYTES // DENSE_ELEMENTS
        return count * ITEM_BYTES[self.dtype_name] // PER_BYTE.get(self.dtype_name, 1)

    @property
    def in_bytes(self) -> ArrayInfo:
        """What a GPU gets: elements that share bytes as those bytes, all else as it is."""
        share = PER_BYTE.get(self.dtype_name)
        if share is None:
            return self
        shape = (*self.shape[:-1], self.shape[-1] // share)
        strides = (*(stride // share for stride in self.strides[:-1]), 1)
        return ArrayInfo(self.kind, self.device, self.pointer, shape, strides, "u8")


class ArgumentKind(Enum):
    """How a value is read when it is an argument."""

    TORCH = 1
    NUMPY = 2
    CUPY = 3
    CUDA_INTERFACE = 4
    DLPACK = 5
    INTEGER = 6
    FLOAT = 7
    BOOL = 8
    OTHER = 9
    DEVICE_ARRAY = 10
    PACKED = 11
    JAX = 12


# Enum members as plain names: the launch path compares them, and a global is quicker than an attribute.
_TORCH, _INTEGER, _FLOAT, _BOOL = (
    ArgumentKind.TORCH,
    ArgumentKind.INTEGER,
    ArgumentKind.FLOAT,
    ArgumentKind.BOOL,
)


class _Kinds(dict[type, ArgumentKind]):
    """The kind of each type seen so far."""

    def __missing__(self, kind: type) -> ArgumentKind:
        self[kind] = found = _classify(kind)
        return found


def _classify(kind: type) -> ArgumentKind:
    if TENSORS[kind]:
        return ArgumentKind.TORCH
    if any(base.__module__.startswith("cupy") and base.__name__ == "ndarray" for base in kind.__mro__):
        return ArgumentKind.CUPY
    if issubclass(kind, np.ndarray):
        return ArgumentKind.NUMPY
    if issubclass(kind, bool | np.bool_):
        return ArgumentKind.BOOL
    if issubclass(kind, int | np.integer):
        return ArgumentKind.INTEGER
    if issubclass(kind, float | np.floating) or (kind.__module__ == "ml_dtypes" and kind.__name__ in DTYPE_NAMES):
        return ArgumentKind.FLOAT
    if kind.__name__ == "Packed" and kind.__module__ == "phalanx.runtime.device.packed":
        return ArgumentKind.PACKED
    if kind.__name__ == "DeviceArray" and kind.__module__ == "phalanx.runtime.device.device_array":
        return ArgumentKind.DEVICE_ARRAY
    if kind.__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(kind, "__dlpack__"):
        return ArgumentKind.JAX
    if hasattr(kind, "__cuda_array_interface__"):
        return ArgumentKind.CUDA_INTERFACE
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        return ArgumentKind.DLPACK
    return ArgumentKind.OTHER


_KINDS = _Kinds()


def kind_of(x: object) -> ArgumentKind:
    """How `x` is read; decided once per type."""
    return _KINDS[type(x)]


def describe(x: object) -> ArrayInfo | None:
    """What the array `x` is, or None if it is not an array (a Python or NumPy scalar, say).

    An array whose dtype or strides no kernel can take is a px.Error. Anyone may call it; touches no GPU.

        describe(np.zeros((4, 8), np.float32)).strides      # (8, 1)
    """
    reader = _READER_OF[type(x)]
    if reader is None:
        return None
    known = _CALL.known
    if known is None:
        return reader(x)
    found = known.get(id(x))
    if found is None:
        found = known[id(x)] = (x, reader(x))
    return found[1]


class _Call(threading.local):
    """The arrays that a thread's call has described so far, with their descriptions, by identity; None outside of calls."""

    known: dict[int, tuple[Any, ArrayInfo]] | None = None


_CALL = _Call()


class describing_once:
    """Within it this thread reads each array once, however often it is described: asking a framework takes a while.

    For calls that pass their arguments through several hands, and change no array's shape, strides or memory meanwhile.
    """

    __slots__ = ("former",)

    def __enter__(self) -> None:
        self.former = _CALL.known
        if self.former is None:
            _CALL.known = {}

    def __exit__(self, *_: object) -> None:
        _CALL.known = self.former


def is_describing_once() -> bool:
    """Whether this thread is within `describing_once`."""
    return _CALL.known is not None


def describe_torch(x: Any) -> ArrayInfo:
    name = torch_dtype_name(x.dtype)
    device = x.get_device()
    pointer = 0 if is_outlined() else address_of(x)
    info = ArrayInfo("host" if device < 0 else "cuda", device, pointer, tuple(x.shape), x.stride(), name)
    return _from_bytes(info, name) if name in PER_BYTE else info


def _describe_numpy(x: Any) -> ArrayInfo:
    name = dtype_name(x.dtype)
    pointer = x.__array_interface__["data"][0]
    if x.size:
        strides = _in_elements(x.strides, x.itemsize)
    else:  # NumPy says 0 for each axis, which is nowhere a fault of the caller
        strides = dense_strides((*x.shape[:-1], x.shape[-1] or EMPTY_ROW))
    info = ArrayInfo("host", HOST, pointer, x.shape, strides, name)
    return _whole_bytes(info) if name in PER_BYTE else info


def _describe_packed(x: Any) -> ArrayInfo:
    info = describe(x.data)
    if x.dense and info is not None and info.dtype_name == x.dtype.name and info.kind == "host":
        return _dense_of(info)
    if info is None or info.dtype_name != "u8":
        what = f"an array of {info.dtype_name}" if info is not None else f"a value of type {type(x.data).__name__}"
        raise Error(f"px.packed of {what}", remedy="it takes the bytes: an array of u8, e.g. x.view(np.uint8)")
    return _from_bytes(info, x.dtype.name, x.dense)


def _from_bytes(info: ArrayInfo, name: str, dense: bool = False) -> ArrayInfo:
    """The elements of an array that was described as bytes."""
    share = PER_BYTE.get(name, 1)
    if (share > 1 or dense) and (not info.shape or not info.contiguous_inner):
        why = f"a stride of {info.strides[-1]}" if info.shape else "no axis"
        raise Error(
            f"the bytes of a packed array of {name} have {why} where neighbours share a byte",
            remedy="pass an array whose last axis has stride 1, such as a contiguous copy",
        )
    if dense:
        return _dense_elements(info, name)
    if share == 1:
        return ArrayInfo(info.kind, info.device, info.pointer, info.shape, info.strides, name)
    shape = (*info.shape[:-1], info.shape[-1] * share)
    strides = (*(stride * share for stride in info.strides[:-1]), 1)
    return ArrayInfo(info.kind, info.device, info.pointer, shape, strides, name)


def _dense_elements(info: ArrayInfo, name: str) -> ArrayInfo:
    """The elements of bytes of which each three hold four."""
    wrong = [size for size in (info.shape[-1], *info.strides[:-1]) if size % DENSE_BYTES]
    if wrong:
        raise Error(
            f"a dense array of {name} has rows of {info.shape[-1]} bytes, with strides of {info.strides}: "
            f"{DENSE_ELEMENTS} elements lie in {DENSE_BYTES} bytes",
            remedy=f"make the last axis and the strides multiples of {DENSE_BYTES} bytes; copies take multiples of 96",
        )
    shape = (*info.shape[:-1], info.shape[-1] // DENSE_BYTES * DENSE_ELEMENTS)
    strides = (*(stride // DENSE_BYTES * DENSE_ELEMENTS for stride in info.strides[:-1]), 1)
    return ArrayInfo(info.kind, info.device, info.pointer, shape, strides, name, True)


def _dense_of(info: ArrayInfo) -> ArrayInfo:
    """The dense array that was described by its elements: another library's, or one of the host that stands for it."""
    wrong = [size for size in (info.shape[-1:] or (1,)) + info.strides[:-1] if size % DENSE_ELEMENTS]
    if wrong or not info.contiguous_inner:
        raise Error(
            f"an array of {info.dtype_name} with shape {info.shape} and strides {info.strides} can't be dense: "
            f"{DENSE_ELEMENTS} elements lie in {DENSE_BYTES} bytes",
            remedy=f"make the last axis a multiple of {DENSE_ELEMENTS} long, with stride 1",
        )
    return ArrayInfo(info.kind, info.device, info.pointer, info.shape, info.strides, info.dtype_name, True)


def _whole_bytes(info: ArrayInfo) -> ArrayInfo:
    """Elements that share bytes in a GPU's memory: an array of the host is one that could lie there."""
    share, name = PER_BYTE[info.dtype_name], info.dtype_name
    if not info.shape or info.shape[-1] % share or not info.contiguous_inner:
        raise Error(
            f"an array of {name} with shape {info.shape} and strides {info.strides} does not consist of whole bytes",
            remedy=f"{share} neighbours share a byte: make the last axis a multiple of {share} long, with stride 1",
        )
    if any(stride % share for size, stride in zip(info.shape[:-1], info.strides[:-1]) if size > 1):
        raise Error(
            f"rows of an array of {name} are {info.strides[-2]} elements apart",
            remedy=f"{share} neighbours share a byte: pass a copy, whose rows begin at whole bytes",
        )
    return info


def _describe_cupy(x: Any) -> ArrayInfo:
    strides = _in_elements(x.strides, x.dtype.itemsize)
    return ArrayInfo("cuda", x.device.id, x.data.ptr, tuple(x.shape), strides, dtype_name(x.dtype))


def _describe_cuda_interface(x: Any) -> ArrayInfo:
    interface = x.__cuda_array_interface__
    dtype = np.dtype(interface["typestr"])
    shape = tuple(int(size) for size in interface["shape"])
    byte_strides = interface.get("strides")
    strides = dense_strides(shape) if byte_strides is None else _in_elements(byte_strides, dtype.itemsize)
    pointer = int(interface["data"][0] or 0)
    return ArrayInfo("cuda", _device_of_pointer(pointer), pointer, shape, strides, dtype_name(dtype))


def _describe_device_array(x: Any) -> ArrayInfo:
    return ArrayInfo("cuda", x.device, x.pointer, x.shape, x.strides, x.dtype_name)


def _describe_dlpack(x: Any) -> ArrayInfo:
    tensor = dlpack.read(x)
    name = dlpack.DTYPE_NAMES.get((tensor.code, tensor.bits))
    share, dense = PER_BYTE.get(name or "", 1), tensor.bits == dlpack.DENSE_BITS
    on_host = tensor.device_type in dlpack.HOST_DEVICES
    if name is None or tensor.lanes not in (1, share) or ((share > 1 or dense) and on_host):
        raise _unsupported_dtype(f"DLPack code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes")
    strides = dense_strides(tensor.shape) if tensor.strides is None else tensor.strides
    if tensor.device_type in dlpack.CUDA_DEVICES:
        info = ArrayInfo("cuda", tensor.device_id, tensor.pointer, tensor.shape, strides, name)
        if dense:
            return _dense_of(info)
        if share == 1:
            return info
        return _whole_bytes(info) if tensor.lanes == 1 else _from_bytes(info, name)
    if tensor.device_type in dlpack.HOST_DEVICES:
        return ArrayInfo("host", HOST, tensor.pointer, tensor.shape, strides, name)
    raise Error(
        f"an array on DLPack device type {tensor.device_type} can't be a kernel argument",
        remedy="pass a NumPy array (simulator) or an array on a CUDA device",
    )


def _describe_jax(x: Any) -> ArrayInfo:
    if not hasattr(x, "block_until_ready"):
        raise Error(
            "a value that JAX traces has no elements: a kernel can't be launched within jax.jit",
            remedy='px.export(..., interfaces="jax") makes a function for jax.jit; or call the kernel outside',
        )
    x.block_until_ready()  # JAX computes in the background, on streams of its own
    return _describe_dlpack(x)


_READERS = {
    ArgumentKind.JAX: _describe_jax,
    ArgumentKind.TORCH: describe_torch,
    ArgumentKind.NUMPY: _describe_numpy,
    ArgumentKind.CUPY: _describe_cupy,
    ArgumentKind.CUDA_INTERFACE: _describe_cuda_interface,
    ArgumentKind.DLPACK: _describe_dlpack,
    ArgumentKind.DEVICE_ARRAY: _describe_device_array,
    ArgumentKind.PACKED: _describe_packed,
}


class _ReaderOf(dict[type, Any]):
    """What reads arrays of each type seen so far; None for what is no array."""

    def __missing__(self, kind: type) -> Any:
        self[kind] = found = _READERS.get(_KINDS[kind])
        return found


_READER_OF = _ReaderOf()


def call_key(
    args: Sequence[Any], infos: Sequence[ArrayInfo | None] | None = None
) -> tuple[tuple[Any, ...], list[Any]]:
    """Split a call's arguments into what a launch depends on once, and what may change each time.

    `key` is hashable: per array its dtype, shape, strides, base alignment (mod 16) and device, per scalar its
    dtype name; None for None. Equal keys take the same kernel and the same packed shapes and strides. `values` has each
    array's pointer, each scalar's value, in order. A dispatcher looks its compiled kernels up by `key`. `infos` are the
    descriptions of the arguments, where they are known already.
    """
    key: list[Any] = []
    values: list[Any] = []
    kinds = _KINDS
    for x in args:
        kind = kinds[type(x)]
        if kind is _TORCH:
            pointer = x.data_ptr()
            key.append((x.dtype, x.shape, x.stride(), pointer & 15, x.get_device()))
            values.append(pointer)
        elif kind is _INTEGER:
            key.append("i32" if -0x80000000 <= x <= 0x7FFFFFFF else scalar_dtype(x))
            values.append(x)
        elif kind is _FLOAT:
            key.append("f32")
            values.append(x)
        elif kind is _BOOL:
            key.append("bool")
            values.append(x)
        elif x is None:
            key.append(None)
            values.append(None)
        else:
            info = describe(x) if infos is None else infos[len(key)]
            if info is None:
                raise not_an_argument(x)
            key.append((info.dtype_name, info.shape, info.strides, info.pointer & 15, info.device, info.dense))
            values.append(info.pointer)
    return tuple(key), values


def scalar_dtype(x: Any) -> str | None:
    """The dtype of a scalar argument, or None: "bool", "f32", "i32" ("i64", "u64" for what does not fit)."""
    kind = _KINDS[type(x)]
    if kind is _FLOAT:
        return "f32"
    if kind is _BOOL:
        return "bool"
    if kind is not _INTEGER:
        return None
    value = int(x)
    for name, low, high in (("i32", -(1 << 31), 1 << 31), ("i64", -(1 << 63), 1 << 63), ("u64", 0, 1 << 64)):
        if low <= value < high:
            return name
    raise Error(f"the integer {value} does not fit 64 bits", remedy="pass a smaller number, or a float")


def not_an_argument(x: object) -> Error:
    """The error for a positional argument that is neither an array nor a number."""
    return Error(
        f"a value of type {type(x).__name__} can't be a run-time argument of a kernel",
        remedy="pass arrays (NumPy, torch, CuPy, DLPack) and numbers; make constants keyword-only parameters",
    )


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def dtype_name(dtype: np.dtype) -> str:
    """The Phalanx name of a NumPy (or ml_dtypes) dtype."""
    name = DTYPE_NAMES.get(dtype.name)
    if name is None or not dtype.isnative:
        raise _unsupported_dtype(str(dtype))
    return name


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy (or ml_dtypes) dtype of a Phalanx name."""
    import ml_dtypes  # noqa: F401  (registers bfloat16 and the fp8 types with NumPy)

    return np.dtype(next(numpy_name for numpy_name, ours in DTYPE_NAMES.items() if ours == name))


def _unsupported_dtype(name: str) -> Error:
    return Error(
        f"arrays of {name} can't be kernel arguments",
        remedy="convert to one of " + ", ".join(ITEM_BYTES),
    )


def _in_elements(byte_strides: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    if any(stride % item_bytes for stride in byte_strides):
        raise Error(
            f"an array with byte strides {tuple(byte_strides)} does not step in whole elements",
            remedy="pass a copy of it",
        )
    return tuple(stride // item_bytes for stride in byte_strides)


def _device_of_pointer(pointer: int) -> int:
    from phalanx.runtime.device.driver import get_driver

    return get_driver().device_of_pointer(pointer) if pointer else 0


@functools.cache
def torch_dtypes() -> dict[Any, str]:
    torch = sys.modules["torch"]
    names = {name: ours for name, ours in DTYPE_NAMES.items() if ours not in PER_BYTE} | TORCH_PACKED
    return {getattr(torch, name): ours for name, ours in names.items() if hasattr(torch, name)}


def torch_dtype_name(dtype: Any) -> str:
    """The Phalanx name of a torch dtype; torch must be loaded."""
    name = torch_dtypes().get(dtype)
    if name is None:
        raise _unsupported_dtype(str(dtype))
    return name
