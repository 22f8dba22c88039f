"""Device functions of tile code: number formats, arithmetic that C++ leaves open, vector accesses, atomics."""

from __future__ import annotations

from functools import cache

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import UNKNOWN_ZERO, device_function
from phalanx.ir.types import DType, f32

# ---------------------------------------------------------------------- narrow floats

F16_TO_FLOAT = device_function(
    "f16_to_float",
    "float",
    (("px_f16", "x"),),
    'float y;\nasm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));\nreturn y;',
)
BF16_TO_FLOAT = device_function(
    "bf16_to_float", "float", (("px_bf16", "x"),), "return __uint_as_float((unsigned)x << 16);"
)


def _fp8_to_float(name: str) -> Helper:
    # One PTX instruction widens a pair to f16; the upper half is left empty.
    return device_function(
        f"{name}_to_float",
        "float",
        ((f"px_{name}", "x"),),
        "unsigned pair;\n"
        f'asm("cvt.rn.f16x2.{name[2:]}x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x));\n'
        "float y;\n"
        'asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));\n'
        "return y;",
    )


TO_FLOAT = {
    "f16": F16_TO_FLOAT,
    "bf16": BF16_TO_FLOAT,
    "f8e4m3": _fp8_to_float("f8e4m3"),
    "f8e5m2": _fp8_to_float("f8e5m2"),
}


def _half_from_float(name: str) -> Helper:
    return device_function(
        f"{name}_from_float",
        f"px_{name}",
        (("float", "x"),),
        f'unsigned short y;\nasm("cvt.rn.{name}.f32 %0, %1;" : "=h"(y) : "f"(x));\nreturn y;',
    )


def _fp8_from_float(name: str) -> Helper:
    return device_function(
        f"{name}_from_float",
        f"px_{name}",
        (("float", "x"),),
        "unsigned short pair;\n"
        f'asm("cvt.rn.satfinite.{name[2:]}x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));\n'
        f"return (px_{name})pair;",
    )


FROM_FLOAT = {
    "f16": _half_from_float("f16"),
    "bf16": _half_from_float("bf16"),
    "f8e4m3": _fp8_from_float("f8e4m3"),
    "f8e5m2": _fp8_from_float("f8e5m2"),
}


def _rounded_once(target: str, source: str) -> Helper:
    ctype, constraint, kind = {
        "f64": ("double", "d", "f64"), "i32": ("int", "r", "s32"), "u32": ("unsigned", "r", "u32"),
        "i64": ("long long", "l", "s64"), "u64": ("unsigned long long", "l", "u64"),
    }[source]
    return device_function(
        f"{target}_from_{source}",
        f"px_{target}",
        ((ctype, "x"),),
        f'unsigned short y;\nasm("cvt.rn.{target}.{kind} %0, %1;" : "=h"(y) : "{constraint}"(x));\nreturn y;',
    )


ROUNDED_ONCE = {
    **{(target, "f64"): _rounded_once(target, "f64") for target in ("f16", "bf16")},
    **{("bf16", source): _rounded_once("bf16", source) for source in ("i32", "u32", "i64", "u64")},
}
"""From types that f32 does not hold, by way of which they would be rounded twice. It holds all integers that f16 does."""


def _half_pair(name: str) -> Helper:
    return device_function(
        f"{name}_pair_from_float",
        "void",
        ((f"px_{name}*", "y"), ("float", "low"), ("float", "high")),
        "unsigned pair;\n"
        f'asm("cvt.rn.{name}x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));\n'
        f"y[0] = (px_{name})pair;\ny[1] = (px_{name})(pair >> 16);",
    )


def _fp8_pair(name: str) -> Helper:
    return device_function(
        f"{name}_pair_from_float",
        "void",
        ((f"px_{name}*", "y"), ("float", "low"), ("float", "high")),
        "unsigned short pair;\n"
        f'asm("cvt.rn.satfinite.{name[2:]}x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));\n'
        f"y[0] = (px_{name})pair;\ny[1] = (px_{name})(pair >> 8);",
    )


def _fp8_four(name: str) -> Helper:
    convert = f"cvt.rn.satfinite.{name[2:]}x2.f32"
    return device_function(
        f"{name}_four_from_float",
        "void",
        ((f"px_{name}*", "y"), ("float", "x0"), ("float", "x1"), ("float", "x2"), ("float", "x3")),
        "unsigned word;\n"
        f'asm("{{ .reg .b16 low, high; {convert} low, %2, %1; {convert} high, %4, %3; mov.b32 %0, {{low, high}}; }}"\n'
        '    : "=r"(word) : "f"(x0), "f"(x1), "f"(x2), "f"(x3));\n'
        f"y[0] = (px_{name})word;\ny[1] = (px_{name})(word >> 8);\n"
        f"y[2] = (px_{name})(word >> 16);\ny[3] = (px_{name})(word >> 24);",
    )


FOUR_FROM_FLOAT = {name: _fp8_four(name) for name in ("f8e4m3", "f8e5m2")}
"""Four conversions into the bytes of a word. Nothing else has a use for the pairs that the word is put together of: ptxas
(13.0, 13.4) joins a pair to the word while it converts it, in the register of the other pair, even where that one's bytes
go round an unrolled loop, which then sees the wrong bytes."""

PAIR_FROM_FLOAT = {
    "f16": _half_pair("f16"),
    "bf16": _half_pair("bf16"),
    "f8e4m3": _fp8_pair("f8e4m3"),
    "f8e5m2": _fp8_pair("f8e5m2"),
}
"""Two conversions by one instruction, into neighbouring registers."""


