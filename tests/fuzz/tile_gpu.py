"""Tile kernels on the GPU: `python -m fuzz.tile_gpu` takes cases and gives memories back."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import phalanx as px
from fuzz.gpu_process import GpuFailure, GpuRefusal, child, compile_here
from fuzz.tile_programs import Case

COMMAND = [sys.executable, "-m", "fuzz.tile_gpu"]
GUARD = 512
"""Bytes on both sides of an array's memory that must not change."""
PATTERN = 0xA5


def on_gpu(case: Case, folder: Path, compiled: Callable[[], None]) -> list[np.ndarray]:
    """The memories after a launch here; `compiled` is called before it."""
    from fuzz.tile_runs import load_kernel
    from phalanx.runtime.device.device_array import DeviceArray
    from phalanx.runtime.device.driver import get_driver

    driver, memories = get_driver(), case.memories()
    kernel = load_kernel(case, folder)
    arrays: list[Any] = []
    for plan, memory in zip(case.arrays, memories, strict=True):
        raw = np.full(memory.nbytes + 2 * GUARD, PATTERN, np.uint8)
        raw[GUARD : GUARD + memory.nbytes] = memory.view(np.uint8)
        array = DeviceArray(raw, plan.shape, plan.strides, plan.dtype, device=0, low=0)
        array.pointer = array.base + GUARD + plan.offset * memory.itemsize
        arrays.append(array)
    compile_here(kernel[case.grid], *case.with_arrays(arrays))
    compiled()
    kernel[case.grid](*case.with_arrays(arrays))
    driver.synchronize()
    got = []
    with driver.context(0):
        for array, memory in zip(arrays, memories, strict=True):
            raw = np.zeros(array.nbytes, np.uint8)
            driver.copy_to_host(raw.ctypes.data, array.base, array.nbytes)
            driver.free(array.base)
            if (raw[:GUARD] != PATTERN).any() or (raw[GUARD + memory.nbytes :] != PATTERN).any():
                raise GpuFailure("something was written beside the memory of an array")
            got.append(raw[GUARD : GUARD + memory.nbytes].view(memory.dtype))
    return got


def answered(case: Case, compiled: Callable[[], None]) -> tuple[Any, bool]:
    """The memories after a launch, or what went wrong; and whether the context is lost."""
    from phalanx.location import NOWHERE
    from phalanx.runtime.device.driver import DriverError

    try:
        with tempfile.TemporaryDirectory(prefix="phalanx-tiles-") as folder:
            return on_gpu(case, Path(folder), compiled), False
    except px.Error as error:
        story = GpuFailure(str(error)) if error.location is NOWHERE else GpuRefusal(str(error))
        return story, isinstance(error, DriverError)
    except Exception as error:
        return error if isinstance(error, GpuFailure) else GpuFailure(f"{type(error).__name__}: {error}"), True


if __name__ == "__main__":
    child(answered)
