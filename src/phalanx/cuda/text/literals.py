"""Numbers as C++ literals of the right type, and parentheses where an expression needs them."""

from __future__ import annotations

import math
import re

import numpy as np

from phalanx.ir.types import DType, as_elements


def literal(value: int | float | bool, dtype: DType) -> str:
    """`value` as a C++ literal of `dtype`; narrow floats are spelled as their bits.

    For emitters. Example: ``literal(2, f32) == "2.0f"``, ``literal(1, f16) == "(px_f16)0x3c00"``.
    """
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype.is_integer and dtype.bits == 4:
        return str(int(value) & 15)  # its code
    if dtype.is_integer:
        return _integer(int(value), dtype)
    if dtype.bits == 64:
        return _f64(float(value))
    if dtype.bits == 32:
        return _f32(float(value))
    bits = as_elements(value, dtype).view(f"u{dtype.itemsize}")
    return f"(px_{dtype.name})0x{int(bits):0{2 * dtype.itemsize}x}"


def _integer(value: int, dtype: DType) -> str:
    bits = dtype.bits
    value &= (1 << bits) - 1  # wraps, as the arithmetic does
    if dtype.kind == "int" and value >> (bits - 1):
        value -= 1 << bits
    suffix = {("int", 64): "LL", ("uint", 64): "ULL", ("uint", 32): "u"}.get((dtype.kind, bits), "")
    if dtype.kind == "int" and value == -(1 << (bits - 1)) and bits >= 32:
        return f"(-{-value - 1}{suffix} - 1)"
    text = f"{value}{suffix}"
    return f"({text})" if value < 0 else text


def _f32(value: float) -> str:
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if not np.isfinite(single):
        return f"__int_as_float(0x{int(single.view(np.uint32)):08x})"
    text = _decimal(str(single)) + "f"
    return f"({text})" if text.startswith("-") else text


def _f64(value: float) -> str:
    if not math.isfinite(value):
        return f"__longlong_as_double(0x{int(np.float64(value).view(np.uint64)):016x}LL)"
    text = _decimal(repr(value))
    return f"({text})" if text.startswith("-") else text


def _decimal(text: str) -> str:
    return text if any(c in text for c in ".e") else text + ".0"


_ATOM = re.compile(r"[\w.:]+(\[\w+\])?|[\w.:]+\([^()]*\)")


def atom(text: str) -> str:
    """An expression that can stand next to any operator: parenthesised unless it is a name, a number or a call."""
    return text if _ATOM.fullmatch(text) or bare(text) != text else f"({text})"


def bare(text: str) -> str:
    """An expression without the parentheses around all of it, if it has any."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1]


def minus(text: str, number: int, *, alone: bool = False) -> str:
    """`(text - number)`, without parentheses where it stands alone; `text` for 0."""
    return text if not number else f"{text} - {number}" if alone else f"({text} - {number})"


def plus(text: str, number: int) -> str:
    """`text + number`, or `text` alone for 0."""
    return f"{text} + {number}" if number else text
