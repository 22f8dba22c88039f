"""A small kernel by which `phalanx doctor` sees whether kernels can be simulated, checked, compiled and launched here."""

from __future__ import annotations

from typing import Any

import numpy as np

import phalanx as px

COUNT = 256


@px.kernel(warps=1)
def double(X, Y):
    """Y = 2 X, through the copy engine and a barrier."""
    tile, full = px.shared((256,), X.dtype), px.barrier()
    with full.transaction():
        px.tma.load(X[0:256], tile, full)
    full.wait(0)
    px.store(Y[0:256], 2 * px.load(tile))


def numbers() -> tuple[np.ndarray, np.ndarray]:
    """The arrays of the trial."""
    return np.arange(COUNT, dtype=np.float32), np.zeros(COUNT, np.float32)


def simulate() -> None:
    """Runs and checks it in the simulator; raises where it is not right."""
    x, y = numbers()
    double[1](x, y)
    if not np.array_equal(y, 2 * x):
        raise ArithmeticError("the simulator computes something else")
    px.check(double[1], x, y).raise_if_found()


def compile_for(arch: str) -> None:
    """Compiles the kernel for a target."""
    px.compile(double[1], *numbers(), arch=arch)


def launch() -> None:
    """Runs it on the GPU; raises where it is not right."""
    from phalanx.runtime.device.device_array import DeviceArray
    from phalanx.runtime.device.driver import get_driver

    x, y = numbers()
    arrays: list[Any] = [DeviceArray(a, a.shape, (1,), "f32", device=0, low=0) for a in (x, y)]
    double[1](*arrays)
    driver = get_driver()
    with driver.context(0):
        driver.call("cuCtxSynchronize")
        driver.copy_to_host(y.ctypes.data, arrays[1].pointer, y.nbytes)
    if not np.array_equal(y, 2 * x):
        raise ArithmeticError("the GPU computes something else")
