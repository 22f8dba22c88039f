"""An array in device memory by the driver alone, for processes that need no framework."""

from __future__ import annotations

import numpy as np

from phalanx.runtime.device.driver import get_driver


class DeviceArray:
    """A strided window into an allocation of its own; what it needs to be a kernel's argument, and no more.

    `raw` holds the bytes of the whole window, which starts `low` bytes after a 256-byte boundary.
    """

    def __init__(
        self, raw: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], dtype_name: str, *, device: int, low: int
    ) -> None:
        self.shape, self.strides, self.dtype_name, self.device = shape, strides, dtype_name, device
        self.nbytes = raw.nbytes
        driver = get_driver()
        with driver.context(device):
            self.base = driver.allocate(max(self.nbytes + low, 16))
        self.pointer = self.base + low
        self.write(raw)

    def write(self, raw: np.ndarray) -> None:
        """Replaces the bytes of the array."""
        driver = get_driver()
        if self.nbytes:
            with driver.context(self.device):
                driver.copy_to_device(self.pointer, raw.ctypes.data, self.nbytes)
