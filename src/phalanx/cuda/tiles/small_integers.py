"""Integers of 4 bits: in a register each is its code, 0 to 15; what arithmetic there is converts them.

To floats no instruction converts: a number n below 16 is put into the last bits of a float whose last bit stands for 1, and
what that float was before is subtracted, both exactly. Signed ones are 8 more first, so that they are none below 0.
"""

from __future__ import annotations

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import device_function
from phalanx.ir.types import DType

EIGHT = 8
"""Elements of a 32-bit register."""
_WHOLE = {"bf16": 0x4300, "f16": 0x6400}
"""128 and 1024: floats of 16 bits whose last bit stands for 1."""
WHOLE_F32 = 0x4B000000
"""2**23, likewise."""


def is_small(dtype: DType) -> bool:
    """Whether a type is an integer of 4 bits."""
    return dtype.is_integer and dtype.bits == 4


def value_text(x: str, dtype: DType) -> str:
    """The number of a code, an int."""
    return f"((int)({x} ^ 8) - 8)" if dtype.kind == "int" else f"(int){x}"


def float_text(x: str, dtype: DType) -> str:
    """The number of a code, as a float: two instructions of full rate."""
    signed = dtype.kind == "int"
    code = f"({x} ^ 8)" if signed else x
    return f"(__uint_as_float(0x{WHOLE_F32:08x}u | {code}) - {2**23 + 8 * signed}.0f)"


def code_text(number: str) -> str:
    """The code of an integer, which wraps around."""
    return f"(unsigned char)(({number}) & 15)"


def eight_at_once(source: DType, target: DType) -> Helper | None:
    """The function that makes bf16 or f16 of eight integers of 4 bits in a register; None where there is none.

    Elements n and n + 4 are 16 bits apart, as the halves of a register are: two are put into floats at once.
    """
    if not is_small(source) or target.name not in _WHOLE:
        return None
    signed = source.kind == "int"
    one = _WHOLE[target.name]
    whole = one << 16 | one
    taken = (one | 8) << 16 | (one | 8) if signed else whole
    lines = ["codes ^= 0x88888888u;"] if signed else []
    for n in range(4):
        shifted = f"codes >> {4 * n}" if n else "codes"
        lines.append(f"unsigned w{n} = ({shifted} & 0x000f000fu) | 0x{whole:08x}u;")
    ptx = f"sub.rn.{target.name}x2 %0, %0, %1;"
    lines += [f'asm("{ptx}" : "+r"(w{n}) : "r"(0x{taken:08x}u));' for n in range(4)]
    for half in range(2):
        shift = " >> 16" if half else ""
        lines += [f"y[{4 * half + n}] = (unsigned short)(w{n}{shift});" for n in range(4)]
    parameters = (("unsigned short*", "y"), ("unsigned", "codes"))
    return device_function(f"{source.name}x8_to_{target.name}", "void", parameters, "\n".join(lines))
