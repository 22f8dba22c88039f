"""The user's PTX on the elements of tiles: one device function per text and types, called for each register.

An element of 8 bits, or a bool, is the low bits of a 32-bit register there. Where two elements share a register the function
takes both of them: which two makes no difference to what is computed element by element, so neighbours among a thread's
registers are taken, and the last one twice where their number is odd.
"""

from __future__ import annotations

import re
import zlib

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import device_function, function_name
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.elementwise import operand_element
from phalanx.cuda.tiles.index import local, slot_line
from phalanx.ir.ops.tile import InlinePtx
from phalanx.ir.types import DType, TileType

_WORDS = {
    "f64": ("d", "double"), "f32": ("f", "float"), 64: ("l", "unsigned long long"), 32: ("r", "unsigned"),
    16: ("h", "unsigned short"), 8: ("r", "unsigned"),
}  # fmt: skip
"""Constraint and C++ type of a register, by the element's type or its bits."""


def emit_ptx(w: Writer, op: InlinePtx) -> None:
    """Writes the calls: of a scalar one, of tiles an unrolled loop."""
    call = w.use(_function(w, op))
    if not isinstance(op.results[0].type, TileType):
        names = []
        for result in op.results:
            names.append(w.name(result))
            w.line(f"{w.ctype(scalar_dtype(result))} {names[-1]};")
        w.line(_call(w, op, call, names, ["0"] * op.pack, spare=op.pack - 1))
        return
    names = [w.declare_tile(result) for result in op.results]
    count, var = w.registers(op.results[0]), local(w, "i")
    if op.pack == 1:
        slot_line(w, count, _call(w, op, call, [f"{name}[{var}]" for name in names], [var]), var)
        return
    if count > 1:
        outputs = [f"{name}[{at}]" for name in names for at in (var, f"{var} + 1")]
        w.line("#pragma unroll")
        both = _call(w, op, call, outputs, [var, f"({var} + 1)"])
        w.line(f"for (int {var} = 0; {var} < {count // 2 * 2}; {var} += 2) {both}")
    if count % 2:
        w.line(_call(w, op, call, [f"{name}[{count - 1}]" for name in names], [str(count - 1)] * 2, spare=1))


def _call(w: Writer, op: InlinePtx, call: str, outputs: list[str], slots: list[str], spare: int = 0) -> str:
    """A call for the elements at `slots`; with `spare` the second of each two results is nobody's."""
    inputs = [operand_element(w, x, op.results[0], slot) for x in op.xs for slot in slots]
    if not spare:
        return f"{call}({', '.join([*outputs, *inputs])});"
    unused = [local(w, "spare") for _ in outputs]
    declared = " ".join(f"{w.ctype(scalar_dtype(r))} {name};" for r, name in zip(op.results, unused, strict=True))
    both = [text for pair in zip(outputs, unused, strict=True) for text in pair]
    return f"{{ {declared} {call}({', '.join([*both, *inputs])}); }}"


def _function(w: Writer, op: InlinePtx) -> Helper:
    """The device function: it writes its results through references, and takes the operands."""
    outputs, inputs = [scalar_dtype(r) for r in op.results], [scalar_dtype(x) for x in op.xs]
    ends = ("",) if op.pack == 1 else ("_low", "_high")
    parameters = [(f"{w.ctype(dtype)}&", f"y{n}{end}") for n, dtype in enumerate(outputs) for end in ends]
    parameters += [(w.ctype(dtype), f"x{n}{end}") for n, dtype in enumerate(inputs) for end in ends]
    registers = [_register(dtype, op.pack) for dtype in (*outputs, *inputs)]
    text = re.sub(r"\$(\d+)", r"%\1", op.text)
    lines = [f"{registers[n][1]} r{n};" for n in range(len(outputs))]
    taken = [_taken(dtype, [f"x{n}{end}" for end in ends]) for n, dtype in enumerate(inputs)]
    to = ", ".join(f'"={registers[n][0]}"(r{n})' for n in range(len(outputs)))
    given = ", ".join(f'"{kind}"({part})' for (kind, _), part in zip(registers[len(outputs) :], taken, strict=True))
    lines.append(f'asm("{text}" : {to}' + (f" : {given});" if given else ");"))
    for n, dtype in enumerate(outputs):
        lines += _given(w, dtype, f"r{n}", [f"y{n}{end}" for end in ends])
    mnemonic = re.sub(r"^[{\s]*(\.reg[^;]*;\s*)*", "", op.text).split(" ")[0].rstrip(";")
    types = ",".join(dtype.name for dtype in (*outputs, *inputs))
    number = zlib.crc32(f"{op.text} {types} {op.pack}".encode())
    return device_function(f"inline_{function_name(mnemonic)}_{number:08x}", "void", parameters, "\n".join(lines))


def _register(dtype: DType, pack: int) -> tuple[str, str]:
    """Constraint and C++ type of the register that an element, or two of them, are in."""
    if pack == 2:
        return _WORDS[2 * dtype.bits]
    if dtype.name in _WORDS:
        return _WORDS[dtype.name]
    return _WORDS[max(8, 1 << (dtype.bits - 1).bit_length())]


def _taken(dtype: DType, parts: list[str]) -> str:
    """What a register is given: the element, or the bits of two."""
    if len(parts) == 1:
        return parts[0] if dtype.is_float and dtype.bits >= 16 else _bits(dtype, parts[0])
    bits, word = dtype.bits, _WORDS[2 * dtype.bits][1]
    low, high = (_bits(dtype, part) for part in parts)
    return f"({word}){low} | ({word}){high} << {bits}"


def _bits(dtype: DType, text: str) -> str:
    """The bits of an element as an unsigned number; a signed one of 8 bits keeps its sign in the wider register."""
    if dtype.name == "f32":
        return f"__float_as_uint({text})"
    if dtype.bits == 64:
        return f"(unsigned long long){text}"
    if dtype.bits == 16:
        return f"(unsigned short){text}"
    return f"(unsigned){text}"


def _given(w: Writer, dtype: DType, register: str, parts: list[str]) -> list[str]:
    """Lines that make elements of what a register holds."""
    if len(parts) == 1:
        value = f"{register} != 0" if dtype.kind == "bool" else f"({w.ctype(dtype)}){register}"
        return [f"{parts[0]} = {register if dtype.is_float and dtype.bits >= 16 else value};"]
    shifted = [register, f"({register} >> {dtype.bits})"]
    if dtype.name == "f32":
        return [f"{part} = __uint_as_float((unsigned){bits});" for part, bits in zip(parts, shifted, strict=True)]
    return [f"{part} = ({w.ctype(dtype)}){bits};" for part, bits in zip(parts, shifted, strict=True)]
