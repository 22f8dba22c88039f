"""Handing what one thread got to the threads that replicate it: by shuffles in a warp, else through scratch memory."""

from __future__ import annotations

from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.claim import claim_scratch
from phalanx.cuda.tiles.coordinates import Coordinates, owner_conditions, warp_replicas
from phalanx.cuda.tiles.index import element, local, plus, slot_loop, times
from phalanx.ir.core import Op
from phalanx.ir.types import DType
from phalanx.ir.values import Value
from phalanx.layouts.registers import RegisterLayout, padded


def shared_bytes_of_tile(layout: RegisterLayout, dtype: DType) -> int:
    """Scratch bytes that `share_tile` needs."""
    if not warp_replicas(layout):
        return 0
    size = dtype.itemsize
    for extent in padded(layout.shape):
        size *= extent
    return size


def share_scalar(w: Writer, op: Op, name: str, dtype: DType) -> None:
    """The first thread's value of the variable `name` to all threads of the agent."""
    if w.agent.warps == 1:
        w.line(f"{name} = {w.use('shuffle')}({name}, 0);")
        return
    place = f"*reinterpret_cast<{w.ctype(dtype)}*>({w.scratch(op)})"
    claim_scratch(w, op)
    w.line(f"if ({w.thread} == 0) {place} = {name};")
    w.sync_agent()
    w.line(f"{name} = {place};")


def share_tile(w: Writer, op: Op, name: str, tile: Value) -> None:
    """The owners' values of a tile to the threads that replicate them."""
    layout, dtype = w.plan.layouts[tile], scalar_dtype(tile)
    if not layout.replication:
        return
    if not warp_replicas(layout):
        keep = 31 & ~layout.replication.lane_mask
        with slot_loop(w, layout.num_registers) as i:
            w.line(f"{element(name, i)} = {w.use('shuffle')}({element(name, i)}, {w.lane} & {keep});")
        return
    with w.block():
        scratch = local(w, "scratch")
        w.line(f"{w.ctype(dtype)}* const {scratch} = reinterpret_cast<{w.ctype(dtype)}*>({w.scratch(op)});")
        claim_scratch(w, op)
        coordinates = Coordinates(w, layout)
        for dim in range(layout.rank):
            coordinates.declare(dim)
        with w.block(f"if ({' && '.join(owner_conditions(w, layout))})"), slot_loop(w, layout.num_registers) as i:
            w.line(f"{scratch}[{flat_coordinate(coordinates, i)}] = {element(name, i)};")
        w.sync_agent()
        with slot_loop(w, layout.num_registers) as i:
            w.line(f"{element(name, i)} = {scratch}[{flat_coordinate(coordinates, i)}];")


def flat_coordinate(coordinates: Coordinates, var: str) -> str:
    """The row-major index of slot `var` in the padded shape."""
    stride = 1
    terms: list[str] = []
    for dim in reversed(range(coordinates.layout.rank)):
        terms.insert(0, times(coordinates.at(dim, var), str(stride)))
        stride *= padded(coordinates.layout.shape)[dim]
    return plus(*terms)
