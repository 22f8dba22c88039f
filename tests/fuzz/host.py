"""Many kernels on the CPU in one go: their CUDA text in few translation units, plain or under the compilers' sanitizers.

Example::

    case = HostCase(module_for(kernel, args, N=64), grid=4, args=[x, y, 7], seed=3)
    [result] = run_batch([case], sanitize=True)
    assert result.failure is None, result.failure   # x and y hold what the kernel left in them
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from phalanx.cuda.module import Module
from support import host_build
from support.host_build import RUNNER, HostFailure
from support.host_cuda import called, host_source, in_bytes
from support.host_program import run_program


@dataclass(frozen=True)
class HostCase:
    """One launch. Arrays change in place; any strides and any base do, also a mapping that is mostly not there (such ones
    only in plain runs: a program of its own gets its arrays through a file)."""

    module: Module
    grid: int | tuple[int, ...]
    args: list[np.ndarray | int | float]
    seed: int = 1


@dataclass(frozen=True)
class HostResult:
    """`args` are those of the case, changed in place unless `failure` says what went wrong: threads that wait for each
    other, a misaligned access, a crash, a report of a sanitizer. With `unsupported` the text was not run, since it has
    instructions without a host version."""

    args: list[Any]
    failure: str | None = None
    unsupported: bool = False


def run_batch(cases: Sequence[HostCase], sanitize: bool = False, compiler: str | None = None) -> list[HostResult]:
    """Runs all cases, whose text is one translation unit, and says how each went.

    Plain runs happen inside this process, in a library. With `sanitize`, with a `compiler` that is not the tests' own, or
    where `PHALANX_TEST_RUNNER` is set, the batch is a program that runs each case in a process of its own.
    """
    results: list[HostResult | None] = [None] * len(cases)
    runnable = []
    for n, case in enumerate(cases):
        try:
            host_source(case.module)
            runnable.append(n)
        except HostFailure as failure:
            results[n] = HostResult(case.args, str(failure), unsupported=True)
    _run(cases, runnable, sanitize, compiler, results)
    return [result for result in results if result is not None]


def _run(
    cases: Sequence[HostCase], chosen: list[int], sanitize: bool, compiler: str | None, results: list[HostResult | None]
) -> None:
    if not chosen:
        return
    try:
        stories = _stories([cases[n] for n in chosen], sanitize, compiler)
    except HostFailure as failure:  # one text that is refused must not lose the others
        if len(chosen) == 1:
            results[chosen[0]] = HostResult(cases[chosen[0]].args, str(failure))
            return
        half = len(chosen) // 2
        _run(cases, chosen[:half], sanitize, compiler, results)
        _run(cases, chosen[half:], sanitize, compiler, results)
        return
    for n, story in zip(chosen, stories, strict=True):
        results[n] = HostResult(cases[n].args, story)


def _stories(cases: list[HostCase], sanitize: bool, compiler: str | None) -> list[str | None]:
    with ExitStack() as stack:
        bare = [stack.enter_context(in_bytes(case.args)) for case in cases]
        return _told([replace(case, args=args) for case, args in zip(cases, bare, strict=True)], sanitize, compiler)


def _told(cases: list[HostCase], sanitize: bool, compiler: str | None) -> list[str | None]:
    modules = [case.module for case in cases]
    if sanitize or RUNNER or compiler is not None:
        runs = [(case.grid, case.args, case.seed) for case in cases]
        return run_program(modules, runs, sanitize=sanitize, compiler=compiler)
    library = host_build.library(host_source(*modules))
    functions = (ctypes.c_void_p * len(cases)).in_dll(library, "px_kernels")
    return [called(functions[n], case.module, case.grid, case.args, case.seed) for n, case in enumerate(cases)]
