"""Elements one by one, for what need not be fast: printing, assertions, copies that no engine can do."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.bounds import start_text
from phalanx.cuda.tiles.index import atom
from phalanx.ir.values import Const, Value
from phalanx.ir.views import GlobalView, SharedView


def for_each_owned(w: Writer, tile: Value, emit: Callable[[tuple[str, ...], str], None]) -> None:
    """Calls `emit(index texts, element text)` per register, under conditions that hold once per element."""
    layout = w.plan.layouts[tile]
    name = w.name(tile)
    replication = layout.replication
    owner = []
    if replication.lane_mask:
        owner.append(f"({w.lane} & {replication.lane_mask}) == 0")
    if replication.warp_mask:
        owner.append(f"({w.warp} & {replication.warp_mask}) == 0")
    with w.block(f"if ({' && '.join(owner)})" if owner else ""):
        terms = [layout.thread_expression(dim, w.lane, w.warp) for dim in range(layout.rank)]
        for slot, register in enumerate(layout.live_registers()):
            shift = layout.register_offset(register)
            index = []
            for dim, term in enumerate(terms):
                joint = "+" if layout.is_additive(dim) else "^"
                index.append(f"({term}) {joint} {shift[dim]}" if shift[dim] else term)
            inside = [f"({index[dim]}) < {layout.shape[dim]}" for dim in layout.mask_dims(register)]
            with w.block(f"if ({' && '.join(inside)})" if inside else ""):
                emit(tuple(index), f"{name}[{slot}]")


def store_elements(w: Writer, src: SharedView, dst: GlobalView) -> None:
    """One thread stores a shared region to global memory, elements outside the array excepted."""
    layout = w.plan.buffers[src.buffer].layout
    ctype, array = w.ctype(dst.dtype), w.name(dst.array)
    steps = {axis: f"px_{axis}" for axis in dst.kept}
    for axis in dst.kept:
        step = steps[axis]
        w.line("#pragma unroll 1")  # it is rare: what counts is how little of it there is
        w.line(f"for (int {step} = 0; {step} < {dst.extents[axis]}; ++{step})")
    place = [w.name(offset) for offset in src.offsets]
    for shared_axis, axis in zip(src.kept, dst.kept, strict=True):
        start = src.offsets[shared_axis]
        zero = isinstance(start, Const) and start.value == 0
        place[shared_axis] = steps[axis] if zero else f"{place[shared_axis]} + {steps[axis]}"
    with w.block():
        inside, address = [], []
        for axis, offset in enumerate(dst.offsets):
            w.line(f"const unsigned px_at{axis} = (unsigned){atom(start_text(w, offset))} + {steps.get(axis, '0')};")
            inside.append(f"{w.use('inside')}(px_at{axis}, {array}.shape[{axis}])")
            address.append(f"px_at{axis} * {array}.stride[{axis}]")
        w.line(f"const unsigned px_byte = {layout.linear_offset_expression(place)};")
        element = f"{w.smem} + {w.plan.buffers[src.buffer].offset} + ({layout.swizzle_expression('px_byte')})"
        w.line(f"if ({' && '.join(inside)})")
        with w.indent():
            w.line(f"{array}.data[{' + '.join(address)}] = *reinterpret_cast<const {ctype}*>({element});")
