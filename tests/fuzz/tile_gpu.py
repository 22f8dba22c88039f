"""Cases on the GPU, in a process that may be lost: `python -m fuzz.tile_gpu` takes cases and gives memories back.

A kernel that goes wrong on a GPU takes the whole context with it. So the process that has the context does nothing else,
and a new one takes its place.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import phalanx as px
from fuzz.tile_programs import Case

COMPILING = float(os.environ.get("PHALANX_FUZZ_COMPILING", 60))
"""Seconds for the compiler: a few random kernels take it half a minute, as long as a hundred others."""
PATIENCE = 60.0
"""Seconds for the launch: a kernel that is not done by then hangs."""
COMPILED = "compiled"
GUARD = 512
"""Bytes on both sides of an array's memory that must not change."""
PATTERN = 0xA5


class GpuFailure(Exception):
    """The kernel did not run to its end on the GPU."""


class SlowCompilation(Exception):
    """The compiler was not done in time: nothing is known of the case."""


class GpuRefusal(Exception):
    """The case was refused with a message that has a place."""


class GpuProcess:
    """Takes one case at a time; `begin` sends it, `finish` waits for what became of it."""

    def __init__(self, command: list[str] | None = None) -> None:
        self._command = command or [sys.executable, "-m", "fuzz.tile_gpu"]
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    def begin(self, case: Case) -> None:
        if self._process is None or self._process.poll() is not None:
            environment = {**os.environ, "PHALANX_CACHE": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
        assert self._process.stdin is not None
        try:
            pickle.dump(case, self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `finish` tells

    def finish(self) -> list[np.ndarray]:
        """The memories after the run; or raises what became of the case instead."""
        answer = self._answer(COMPILING, SlowCompilation(f"not compiled within {COMPILING:.0f} s"))
        if answer == COMPILED:
            answer = self._answer(PATIENCE, GpuFailure(f"no answer within {PATIENCE:.0f} s"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answer(self, patience: float, late: Exception) -> Any:
        process = self._process
        assert process is not None and process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], patience)
        if not ready:
            self.stop()
            raise late
        try:
            return pickle.load(process.stdout)
        except EOFError:
            code = process.wait()
            self._process = None
            raise GpuFailure(f"the process on the GPU ended with {code}") from None

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


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
    px.compile(kernel[case.grid], *case.with_arrays(arrays))
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


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    """Runs cases until there are no more, or until one has gone wrong."""
    from phalanx.ir.location import NOWHERE
    from phalanx.runtime.device.driver import DriverError

    def tell(answer: Any) -> None:
        pickle.dump(answer, answers)
        answers.flush()

    with tempfile.TemporaryDirectory(prefix="phalanx-tiles-") as folder:
        while True:
            try:
                case = pickle.load(source)
            except EOFError:
                return
            lost = False
            answer: Any
            try:
                answer = on_gpu(case, Path(folder), lambda: tell(COMPILED))
            except px.Error as error:
                lost = isinstance(error, DriverError)
                answer = GpuFailure(str(error)) if error.location is NOWHERE else GpuRefusal(str(error))
            except Exception as error:
                lost = True
                answer = error if isinstance(error, GpuFailure) else GpuFailure(f"{type(error).__name__}: {error}")
            tell(answer)
            if lost:
                return


if __name__ == "__main__":
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what kernels print does not mix with the answers
    import fuzz.tile_gpu

    fuzz.tile_gpu.serve(sys.stdin.buffer, channel)
