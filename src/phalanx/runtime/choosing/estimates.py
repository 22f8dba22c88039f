"""How long a launch of one combination takes on the model of a card."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from phalanx.cuda.lower.lower import lower
from phalanx.cuda.text.cells import find_cells
from phalanx.cuda.text.pressure import Pressure
from phalanx.frozen import frozen
from phalanx.ir.archs import Arch, entry_registers
from phalanx.ir.beside import Beside
from phalanx.ir.core import Function
from phalanx.ir.ops.control import Role
from phalanx.ir.types import ArrayType
from phalanx.machines.rates import Rates
from phalanx.runtime.device.arrays import ArrayInfo
from phalanx.runtime.device.host_copies import to_host
from phalanx.runtime.launch.auto_grid import FittingGrid
from phalanx.runtime.launch.specialise import Argument, Specialisation
from phalanx.runtime.timeline.cards import rates_for
from phalanx.runtime.timeline.places import places_of
from phalanx.sim.timeline.clock import Places
from phalanx.sim.timeline.closed import Closed, Stale
from phalanx.sim.timeline.glimpse import glimpse

SMALL = 1 << 24
"""Bytes of integers that are brought from a GPU to see what loops depend on."""


@frozen
class Estimate:
    """Cycles of a launch on the model; `spills`: its tiles take more registers than a thread has."""

    cycles: float
    spills: bool
    rates: Rates

    @property
    def order(self) -> tuple[bool, float]:
        """By what candidates are sorted: tiles that registers hold first, then time."""
        return self.spills, self.cycles

    @property
    def microseconds(self) -> float:
        """The time at the model's clock."""
        return self.cycles / self.rates.clock


@dataclass
class Planned:
    """A combination that compiles and fits, as the model takes it. `forms` are its times in closed form, by regime."""

    function: Function
    rates: Rates
    places: Places
    spills: bool
    forms: dict[Any, Closed | None] = field(default_factory=dict)

    def regime(self, dims: tuple[int, int, int], nbytes: int) -> Any:
        """What decides how many share L2 and HBM: one closed form is for launches that are alike in it."""
        clusters = prod(dims) // self.function.cluster_size
        together = min(self.places.held, -(-clusters // self.places.groups))
        return nbytes > self.rates.l2_bytes, min(clusters, self.places.groups).bit_length(), together


_PLANNED = Beside[dict[Any, Planned]]("planned")


def planned(specialisation: Specialisation, arch: Arch) -> Planned:
    """A combination for a target; an error where the compiler refuses it, or a CTA has no room for it."""
    function = specialisation.prepared_for(arch)
    rates = rates_for(arch.name)
    known = _PLANNED.get(function) or _PLANNED.keep(function, {})
    if (arch, rates) not in known:
        known[arch, rates] = Planned(function, rates, places_of(function, arch, rates), not is_roomy(function, arch))
    return known[arch, rates]


def is_roomy(function: Function, arch: Arch) -> bool:
    """Whether the tiles of every role have room in the registers of its threads. Plans the kernel for the target."""
    plan = lower(function, arch)
    body = plan.function.body
    pressure = Pressure(body, find_cells(body, plan.layouts), plan.layouts)
    usual = entry_registers(function.warps, function.ctas_per_sm)
    roles = [op for op in body.walk() if isinstance(op, Role) and op.regs is not None]
    if roles:
        return all(pressure.peak(role.body) <= (role.regs or usual) for role in roles)
    return pressure.peak(body) <= usual


def estimate(made: Planned, grid: tuple[int, int, int] | FittingGrid, arguments: list[Argument]) -> Estimate:
    """The time of a launch of that grid: in closed form where it is known, else by a few rounds of each loop."""
    places = made.places
    dims = grid.of(places.groups * places.held) if isinstance(grid, FittingGrid) else grid
    if 0 in dims:
        return Estimate(0.0, made.spills, made.rates)
    given = [argument for argument in arguments if argument.type is not None]
    sizes = [shape_of(argument) for argument in given]
    nbytes = sum(prod(shape) * argument.type.dtype.itemsize for shape, argument in zip(sizes, given) if argument.type)
    regime = made.regime(dims, nbytes)
    form = made.forms.get(regime)
    if form is not None:
        try:
            cycles = form.launch(dims, sizes, [argument.value for argument in given], places)
            return Estimate(cycles, made.spills, made.rates)
        except Stale:  # a loop that was too short to be known is long now
            pass
    cycles, made.forms[regime] = glimpse(made.function, dims, stand_ins(arguments), made.rates, places)
    return Estimate(cycles, made.spills, made.rates)


def shape_of(argument: Argument) -> tuple[int, ...]:
    """The sizes of an array, or of what describes one; none of a number."""
    if not isinstance(argument.type, ArrayType):
        return ()
    shape = argument.value.shape if argument.info is None else argument.info.shape
    return tuple(map(int, shape))


def stand_ins(arguments: list[Argument]) -> list[Any]:
    """Arrays for a run that nobody sees: zeros in the place of floats, and integers as they are where they can be had."""
    found: list[Any] = []
    for argument in arguments:
        if argument.type is None:
            continue
        if not isinstance(argument.type, ArrayType):
            found.append(argument.value)
            continue
        shape = shape_of(argument)
        info, dtype = argument.info, argument.type.dtype
        reads = info is not None and not dtype.is_float
        if info is not None and reads and (info.kind == "host" or prod(shape) * dtype.itemsize <= SMALL):
            value = to_host(argument.value, info)
            found.append(value.copy() if isinstance(value, np.ndarray) else value)
        elif info is None:
            found.append(np.zeros(shape, dtype.numpy))
        else:
            found.append(zeros_like(info, dtype.numpy))
    return found


def zeros_like(info: ArrayInfo, dtype: np.dtype[Any]) -> np.ndarray:
    """Zeros with the sizes and strides of an array; memory that nobody touches takes none."""
    reach = [(int(size) - 1) * int(stride) for size, stride in zip(info.shape, info.strides)]
    if 0 in info.shape or min(reach, default=0) < 0:
        return np.zeros(tuple(map(int, info.shape)), dtype)
    flat = np.zeros(1 + sum(reach), dtype)
    strides = tuple(int(stride) * dtype.itemsize for stride in info.strides)
    return np.lib.stride_tricks.as_strided(flat, tuple(map(int, info.shape)), strides)

