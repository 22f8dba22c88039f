"""Loops over the registers of a tile: what every instruction does that works element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from phalanx.cuda.text.helper import Helper, find_helper
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.arithmetic import compute_dtype, operand_text, pair_from_float, widen
from phalanx.cuda.tiles.index import SlotTexts, broadcast_slots, element, local, plus, slot_line
from phalanx.cuda.tiles.small_integers import BYTES, codes_of_byte, codes_of_word, two_codes
from phalanx.ir.types import DType, TileType
from phalanx.ir.values import Value


def operand_element(w: Writer, operand: Value, result: Value, var: str) -> str:
    """The text of the operand's element that belongs to slot `var` of the result; scalars are their own."""
    if not isinstance(operand.type, TileType):
        return w.name(operand)
    slots = broadcast_slots(w.plan.layouts[operand], w.plan.layouts[result])
    assert slots is not None, f"{operand} is not laid out as an operand of {result}"
    return element(w.name(operand), SlotTexts(w).at(slots, var, hint=f"{w.name(operand)}_slot"))


def computed_operand(w: Writer, operand: Value, result: Value, var: str) -> str:
    """The text of an operand's element, converted to the type in which it is computed."""
    return operand_text(w, operand, operand_element(w, operand, result, var), scalar_dtype(operand))


def emit_elementwise(
    w: Writer, result: Value, operands: Sequence[Value], text: Callable[..., str], *, computed: bool = True
) -> None:
    """Defines `result` element by element; `text` gets the operands' texts and gives the stored element's.

    A scalar is defined outright, a tile in an unrolled loop. `computed`: widen narrow floats first.
    """
    read = computed_operand if computed else operand_element
    if not isinstance(result.type, TileType):
        w.define(result, text(*(read(w, operand, result, "0") for operand in operands)), pure=True)
        return
    if w.uses(result) == 0:
        return
    name = w.declare_tile(result)
    var = local(w, "i")
    body = text(*(read(w, operand, result, var) for operand in operands))
    slot_line(w, w.registers(result), f"{name}[{var}] = {body};", var)


def emit_grouped_cast(w: Writer, x: Value, result: Value) -> bool:
    """A float tile to one of 16 bits or fewer, two or four elements at a time; False where no such group fits.

    A group fits where both tiles have the same layout, and each thread's registers are a multiple of it.
    """
    target = scalar_dtype(result)
    source = scalar_dtype(x)
    if compute_dtype(source).name != "f32":
        return False
    if not isinstance(x.type, TileType) or w.plan.layouts[x] != w.plan.layouts[result]:
        return False
    slots = w.registers(result)
    group = _group_cast(w, source, target, slots)
    if group is None:
        return False
    if w.uses(result):
        name, var = w.declare_tile(result), local(w, "i")
        if slots == group.size:
            w.line(_converted(w, group, w.name(x), name, "0", source))
        else:
            slot_line(w, slots, _converted(w, group, w.name(x), name, var, source), var, step=group.size)
    return True


class _GroupCast(NamedTuple):
    """A function that converts `size` neighbouring elements; `widened`: its operands are floats."""

    function: Helper
    size: int
    widened: bool


def _group_cast(w: Writer, source: DType, target: DType, slots: int) -> _GroupCast | None:
    """The function that converts the most elements at once of a thread's `slots`."""
    wide = find_helper(f"{target.name}_pair_from_{source.name}")
    four = find_helper(f"{target.name}_four_from_float")
    pair = pair_from_float(w, target)
    found = (
        four and _GroupCast(four, 4, widened=True),
        wide and _GroupCast(wide, 2, widened=False),
        pair and _GroupCast(pair, 2, widened=True),
    )
    return next((group for group in found if group and slots % group.size == 0), None)


def _converted(w: Writer, group: _GroupCast, source_name: str, name: str, at: str, source: DType) -> str:
    """The statement that converts the elements from `at` on."""
    first = int(at) if at.isdecimal() else None
    places = [str(first + n) if first is not None else f"{at} + {n}" if n else at for n in range(group.size)]
    elements = [f"{source_name}[{place}]" for place in places]
    operands = [widen(w, text, source) for text in elements] if group.widened else elements
    return f"{w.use(group.function)}({plus(name, at)}, {', '.join(operands)});"


def converts_codes(w: Writer, x: Value, result: Value) -> bool:
    """Whether a tile of integers of 4 bits becomes one of bf16 or f16 two elements at a time."""
    source, target = scalar_dtype(x), scalar_dtype(result)
    if not isinstance(x.type, TileType) or two_codes(source, target) is None:
        return False
    return w.registers(result) % 2 == 0 and w.plan.layouts[x] == w.plan.layouts[result]


def emit_codes(w: Writer, x: Value, result: Value, packed: Value | None) -> None:
    """Integers of 4 bits as bf16 or f16 (`converts_codes`).

    `packed` is the tile of bytes that they were unpacked from, if they were: the bytes are converted themselves. Where
    four of them are neighbours in memory they came in one register, which has all eight.
    """
    if w.uses(result) == 0:
        return
    source, target = scalar_dtype(x), scalar_dtype(result)
    name, var = w.declare_tile(result), local(w, "i")
    if packed is None:
        codes = f"{w.name(x)}[{var}] | (unsigned){w.name(x)}[{var} + 1] << 16"
        slot_line(w, w.registers(result), f"{_use(w, two_codes(source, target))}({plus(name, var)}, {codes});", var, step=2)
        return
    bytes_, count, layout = w.name(packed), w.registers(packed), w.plan.layouts[packed]
    if layout.vector_width(layout.rank - 1, BYTES) == BYTES:
        function = _use(w, codes_of_word(source, target))
        codes = " | ".join(f"(unsigned){bytes_}[{plus(var, str(n))}] << {8 * n}" for n in range(BYTES))
        slot_line(w, count, f"{function}({name} + 2 * {var}, {codes});", var, step=BYTES)
    else:
        function = _use(w, codes_of_byte(source, target))
        slot_line(w, count, f"{function}({name} + 2 * {var}, {bytes_}[{var}]);", var)


def _use(w: Writer, helper: Helper | None) -> str:
    assert helper is not None
    return w.use(helper)