def _fp8_widened(source: str, target: str) -> Helper:
    # A pair becomes f16 by one instruction; there is none to bf16, which has no fewer exponents: by way of f32.
    half = "y[0] = (px_f16)pair;\ny[1] = (px_f16)(pair >> 16);"
    if target == "bf16":
        half = (
            "float low, high;\n"
            'asm("{ .reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" '
            ': "=f"(low), "=f"(high) : "r"(pair));\n'
            'asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));\n'
            "y[0] = (px_bf16)pair;\ny[1] = (px_bf16)(pair >> 16);"
        )
    return device_function(
        f"{target}_pair_from_{source}",
        "void",
        ((f"px_{target}*", "y"), (f"px_{source}", "x0"), (f"px_{source}", "x1")),
        "unsigned pair;\n"
        f'asm("cvt.rn.f16x2.{source[2:]}x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)(x0 | x1 << 8)));\n{half}',
    )


PAIR_WIDENED = {
    (source, target): _fp8_widened(source, target) for source in ("f8e4m3", "f8e5m2") for target in ("f16", "bf16")
}
"""Two elements of 8 bits to 16 by one conversion, not two."""

# ---------------------------------------------------------------------- arithmetic

EXP2 = device_function(
    "exp2_approx",
    "float",
    (("float", "x"),),
    'float y;\nasm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));\nreturn y;',
)
"""Relative error below 2**-22; results below the normal range are 0."""

RECIPROCAL = device_function(
    "reciprocal_approx",
    "float",
    (("float", "x"),),
    'float y;\nasm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));\nreturn y;',
)
"""Off by at most one in the last place; results below the normal range are 0."""

TANH_APPROX = device_function(
    "tanh_approx",
    "float",
    (("float", "x"),),
    'float y;\nasm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));\nreturn y;',
)
"""Relative error below 2**-10.9."""

SIGMOID = device_function(
    "sigmoid", "float", (("float", "x"),), "return __fdividef(1.0f, 1.0f + expf(-x));"
)
MANY_ELEMENTS = 16
"""Elements of a thread from which on a long function is called instead of written out for each."""


def _called(fn: str, ctype: str, kind: str) -> Helper:
    body = "return 1.0 / (1.0 + exp(-x));" if fn == "sigmoid" else f"return {fn}{'' if ctype == 'double' else 'f'}(x);"
    return device_function(f"called_{fn}_{kind}", ctype, ((ctype, "x"),), body, inline=False)


CALLED = {
    **{(fn, 32): _called(fn, "float", "f32") for fn in ("sin", "cos")},
    **{
        (fn, 64): _called(fn, "double", "f64")
        for fn in ("exp", "exp2", "log", "log2", "tanh", "erf", "sin", "cos", "sigmoid")
    },
}
"""Functions of some hundred instructions: a tile of them written out takes the compiler half a minute."""
SIGMOID_F64 = device_function("sigmoid_f64", "double", (("double", "x"),), "return 1.0 / (1.0 + exp(-x));")


def _narrow_fma(name: str) -> Helper:
    """One rounding: computed in float and rounded after that, it would be two."""
    return device_function(
        f"fma_{name}",
        f"px_{name}",
        ((f"px_{name}", "a"), (f"px_{name}", "b"), (f"px_{name}", "c")),
        f'px_{name} d;\nasm("fma.rn.{name} %0, %1, %2, %3;" : "=h"(d) : "h"(a), "h"(b), "h"(c));\nreturn d;',
    )


NARROW_FMA = {name: _narrow_fma(name) for name in ("f16", "bf16")}


def _wrapping(name: str, symbol: str) -> Helper:
    return Helper(
        name,
        "// Signed integers wrap around, as the machine's do; C++ leaves that open.\n"
        f"__device__ __forceinline__ int {name}(int a, int b) {{ return (int)((unsigned)a {symbol} (unsigned)b); }}\n"
        f"__device__ __forceinline__ long long {name}(long long a, long long b) {{\n"
        f"  return (long long)((unsigned long long)a {symbol} (unsigned long long)b);\n"
        "}",
    )


WRAP = {"add": _wrapping("wrap_add", "+"), "sub": _wrapping("wrap_sub", "-"), "mul": _wrapping("wrap_mul", "*")}

SHIFT = {
    "shl": Helper(
        "shift_left",
        "// A count that is negative or not below the width shifts everything out; C++ leaves that open.\n"
        "template <class T>\n"
        "__device__ __forceinline__ T shift_left(T a, T by) {\n"
        "  constexpr int width = 8 * sizeof(T);\n"
        "  if ((unsigned long long)by >= width) return 0;\n"
        "  if constexpr (width == 64) return (T)((unsigned long long)a << by);\n"
        "  else return (T)((unsigned)a << by);\n"
        "}",
    ),
    "shr": Helper(
        "shift_right",
        "// A count that is negative or not below the width leaves copies of the sign; C++ leaves that open.\n"
        "template <class T>\n"
        "__device__ __forceinline__ T shift_right(T a, T by) {\n"
        "  constexpr int width = 8 * sizeof(T);\n"
        "  return (T)((unsigned long long)by < width ? a >> by : a >> (width - 1) >> 1);\n"
        "}",
    ),
}

