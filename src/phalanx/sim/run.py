"""Runs a prepared kernel on NumPy arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

import phalanx.sim.ops  # noqa: F401  (registers what the instructions mean)
from phalanx.errors import Error
from phalanx.ir.beside import Beside
from phalanx.ir.core import Function
from phalanx.ir.effects import Mode
from phalanx.ir.types import ArrayType
from phalanx.ir.values import Param
from phalanx.sim.codegen import Code
from phalanx.sim.machine import Machine
from phalanx.sim.monitor import Monitor
from phalanx.sim.places import array_of
from phalanx.sim.scheduler import Schedule, Scheduler

_CODE = Beside[dict[tuple[bool, bool, bool], Code]]("code")


def simulate(
    function: Function,
    grid: int | Sequence[int],
    args: Sequence[Any],
    *,
    schedule: Schedule | None = None,
    monitor: Monitor | None = None,
    out: TextIO | None = None,
    sms: int | None = None,
    gpus: int = 1,
    clusters: int | None = None,
) -> None:
    """Runs `function` (after `passes.pipeline.prepare`) on the host, for all CTAs of `grid`.

    Anyone may call it; no GPU is needed. `args` are NumPy arrays, changed in place, and numbers, in the order of
    the parameters. `out` is where `px.print` goes, `sms` how many CTAs are resident at once on a GPU (None: all
    of the grid), `gpus` how many GPUs share the grid, `clusters` how many clusters
    are in a kernel that asks for further ones (None: `machine.clusters_held`). Raises `px.Error` where the kernel
    deadlocks, leaves its memory, misuses a barrier or fails an assertion. Example::

        simulate(function, (4, 4), [x, y, 2.0], schedule=Schedule("random", seed=1))
    """
    schedule = schedule or Schedule()
    dims = grid_of(function, grid)
    args = with_counters(function, args)
    check_arguments(function, args)
    code = code_of(function, preempt=schedule.kind in ("random", "starve"))
    machine = Machine(
        function, dims, tuple(args), code, early=schedule.kind == "early", monitor=monitor, out=out or sys.stdout,
        held=clusters, gpus=gpus,
    )
    with np.errstate(all="ignore"):
        Scheduler(machine, schedule, sms).run()
    check_counters(function, args)


def check_counters(function: Function, args: Sequence[Any]) -> None:
    """A launch leaves the runtime's counters as it found them: the next one that gets them begins with 0."""
    left = np.flatnonzero(args[-1]) if function.counters else np.zeros(0, np.int64)
    if not len(left):
        return
    counters = function.params[-1]
    users = [
        op for op in function.walk() for access in op.effects().accesses
        if access.region.memory is counters
    ]
    raise Error(
        f"{function.name} ends with {counters.name}[{left[0]}] at {args[-1][left[0]]}, and the next launch that gets it "
        "begins with that", location=users[-1].loc if users else function.loc, kind="unfinished",
        remedy="let whoever comes last set it back: px.atomic_exch(counters[i], 0)",
    )


def with_counters(function: Function, args: Sequence[Any]) -> list[Any]:
    """The arguments, and behind them the memory that the runtime owns, where the kernel has some: 0 at the start.

    Whoever runs a kernel calls it; what has that memory already stays as it is.
    """
    owned = len(args) < len(function.params) and function.counters
    return [*args, np.zeros(function.counters, np.int32)] if owned else list(args)


def code_of(function: Function, *, preempt: bool = False, stepped: bool = False, clocked: bool = False) -> Code:
    """The kernel as Python, made once for each of the ways in which `Code` writes it."""
    variants = _CODE.get(function) or _CODE.keep(function, {})
    key = preempt, stepped, clocked
    if key not in variants:
        variants[key] = Code(function, preempt=preempt, stepped=stepped, clocked=clocked)
    return variants[key]


def grid_of(function: Function, grid: int | Sequence[int]) -> tuple[int, int, int]:
    """The grid as three numbers, checked against the cluster."""
    sizes = (grid,) if isinstance(grid, int) else tuple(int(size) for size in grid)
    if not 1 <= len(sizes) <= 3 or any(size < 1 for size in sizes):
        raise Error(f"the grid {sizes} is not one to three positive numbers", location=function.loc)
    x, y, z = (*sizes, 1, 1)[:3]
    for size, cluster in zip((x, y, z), function.cluster):
        if size % cluster:
            raise Error(
                f"a grid of {(x, y, z)} CTAs does not consist of clusters of {function.cluster}", location=function.loc,
                remedy="make each dimension of the grid a multiple of the cluster's",
            )
    return x, y, z


def check_arguments(function: Function, args: Sequence[Any]) -> None:
    """The arguments are what the kernel was specialised to, and those that it writes can be written."""
    if len(args) != len(function.params):
        given = len(args) - bool(function.counters and len(args) > len(function.given))
        raise Error(f"{function.name} takes {len(function.given)} arguments, not {given}", location=function.loc)
    written = written_arrays(function)
    for param, arg in zip(function.params, args):
        if not isinstance(param.type, ArrayType):
            continue
        if not isinstance(arg, np.ndarray) or arg.ndim != param.type.rank or arg.dtype != param.type.dtype.numpy:
            got = f"{arg.dtype} array of rank {arg.ndim}" if isinstance(arg, np.ndarray) else type(arg).__name__
            raise Error(f"{param.name} is to be a {param.type}, not a {got}", location=function.loc)
        if param in written and not arg.flags.writeable:
            raise Error(
                f"{param.name} is written by the kernel, but is a read-only array", location=function.loc,
                remedy="pass a writable array",
            )


def written_arrays(function: Function) -> set[Param]:
    """The parameters that some instruction declares to write."""
    return {
        array_of(access.region)
        for op in function.walk() for access in op.effects().accesses
        if access.mode is not Mode.READ and access.region.space.is_common
    }
