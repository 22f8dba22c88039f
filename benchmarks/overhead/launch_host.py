"""What a repeated launch costs in Python, on any machine: torch and the driver are stand-ins that do nothing.

The same calls as on a GPU, but for the driver's own part, in microseconds of CPU time, the best of several rounds. To
compare two commits, run it in both, in turns. `launch.py` has what a GPU says.
"""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import ROOT

sys.path[:0] = [str(ROOT / folder) for folder in ("src", "tests")]

import phalanx as px
from benchmarks.common import machine
from phalanx.runtime.device import arrays
from phalanx.runtime.device import driver as cuda
from support.fake_driver import FakeLibrary

KINDS = {"float32": np.float32, "bfloat16": np.int16}


class DType:
    """A torch dtype: compared by identity."""

    def __init__(self, name: str) -> None:
        self.name, self.itemsize = name, arrays.ITEM_BYTES[arrays.DTYPE_NAMES[name]]


class Tensor:
    """As much of a torch tensor as a launch asks for."""

    __slots__ = ("array", "device", "dtype", "pointer", "requires_grad", "shape", "strides")

    def __init__(self, array: np.ndarray, dtype: Any) -> None:
        self.array, self.dtype, self.device, self.requires_grad = array, dtype, 0, False
        self.shape, self.pointer = array.shape, array.ctypes.data
        self.strides = tuple(step // array.itemsize for step in array.strides)

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def get_device(self) -> int:
        return self.device

    def numel(self) -> int:
        return self.array.size

    def element_size(self) -> int:
        return self.array.itemsize

    def swapaxes(self, a: int, b: int) -> Tensor:
        return Tensor(self.array.swapaxes(a, b), self.dtype)

    def reshape(self, *shape: Any) -> Tensor:
        return Tensor(self.array.reshape(*shape), self.dtype)


Tensor.__module__ = "torch"


def stand_ins() -> Any:
    """A module "torch" and a driver whose launches return at once."""
    torch: Any = types.ModuleType("torch")
    for name in arrays.DTYPE_NAMES:
        setattr(torch, name, DType(name))
    torch.Tensor, torch.is_grad_enabled = Tensor, lambda: False
    torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 0, _increment_version=lambda tensors: None)
    made: dict[Any, Tensor] = {}

    def empty(shape: tuple[int, ...], dtype: Any, device: int = 0) -> Tensor:
        """Always the same memory: what an allocator costs is not the question."""
        key = (tuple(shape), dtype.name)
        if key not in made:
            made[key] = new(torch, shape, dtype.name)
        return made[key]

    torch.empty, torch.empty_like = empty, lambda x: empty(x.shape, x.dtype)
    torch.empty_strided = lambda shape, strides, dtype, device: empty(shape, dtype)
    sys.modules["torch"] = torch
    driver = cuda.Driver(FakeLibrary())
    known = driver.function
    driver.function = lambda name: (lambda *_: 0) if name == "cuLaunchKernelEx" else known(name)  # type: ignore[method-assign]
    cuda.get_driver = lambda: driver  # type: ignore[assignment]
    return torch


def new(torch: Any, shape: tuple[int, ...], dtype: str = "float32") -> Tensor:
    """A tensor whose address is a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(KINDS[dtype]).itemsize
    room = np.empty(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return Tensor(room[start : start + size].view(KINDS[dtype]).reshape(shape), getattr(torch, dtype))


@px.kernel(warps=1)
def six(X, Y, Z, a, b, c, *, GUARD=-1):
    if a == GUARD:
        px.store(X[0], px.load(Y[0]) + px.load(Z[0]) * b + c)


def cases(torch: Any) -> dict[str, Callable[[], Any]]:
    x, y, z = (new(torch, (1024,)) for _ in range(3))
    u, v, w = (new(torch, (2048,)) for _ in range(3))
    rows, left, right = new(torch, (8, 64)), *(new(torch, (64, 64), "bfloat16") for _ in range(2))
    bound = six[1]

    def two_geometries() -> None:
        six[1](x, y, z, 3, 2.0, 1.0, GUARD=-3)
        six[1](u, v, w, 3, 2.0, 1.0, GUARD=-3)

    def two_grids() -> None:
        six[1](x, y, z, 3, 2.0, 1.0)
        six[2](y, z, x, 3, 2.0, 1.0)

    return {
        "bound once": lambda: bound(x, y, z, 3, 2.0, 1.0),
        "kernel[grid](...)": lambda: six[1](x, y, z, 3, 2.0, 1.0),
        "with a constant": lambda: six[1](x, y, z, 3, 2.0, 1.0, GUARD=-2),
        "two geometries in turns (two launches)": two_geometries,
        "two grids, other pointers (two launches)": two_grids,
        "softmax(x)": lambda: px.kernels.softmax(rows),
        "matmul(a, b)": lambda: px.kernels.matmul(left, right),
    }


def microseconds(run: Callable[[], Any], calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        run()
    return 1e6 * (time.process_time() - start) / calls


def main() -> None:
    parser = machine.arguments(__doc__, 7)
    parser.add_argument("--calls", type=int, default=3000)
    options = parser.parse_args()
    best = {}
    for name, run in cases(stand_ins()).items():
        microseconds(run, 30)
        best[name] = min(microseconds(run, options.calls) for _ in range(options.rounds))
        print(f"{name:42} {best[name]:6.2f} us")
    machine.save(options.json, {"best_us": best})


if __name__ == "__main__":
    main()
