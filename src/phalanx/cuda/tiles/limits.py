"""Comparisons of coordinates with limits: the numbers of a tile's places, `px.arange`, against few values.

A coordinate is a number of the thread's plus one of the slot's. Taken from the limit once, the thread's number leaves a
comparison with a constant for every slot: one instruction each, and no register for coordinates.
"""

from __future__ import annotations

from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles import arithmetic
from phalanx.cuda.tiles.coordinates import Coordinates
from phalanx.cuda.tiles.index import SlotTexts, broadcast_slots, element, local, slot_line
from phalanx.ir.core import Op
from phalanx.ir.ops.tile import Compare
from phalanx.ir.types import TileType, i32
from phalanx.ir.values import Value

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def emit_limit(w: Writer, op: Compare) -> bool:
    """Writes a comparison of coordinates with limits; False if it is none, or costs no less so."""
    found = _sides(w, op)
    if found is None:
        return False
    if w.uses(op.result) == 0:
        return True
    fn, counted, limit, axis = found
    name, i = w.declare_tile(op.result), local(w, "i")
    with w.block():
        coordinates = Coordinates(w, w.plan.layouts[counted])
        thread = coordinates.declare(axis)
        left = local(w, "limit")
        few = w.registers(limit) if isinstance(limit.type, TileType) else 1
        # A limit below -1 is as good as -1, for coordinates begin at 0; and nothing can overflow then.
        value = f"{w.name(limit)}[{i}]" if isinstance(limit.type, TileType) else w.name(limit)
        w.line(f"int {left}[{few}];")
        slot_line(w, few, f"{left}[{i}] = {w.use('maximum')}<int>({value}, -1) - {thread};", i)
        slots = broadcast_slots(w.plan.layouts[counted], w.plan.layouts[op.result])
        assert slots is not None
        at = SlotTexts(w).at([coordinates.slots[axis][slot] for slot in slots], i, hint="at")
        which = "0"
        if isinstance(limit.type, TileType):
            places = broadcast_slots(w.plan.layouts[limit], w.plan.layouts[op.result])
            assert places is not None
            which = SlotTexts(w).at(places, i, hint="which")
        text = arithmetic.compare_text(fn, at, element(left, which))
        slot_line(w, w.registers(op.result), f"{element(name, i)} = {text};", i)
    return True


def only_in_limits(w: Writer, coordinates: Value) -> bool:
    """Whether nothing reads coordinates but comparisons that need them in no register."""
    readers = w.readers(coordinates)
    return bool(readers) and all(
        only_in_limits(w, made) if _same_numbers(op) is not None and (made := op.defines) is not None else
        isinstance(op, Compare) and (found := _sides(w, op)) is not None and found[1] is coordinates
        for op in readers
    )


def is_coordinates(w: Writer, value: Value) -> bool:
    """Whether a tile is `px.arange`, perhaps with more axes."""
    op = w.definitions.get(value)
    while op is not None and (source := _same_numbers(op)) is not None:
        op = w.definitions.get(source)
    return op is not None and op.numbers is not None


def _same_numbers(op: Op) -> Value | None:
    """The tile whose elements an instruction defines under another shape, or with its axes in another order."""
    return op.reshaped if op.permutation is None else op.permutation.x


def _sides(w: Writer, op: Compare) -> tuple[str, Value, Value, int] | None:
    """What is compared how: the function, coordinates, their limits, the axis along which the coordinates run."""
    if op.fn not in _MIRRORED or not isinstance(op.result.type, TileType):
        return None
    for fn, counted, limit in ((op.fn, op.a, op.b), (_MIRRORED[op.fn], op.b, op.a)):
        if not isinstance(counted.type, TileType) or counted.type.dtype != i32 or not is_coordinates(w, counted):
            continue
        layout, shape = w.plan.layouts[counted], counted.type.shape
        axes = [axis for axis, extent in enumerate(shape) if extent > 1]
        few = w.registers(limit) if isinstance(limit.type, TileType) else 1
        if len(axes) == 1 and layout.is_additive(axes[0]) and 2 * few < layout.num_registers:
            return fn, counted, limit, axes[0]
    return None