# In C++ a division by 0 is open, and so is the smallest number by -1; `(T)-1 < (T)1` says that T has a sign.
FLOOR_DIV = Helper(
    "floor_div",
    "// Rounds down. By 0: 0. By -1: the negative number, which wraps around.\n"
    "template <class T>\n"
    "__device__ __forceinline__ T floor_div(T a, T b) {\n"
    "  if constexpr ((T)-1 < (T)1) {\n"
    "    if (b == 0 || b == -1) return b == 0 ? 0 : (T)(0 - (unsigned long long)a);\n"
    "    return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));\n"
    "  } else {\n"
    "    return b == 0 ? 0 : (T)(a / b);\n"
    "  }\n"
    "}",
)
FLOOR_MOD = Helper(
    "floor_mod",
    "// The remainder has the divisor's sign. By 0 and by -1: 0.\n"
    "template <class T>\n"
    "__device__ __forceinline__ T floor_mod(T a, T b) {\n"
    "  if constexpr ((T)-1 < (T)1) {\n"
    "    if (b == 0 || b == -1) return 0;\n"
    "    const T r = (T)(a % b);\n"
    "    return (T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);\n"
    "  } else {\n"
    "    return b == 0 ? 0 : (T)(a % b);\n"
    "  }\n"
    "}",
)


def _of_both_floats(text: str) -> str:
    """A function of floats (`REAL`, and `$` behind the names of functions and numbers), and one of doubles."""
    return "\n".join(text.replace("REAL", ctype).replace("$", suffix) for ctype, suffix in (("float", "f"), ("double", "")))


# `fmod` is some 300 instructions: written once and called, since the compiler takes minutes for one per element.
FLOAT_MOD = Helper(
    "float_mod",
    "// The remainder has the divisor's sign, as in Python.\n"
    + _of_both_floats(
        "__device__ __noinline__ REAL float_mod(REAL a, REAL b) {\n"
        "  const REAL r = fmod$(a, b);\n"
        "  return r == 0.0$ ? copysign$(0.0$, b) : (r < 0.0$) != (b < 0.0$) ? r + b : r;\n"
        "}"
    ),
)
FLOAT_FLOOR_DIV = Helper(
    "float_floor_div",
    "// From what `fmod` leaves, which is exact and no larger than a: rounding of a / b can't pass an integer, and\n"
    "// nothing overflows on the way.\n"
    + _of_both_floats(
        "__device__ __noinline__ REAL float_floor_div(REAL a, REAL b) {\n"
        "  if (b == 0.0$) return a / b;\n"
        "  const REAL r = fmod$(a, b);\n"
        "  const REAL q = (a - r) / b - (r != 0.0$ && (r < 0.0$) != (b < 0.0$) ? 1.0$ : 0.0$);\n"
        "  if (q == 0.0$) return copysign$(0.0$, a / b);\n"
        "  const REAL below = floor$(q);\n"
        "  return q - below > 0.5$ ? below + 1.0$ : below;\n"
        "}"
    ),
)
MAXIMUM = Helper(
    "maximum",
    "template <class T>\n__device__ __forceinline__ T maximum(T a, T b) { return a > b ? a : b; }",
)
MINIMUM = Helper(
    "minimum",
    "template <class T>\n__device__ __forceinline__ T minimum(T a, T b) { return a < b ? a : b; }",
)


def _float_extreme(fn: str) -> Helper:
    """One instruction; a NaN on either side makes the result 0x7fffffff, PTX's canonical NaN."""
    return device_function(
        f"{fn}_NaN_f32",
        "float",
        (("float", "a"), ("float", "b")),
        f'float c;\nasm("{fn}.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));\nreturn c;',
    )


def _double_extreme(fn: str) -> Helper:
    """PTX has no such instruction for f64."""
    sign = ">" if fn == "max" else "<"
    return device_function(
        f"{fn}_NaN_f64", "double", (("double", "a"), ("double", "b")), f"return a {sign} b || a != a ? a : b;"
    )


EXTREME = {
    **{(fn, 32): _float_extreme(fn) for fn in ("max", "min")},
    **{(fn, 64): _double_extreme(fn) for fn in ("max", "min")},
}
"""The larger or smaller of two floats of so many bits; not a number if one of them is none, as NumPy has it."""
ARGMIN_TAKES = Helper(
    "argmin_takes",
    "// Whether the element x at i comes before y at j: the smaller one, of equals the first. A NaN is smaller than all.\n"
    "template <class T>\n"
    "__device__ __forceinline__ bool argmin_takes(T x, int i, T y, int j) {\n"
    "  return i < j ? x <= y || x != x : !(x >= y) && y == y;\n"
    "}",
)
ARGMAX_TAKES = Helper(
    "argmax_takes",
    "// Whether the element x at i comes before y at j: the larger one, of equals the first. A NaN is larger than all.\n"
    "template <class T>\n"
    "__device__ __forceinline__ bool argmax_takes(T x, int i, T y, int j) {\n"
    "  return i < j ? x >= y || x != x : !(x <= y) && y == y;\n"
    "}",
)


@cache
def clamped_cast(ctype: str, low: int, high: int) -> Helper:
    """An int that saturates to a narrower type: what a float beyond its range becomes."""
    name = f"clamp_to_{ctype.replace(' ', '_')}"
    return device_function(
        name, ctype, (("int", "x"),), f"return ({ctype})(x < {low} ? {low} : x > {high} ? {high} : x);"
    )




def _truncation(source: str, target: str, suffix: str) -> Helper:
    # Not-a-number becomes 0; the machine does that by itself for float to 32 bits only.
    name = f"{source}_to_{target.replace(' ', '_')}"
    return device_function(name, target, ((source, "x"),), f"return x == x ? __{source}2{suffix}_rz(x) : 0;")


