"""`px.trace`: a kernel's run on the model of a card, or the real one on a GPU."""

from __future__ import annotations

from math import prod
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.machines.rates import Rates
from phalanx.runtime.checking import require_bound
from phalanx.runtime.choosing.choice import choice_of
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.dispatch import debugging, function_for
from phalanx.runtime.launch.options import named_arch
from phalanx.runtime.launch.specialise import (
    normalise_grid,
    read_arguments,
    resolved_constants,
    specialise,
)
from phalanx.runtime.timeline.cards import rates_for
from phalanx.runtime.timeline.places import arrays_of, places_of
from phalanx.runtime.timeline.real_runs import SAMPLE, is_real, trace_real
from phalanx.runtime.timeline.trace import Trace
from phalanx.sim.timeline.clock import clocked


def trace(
    bound: Any, *args: Any, arch: str | None = None, on: str | None = None, sample: int = SAMPLE, **constants: Any
) -> Trace:
    """When a kernel does what: on NumPy arrays by a model of the card, on CUDA arrays as it really was.

    Anyone may call it, outside kernels. With NumPy arrays, which are copied, or `px.spec`, whose elements count as zeros,
    the simulator runs the kernel on a model of the card's rates and latencies; that needs no GPU. `arch` is the target
    whose version of the kernel is modelled: on the GPU of this machine, where that is its target, with what `phalanx
    calibrate` measured or what is known of it, else on the card that stands for it, an H200 for sm_90a, a B200 for sm_100a.
    The first group of SMs runs its clusters one after the other; the others do the same at the same time, and share L2 and
    HBM with it.

    CUDA arrays are given to a real launch, which changes them as any other: a build in which agents write down when they
    wait, signal, copy and multiply (%clock64, %globaltimer), in `sample` clusters spread over the grid. Nothing is added to
    other launches. `on="model"` models a launch on CUDA arrays, too. Example::

        made = px.trace(copy[64], x, y, BM=128)
        print(made)
        made.save("copy.html")
    """
    require_bound("px.trace", bound)
    if is_real(bound, args, on, sample):
        return trace_real(bound, args, constants, arch, sample)
    return trace_on(None, bound, args, constants, arch)


def trace_on(
    rates: Rates | None, bound: Any, args: tuple[Any, ...], constants: dict[str, Any], arch: str | None = None
) -> Trace:
    """What `px.trace` gives on a card with these numbers; without them on the card that the target names.

    For `px.trace` and `phalanx calibrate`. Example: ``trace_on(rates, copy[64], (x, y), {"BM": 128}).cycles``.
    """
    launch = require_bound("px.trace", bound)
    kernel = launch.kernel
    with debugging(kernel):
        target = named_arch(arch)
        arguments = read_arguments(kernel, args)
        values = choice_of(kernel, launch.grid, arguments, kernel.bind_constants(constants), target).constants
        specialisation = specialise(kernel, arguments, values)
        function = function_for(specialisation, target)
        rates = rates or rates_for((target or specialisation.default_arch).name)
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
