"""A hand-written GEMM, built from a CUDA file given on the command line, for the comparison in `gemm.py`.

It is expected to define `k(map A, map B, map C, int M, int N, int K)`: 384 threads, a cluster of 2 in its own
attributes, tiles of 128 x 256 x 64 in bf16, `ST` stages, `GROUP` rows of tiles, an output buffer in `HALVES` pieces;
M and N multiples of 256.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from phalanx.cuda.abi import TENSOR_MAP_BYTES, TensorMapSlot
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.runtime.device.driver import LaunchConfig, get_driver
from phalanx.runtime.device.tensormap import encode, geometry

STAGES, GROUP, HALVES = 4, 8, 2
SHARED_BYTES = STAGES * (128 + 256) * 64 * 2 + 65536 // HALVES + 1024


class Reference:
    """The compiled file; `launch(a, b, c)` returns a function that runs it on these tensors."""

    name = "reference"
    checks = ((1024, 1024, 512),)

    def __init__(self, path: Path) -> None:
        macros = tuple(f"-D{name}={value}" for name, value in (("ST", STAGES), ("GROUP", GROUP), ("HALVES", HALVES)))
        options = (*macros, f"-I{path.resolve().parent}")
        image = compile_cuda(path.read_text(), "sm_90a", name=path.name, options=options)
        self.driver = get_driver()
        _, self.function = self.driver.load_function(0, image.cubin, "k")
        with self.driver.context(0):
            self.driver.set_function_attribute(self.function, "max_dynamic_shared_bytes", SHARED_BYTES)

    def fits(self, m: int, n: int, k: int) -> bool:
        return m % 256 == 0 and n % 256 == 0 and k % 64 == 0

    def launch(self, a: Any, b: Any, c: Any) -> Any:
        (m, k), n = a.shape, b.shape[0]
        storage = (ctypes.c_char * (4 * TENSOR_MAP_BYTES))()
        base = ctypes.addressof(storage)
        base += -base % TENSOR_MAP_BYTES
        for position, (tensor, box) in enumerate(((a, (128, 64)), (b, (128, 64)), (c, (64, 64)))):
            shape = geometry(TensorMapSlot(position, box, 128), "bf16", tuple(tensor.shape), tuple(tensor.stride()))
            ctypes.memmove(
                base + position * TENSOR_MAP_BYTES, encode(self.driver, tensor.data_ptr(), shape), TENSOR_MAP_BYTES
            )
        sizes = (ctypes.c_int * 3)(m, n, k)
        addresses = [base + i * TENSOR_MAP_BYTES for i in range(3)]
        addresses += [ctypes.addressof(sizes) + 4 * i for i in range(3)]
        parameters = (ctypes.c_void_p * 6)(*addresses)
        config = LaunchConfig(
            grid=(132, 1, 1), block=(384, 1, 1), shared_bytes=SHARED_BYTES, stream=0, attributes=None, attribute_count=0
        )

        def run(keep: tuple[Any, ...] = (storage, sizes)) -> None:
            self.driver.call(
                "cuLaunchKernelEx", ctypes.addressof(config), self.function, ctypes.addressof(parameters), None
            )

        return run

    def watched(self, a: Any, b: Any, c: Any) -> None:
        """It has no version with bounded waits."""