TRUNCATE = {
    (source, target): _truncation(source, target, suffix)
    for source in ("float", "double")
    for target, suffix in (("int", "int"), ("unsigned", "uint"), ("long long", "ll"), ("unsigned long long", "ull"))
}

# ---------------------------------------------------------------------- memory

INSIDE = Helper(
    "inside",
    "// Sums of indices wrap around: one below 0 or beyond 2^31 is no smaller than any extent.\n"
    "__device__ __forceinline__ bool inside(unsigned i, int n) { return i < (unsigned)n; }",
)
INDEX = Helper(
    "index",
    "// An index in 32 bits: one that needs more is -2^31, outside every array, and so are the places that follow it.\n"
    "__device__ __forceinline__ int index(long long i) { return i == (int)i ? (int)i : -2147483647 - 1; }\n"
    "__device__ __forceinline__ int index(unsigned i) { return i < 0x80000000u ? (int)i : -2147483647 - 1; }\n"
    "__device__ __forceinline__ int index(unsigned long long i) { return i < 0x80000000u ? (int)i : -2147483647 - 1; }",
)
SWIZZLE = Helper(
    "swizzle",
    "// The swizzle of TMA on an element offset: bits three places up are XORed into those of the mask.\n"
    "template <int mask>\n"
    "__device__ __forceinline__ int swizzle(int offset) { return offset ^ (offset >> 3 & mask); }",
)
WIDE_SWIZZLE = Helper(
    "wide_swizzle",
    "// The swizzle of 128 bytes in atoms of 32 on an element offset: bits two places up are XORed into those of the mask.\n"
    "template <int mask>\n"
    "__device__ __forceinline__ int wide_swizzle(int offset) { return offset ^ (offset >> 2 & mask); }",
)
BITS = Helper(
    "bits",
    "// An element from its bits, and back.\n"
    "template <class T>\n"
    "struct bits {\n"
    "  static __device__ __forceinline__ T from(unsigned long long b) { return (T)b; }\n"
    "  static __device__ __forceinline__ unsigned long long of(T x) {\n"
    "    if constexpr (sizeof(T) == 1) return (unsigned char)x;\n"
    "    else if constexpr (sizeof(T) == 2) return (unsigned short)x;\n"
    "    else if constexpr (sizeof(T) == 4) return (unsigned)x;\n"
    "    else return (unsigned long long)x;\n"
    "  }\n"
    "};\n"
    "template <>\n"
    "struct bits<float> {\n"
    "  static __device__ __forceinline__ float from(unsigned long long b) { return __uint_as_float((unsigned)b); }\n"
    "  static __device__ __forceinline__ unsigned long long of(float x) { return __float_as_uint(x); }\n"
    "};\n"
    "template <>\n"
    "struct bits<double> {\n"
    "  static __device__ __forceinline__ double from(unsigned long long b) {\n"
    "    return __longlong_as_double((long long)b);\n"
    "  }\n"
    "  static __device__ __forceinline__ unsigned long long of(double x) {\n"
    "    return (unsigned long long)__double_as_longlong(x);\n"
    "  }\n"
    "};",
)
WORDS = Helper(
    "unpack",
    "// N elements from the words that one access brings, and back.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void unpack(T* x, const unsigned (&words)[4]) {\n"
    "  #pragma unroll\n"
    "  for (int j = 0; j < N; ++j) {\n"
    "    if constexpr (sizeof(T) == 8)\n"
    "      x[j] = bits<T>::from(words[2 * j] | (unsigned long long)words[2 * j + 1] << 32);\n"
    "    else if constexpr (sizeof(T) == 4) x[j] = bits<T>::from(words[j]);\n"
    "    else if constexpr (sizeof(T) == 2) x[j] = bits<T>::from((unsigned short)(words[j / 2] >> j % 2 * 16));\n"
    "    else x[j] = bits<T>::from((unsigned char)(words[j / 4] >> j % 4 * 8));\n"
    "  }\n"
    "}\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void pack(unsigned (&words)[4], const T* x) {\n"
    "  #pragma unroll\n"
    "  for (int j = 0; j < N; ++j) {\n"
    "    const unsigned long long b = bits<T>::of(x[j]);\n"
    "    if constexpr (sizeof(T) == 8) words[2 * j] = (unsigned)b, words[2 * j + 1] = (unsigned)(b >> 32);\n"
    "    else if constexpr (sizeof(T) == 4) words[j] = (unsigned)b;\n"
    "    else words[j * sizeof(T) / 4] |= (unsigned)b << j * sizeof(T) % 4 * 8;\n"
    "  }\n"
    "}",
    (BITS,),
)
LOAD_VECTOR = Helper(
    "load_vector",
    "// N consecutive elements, aligned to their size, by one access.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void load_vector(T* x, const T* p) {\n"
    "  constexpr int bytes = N * sizeof(T);\n"
    "  unsigned words[4] = {0, 0, 0, 0};\n"
    "  if constexpr (bytes == 16) {\n"
    "    const uint4 v = *reinterpret_cast<const uint4*>(p);\n"
    "    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;\n"
    "  } else if constexpr (bytes == 8) {\n"
    "    const uint2 v = *reinterpret_cast<const uint2*>(p);\n"
    "    words[0] = v.x, words[1] = v.y;\n"
    "  } else if constexpr (bytes == 4) {\n"
    "    words[0] = *reinterpret_cast<const unsigned*>(p);\n"
    "  } else {\n"
    "    words[0] = *reinterpret_cast<const unsigned short*>(p);\n"
    "  }\n"
    "  unpack<N>(x, words);\n"
    "}",
    (WORDS,),
)
STORE_VECTOR = Helper(
    "store_vector",
    "template <int N, class T>\n"
    "__device__ __forceinline__ void store_vector(T* p, const T* x) {\n"
    "  constexpr int bytes = N * sizeof(T);\n"
    "  unsigned words[4] = {0, 0, 0, 0};\n"
    "  pack<N>(words, x);\n"
    "  if constexpr (bytes == 16) *reinterpret_cast<uint4*>(p) = make_uint4(words[0], words[1], words[2], words[3]);\n"
    "  else if constexpr (bytes == 8) *reinterpret_cast<uint2*>(p) = make_uint2(words[0], words[1]);\n"
    "  else if constexpr (bytes == 4) *reinterpret_cast<unsigned*>(p) = words[0];\n"
    "  else *reinterpret_cast<unsigned short*>(p) = (unsigned short)words[0];\n"
    "}",
    (WORDS,),
)
FILL_VECTOR = Helper(
    "fill_vector",
    "template <int N, class T, class V>\n"
    "__device__ __forceinline__ void fill_vector(T* x, V value) {\n"
    "  #pragma unroll\n"
    "  for (int j = 0; j < N; ++j) x[j] = (T)value;\n"
    "}",
)

