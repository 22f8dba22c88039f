"""Loops over the registers of a tile: what every instruction does that works element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.arithmetic import compute_dtype, operand_text, pair_from_float, widen
from phalanx.cuda.tiles.helpers import PAIR_WIDENED
from phalanx.cuda.tiles.index import SlotTexts, broadcast_slots, element, local, plus, slot_line
from phalanx.cuda.tiles.small_integers import EIGHT, eight_at_once
from phalanx.ir.types import TileType
from phalanx.ir.values import Value


def operand_element(w: Writer, operand: Value, result: Value, var: str) -> str:
    """The text of the operand's element that belongs to slot `var` of the result; scalars are their own."""
    if not isinstance(operand.type, TileType):
        return w.name(operand)
    slots = broadcast_slots(w.plan.layouts[operand], w.plan.layouts[result])
    assert slots is not None, f"{operand} is not laid out as an operand of {result}"
    return element(w.name(operand), SlotTexts(w).at(slots, var, hint=f"{w.name(operand)}_slot"))


def computed_operand(w: Writer, operand: Value, result: Value, var: str) -> str:
    """The same, in the type in which it is computed."""
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


def emit_pair_cast(w: Writer, x: Value, result: Value) -> bool:
    """A float tile to one of 16 bits or fewer, two elements at a time, where registers pair up; False if they do not."""
    target = scalar_dtype(result)
    source = scalar_dtype(x)
    pair = pair_from_float(w, target)
    if pair is None or compute_dtype(source).name != "f32":
        return False
    if not isinstance(x.type, TileType) or w.plan.layouts[x] != w.plan.layouts[result]:
        return False
    slots = w.registers(result)
    if slots % 2:
        return False
    if w.uses(result):
        name, var = w.declare_tile(result), local(w, "i")
        wide = PAIR_WIDENED.get((source.name, target.name))

        def converted(at: str, behind: str) -> str:
            texts = f"{w.name(x)}[{at}]", f"{w.name(x)}[{behind}]"
            low, high = texts if wide is not None else (widen(w, text, source) for text in texts)
            return f"{w.use(wide or pair)}({plus(name, at)}, {low}, {high});"

        if slots == 2:
            w.line(converted("0", "1"))
        else:
            slot_line(w, slots, converted(var, f"{var} + 1"), var, step=2)
    return True


def emit_eight(w: Writer, x: Value, result: Value) -> bool:
    """Integers of 4 bits as bf16 or f16, eight at a time; False where a thread's registers do not group so."""
    eight = eight_at_once(scalar_dtype(x), scalar_dtype(result))
    if eight is None or not isinstance(x.type, TileType) or w.plan.layouts[x] != w.plan.layouts[result]:
        return False
    slots = w.registers(result)
    if slots % EIGHT:
        return False
    if w.uses(result):
        name, var = w.declare_tile(result), local(w, "i")
        codes = " | ".join(f"(unsigned){w.name(x)}[{plus(var, str(n))}] << {4 * n}" for n in range(EIGHT))
        slot_line(w, slots, f"{w.use(eight)}({plus(name, var)}, {codes});", var, step=EIGHT)
    return True
