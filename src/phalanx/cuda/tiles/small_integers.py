"""Integers of 4 bits: in a register each is its code, 0 to 15; what arithmetic there is converts them.

To floats no instruction converts: a number n below 16 is put into the last bits of a float whose last bit stands for 1, and
what that float was before is subtracted, both exactly. Signed ones are 8 more first, so that they are none below 0.
"""

from __future__ import annotations

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import device_function
from phalanx.ir.types import DType

BYTES = 4
"""Bytes of a word."""
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


def codes_of_byte(source: DType, target: DType) -> Helper | None:
    """The function that makes bf16 or f16 of the two integers of 4 bits in a byte; None where there is none.

    The product with 4097 has the byte twice, 12 bits apart: so each of its integers begins a half of the register.
    """
    return _converter(source, target, "x2", "byte", 1, ["byte * 0x1001u"])


def codes_of_word(source: DType, target: DType) -> Helper | None:
    """The function that makes bf16 or f16 of the eight integers of 4 bits in a register; None where there is none.

    Beside the register stands what it is 4 bits further to the right: each byte of the two begins with an integer.
    """
    picked = [f"__byte_perm(codes, codes >> 4, 0x{0x4400 + 0x1111 * n:04x})" for n in range(BYTES)]
    return _converter(source, target, "x8", "codes", BYTES, picked)


def two_codes(source: DType, target: DType) -> Helper | None:
    """The function that makes bf16 or f16 of two integers of 4 bits, 16 bits apart in a register; None if there is none."""
    return _converter(source, target, "_pair", "codes", 1, ["codes"])


def _converter(source: DType, target: DType, suffix: str, given: str, count: int, picked: list[str]) -> Helper | None:
    """A function of that name which writes pairs of floats; `picked` has the integers of each at bits 0 and 16.

    Codes of signed integers have their sign's bit flipped: so they are 8 more, and none is below 0.
    """
    if not is_small(source) or target.name not in _WHOLE:
        return None
    one = _WHOLE[target.name] | (8 if source.kind == "int" else 0)
    whole = one << 16 | one
    lines = [f"unsigned w{n} = ({text} & 0x000f000fu) ^ 0x{whole:08x}u;" for n, text in enumerate(picked)]
    ptx = f"sub.rn.{target.name}x2 %0, %0, %1;"
    for n in range(count):
        lines.append(f'asm("{ptx}" : "+r"(w{n}) : "r"(0x{whole:08x}u));')
        lines += [f"y[{2 * n}] = (unsigned short)w{n};", f"y[{2 * n + 1}] = (unsigned short)(w{n} >> 16);"]
    parameters = (("unsigned short*", "y"), ("unsigned", given))
    return device_function(f"{source.name}{suffix}_to_{target.name}", "void", parameters, "\n".join(lines))
