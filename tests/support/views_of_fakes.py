"""Tensors of the fake torch with views of them, whose memory is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np


class Tensor:
    """A torch tensor on a GPU, as far as the library's functions look at it: the memory is NumPy's."""

    requires_grad = False

    def __init__(self, array: np.ndarray, dtype: Any, device: int = 0) -> None:
        self.array, self.dtype, self.device = array, dtype, device
        self.shape = array.shape

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def get_device(self) -> int:
        return self.device

    def _with(self, array: np.ndarray) -> Tensor:
        return type(self)(array, self.dtype, self.device)

    def __getitem__(self, index: Any) -> Tensor:
        return self._with(self.array[index, ...] if type(index) is int else self.array[index])  # an element is a view, too

    def reshape(self, *shape: Any) -> Tensor:
        return self._with(self.array.reshape(*shape))

    def swapaxes(self, a: int, b: int) -> Tensor:
        return self._with(self.array.swapaxes(a, b))

    def contiguous(self) -> Tensor:
        return self._with(aligned(self.array.shape, self.array.dtype))

    def numel(self) -> int:
        return self.array.size

    def element_size(self) -> int:
        return self.array.itemsize


Tensor.__module__ = "torch"


def aligned(shape: tuple[int, ...], dtype: Any, offset: int = 0) -> np.ndarray:
    """Uninitialised memory whose address is `offset` beyond a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.empty(size + 192, np.uint8)
    start = -room.ctypes.data % 64 + offset
    return room[start : start + size].view(dtype).reshape(shape)