UNPACK_WORDS = Helper(
    "unpack_words",
    "// N narrow elements from the words that hold them, and back.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void unpack_words(T* x, const unsigned* words) {\n"
    "  constexpr int per_word = 4 / sizeof(T);\n"
    "  #pragma unroll\n"
    "  for (int j = 0; j < N; ++j)\n"
    "    x[j] = bits<T>::from(words[j / per_word] >> j % per_word * 8 * sizeof(T) & (1u << 8 * sizeof(T)) - 1);\n"
    "}",
    (BITS,),
)
PACK_WORDS = Helper(
    "pack_words",
    "template <int N, class T>\n"
    "__device__ __forceinline__ void pack_words(unsigned* words, const T* x) {\n"
    "  constexpr int per_word = 4 / sizeof(T);\n"
    "  #pragma unroll\n"
    "  for (int j = 0; j < N; j += per_word) {\n"
    "    unsigned word = 0;\n"
    "    #pragma unroll\n"
    "    for (int k = 0; k < per_word; ++k) word |= (unsigned)bits<T>::of(x[j + k]) << k * 8 * sizeof(T);\n"
    "    words[j / per_word] = word;\n"
    "  }\n"
    "}",
    (BITS,),
)
LOAD_WORDS = Helper(
    "load_words",
    "// N consecutive narrow elements, aligned to their size, as words.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void load_words(unsigned* words, const T* p) {\n"
    "  constexpr int bytes = N * sizeof(T);\n"
    "  if constexpr (bytes == 16) {\n"
    "    const uint4 v = *reinterpret_cast<const uint4*>(p);\n"
    "    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;\n"
    "  } else if constexpr (bytes == 8) {\n"
    "    const uint2 v = *reinterpret_cast<const uint2*>(p);\n"
    "    words[0] = v.x, words[1] = v.y;\n"
    "  } else {\n"
    "    words[0] = *reinterpret_cast<const unsigned*>(p);\n"
    "  }\n"
    "}",
)
FILL_WORDS = Helper(
    "fill_words",
    "// N narrow elements of type T. T is named by the caller: the value's own type may be wider.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void fill_words(unsigned* words, T value) {\n"
    "  unsigned word = (unsigned)bits<T>::of(value);\n"
    "  if constexpr (sizeof(T) == 2) word *= 0x10001u;\n"
    "  if constexpr (sizeof(T) == 1) word *= 0x1010101u;\n"
    "  #pragma unroll\n"
    "  for (int j = 0; j < N * (int)sizeof(T) / 4; ++j) words[j] = word;\n"
    "}",
    (BITS,),
)

LOAD_WORDS_ONCE = Helper(
    "load_words_once",
    "// 16 bytes that nobody reads again soon, where `inside`: predicated, so that no branch separates loads.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void load_words_once(unsigned* words, const T* p, bool inside) {\n"
    "  asm volatile(\n"
    "      \"{\\n\"\n"
    "      \".reg .pred p;\\n\"\n"
    "      \"setp.ne.u32 p, %5, 0;\\n\"\n"
    "      \"@p ld.global.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];\\n\"\n"
    "      \"}\"\n"
    "      : \"+r\"(words[0]), \"+r\"(words[1]), \"+r\"(words[2]), \"+r\"(words[3])\n"
    "      : \"l\"(p), \"r\"((unsigned)inside) : \"memory\");\n"
    "}",
)
LOAD_VECTOR_ONCE = Helper(
    "load_vector_once",
    "template <int N, class T>\n"
    "__device__ __forceinline__ void load_vector_once(T* x, const T* p, bool inside) {\n"
    "  unsigned words[4] = {0, 0, 0, 0};\n"
    "  pack<N>(words, x);\n"
    "  load_words_once<N>(words, p, inside);\n"
    "  unpack<N>(x, words);\n"
    "}",
    (WORDS, LOAD_WORDS_ONCE),
)


def _store_words(count: int, qualifier: str = "") -> str:
    """A statement that stores so many `words` at `p` where `inside`, by one instruction."""
    values = ", ".join(f"%{n}" for n in range(count))
    store = f"@p st.global{qualifier}.v{count}.u32 [%{count}], {{{values}}};"
    words = ", ".join(f'"r"(words[{n}])' for n in range(count))
    return (
        f'asm volatile("{{ .reg .pred p; setp.ne.u32 p, %{count + 1}, 0; {store} }}"\n'
        f'                 :: {words}, "l"(p), "r"((unsigned)inside) : "memory");\n'
    )


