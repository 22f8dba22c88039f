"""Running sums: the bits of the axis are joined from low to high, whether a register, a lane or a warp holds them.

Each slot keeps its running sum and the total of the block joined so far. Joining two neighbouring blocks adds the lower
one's total to the upper one's running sums.
"""

from __future__ import annotations

from phalanx.cuda.tiles import helpers as h
from phalanx.cuda.tiles.arithmetic import binary_text, compute_dtype, narrow, widen
from phalanx.cuda.tiles.claim import claim_scratch
from phalanx.cuda.tiles.coordinates import Coordinates, owner_conditions
from phalanx.cuda.tiles.index import SlotTexts, atom, element, local, plus, slot_loop, times
from phalanx.cuda.writer import Writer, scalar_dtype
from phalanx.ir.ops.tile import CumSum
from phalanx.layouts.bits import log2
from phalanx.layouts.registers import RegisterLayout, padded


def axis_order(layout: RegisterLayout, axis: int) -> list[tuple[str, int]]:
    """Who holds each bit of the coordinate along `axis`, from low to high, e.g. ("lane", 3); ValueError if shared."""
    layout.bits_along(axis)
    order: list[tuple[str, int]] = []
    for position in range(log2(layout.linear.shape[axis])):
        holders = [
            (name, bit)
            for name, images in layout.linear.bases
            for bit, image in enumerate(images)
            if image[axis] >> position & 1
        ]
        if len(holders) != 1 or layout.linear.basis(holders[0][0])[holders[0][1]][axis] != 1 << position:
            raise ValueError(f"bit {position} along axis {axis} is not held by one register, lane or warp bit")
        order.append(holders[0])
    return order


def is_scannable(layout: RegisterLayout, axis: int) -> bool:
    """Whether `emit_cumsum` can work in this layout."""
    try:
        axis_order(layout, axis)
    except ValueError:
        return False
    return True


def cumsum_scratch_bytes(op: CumSum, layout: RegisterLayout) -> int:
    """Scratch bytes: the totals that warps exchange, at the lowest bit that a warp holds."""
    dtype = compute_dtype(scalar_dtype(op.result))
    warp_positions = [p for p, (name, _) in enumerate(axis_order(layout, op.axis)) if name == "warp"]
    if not warp_positions:
        return 0
    return (layout.linear.shape[op.axis] >> warp_positions[0]) * _kept_size(layout, op.axis) * dtype.itemsize


def _kept_size(layout: RegisterLayout, axis: int) -> int:
    size = 1
    for dim, extent in enumerate(padded(layout.shape)):
        size *= extent if dim != axis else 1
    return size


def emit_cumsum(w: Writer, op: CumSum) -> None:
    """Writes running sums along one axis; the result has the operand's layout."""
    layout = w.plan.layouts[op.x]
    dtype = compute_dtype(scalar_dtype(op.result))
    source = scalar_dtype(op.x)
    name = w.declare_tile(op.result)
    slots = layout.num_registers
    ctype = w.ctype(dtype)
    with w.block():
        sums, totals = local(w, "sum"), local(w, "total")
        w.line(f"{ctype} {sums}[{slots}], {totals}[{slots}];")
        with slot_loop(w, slots) as i:
            value = widen(w, element(w.name(op.x), i), source)
            if compute_dtype(source) != dtype:
                value = f"({ctype}){value}"
            w.line(f"{element(sums, i)} = {element(totals, i)} = {value};")

        def add(a: str, b: str) -> str:
            return binary_text(w, "add", a, b, dtype)

        for position, (kind, bit) in enumerate(axis_order(layout, op.axis)):
            if kind == "register":
                _join_registers(w, layout, bit, sums, totals, add)
            elif kind == "lane":
                _join_lanes(w, slots, bit, sums, totals, add)
            else:
                _join_warps(w, op, layout, position, bit, sums, totals, add, ctype)
        with slot_loop(w, slots) as i:
            w.line(f"{element(name, i)} = {narrow(w, element(sums, i), scalar_dtype(op.result))};")


def _join_registers(w: Writer, layout: RegisterLayout, bit: int, sums: str, totals: str, add) -> None:  # type: ignore[no-untyped-def]
    slots = layout.slots
    pairs = [
        (slots[register], slots[register | 1 << bit])
        for register in layout.live_registers()
        if not register >> bit & 1 and register | 1 << bit in slots
    ]
    if not pairs:
        return
    with slot_loop(w, len(pairs)) as i:
        texts = SlotTexts(w)
        low = texts.at([pair[0] for pair in pairs], i, hint="low")
        high = texts.at([pair[1] for pair in pairs], i, hint="high")
        low_total, high_total = element(totals, low), element(totals, high)
        w.line(f"{element(sums, high)} = {add(element(sums, high), low_total)};")
        w.line(f"{low_total} = {high_total} = {add(low_total, high_total)};")


def _join_lanes(w: Writer, slots: int, bit: int, sums: str, totals: str, add) -> None:  # type: ignore[no-untyped-def]
    with slot_loop(w, slots, scope=True) as i:
        other = local(w, "other")
        w.line(f"const auto {other} = {w.use(h.SHUFFLE_XOR)}({element(totals, i)}, {1 << bit});")
        w.line(f"if ({w.lane} & {1 << bit}) {element(sums, i)} = {add(element(sums, i), other)};")
        w.line(f"{element(totals, i)} = {add(element(totals, i), other)};")


def _join_warps(  # type: ignore[no-untyped-def]
    w: Writer, op: CumSum, layout: RegisterLayout, position: int, bit: int, sums: str, totals: str, add, ctype: str
) -> None:
    """Totals of the blocks joined so far go through scratch memory, one number per block and kept element."""
    axis = op.axis
    kept = _kept_size(layout, axis)
    with w.block():
        scratch = local(w, "scratch")
        w.line(f"{ctype}* const {scratch} = reinterpret_cast<{ctype}*>({w.scratch(op)});")
        coordinates = Coordinates(w, layout)
        for dim in range(layout.rank):
            coordinates.declare(dim)

        def place(i: str, flip: bool) -> str:
            block = f"({atom(coordinates.at(axis, i))} >> {position})"
            block = f"({block} ^ 1)" if flip else block
            stride = 1
            terms: list[str] = []
            for dim in reversed(range(layout.rank)):
                if dim != axis:
                    terms.insert(0, times(coordinates.at(dim, i), str(stride)))
                    stride *= padded(layout.shape)[dim]
            return plus(times(block, str(kept)), *terms)

        claim_scratch(w, op)
        low = (1 << position) - 1
        owner = owner_conditions(w, layout)
        with w.block(f"if ({' && '.join(owner)})" if owner else ""), slot_loop(w, layout.num_registers) as i:
            first = f"if (({atom(coordinates.at(axis, i))} & {low}) == 0) " if low else ""
            w.line(f"{first}{scratch}[{place(i, False)}] = {element(totals, i)};")
        w.sync_agent()
        with slot_loop(w, layout.num_registers, scope=True) as i:
            other = local(w, "other")
            w.line(f"const {ctype} {other} = {scratch}[{place(i, True)}];")
            w.line(f"if ({w.warp} & {1 << bit}) {element(sums, i)} = {add(element(sums, i), other)};")
            w.line(f"{element(totals, i)} = {add(element(totals, i), other)};")
