"""As much of torch as the library asks for, on NumPy's memory: tensors with views that say they lie on a GPU.

For tests and benchmarks of what happens between a call and the driver; nothing is computed.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from phalanx.runtime.device import arrays, streams
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.launch import memory
from support.fake_driver import FakeLibrary

MEMORY = {
    "float32": np.float32, "float16": np.float16, "bfloat16": np.int16, "int64": np.int64, "int32": np.int32,
    "float8_e4m3fn": np.uint8, "float8_e8m0fnu": np.uint8, "uint8": np.uint8, "bool": np.bool_,
    "float4_e2m1fn_x2": np.uint8,
}  # fmt: skip
"""NumPy's element types that take as many bytes."""


class DType:
    """A torch dtype: compared by identity."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.itemsize = 1 if name in arrays.TORCH_PACKED else arrays.ITEM_BYTES.get(arrays.DTYPE_NAMES.get(name, ""), 8)

    def __str__(self) -> str:
        return f"torch.{self.name}"


class Tensor:
    """A torch tensor on a GPU, as far as the library looks at it."""

    __slots__ = ("_strides", "array", "device", "dtype", "pointer", "requires_grad", "shape")

    def __init__(self, array: np.ndarray, dtype: Any, device: int = 0) -> None:
        self.array, self.dtype, self.device, self.requires_grad = array, dtype, device, False
        self.shape, self.pointer = array.shape, array.ctypes.data
        self._strides = tuple(step // array.itemsize for step in array.strides)

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def get_device(self) -> int:
        return self.device

    def numel(self) -> int:
        return self.array.size

    def element_size(self) -> int:
        return self.array.itemsize

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def _with(self, array: np.ndarray) -> Tensor:
        return type(self)(array, self.dtype, self.device)

    def __getitem__(self, index: Any) -> Tensor:
        return self._with(self.array[index, ...] if type(index) is int else self.array[index])  # an element is a view, too

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = value

    def reshape(self, *shape: Any) -> Tensor:
        return self._with(self.array.reshape(*shape))

    def swapaxes(self, a: int, b: int) -> Tensor:
        return self._with(self.array.swapaxes(a, b))

    def transpose(self, a: int, b: int) -> Tensor:
        return self._with(self.array.swapaxes(a, b))

    @property
    def T(self) -> Tensor:
        return self._with(self.array.T)

    def expand(self, shape: tuple[int, ...]) -> Tensor:
        return self._with(np.broadcast_to(self.array, shape))

    def __ne__(self, other: Any) -> Any:
        return self if other is None or isinstance(other, Tensor) else Tensor(self.array != other, sys.modules["torch"].bool)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def sum(self) -> Tensor:
        return sys.modules["torch"].empty((), sys.modules["torch"].int64)

    def __truediv__(self, other: Any) -> Tensor:
        return self

    def contiguous(self) -> Tensor:
        return self._with(aligned(self.array.shape, self.array.dtype))

    def new_empty(self, shape: tuple[int, ...]) -> Tensor:
        return sys.modules["torch"].empty(shape, self.dtype, self.device)


Tensor.__module__ = "torch"


def aligned(shape: tuple[int, ...], dtype: Any, offset: int = 0) -> np.ndarray:
    """Uninitialised memory whose address is `offset` beyond a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.empty(size + 192, np.uint8)
    start = -room.ctypes.data % 64 + offset
    return room[start : start + size].view(dtype).reshape(shape)


def make_torch() -> Any:
    """A module "torch" whose tensors are on the device 0 or 1; `streams` has the current stream of each.

    `taken` is the memory that its allocator gave without a tensor around it.
    """
    module: Any = types.ModuleType("torch")
    for name in (*arrays.DTYPE_NAMES, *arrays.TORCH_PACKED):
        setattr(module, name, DType(name))

    def empty(shape: tuple[int, ...], dtype: Any = None, device: int = 0, offset: int = 0) -> Tensor:
        return Tensor(aligned(tuple(shape), MEMORY[dtype.name], offset), dtype, device)

    def empty_strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any = None, device: int = 0) -> Tensor:
        order = sorted(range(len(shape)), key=lambda axis: -strides[axis])
        made = empty(tuple(shape[axis] for axis in order), dtype, device).array
        return Tensor(made.transpose(np.argsort(order)), dtype, device)

    module.empty_strided, module.empty_like = empty_strided, lambda x: empty(x.shape, x.dtype, x.device)
    module.Tensor, module.empty, module.is_grad_enabled = Tensor, empty, lambda: False
    module.streams = {0: 0, 1: 0}
    module.taken = []

    def take(nbytes: int, stream: int) -> int:
        made = module.empty((nbytes,), module.uint8)
        module.taken.append(made)
        pointer: int = made.data_ptr() if nbytes else 0
        return pointer

    def give(pointer: int) -> None:
        module.taken.remove(next(made for made in module.taken if made.data_ptr() == pointer))

    def quick(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Tensor:
        assert type(shape) is type(strides) is tuple  # torch's own looks at nothing
        made: Tensor = module.empty_strided(shape, strides, dtype=dtype, device=module._C._cuda_getDevice())
        return made

    module._C = types.SimpleNamespace(
        _dynamo=types.SimpleNamespace(guards=types.SimpleNamespace(_empty_strided_cuda=quick)),
        _cuda_getCurrentRawStream=module.streams.__getitem__, _cuda_getDevice=lambda: 0,
        _increment_version=lambda tensors: None,
        _cuda_cudaCachingAllocator_raw_alloc=take, _cuda_cudaCachingAllocator_raw_delete=give,
    )
    return module


@contextmanager
def fake_torch_gpu(library: Any = None) -> Iterator[Any]:
    """A fake torch, as `sys.modules` has it meanwhile, on a fake driver, which it has as `library`.

    Nothing is remembered before or after.
    """
    module = make_torch()
    module.library = FakeLibrary() if library is None else library
    module.driver = cuda.Driver(module.library)
    former, former_driver = sys.modules.get("torch"), cuda.get_driver
    caches = (arrays.torch_dtypes, streams.torch_current_stream)
    sys.modules["torch"], cuda.get_driver = module, lambda: module.driver  # type: ignore[assignment]
    for cache in caches:
        cache.cache_clear()
    memory.forget()
    try:
        yield module
    finally:
        cuda.get_driver = former_driver
        if former is None:
            del sys.modules["torch"]
        else:
            sys.modules["torch"] = former
        for cache in caches:
            cache.cache_clear()
        memory.forget()