STORE_VECTOR_ONCE = Helper(
    "store_vector_once",
    "template <int N, class T>\n"
    "__device__ __forceinline__ void store_vector_once(T* p, const T* x, bool inside) {\n"
    "  unsigned words[4] = {0, 0, 0, 0};\n"
    "  pack<N>(words, x);\n"
    f"  {_store_words(4, '.L1::no_allocate')}"
    "}",
    (WORDS,),
)
STORE_VECTOR_IF = Helper(
    "store_vector_if",
    "// 8 or 16 bytes to global memory where `inside`, by one instruction. Where vectors lie strides apart, the compiler\n"
    "// derives each word's address from the vector before, and a plain store of a vector falls apart into its words.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void store_vector_if(T* p, const T* x, bool inside) {\n"
    "  constexpr int bytes = N * sizeof(T);\n"
    "  unsigned words[4] = {0, 0, 0, 0};\n"
    "  pack<N>(words, x);\n"
    "  if constexpr (bytes == 16)\n"
    f"    {_store_words(4)}"
    "  else\n"
    f"    {_store_words(2)}"
    "}",
    (WORDS,),
)
LOAD_PART = Helper(
    "load_part",
    "// N consecutive elements from index `at` on, of which those in [first, end) are there: whole vectors by one access.\n"
    "template <int N, class T, class V>\n"
    "__device__ __forceinline__ void load_part(T* x, const T* p, int at, int first, int end, V fill) {\n"
    "  if (first <= at && at <= end - N) {\n"
    "    load_vector<N>(x, p);\n"
    "  } else {\n"
    "    fill_vector<N>(x, fill);\n"
    "    if (at > first - N && at < end) {\n"
    "      #pragma unroll\n"
    "      for (int j = 0; j < N; ++j)\n"
    "        if (j >= first - at && j < end - at) x[j] = p[j];\n"
    "    }\n"
    "  }\n"
    "}",
    (LOAD_VECTOR, FILL_VECTOR),
)


LOAD_PART_WORDS = Helper(
    "load_part_words",
    "// The same of narrow elements, as words: nothing waits for what a whole vector brings.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void load_part_words(unsigned* words, const T* p, int at, int first, int end, T fill) {\n"
    "  if (first <= at && at <= end - N) {\n"
    "    load_words<N>(words, p);\n"
    "  } else {\n"
    "    fill_words<N, T>(words, fill);\n"
    "    if (at > first - N && at < end) {\n"
    "      constexpr int per_word = 4 / sizeof(T), width = 8 * sizeof(T);\n"
    "      #pragma unroll\n"
    "      for (int j = 0; j < N; ++j) {\n"
    "        if (j >= first - at && j < end - at) {\n"
    "          const unsigned low = j % per_word * width, mask = ((1u << width) - 1) << low;\n"
    "          words[j / per_word] = (words[j / per_word] & ~mask) | (unsigned)bits<T>::of(p[j]) << low;\n"
    "        }\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}",
    (LOAD_WORDS, FILL_WORDS),
)
SHIFT_VECTORS = Helper(
    "shift_vectors",
    "// 16 bytes of two vectors, from so many bytes of the first one on.\n"
    "__device__ __forceinline__ void shift_vectors(unsigned (&words)[4], const uint4 a, const uint4 b, unsigned bytes) {\n"
    "  unsigned u[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};\n"
    "  #pragma unroll\n"
    "  for (int j = 0; j < 6; ++j) u[j] = bytes & 8 ? u[j + 2] : u[j];\n"
    "  #pragma unroll\n"
    "  for (int j = 0; j < 5; ++j) u[j] = bytes & 4 ? u[j + 1] : u[j];\n"
    "  #pragma unroll\n"
    "  for (int j = 0; j < 4; ++j) words[j] = __funnelshift_r(u[j], u[j + 1], bytes % 4 * 8);\n"
    "}",
)
LOAD_SHIFTED_SHARED = Helper(
    "load_shifted_shared",
    "// 16 bytes of consecutive elements of a shared buffer, which has them all, from p on, which is `shift` elements\n"
    "// behind a multiple of 16 bytes.\n"
    "template <class T>\n"
    "__device__ __forceinline__ void load_shifted_shared(unsigned (&words)[4], const T* p, int shift) {\n"
    "  const uint4* const q = reinterpret_cast<const uint4*>(p - shift);\n"
    "  shift_vectors(words, q[0], q[shift != 0], shift * sizeof(T));\n"
    "}",
    (SHIFT_VECTORS,),
)
LOAD_SHIFTED = Helper(
    "load_shifted",
    "// 16 bytes of consecutive elements from p on, which is `shift` elements behind a multiple of 16 bytes: from the two\n"
    "// aligned vectors around them, where the row, from `at` elements before p to `end` behind it, has both; else element\n"
    "// by element.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void load_shifted(\n"
    "    unsigned (&words)[4], const T* p, int shift, int at, int end, T fill) {\n"
    "  if (at >= shift && end >= 2 * N - shift) {\n"
    "    const uint4* const q = reinterpret_cast<const uint4*>(p - shift);\n"
    "    shift_vectors(words, q[0], q[1], shift * sizeof(T));\n"
    "  } else {\n"
    "    T x[N];\n"
    "    #pragma unroll\n"
    "    for (int j = 0; j < N; ++j) x[j] = j >= -at && j < end ? p[j] : fill;\n"
    "    words[0] = words[1] = words[2] = words[3] = 0;\n"
    "    pack<N>(words, x);\n"
    "  }\n"
    "}",
    (WORDS, SHIFT_VECTORS),
)
LOAD_SHIFTED_WORDS = Helper(
    "load_shifted_words",
    "// N consecutive narrow elements, 4 or 8 bytes, as words, from p on, which is `shift` elements behind a multiple of\n"
    "// as many bytes: from the two aligned vectors around them, as above.\n"
    "template <int N, class T, class F>\n"
    "__device__ __forceinline__ void load_shifted_words(\n"
    "    unsigned* words, const T* p, int shift, int at, int end, F fill) {\n"
    "  if (at >= shift && end >= 2 * N - shift) {\n"
    "    constexpr int count = N * sizeof(T) / 4;\n"
    "    const unsigned bytes = shift * sizeof(T);\n"
    "    unsigned u[2 * count];\n"
    "    load_words<N>(u, p - shift), load_words<N>(u + count, p - shift + N);\n"
    "    #pragma unroll\n"
    "    for (int j = 0; j <= count; ++j) u[j] = bytes & 4 ? u[j + count - 1] : u[j];\n"
    "    #pragma unroll\n"
    "    for (int j = 0; j < count; ++j) words[j] = __funnelshift_r(u[j], u[j + 1], bytes % 4 * 8);\n"
    "  } else {\n"
    "    T x[N];\n"
    "    #pragma unroll\n"
    "    for (int j = 0; j < N; ++j) x[j] = j >= -at && j < end ? p[j] : (T)fill;\n"
    "    pack_words<N>(words, x);\n"
    "  }\n"
    "}",
    (LOAD_WORDS, PACK_WORDS),
)


