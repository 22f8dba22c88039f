"""Conversion plans carried out in NumPy, thread by thread: what generated code has to do."""

from __future__ import annotations

import numpy as np

from phalanx.layouts.banks import shared_offsets
from phalanx.layouts.convert import Conversion, Identity, RegisterPermute, Shuffle
from phalanx.layouts.registers import LANES, RegisterLayout
from phalanx.layouts.scratch import Round, ThroughShared
from phalanx.layouts.shared import SharedLayout

POISON = 0xA5


def execute(
    plan: Conversion, source: RegisterLayout, destination: RegisterLayout, registers: np.ndarray
) -> np.ndarray:
    """The [slot, lane, warp] registers after a conversion, from those before it."""
    if isinstance(plan, Identity):
        return registers.copy()
    if isinstance(plan, RegisterPermute):
        return registers[list(plan.map)]
    if isinstance(plan, Shuffle):
        return _execute_shuffle(plan, registers)
    return _execute_through_shared(plan, source, destination, registers)


def _execute_shuffle(plan: Shuffle, registers: np.ndarray) -> np.ndarray:
    warps = registers.shape[2]
    result = np.empty((len(plan.steps), LANES, warps), dtype=registers.dtype)
    for warp in range(warps):
        choice = np.array([plan.choice(lane, warp) for lane in range(LANES)])
        for step in plan.steps:
            origin = np.array([plan.source_lane(step, lane, warp) for lane in range(LANES)])
            candidates = np.array(step.choices)
            if plan.select_at == "source":
                given = registers[candidates[choice], np.arange(LANES), warp]
                received = given[origin]
            else:
                received = registers[candidates[choice], origin, warp]
            result[step.destination, :, warp] = received
    return result


def _execute_through_shared(
    plan: ThroughShared, source: RegisterLayout, destination: RegisterLayout, registers: np.ndarray
) -> np.ndarray:
    itemsize = registers.dtype.itemsize
    memory = np.full(-(-plan.nbytes // itemsize) * itemsize, POISON, dtype=np.uint8).view(registers.dtype)
    result = np.zeros((destination.num_registers, LANES, destination.warps), dtype=registers.dtype)
    for part in plan.rounds:
        where, active = _accesses(plan, part, source, plan.write, part.write_slots, plan.write_vector)
        memory[where[active] // itemsize] = registers[active]
        where, active = _accesses(plan, part, destination, plan.read, part.read_slots, plan.read_vector)
        result[active] = memory[where[active] // itemsize]
    return result


def _accesses(
    plan: ThroughShared,
    part: Round,
    reg: RegisterLayout,
    shared: SharedLayout,
    slots: tuple[int, ...],
    vector: int,
) -> tuple[np.ndarray, np.ndarray]:
    """[slot, lane, warp] byte offsets and which of them are accessed in a round; vectors are checked."""
    active = np.zeros_like(reg.alive)
    active[list(slots)] = reg.alive[list(slots)]
    view = [0] * shared.rank
    if reg.rank:
        start = part.origin[plan.round_axis] if len(plan.rounds) > 1 else 0
        if part.masked:
            coordinate = reg.coordinates[plan.round_axis]
            active &= (coordinate >= start) & (coordinate < start + plan.round_extent)
        view[plan.axes[plan.round_axis]] = -start
    axes = plan.axes if write_and_read_agree(plan) else None
    where = shared_offsets(reg, shared, view, axes)
    if vector > 1:
        groups = where.reshape(-1, vector, *where.shape[1:])
        together = active.reshape(groups.shape)
        if (together.any(axis=1) != together.all(axis=1)).any():
            raise ValueError("a vector is partly outside the tile or the round")
        steps = groups - groups[:, :1] - np.arange(vector)[None, :, None, None] * shared.itemsize
        if steps[together].any() or (groups[:, 0][together[:, 0]] % (vector * shared.itemsize)).any():
            raise ValueError("a vector is not contiguous or not aligned in shared memory")
    return where, active


def write_and_read_agree(plan: ThroughShared) -> bool:
    """Whether source and destination see the scratch tile in the same shape (no reshape)."""
    return plan.write.shape == plan.read.shape
