"""Device functions of the generated text, one per instruction variant, built from the instruction's modifiers.

A function is named after its PTX (`mbarrier.arrive.shared::cta.b64` becomes `mbarrier_arrive_shared_cta`), and only
those that a kernel uses are written before it. Shared memory is addressed by 32-bit shared addresses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from phalanx.cuda.text.helper import Helper

# How inline asm takes an operand of a C++ type.
_CONSTRAINTS = {
    "bool": "r",
    "int": "r",
    "unsigned": "r",
    "unsigned short": "h",
    "float": "f",
    "long long": "l",
    "unsigned long long": "l",
    "const void*": "l",
    "void*": "l",
}
WIDTH = 112
Parameter = tuple[str, str]
"""(C++ type, name)."""


def function_name(mnemonic: str) -> str:
    """The C++ name of a PTX instruction: its parts joined by underscores, a final `.b64` or `.u32` dropped."""
    return re.sub(r"\W+", "_", re.sub(r"\.[bu](32|64)$", "", mnemonic))


def device_function(
    name: str, result: str, parameters: Sequence[Parameter], body: str, *needs: Helper
) -> Helper:
    """A `__device__ __forceinline__` function with a body of C++ lines."""
    signature = ", ".join(f"{ctype} {parameter}" for ctype, parameter in parameters)
    lines = "\n".join(f"  {line}" if line else "" for line in body.split("\n"))
    head = f"__device__ __forceinline__ {result} {name}({signature}) {{"
    if len(head) > WIDTH:
        head = f"__device__ __forceinline__ {result} {name}(\n    {signature}) {{"
    return Helper(name, f"{head}\n{lines}\n}}", needs)


@cache
def instruction(
    mnemonic: str, operands: str = "", parameters: tuple[Parameter, ...] = (), *, name: str = "", memory: bool = True
) -> Helper:
    """A function that executes one PTX instruction without a result.

    `operands` is the operand text with the parameters in braces, e.g. ``"_, [{bar}], {bytes}"``. `memory` False lets
    the compiler move it past loads and stores.
    """
    numbered = {parameter: f"%{n}" for n, (_, parameter) in enumerate(parameters)}
    text = f"{mnemonic} {_fill(operands, numbered)}".rstrip() + ";"
    inputs = ", ".join(f'"{_CONSTRAINTS[ctype]}"({parameter})' for ctype, parameter in parameters)
    clobbers = ' : "memory"' if memory else ""
    body = f'asm volatile("{text}" :: {inputs}{clobbers});'.replace("::  :", ":::")
    if len(body) > WIDTH:
        body = f'asm volatile("{text}"\n             :: {inputs}{clobbers});'
    return device_function(name or function_name(mnemonic), "void", parameters, body)


@cache
def predicate(mnemonic: str, operands: str, parameters: tuple[Parameter, ...], *, name: str = "") -> Helper:
    """A function whose result is the predicate that an instruction sets (`{p}` in the operand text)."""
    numbered = {parameter: f"%{n + 1}" for n, (_, parameter) in enumerate(parameters)} | {"p": "p"}
    inputs = ", ".join(f'"{_CONSTRAINTS[ctype]}"({parameter})' for ctype, parameter in parameters)
    body = (
        "unsigned done;\n"
        f'asm volatile("{{ .reg .pred p; {mnemonic} {_fill(operands, numbered)}; selp.u32 %0, 1, 0, p; }}"\n'
        f'             : "=r"(done) : {inputs} : "memory");\n'
        "return done != 0;"
    )
    return device_function(name or function_name(mnemonic), "bool", parameters, body)


@cache
def special_register(register: str, name: str = "") -> Helper:
    """A function that reads a special register, such as `%cluster_ctarank`."""
    body = f'unsigned value;\nasm("mov.u32 %0, %%{register};" : "=r"(value));\nreturn (int)value;'
    return device_function(name or function_name(register), "int", (), body)


def _fill(operands: str, numbered: dict[str, str]) -> str:
    """Puts the numbered operands in the place of the names in braces; other braces are PTX's vectors."""
    return re.sub(r"\{(\w+)\}", lambda match: numbered[match[1]] if match[1] in numbered else match[0], operands)