def _store_part(once: bool) -> Helper:
    name = "store_part" + "_once" * once
    whole = "store_vector_once<N>(p, x, true);" if once else "store_vector<N>(p, x);"
    return Helper(
        name,
        "// N consecutive elements from index `at` on, of which those in [first, end) are stored.\n"
        "template <int N, class T>\n"
        f"__device__ __forceinline__ void {name}(T* p, const T* x, int at, int first, int end) {{\n"
        "  if (first <= at && at <= end - N) {\n"
        f"    {whole}\n"
        "  } else if (at > first - N && at < end) {\n"
        "    #pragma unroll\n"
        "    for (int j = 0; j < N; ++j)\n"
        "      if (j >= first - at && j < end - at) p[j] = x[j];\n"
        "  }\n"
        "}",
        (STORE_VECTOR_ONCE if once else STORE_VECTOR,),
    )


STORE_PART, STORE_PART_ONCE = _store_part(False), _store_part(True)
FOLD_SCALAR = Helper(
    "fold_scalar",
    "template <class T>\n"
    "__device__ __forceinline__ unsigned fold_scalar(T x) {\n"
    "  const unsigned long long b = bits<T>::of(x);\n"
    "  return (unsigned)b ^ (unsigned)(b >> 32);\n"
    "}",
    (BITS,),
)
FOLD_BITS = Helper(
    "fold_bits",
    "// One word that needs all of N elements.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ unsigned fold_bits(const T* x) {\n"
    "  unsigned all = 0;\n"
    "  if constexpr (sizeof(T) < 4 && N * sizeof(T) % 4 == 0) {\n"
    "    unsigned words[N * sizeof(T) / 4];\n"
    "    pack_words<N>(words, x);\n"
    "    #pragma unroll\n"
    "    for (int j = 0; j < N * (int)sizeof(T) / 4; ++j) all ^= words[j];\n"
    "  } else {\n"
    "    #pragma unroll\n"
    "    for (int j = 0; j < N; ++j) all ^= fold_scalar(x[j]);\n"
    "  }\n"
    "  return all;\n"
    "}",
    (PACK_WORDS, FOLD_SCALAR),
)
FINISH = Helper(
    "finish",
    "// Nothing at run time, for `never` is 0, which no compiler knows: what x follows from is computed before this point.\n"
    "__device__ __forceinline__ void finish(unsigned x, unsigned never, unsigned address) {\n"
    "  asm volatile(\"{ .reg .pred p; setp.ne.u32 p, %1, 0; @p st.shared.u32 [%2], %0; }\"\n"
    "               :: \"r\"(x), \"r\"(never), \"r\"(address) : \"memory\");\n"
    "}",
)
KEEP_SCALAR = Helper(
    "keep_scalar",
    "template <class T>\n"
    "__device__ __forceinline__ T keep_scalar(T x) { return bits<T>::from(bits<T>::of(x) + unknown_zero()); }",
    (BITS, UNKNOWN_ZERO),
)
KEEP_WORDS = Helper(
    "keep_words",
    "template <int N, class T>\n"
    "__device__ __forceinline__ void keep_words(T* y, const T* x) {\n"
    "  const unsigned zero = unknown_zero();\n"
    "  if constexpr (sizeof(T) < 4) {\n"
    "    unsigned words[N * sizeof(T) / 4];\n"
    "    pack_words<N>(words, x);\n"
    "    #pragma unroll\n"
    "    for (int j = 0; j < N * (int)sizeof(T) / 4; ++j) words[j] += zero;\n"
    "    unpack_words<N>(y, words);\n"
    "  } else {\n"
    "    #pragma unroll\n"
    "    for (int j = 0; j < N; ++j) y[j] = bits<T>::from(bits<T>::of(x[j]) + zero);\n"
    "  }\n"
    "}",
    (UNPACK_WORDS, PACK_WORDS, UNKNOWN_ZERO),
)


