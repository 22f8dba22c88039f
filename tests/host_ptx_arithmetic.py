"""Arithmetic in PTX as C++, for `host_ptx`: the forms that kernels of the tests write with `px.ptx`, and no more.

No host can run any PTX; a kernel with another instruction is refused by its name, and a form for it is added here.
"""

from __future__ import annotations

import re

from host_ptx import Instruction, form

_OPERATORS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
_TYPES = {"s32": "int", "u32": "unsigned", "b32": "unsigned", "f32": "float", "s16": "short", "b16": "unsigned short"}
_BF16 = (
    "auto px_wide = [](unsigned b) { b <<= 16; float f; memcpy(&f, &b, 4); return f; }; "
    "auto px_narrow = [](float f) { unsigned b; memcpy(&b, &f, 4); return (b + 0x7fff + (b >> 16 & 1)) >> 16; };"
)
"""bf16 from its bits and, to nearest even, back; for numbers that are none of the special ones."""


@form(*_OPERATORS)
def _binary(i: Instruction) -> str:
    """`add.s32`, `xor.b32`: wraps around, as registers do."""
    name = i.ptx.split(".")[0].split()[-1]
    ctype = _ctype(i)
    i.done(3)
    to, a, b = map(i.value, i.operands)
    wrapping = "unsigned" if ctype == "int" else ctype
    return f"{to} = ({ctype})(({wrapping}){a} {_OPERATORS[name]} ({wrapping}){b});"


@form("max", "min")
def _extreme(i: Instruction) -> str:
    than = ">" if "max" in i.ptx.split(".")[0] else "<"
    ctype = _ctype(i)
    i.done(3)
    to, a, b = map(i.value, i.operands)
    return f"{to} = ({ctype}){a} {than} ({ctype}){b} ? {a} : {b};"


@form("ex2.approx")
def _ex2(i: Instruction) -> str:
    i.take("ftz")
    if not i.take("f32"):
        raise i.refuse()
    i.done(2)
    to, x = map(i.value, i.operands)
    return f"{to} = exp2f({x});"


@form("fma.rn")
def _fma(i: Instruction) -> str:
    kind = i.take("f32", "bf16x2")
    i.done(4)
    to, a, b, c = map(i.value, i.operands)
    if kind == "f32":
        return f"{to} = fmaf({a}, {b}, {c});"
    if not kind:
        raise i.refuse()
    halves = (
        f"px_narrow(fmaf(px_wide({a} >> {s} & 0xffff), px_wide({b} >> {s} & 0xffff), px_wide({c} >> {s} & 0xffff))) << {s}"
        for s in (0, 16)
    )
    return f"{_BF16} {to} = {' | '.join(f'({half})' for half in halves)};"


def _ctype(i: Instruction) -> str:
    last = i.parts.pop() if i.parts else ""
    if last not in _TYPES or re.search(r"f32", last):
        raise i.refuse()
    return _TYPES[last]
