"""An array in device memory by the driver alone, for processes that need no framework."""

from __future__ import annotations

import math

import numpy as np

from phalanx.runtime.device import driver as cuda


class DeviceArray:
    """A strided window into an allocation of its own; what it needs to be a kernel's argument, and no more.

    `raw` holds the bytes of the whole window, which starts `low` bytes after a 256-byte boundary.
    """

    def __init__(
        self, raw: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], dtype_name: str, *, device: int, low: int
    ) -> None:
        self._allocate(shape, strides, dtype_name, raw.nbytes, device, low)
        self.write(raw)

    @classmethod
    def zeros(cls, shape: tuple[int, ...], dtype_name: str, itemsize: int, *, device: int) -> DeviceArray:
        """An array of zeros, row after row, with none like it on the host.

        Example: ``DeviceArray.zeros((1 << 20, 64), "f32", 4, device=0)``.
        """
        made = cls.__new__(cls)
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        made._allocate(shape, strides, dtype_name, math.prod(shape) * itemsize, device, 0)
        return made

    def _allocate(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype_name: str, nbytes: int, device: int, low: int
    ) -> None:
        self.shape, self.strides, self.dtype_name, self.device = shape, strides, dtype_name, device
        self.nbytes = nbytes
        driver = cuda.get_driver()
        with driver.context(device):
            self.base = driver.allocate(max(nbytes + low, 16))
        self.pointer = self.base + low

    def write(self, raw: np.ndarray) -> None:
        """Replaces the bytes of the array."""
        driver = cuda.get_driver()
        if self.nbytes:
            with driver.context(self.device):
                driver.copy_to_device(self.pointer, raw.ctypes.data, self.nbytes)
