"""Arithmetic in PTX as C++, for `host_ptx`: the forms that kernels of the tests write with `px.ptx`, and no more.

No host can run any PTX; a kernel with another instruction is refused by its name, and a form for it is added here.
"""

from __future__ import annotations

import re

from support.host_ptx import Instruction, form

_OPERATORS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
_TYPES = {"s32": "int", "u32": "unsigned", "b32": "unsigned", "f32": "float", "s16": "short", "b16": "unsigned short"}
_ON_HALVES = {
    "add.rn": "x + y", "sub.rn": "x - y", "mul.rn": "x * y", "fma.rn": "px_fma_odd(x, y, z)",
    "max.NaN": "x != x || y != y ? x + y : x < y ? y : x", "min.NaN": "x != x || y != y ? x + y : y < x ? y : x",
}  # fmt: skip


@form(*(f"{name}.{dtype}x2" for name in _ON_HALVES for dtype in ("bf16", "f16")))
def _halves(i: Instruction) -> str:
    """`add.rn.bf16x2`: each half by itself."""
    name, _, dtype = i.ptx.split()[0].rpartition(".")
    of = "px_bfloat" if dtype == "bf16x2" else "px_half"
    i.done(4 if name == "fma.rn" else 3)
    to, *given = (f"(unsigned){i.value(operand)}" for operand in i.operands)
    body = f"[](float x, float y, float z) {{ return {_ON_HALVES[name]}; }}"
    return f"{to.removeprefix('(unsigned)')} = px_each_half<{of}_value, {of}_of>({body}, {', '.join(given)});"


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
    if not i.take("f32"):
        raise i.refuse()
    i.done(4)
    to, a, b, c = map(i.value, i.operands)
    return f"{to} = fmaf({a}, {b}, {c});"


def _ctype(i: Instruction) -> str:
    last = i.parts.pop() if i.parts else ""
    if last not in _TYPES or re.search(r"f32", last):
        raise i.refuse()
    return _TYPES[last]
