"""Runs of a prepared kernel in the simulator with the checks listening, each under one schedule.

For `px.check`, for its parts in other processes, and for tests that judge one run at a time.
"""

from __future__ import annotations

import ctypes
import gc
import io
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from phalanx.errors import Error
from phalanx.ir.core import Function
from phalanx.sanitizer.bounds import Bounds
from phalanx.sanitizer.checker import Checker
from phalanx.sanitizer.doubts import Doubt
from phalanx.sanitizer.findings import KINDS, Finding, Findings
from phalanx.sanitizer.globals import overlapping
from phalanx.sanitizer.held_runs import Held
from phalanx.sanitizer.overlap import OverlapChecker
from phalanx.sanitizer.records import actor_of
from phalanx.sim.run import simulate, with_counters
from phalanx.sim.scheduler import Hold, Schedule


def schedules_of(count: int, seed: int) -> list[Schedule]:
    """Late, early, then random with one seed after the other."""
    fixed = [Schedule("late", seed), Schedule("early", seed)]
    return [*fixed, *(Schedule("random", seed + i) for i in range(count - 2))][:count]


def describe(schedule: Schedule) -> str:
    """The order of events that a schedule stands for, in words, as reports list it."""
    if schedule.kind == "starve":
        return ", ".join(map(describe_hold, schedule.held))
    return f"random, seed {schedule.seed}" if schedule.kind == "random" else schedule.kind


def describe_hold(hold: Hold) -> str:
    """What a run holds back, in words."""
    if hold.copies:
        rank, array, index = hold.target
        return f"copies to barrier {array}[{index}] of CTA {rank} held back"
    since = f" from signal {hold.signal} on" if hold.signal else ""
    where = "" if hold.cluster is None else f" of cluster {hold.cluster}"
    return f"agent {hold.target[1]} of CTA {hold.target[0]}{where} held back{since}"


def held_back(held: Held, seed: int) -> Schedule:
    """The schedule that shows what doubts are about."""
    if any(doubt.hold.first for doubt in held):
        return Schedule("early", seed)
    return Schedule("starve", seed, tuple(doubt.hold for doubt in held))


def run_checked(
    function: Function, grid: Sequence[int], args: list[Any], schedule: Schedule, *, strict: bool = False,
    seed: int = 0, quiet: bool = False, doubts: dict[Any, Doubt] | None = None, notes: list[str] | None = None,
    sms: int | None = None, gpus: int = 1, bounds: Bounds | None = None,
) -> list[Finding]:
    """The findings of one run of a prepared kernel. `args` are changed as the kernel changes them.

    `doubts` takes up what may go otherwise in another run, `notes` what is legal but may surprise, `bounds` regions that
    reach outside global arrays. `sms` and `gpus` are those of `simulate`.
    """
    found = Findings(schedule.kind, schedule.seed if schedule.kind == "random" else seed)
    made = OverlapChecker if function.pdl and notes is not None else Checker
    args = with_counters(function, args)
    checker = made(function, tuple(args), found, strict=strict)
    checker.doubts.schedule = schedule
    checker.bounds = bounds
    collecting = gc.isenabled()
    gc.disable()  # records make no cycles, and there are many of them
    try:
        simulate(
            function, grid, args, schedule=schedule, monitor=checker, out=io.StringIO() if quiet else sys.stdout, sms=sms,
            gpus=gpus,
        )
    except Error as error:
        if error.kind != "deadlock":  # of which the checker knows
            if error.kind in KINDS:
                describe = partial(finding_of, error, checker.current)
                found.add(error.kind, error.location, error.other, describe=describe)
            elif not found.items:
                raise
    finally:
        if collecting:
            gc.enable()
    if doubts is not None:
        doubts.update(checker.doubts.found)
    findings = checker.finish()
    if notes is not None:
        notes += checker.notes()
    return findings


def run_again(
    function: Function, grid: Sequence[int], args: list[Any], schedule: Schedule, *, strict: bool, seed: int,
    sms: int | None = None,
) -> tuple[list[Finding], dict[Any, Doubt]]:
    """A run after the first: its findings, and what it leaves in doubt."""
    doubts: dict[Any, Doubt] = {}
    findings = run_checked(function, grid, args, schedule, strict=strict, seed=seed, quiet=True, doubts=doubts, sms=sms)
    return findings, doubts


def finding_of(error: Error, agent: Any = None) -> Finding:
    """An error that a pass or the simulator raised, if it is one of the checks'; otherwise it is raised on."""
    if error.kind not in KINDS:
        raise error
    message = f"{error.message}; {error.remedy}" if error.remedy else error.message
    return Finding(
        error.kind, message, error.location, error.other, () if agent is None else (actor_of(agent),),
        notes=tuple((error.details or "").splitlines()),
    )


def copies_of(values: list[Any]) -> list[Any]:
    """Copies with the same strides, alignment and overlaps: what overlapped still does."""
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
