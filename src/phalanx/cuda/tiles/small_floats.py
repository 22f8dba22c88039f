"""Conversions of the floats of 4 and 6 bits and of powers of two (f8e8m0): by `cvt` where a target has it, else computed.

A register tile keeps one element in a byte, in its low bits. Both ways follow `ir.types.rounded`.
"""

from __future__ import annotations

from typing import NamedTuple

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import device_function
from phalanx.ir.archs import Arch, Feature
from phalanx.ir.types import LARGEST


class Conversions(NamedTuple):
    """The device functions of one type: an element to float, a float to an element, two floats to two elements."""

    to_float: Helper
    from_float: Helper
    pair_from_float: Helper | None


def conversions(name: str, arch: Arch) -> Conversions | None:
    """How a target converts elements of that type; None where it is none of these types."""
    return (_NATIVE if Feature.NARROW_CASTS in arch.features else _COMPUTED).get(name)


# ---------------------------------------------------------------------- by cvt


def _native(name: str) -> Conversions:
    return Conversions(_to_float(name), _from_float(name), _pair(name))


def _to_float(name: str) -> Helper:
    return device_function(
        f"{name}_to_float",
        "float",
        ((f"px_{name}", "x"),),
        f"unsigned pair;\n{_widen(name)}\nfloat y;\n"
        'asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));\nreturn y;',
    )


def _widen(name: str) -> str:
    """The line that makes two f16 of two elements, the upper one 0."""
    code = f"{name[2:]}x2"
    if name == "f4e2m1":  # its operand is a register of 8 bits, which C++ has none of
        text = f"{{ .reg .b8 low, high; mov.b16 {{low, high}}, %1; cvt.rn.f16x2.{code} %0, low; }}"
    else:
        text = f"cvt.rn.f16x2.{code} %0, %1;"
    return f'asm("{text}" : "=r"(pair) : "h"((unsigned short)x));'


def _from_float(name: str) -> Helper:
    return device_function(
        f"{name}_from_float",
        f"px_{name}",
        (("float", "x"),),
        f'unsigned short pair;\n{_narrow(name, "0.0f", "x")}\nreturn (px_{name}){_element("pair", name, 0)};',
    )


def _pair(name: str) -> Helper:
    return device_function(
        f"{name}_pair_from_float",
        "void",
        ((f"px_{name}*", "y"), ("float", "low"), ("float", "high")),
        f'unsigned short pair;\n{_narrow(name, "high", "low")}\n'
        f'y[0] = (px_{name}){_element("pair", name, 0)};\ny[1] = (px_{name}){_element("pair", name, 1)};',
    )


def _narrow(name: str, high: str, low: str) -> str:
    """The line that makes two elements of two floats."""
    if name == "f4e2m1":
        text = "{ .reg .b8 both; cvt.rn.satfinite.e2m1x2.f32 both, %1, %2; mov.b16 %0, {both, both}; }"
    elif name == "f8e8m0":
        text = "cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;"
    else:
        text = f"cvt.rn.satfinite.{name[2:]}x2.f32 %0, %1, %2;"
    return f'asm("{text}" : "=h"(pair) : "f"({high}), "f"({low}));'


def _element(pair: str, name: str, number: int) -> str:
    """One of two elements: 4-bit ones share the low byte, others have one each."""
    if name == "f4e2m1":
        return f"({pair} & 15)" if number == 0 else f"({pair} >> 4 & 15)"
    return pair if number == 0 else f"({pair} >> 8)"


_POWER_TO_FLOAT = device_function(
    "f8e8m0_to_float",
    "float",
    (("px_f8e8m0", "x"),),
    'unsigned pair;\nasm("cvt.rn.bf16x2.ue8m0x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x));\n'
    "return __uint_as_float(pair << 16);",
)
_NATIVE = {
    **{name: _native(name) for name in ("f6e2m3", "f6e3m2", "f4e2m1")},
    "f8e8m0": Conversions(_POWER_TO_FLOAT, _from_float("f8e8m0"), _pair("f8e8m0")),
}

# ---------------------------------------------------------------------- computed


def _computed(name: str, exponent_bits: int, mantissa: int) -> Conversions:
    """By scaling: a small float shifted into a float's fields is off by a power of two, which one product puts right."""
    bias = (1 << exponent_bits - 1) - 1
    sign = exponent_bits + mantissa
    magnitude = (1 << sign) - 1
    to_float = device_function(
        f"{name}_computed_to_float",
        "float",
        ((f"px_{name}", "x"),),
        f"const float y = __uint_as_float((unsigned)(x & {magnitude}) << {23 - mantissa}) * {_power(127 - bias)};\n"
        f"return __uint_as_float(__float_as_uint(y) | (unsigned)(x >> {sign} & 1) << 31);",
    )
    smallest = 128 - bias  # the exponent field, in a float, of the smallest number that is not subnormal here
    from_float = device_function(
        f"{name}_computed_from_float",
        f"px_{name}",
        (("float", "x"),),
        f"const float y = fabsf(x) < {LARGEST[name]}f ? fabsf(x) : {LARGEST[name]}f;  // not-a-number too\n"
        "unsigned exponent = __float_as_uint(y) >> 23;\n"
        f"if (exponent < {smallest}u) exponent = {smallest}u;\n"
        f"const float scale = __uint_as_float(({254 + mantissa}u - exponent) << 23);\n"
        f"const unsigned code = ((exponent - {smallest}u) << {mantissa}) + (unsigned)rintf(y * scale);\n"
        f"return (px_{name})(code | (x == x ? __float_as_uint(x) >> 31 : 0u) << {sign});",
    )
    return Conversions(to_float, from_float, None)


def _power(exponent: int) -> str:
    """A power of two as a literal of C++."""
    return f"__uint_as_float({127 + exponent}u << 23)"


_COMPUTED = {
    "f6e2m3": _computed("f6e2m3", 2, 3),
    "f6e3m2": _computed("f6e3m2", 3, 2),
    "f4e2m1": _computed("f4e2m1", 2, 1),
    "f8e8m0": Conversions(
        device_function(
            "f8e8m0_computed_to_float",
            "float",
            (("px_f8e8m0", "x"),),
            "const unsigned code = x;\n"
            "return __uint_as_float(code == 255 ? 0x7fffffffu : code == 0 ? 0x00400000u : code << 23);",
        ),
        device_function(
            "f8e8m0_computed_from_float",
            "px_f8e8m0",
            (("float", "x"),),
            "const unsigned size = __float_as_uint(x) & 0x7fffffffu, exponent = size >> 23;\n"
            "const unsigned up = exponent + ((size & 0x7fffffu) > (exponent ? 0u : 0x400000u));  // 0: 2**-127\n"
            "return (px_f8e8m0)(size > 0x7f800000u ? 255u : up < 254u ? up : 254u);",
        ),
        None,
    ),
}
