"""Runs kernels on the CPU as programs of their own: under the compilers' sanitizers, and for other architectures.

Each case is a process, so that a crash loses nothing but itself. Arrays are allocated one by one with exactly their extent,
shared memory with exactly the kernel's bytes, so that the address sanitizer sees what lies beyond them.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phalanx.cuda.module import Module
from support import host_build
from support.host_build import RUNNER, HostFailure
from support.host_cuda import extent, host_source, launch_of, packed_arguments
from support.host_hand import arrays_of
from support.host_text import with_line

MOST_BYTES = 1 << 28
"""Of one buffer, which goes through a file."""
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:handle_abort=1:allocator_may_return_null=0",
    "UBSAN_OPTIONS": "print_stacktrace=0:halt_on_error=1",
}
Run = tuple[Any, list[Any], int]
"""Grid, arguments, seed."""


def run_program(
    modules: Sequence[Module], runs: Sequence[Run], *, sanitize: bool = False, compiler: str | None = None
) -> list[str | None]:
    """Runs each module in place on its arrays; per module why it failed, if it did."""
    program = host_build.program(host_source(*modules), sanitize, compiler)
    with tempfile.TemporaryDirectory(prefix="phalanx-host-run-") as name:
        folder = Path(name)
        layouts = []
        for n, (module, (grid, args, seed)) in enumerate(zip(modules, runs, strict=True)):
            buffers = _buffers(arrays_of(args))
            (folder / f"{n}.job").write_bytes(_job(module, grid, args, seed, buffers))
            layouts.append(buffers)
        command = [*RUNNER, str(program), name, *map(str, range(len(modules)))]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **ENVIRONMENT}, errors="replace"
        )
        if done.returncode:
            raise HostFailure(f"{' '.join(command[:3])}: {done.returncode}\n{done.stderr[-2000:]}")
        return [_result(folder, n, module, arrays_of(runs[n][1]), layouts[n]) for n, module in enumerate(modules)]


def _root(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _buffers(args: list[Any]) -> dict[int, tuple[int, int, list[int]]]:
    """Per first address: behind the last one, and which arguments lie in it.

    An array that lies without gaps is a buffer by itself; what is strided, or shares its base with others, stays there.
    """
    arrays = [(n, value) for n, value in enumerate(args) if isinstance(value, np.ndarray)]
    bases = [id(_root(value)) for _, value in arrays]
    buffers: dict[int, tuple[int, int, list[int]]] = {}
    for n, value in arrays:
        alone = bases.count(id(_root(value))) == 1
        first, last = extent(value if alone and value.size * value.itemsize == np.ptp(extent(value)) else _root(value))
        if last - first > MOST_BYTES:
            raise HostFailure(f"argument {n} lies in {last - first} bytes: too many for a program of its own")
        known = buffers.get(first)
        members = [*known[2], n] if known else [n]
        buffers[first] = (first, max(last, known[1] if known else 0), members)
    return buffers


def _job(
    module: Module, grid: Any, args: list[Any], seed: int, buffers: dict[int, tuple[int, int, list[int]]]
) -> bytes:
    """What `run_case` of the machine reads."""
    job = [bytes(launch_of(module, grid, seed)), struct.pack("<I", len(buffers))]
    home: dict[int, tuple[int, int]] = {}
    for number, (first, last, members) in enumerate(buffers.values()):
        job += [struct.pack("<QI", last - first, first % 256), ctypes.string_at(first, last - first)]
        home |= {n: (number, arrays_of(args)[n].ctypes.data - first) for n in members}
    packed = packed_arguments(module, args)
    job.append(struct.pack("<I", len(packed)))
    for data, owner in packed:
        if owner in home:
            job += [struct.pack("<II", len(data), 1), data, struct.pack("<IIq", 0, *home[owner])]
        else:
            job += [struct.pack("<II", len(data), 0), data]
    return b"".join(job)


def _result(
    folder: Path, n: int, module: Module, args: list[Any], buffers: dict[int, tuple[int, int, list[int]]]
) -> str | None:
    code = int((folder / f"{n}.rc").read_text())
    if code == 0:
        data, at = (folder / f"{n}.out").read_bytes(), 0
        for first, last, _ in buffers.values():
            ctypes.memmove(first, data[at : at + last - first], last - first)
            at += last - first
        return None
    # The machine tells the address sanitizer of each switch, which its warning does not know.
    errors = re.sub(r"==\d+==WARNING: ASan doesn't fully support.*\n", "", (folder / f"{n}.err").read_text(errors="replace"))
    errors = errors.partition("Shadow bytes around")[0].strip("= \n")
    if match := re.match(r"buffer (\d+) byte (\d+): ", errors):
        first, _, members = list(buffers.values())[int(match[1])]
        byte = first + int(match[2]) - args[members[0]].ctypes.data
        errors = re.sub(r"address \d+", f"byte {byte} of argument {members[0]}", errors[match.end() :])
    return with_line(module, "\n".join(errors.splitlines()[:40])) or f"ended by signal {-code}"
