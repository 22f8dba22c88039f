"""`px.trace`: a kernel's run on the model of a card."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from phalanx.cuda.lower.lower import shared_bytes_of
from phalanx.errors import Error, caller_location
from phalanx.ir.archs import Arch
from phalanx.ir.core import Function
from phalanx.ir.types import ArrayType
from phalanx.machines.rates import Rates, rates_of
from phalanx.runtime.checking import require_bound
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.dispatch import debugging, function_for, on_host
from phalanx.runtime.launch.options import named_arch
from phalanx.runtime.launch.specialise import (
    Argument,
    Spec,
    normalise_grid,
    read_arguments,
    resolved_constants,
    specialise,
)
from phalanx.runtime.timeline.trace import Trace
from phalanx.sim.timeline.clock import Places, clocked

SM_SHARED = 233_472
CTA_SHARED = 1024
"""Bytes of an SM's shared memory, and what the hardware takes of it for each CTA."""
SM_WARPS, SM_CTAS, SM_REGISTERS = 64, 32, 65_536
BESIDE_TILES = 40
"""Registers of a thread beside its largest tile."""
LARGER_CLUSTERS = {4: 30, 8: 15, 16: 7}
"""Clusters of that size that an H200 holds at one CTA an SM: SMs of a GPC that are too few stay idle."""


def trace(bound: Any, *args: Any, arch: str | None = None, **constants: Any) -> Trace:
    """When a kernel does what: its run in the simulator, on a model of the card's rates and latencies.

    Anyone may call it, outside kernels; needs no GPU. Arguments are NumPy arrays, which are copied, or `px.spec`, whose
    elements count as zeros. `arch` is the target whose version of the kernel is modelled, on the card that stands for it:
    an H200 for sm_90a, a B200 for sm_100a. The first group of SMs runs its clusters one after the other; the others do the
    same at the same time, and share L2 and HBM with it. Times are a model's, not a measurement's. Example::

        made = px.trace(copy[64], x, y, BM=128)
        print(made)
        made.save("copy.html")
    """
    launch = require_bound("px.trace", bound)
    kernel = launch.kernel
    with debugging(kernel):
        values = kernel.bind_constants(constants)
        arguments = read_arguments(kernel, args)
        specialisation = specialise(kernel, arguments, values)
        target = named_arch(arch)
        function = function_for(specialisation, target)
        rates = rates_of((target or specialisation.default_arch).name)
        places = places_of(function, target or specialisation.default_arch, rates)
        if leaves_grid(launch.grid):
            fitting = specialisation.fitting(launch.grid, arguments, numbers=True)
            grid = fitting.of(places.groups * places.held)
        else:
            grid = normalise_grid(kernel, launch.grid, resolved_constants(kernel, arguments, values))
        if 0 in grid:
            raise Error(
                f"the grid of kernel '{kernel.name}' is empty", location=caller_location(), remedy="trace a grid with CTAs"
            )
        host = arrays_of(function, arguments)
        run, cycles = clocked(function, grid, host, rates, places)
    return Trace.of_run(kernel.name, run, cycles, rates, prod(grid), places.held)


def arrays_of(function: Function, arguments: list[Argument]) -> list[Any]:
    """What the simulator runs on: arrays of the user's as copies, zeros where only a `px.spec` is given."""
    taken = [argument for argument in arguments if argument.type is not None]
    found: list[Any] = []
    for argument in taken:
        if isinstance(argument.value, Spec):
            assert isinstance(argument.type, ArrayType)
            found.append(np.zeros(argument.value.shape, argument.value.dtype.numpy))
        else:
            (value,) = on_host([argument])
            found.append(value.copy() if isinstance(value, np.ndarray) else value)
    return found


def places_of(function: Function, arch: Arch, rates: Rates) -> Places:
    """How many clusters the card holds at a time: by shared memory, threads and registers."""
    size = function.cluster_size
    groups = min(rates.sms // size, LARGER_CLUSTERS.get(size, rates.sms))
    shared = shared_bytes_of(function) + CTA_SHARED
    threads = function.warps * 32
    widest = max(
        (
            prod(getattr(value.type, "shape", ())) * value.type.dtype.itemsize
            for op in function.walk()
            for value in op.defined_values()
        ),
        default=0,
    )
    registers = min(255, BESIDE_TILES + widest / threads / 4)
    held = min(SM_SHARED // shared, SM_WARPS // function.warps, SM_CTAS, int(SM_REGISTERS // (registers * threads)))
    return Places(groups, max(1, held, min(function.ctas_per_sm, SM_SHARED // shared)))
