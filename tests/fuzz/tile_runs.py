"""Cases in the simulator and as CUDA text on the host."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import phalanx as px
from fuzz.tile_programs import Case
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import Module, generate
from phalanx.ir.archs import arch_of
from phalanx.runtime.launch.specialise import read_arguments, specialise


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


def on_host(cases: Sequence[Case], modules: Sequence[Module], sanitize: bool) -> list[list[np.ndarray] | str]:
    """For each case the memories after its text ran on the host, or why it did not run to its end."""
    from fuzz.host import HostCase, run_batch  # needs a C++ compiler, which a GPU's machine may not have
    from support.host_build import COMPILER

    memories = [case.memories() for case in cases]
    launches = []
    for case, module, held in zip(cases, modules, memories, strict=True):
        arguments = [value for value in case.launch_arguments(held) if value is not None]
        launches.append(HostCase(module, case.grid, arguments, case.seed))
    results = run_batch(launches, sanitize, COMPILER)  # as a program: a crash loses one case, and not this process
    return [
        held if result.failure is None else result.failure for held, result in zip(memories, results, strict=True)
    ]
