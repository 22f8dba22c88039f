"""What a run on the model of a card begins with: how many clusters lie on it at a time, and the arrays."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from phalanx.cuda.lower.lower import shared_bytes_of
from phalanx.ir.archs import Arch
from phalanx.ir.core import Function
from phalanx.ir.types import ArrayType
from phalanx.machines.rates import Rates
from phalanx.runtime.device.host_copies import to_host
from phalanx.runtime.launch.specialise import Argument, Spec
from phalanx.sim.timeline.clock import Places

SM_SHARED = 233_472
CTA_SHARED = 1024
"""Bytes of an SM's shared memory, and what the hardware takes of it for each CTA."""
SM_WARPS, SM_CTAS, SM_REGISTERS = 64, 32, 65_536
BESIDE_TILES = 40
"""Registers of a thread beside its largest tile."""
LARGER_CLUSTERS = {4: 30, 8: 15, 16: 7}
"""Clusters of that size that an H200 holds at one CTA an SM: SMs of a GPC that are too few stay idle."""


def arrays_of(function: Function, arguments: list[Argument]) -> list[Any]:
    """What the simulator runs on: arrays of the user's as copies, zeros where only a `px.spec` is given."""
    taken = [argument for argument in arguments if argument.type is not None]
    found: list[Any] = []
    for argument in taken:
        if isinstance(argument.value, Spec):
            assert isinstance(argument.type, ArrayType)
            found.append(np.zeros(argument.value.shape, argument.value.dtype.numpy))
        else:
            value = argument.value if argument.info is None else to_host(argument.value, argument.info)
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
