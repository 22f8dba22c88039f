"""One case on each floor: in the simulator, and as CUDA text on the host."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

import host_cuda
import phalanx as px
from fuzz.tile_programs import Case
from phalanx.cuda.module import Module, generate
from phalanx.ir.archs import arch_of
from phalanx.passes.lower import lower
from phalanx.runtime.specialise import read_arguments, specialise


def load_kernel(case: Case, folder: Path) -> Any:
    """The kernel of a case, read from a file of its own."""
    name = f"tiles_{case.seed}"
    file = folder / f"{name}.py"
    file.write_text(case.text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


def simulated(case: Case, kernel: Any) -> list[np.ndarray]:
    """The memories after a run in the simulator."""
    memories = case.memories()
    with np.errstate(all="ignore"):
        kernel[case.grid](*case.launch_arguments(memories))
    return memories


def checked(case: Case, kernel: Any) -> str | None:
    """What the sanitizer finds, None if nothing."""
    with np.errstate(all="ignore"):
        report = px.check(kernel[case.grid], *case.launch_arguments(case.memories()), schedules=1)
    return None if report.ok else str(report)


def module_of(case: Case, kernel: Any) -> Module:
    """The CUDA text of the case's launch."""
    arguments = read_arguments(kernel, tuple(case.launch_arguments(case.memories())))
    return generate(lower(specialise(kernel, arguments, kernel.bind_constants({})).prepared, arch_of("sm_90a")))


def on_host(case: Case, module: Module) -> list[np.ndarray]:
    """The memories after the text ran on the host."""
    memories = case.memories()
    arguments = [value for value in case.launch_arguments(memories) if value is not None]
    library = host_cuda.build(module)
    packed = [_pack(value) for value in arguments]
    pointers = (ctypes.c_void_p * max(1, len(packed)))(*(ctypes.addressof(p) for p in packed))
    gx, gy, gz = (*case.grid, 1, 1)[:3]
    if library.px_run(pointers, module.threads, gx, gy, gz, case.seed):
        raise host_cuda.HostFailure("the threads wait for each other")
    return memories


def _pack(value: Any) -> Any:
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        return ctypes.c_int64(value) if value < 2**63 else ctypes.c_uint64(value)
    return host_cuda._pack(value)