def _remote_access(load: bool) -> str:
    """The bodies of accesses to a peer's shared memory, one per size."""
    cases: list[str] = []
    for size, form, count in ((16, "v4.b32", 4), (8, "v2.b32", 2), (4, "b32", 1), (2, "b16", 1), (1, "b8", 1)):
        numbers = [f"%{n if load else n + 1}" for n in range(count)]
        values = numbers[0] if count == 1 else "{" + ", ".join(numbers) + "}"
        words = [f"words[{n}]" for n in range(count)]
        half = size == 2  # 16-bit registers
        before = "    unsigned short half;\n" if half and load else ""
        after = "\n    words[0] = half;" if half and load else ""
        if load:
            outputs = '"=h"(half)' if half else ", ".join(f'"=r"({word})' for word in words)
            text = f'"ld.shared::cluster.{form} {values}, [%{count}];" : {outputs} : "r"(address) : "memory"'
        else:
            inputs = '"h"((unsigned short)words[0])' if half else ", ".join(f'"r"({word})' for word in words)
            text = f'"st.shared::cluster.{form} [%0], {values};" :: "r"(address), {inputs} : "memory"'
        keyword = "} else if" if cases else "if"
        cases.append(f"  {keyword} constexpr (bytes == {size}) {{\n{before}    asm volatile({text});{after}")
    return "\n".join(cases) + "\n  }"


LOAD_REMOTE = Helper(
    "load_remote",
    "// N consecutive elements of a peer's shared memory.\n"
    "template <int N, class T>\n"
    "__device__ __forceinline__ void load_remote(T* x, unsigned address) {\n"
    "  constexpr int bytes = N * sizeof(T);\n"
    "  unsigned words[4] = {0, 0, 0, 0};\n"
    f"{_remote_access(load=True)}\n"
    "  unpack<N>(x, words);\n"
    "}",
    (WORDS,),
)
STORE_REMOTE = Helper(
    "store_remote",
    "template <int N, class T>\n"
    "__device__ __forceinline__ void store_remote(unsigned address, const T* x) {\n"
    "  constexpr int bytes = N * sizeof(T);\n"
    "  unsigned words[4] = {0, 0, 0, 0};\n"
    "  pack<N>(words, x);\n"
    f"{_remote_access(load=False)}\n"
    "}",
    (WORDS,),
)


SHUFFLE = Helper(
    "shuffle",
    "// An element of any size from another lane.\n"
    "template <class T>\n"
    "__device__ __forceinline__ T shuffle(T x, int lane) {\n"
    "  const unsigned long long b = bits<T>::of(x);\n"
    "  unsigned long long got = (unsigned)__shfl_sync(0xffffffffu, (unsigned)b, lane);\n"
    "  if constexpr (sizeof(T) == 8)\n"
    "    got |= (unsigned long long)__shfl_sync(0xffffffffu, (unsigned)(b >> 32), lane) << 32;\n"
    "  return bits<T>::from(got);\n"
    "}",
    (BITS,),
)


WARP_MAX = Helper(
    "warp_max",
    "// Over all lanes. Floats go as integers of the same order; a NaN goes as the largest of them, 0x7fffffff.\n"
    "__device__ __forceinline__ float warp_max(float x) {\n"
    "  const int i = (int)__float_as_uint(max_NaN_f32(x, __int_as_float(0xff800000)));\n"
    "  const int found = __reduce_max_sync(0xffffffffu, i ^ (i >> 31 & 0x7fffffff));\n"
    "  return __int_as_float(found ^ (found >> 31 & 0x7fffffff));\n"
    "}",
    (EXTREME["max", 32],),
)
WARP_MIN = Helper(
    "warp_min",
    "__device__ __forceinline__ float warp_min(float x) { return -warp_max(-x); }",
    (WARP_MAX,),
)


@cache
def warp_fold(fn: str, dtype: DType, ctype: str) -> Helper | None:
    """The function that folds a number of each of the 32 lanes, and gives all of them the result: by one `redux.sync`, of
    bools by a vote; None where no instruction does. The largest of floats is not a number if one of them is none."""
    if dtype == f32:
        return {"max": WARP_MAX, "min": WARP_MIN}.get(fn)
    if dtype.is_float or dtype.bits > 32:
        return None
    if dtype.kind == "bool":
        if fn == "sum":
            return None
        vote = "any" if fn == "max" else "all"
        return device_function(f"warp_{vote}", "bool", (("bool", "x"),), f"return __{vote}_sync(0xffffffffu, x);")
    signed = dtype.kind == "int"
    wide = "int" if signed and fn != "sum" else "unsigned"  # a sum wraps around
    body = f"return ({ctype})__reduce_{'add' if fn == 'sum' else fn}_sync(0xffffffffu, ({wide})x);"
    return device_function(f"warp_{fn}_{dtype.name}", ctype, ((ctype, "x"),), body)


SHUFFLE_XOR = Helper(
    "shuffle_xor",
    "template <class T>\n"
    "__device__ __forceinline__ T shuffle_xor(T x, int mask) {\n"
    "  const unsigned long long b = bits<T>::of(x);\n"
    "  unsigned long long got = (unsigned)__shfl_xor_sync(0xffffffffu, (unsigned)b, mask);\n"
    "  if constexpr (sizeof(T) == 8)\n"
    "    got |= (unsigned long long)__shfl_xor_sync(0xffffffffu, (unsigned)(b >> 32), mask) << 32;\n"
    "  return bits<T>::from(got);\n"
    "}",
    (BITS,),
)
