"""`px.check`: the kernel in the simulator, under several schedules, with every rule of `docs/checks.md` looked after."""

from __future__ import annotations

import ctypes
import gc
import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir.core import Function
from phalanx.runtime.dispatch import BoundLaunch, debugging
from phalanx.runtime.specialise import normalise_grid, read_arguments, specialise

if TYPE_CHECKING:
    from phalanx.sanitizer.findings import Finding
    from phalanx.sanitizer.report import Report
    from phalanx.sim.scheduler import Schedule

DEFAULT_SCHEDULES = 3


def check(
    bound: BoundLaunch, *args: Any, schedules: int = DEFAULT_SCHEDULES, seed: int = 0, strict: bool = False,
    **constants: Any,
) -> Report:
    """Runs the kernel in the simulator and reports what is wrong with its choreography.

    Anyone may call it, outside kernels; needs no GPU. The arguments are copied: nothing of the caller's changes. `schedules`
    is how many orders of events are tried: asynchronous work as late as possible, as early as possible, then random ones
    from `seed` on; the first with a finding ends the search. `strict=True` also asks for a proxy fence between a generic
    read and an asynchronous write. Example::

        report = px.check(copy[64], x, y, BM=128)
        assert report.ok, report
    """
    if not isinstance(bound, BoundLaunch):
        raise Error("px.check takes a kernel with its grid", remedy="write px.check(kernel[grid], *arguments)")
    if not isinstance(schedules, int) or schedules < 1:
        raise Error(f"schedules={schedules!r}", remedy="try at least one schedule")
    from phalanx.sanitizer.report import Report

    kernel = bound.kernel
    report = Report(kernel.name)
    with debugging(kernel):
        values = kernel.bind_constants(constants)
        arguments = read_arguments(kernel, args)
        grid = normalise_grid(kernel, bound.grid, values)
        try:
            function = specialise(kernel, arguments, values).prepared
        except Error as error:
            report.findings = [finding_of(error)]
            return report
        host = on_host([argument.value for argument in arguments if argument.type is not None])
        if 0 in grid:
            return report
        for number, schedule in enumerate(schedules_of(schedules, seed)):
            report.schedules += (describe(schedule),)
            report.findings = run_checked(
                function, grid, copies_of(host), schedule, strict=strict, seed=seed, quiet=number > 0
            )
            if report.findings:
                break
    return report


def schedules_of(count: int, seed: int) -> list[Schedule]:
    """Late, early, then random with one seed after the other."""
    from phalanx.sim.scheduler import Schedule

    fixed = [Schedule("late", seed), Schedule("early", seed)]
    return [*fixed, *(Schedule("random", seed + i) for i in range(count - 2))][:count]


def describe(schedule: Schedule) -> str:
    return f"random, seed {schedule.seed}" if schedule.kind == "random" else schedule.kind


def run_checked(
    function: Function, grid: Sequence[int], args: list[Any], schedule: Schedule, *, strict: bool = False, seed: int = 0,
    quiet: bool = False,
) -> list[Finding]:
    """The findings of one run of a prepared kernel. `args` are changed as the kernel changes them."""
    from phalanx.sanitizer.checker import Checker
    from phalanx.sanitizer.findings import KINDS, Findings
    from phalanx.sim.run import simulate

    found = Findings(schedule.kind, schedule.seed if schedule.kind == "random" else seed)
    checker = Checker(function, tuple(args), found, strict=strict)
    collecting = gc.isenabled()
    gc.disable()  # records make no cycles, and there are many of them
    try:
        simulate(
            function, grid, args, schedule=schedule, monitor=checker, out=io.StringIO() if quiet else sys.stdout
        )
    except Error as error:
        if error.kind != "deadlock":  # of which the checker knows
            if error.kind in KINDS:
                found.add(error.kind, error.location, describe=lambda error=error: finding_of(error))
            elif not found.items:
                raise
    finally:
        if collecting:
            gc.enable()
    return checker.finish()


def finding_of(error: Error) -> Finding:
    """An error that a pass or the simulator raised, if it is one of the checks'; otherwise it is raised on."""
    from phalanx.sanitizer.findings import KINDS, Finding

    if error.kind not in KINDS:
        raise error
    message = f"{error.message}; {error.remedy}" if error.remedy else error.message
    return Finding(
        error.kind, message, error.location, getattr(error, "other", None), notes=tuple((error.details or "").splitlines())
    )


def on_host(values: list[Any]) -> list[Any]:
    """CUDA arrays are copied to the host; NumPy arrays and numbers stay."""
    from phalanx.runtime.arrays import describe, to_host

    return [to_host(value) if describe(value) is not None else value for value in values]


def copies_of(values: list[Any]) -> list[Any]:
    """Copies with the same strides, alignment and overlaps: what overlapped still does."""
    from phalanx.sanitizer.globals import overlapping

    out = list(values)
    arrays = {i: value for i, value in enumerate(values) if isinstance(value, np.ndarray) and value.size}
    for group in overlapping(arrays):
        bounds = [np.lib.array_utils.byte_bounds(arrays[i]) for i in group]
        low, high = min(b[0] for b in bounds), max(b[1] for b in bounds)
        raw = np.empty(high - low + 1024, np.uint8)
        start = (low - raw.ctypes.data) % 1024
        memory = raw[start : start + high - low]
        ctypes.memmove(memory.ctypes.data, low, high - low)
        for i in group:
            array = arrays[i]
            offset = array.__array_interface__["data"][0] - low
            copy = np.ndarray(array.shape, array.dtype, memory, offset, array.strides)
            copy.flags.writeable = array.flags.writeable
            out[i] = copy
    return out
