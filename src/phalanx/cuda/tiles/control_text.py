"""Pieces of control flow text: loop headers, printf formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from phalanx.cuda.text.literals import bare, literal
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.arithmetic import binary_text, cast_text
from phalanx.ir.ops.control import For
from phalanx.ir.ops.tile import Binary
from phalanx.ir.tables import Marks, Table
from phalanx.ir.types import DType, f32
from phalanx.ir.values import Value, constant_of

COUNTS_CLUSTERS = Marks()
"""Instructions that define a number of clusters of the grid: there is one at least."""
counted_axes: Table[Callable[[Any], int]] = Table()
"""Instructions that define the number of CTAs along an axis of the grid: which axis."""


def for_header(w: Writer, op: For) -> str:
    """`for (int i = 0; i < n; i += 4)`; a counted form where comparing the index with the end would not do.

    That is where the step is only known at run time, or an unsigned index counts down past the end by more than one.
    """
    dtype = scalar_dtype(op.index)
    index, start, stop = w.name(op.index), bare(w.name(op.start)), w.name(op.stop)
    step = constant_of(op.step)
    ctype = w.ctype(dtype)
    if isinstance(step, int) and (step > 0 or step == -1 or dtype.kind == "int"):
        test = "<" if step > 0 else ">"
        return f"for ({ctype} {index} = {start}; {index} {test} {stop}; {advance(index, step, dtype)})"
    if _is_positive(w, op.step):  # it counts up
        return f"for ({ctype} {index} = {start}; {index} < {stop}; {index} += {w.name(op.step)})"
    trips = w.unique(f"{index}_trips", everywhere=True)  # declared before the loop, outside its braces
    count = f"{w.use('px_trips')}({start}, {stop}, {_signed(w, op.step)})"
    w.line(f"unsigned long long {trips} = {count};")
    following = binary_text(w, "add", index, w.name(op.step), dtype)  # after the last iteration it may wrap around
    return f"for ({ctype} {index} = {start}; {trips} != 0; --{trips}, {index} = {following})"


def _is_positive(w: Writer, step: Value) -> bool:
    """Whether a step is known to be 1 or more: CTAs along axes of the grid, or the clusters that they make."""
    made, each = w.definitions.get(step), 1
    if made is not None and made in COUNTS_CLUSTERS:
        return True
    if isinstance(made, Binary) and made.fn == "floordiv":
        each, made = int(constant_of(made.b) or 0), w.definitions.get(made.a)
    factors = [made]
    if isinstance(made, Binary) and made.fn == "mul":
        factors = [w.definitions.get(made.a), w.definitions.get(made.b)]
    axes = {dim(factor) for factor in factors if factor is not None and (dim := counted_axes.of(factor)) is not None}
    return len(axes) == len(factors) and each > 0 and prod(w.plan.function.cluster[d] for d in axes) % each == 0


def _signed(w: Writer, step: Value) -> str:
    value = constant_of(step)
    return w.name(step) if value is None else f"{int(value)}LL"


def advance(index: str, step: int, dtype: DType) -> str:
    """`++i`, `--i`, `i += 4`."""
    if step in (1, -1):
        return f"{'++' if step > 0 else '--'}{index}"
    if step < 0:
        return f"{index} -= {literal(-step, dtype)}"
    return f"{index} += {literal(step, dtype)}"


def printf_format(w: Writer, parts: Sequence[str | Value | tuple[Value, str]]) -> tuple[str, list[str]]:
    """The format literal, with a newline, and the arguments of a printf; a pair is a tile and an element's text."""
    form: list[str] = []
    arguments: list[str] = []
    for part in parts:
        if isinstance(part, str):
            form.append(_escaped(part))
            continue
        value, text = part if isinstance(part, tuple) else (part, w.name(part))
        spec, argument = _conversion(w, scalar_dtype(value), text)
        form.append(spec)
        arguments.append(argument)
    return '"' + " ".join(form) + '\\n"', arguments


def _conversion(w: Writer, dtype: DType, text: str) -> tuple[str, str]:
    if dtype.kind == "bool":
        return "%s", f'{text} ? "True" : "False"'
    if dtype.is_float:
        if dtype.bits < 32:
            text = cast_text(w, text, dtype, f32)
        return "%g", bare(text)  # promoted to double
    length = "ll" if dtype.bits == 64 else ""  # shorter ones are promoted to int
    return f"%{length}{'d' if dtype.kind == 'int' else 'u'}", bare(text)


def _escaped(text: str) -> str:
    out = []
    for character in text:
        if character in '"\\':
            out.append("\\" + character)
        elif character == "%":
            out.append("%%")
        elif character == "\n":
            out.append("\\n")
        elif character.isascii() and character.isprintable():
            out.append(character)
        else:
            out += [f"\\{byte:03o}" for byte in character.encode()]
    return "".join(out)
