"""The text of one element's arithmetic: narrow floats are computed in float and rounded after each instruction."""

from __future__ import annotations

from functools import cache

from phalanx.cuda.text.helper import Helper, find_helper
from phalanx.cuda.text.literals import literal
from phalanx.cuda.text.prelude import device_function
from phalanx.cuda.text.writer import Writer
from phalanx.cuda.tiles.index import atom
from phalanx.cuda.tiles.small_integers import code_text, float_text, is_small, value_text
from phalanx.errors import Error
from phalanx.ir.archs import Feature
from phalanx.ir.types import DType, as_elements, f32, f64, i32
from phalanx.ir.values import Const, Value

_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}
# Built in without headers, within 2 units in the last place.
_FUNCTIONS = ("exp", "log", "log2", "sqrt", "tanh", "erf", "sin", "cos", "floor", "ceil", "trunc")
_WRAPPING = ("add", "sub", "mul")
"""Integers wrap around, as the machine's do; C++ leaves that open."""
MANY_ELEMENTS = 16
"""Elements of a thread from which on a long function is called instead of written out for each."""
_SMALL_FLOATS = ("f4e2m1", "f6e2m3", "f6e3m2", "f8e8m0")


def compute_dtype(dtype: DType) -> DType:
    """The type in which an element is computed: float for narrow floats."""
    return f32 if dtype.is_float and dtype.bits < 32 else dtype


def widen(w: Writer, text: str, dtype: DType) -> str:
    """An element in its computing type: `px_bf16_to_float(x[i])`, or the text itself."""
    if compute_dtype(dtype) == dtype:
        return text
    return f"{w.use(f'{_converted(w, dtype)}_to_float')}({text})"


def narrow(w: Writer, text: str, dtype: DType) -> str:
    """A computed element in its stored type, rounded to nearest even (small floats: as `ir.types.rounded` says)."""
    if compute_dtype(dtype) == dtype:
        return text
    return f"{w.use(f'{_converted(w, dtype)}_from_float')}({text})"


def pair_from_float(w: Writer, dtype: DType) -> Helper | None:
    """The function that makes two elements of two floats at once, if the target has one."""
    return find_helper(f"{_converted(w, dtype)}_pair_from_float")


def _converted(w: Writer, dtype: DType) -> str:
    """How the names of a narrow float's conversions begin: those of small floats are computed where no `cvt` does them."""
    computed = dtype.name in _SMALL_FLOATS and Feature.NARROW_CASTS not in w.arch.features
    return dtype.name + "_computed" * computed


def widened_constant(value: Const, dtype: DType) -> str:
    """A constant in its computing type, rounded to its own type first."""
    if compute_dtype(dtype) != dtype:
        return literal(float(as_elements(value.value, dtype)), f32)
    return literal(value.value, dtype)


def operand_text(w: Writer, value: Value, stored: str, dtype: DType) -> str:
    """An operand ready to compute with; `stored` is the text of its element."""
    return widened_constant(value, dtype) if isinstance(value, Const) else widen(w, stored, dtype)


def unary_text(w: Writer, fn: str, x: str, dtype: DType, count: int = 1) -> str:
    """`fn(x)` in the computing type of `dtype`, which a thread computes so many times."""
    kind = compute_dtype(dtype)
    called = find_helper(f"called_{fn}_{kind.name}") if count >= MANY_ELEMENTS else None
    if called is not None:
        return f"{w.use(called)}({x})"
    if fn == "not":
        return f"!{atom(x)}" if kind.kind == "bool" else _in_type(w, f"~{atom(x)}", kind)
    if fn == "neg":
        if kind.kind == "int" and kind.bits >= 32:
            return f"{w.use('wrap_sub')}({literal(0, kind)}, {x})"
        return _in_type(w, f"-{atom(x)}", kind)
    if fn == "abs":
        if kind.is_float:
            return f"{'fabs' if kind.bits == 64 else 'fabsf'}({x})"
        if kind.kind != "int":
            return x
        return f"{w.use('maximum')}<{w.ctype(kind)}>({x}, {unary_text(w, 'neg', x, kind)})"
    double = kind.bits == 64
    if fn == "round":  # to nearest even
        return f"rint({x})" if double else f"rintf({x})"
    if fn == "exp2":
        return f"exp2({x})" if double else f"{w.use('exp2_approx')}({x})"
    if fn == "rsqrt":
        return f"rsqrt({x})" if double else f"rsqrtf({x})"
    if fn == "reciprocal":
        return f"1.0 / {atom(x)}" if double else f"{w.use('reciprocal_approx')}({x})"
    if fn == "tanh_approx":
        return f"tanh({x})" if double else f"{w.use('tanh_approx')}({x})"
    if fn == "sigmoid":
        return f"{w.use('sigmoid_f64' if double else 'sigmoid')}({x})"
    if fn not in _FUNCTIONS:
        raise Error(f"no CUDA text for the function {fn!r}")
    return f"{fn}{'' if double else 'f'}({x})"


def binary_text(
    w: Writer, fn: str, a: str, b: str, dtype: DType, constant: int | float | bool | None = None, count: int = 1
) -> str:
    """`fn(a, b)` in the computing type of `dtype`, which a thread computes so many times; `constant` is b's value where
    it is known."""
    kind = compute_dtype(dtype)
    if fn in ("max", "min"):
        if kind.is_float:
            return f"{w.use(f'{fn}_NaN_{kind.name}')}({a}, {b})"
        return f"{w.use(f'{fn}imum')}<{w.ctype(kind)}>({a}, {b})"
    if fn in ("floordiv", "mod"):
        return _division(w, fn, a, b, kind, constant, count)
    if fn in ("shl", "shr"):
        return _shift(w, fn, a, b, kind, constant)
    if fn in _WRAPPING and kind.kind == "int" and kind.bits >= 32:
        return f"{w.use(f'wrap_{fn}')}({a}, {b})"
    if fn == "mul" and kind.kind == "uint" and kind.bits == 16:
        a = f"(unsigned){atom(a)}"  # the product of two of them may leave int
    return _in_type(w, f"{atom(a)} {_SYMBOLS[fn]} {atom(b)}", kind)


def _in_type(w: Writer, text: str, kind: DType) -> str:
    """An expression of operands of type `kind`, as one of that type: C++ computes in int what is narrower."""
    return f"({w.ctype(kind)})({text})" if kind.kind == "bool" or (kind.is_integer and kind.bits < 32) else text


def _shift(w: Writer, fn: str, a: str, b: str, kind: DType, constant: int | float | bool | None) -> str:
    """By a count of any size: one outside the width shifts everything out, and leaves the sign of a signed number."""
    if constant is None:
        return f"{w.use('shift_left' if fn == 'shl' else 'shift_right')}<{w.ctype(kind)}>({a}, {b})"
    count = int(constant)
    if not 0 <= count < kind.bits:
        if fn == "shl" or kind.kind == "uint":
            return literal(0, kind)
        count = kind.bits - 1
    if fn == "shr":
        return _in_type(w, f"{atom(a)} >> {count}", kind)
    if kind.kind == "uint" and kind.bits >= 32:
        return f"{atom(a)} << {count}"
    wide = "unsigned long long" if kind.bits == 64 else "unsigned"
    return f"({w.ctype(kind)})(({wide}){atom(a)} << {count})"


def fma_text(w: Writer, a: str, b: str, c: str, dtype: DType) -> str:
    """`a * b + c` of stored elements, rounded once; f16 and bf16 have an instruction of their own for it."""
    if dtype.bits < 32:
        return f"{w.use(f'fma_{dtype.name}')}({a}, {b}, {c})"
    return f"{'fma' if dtype.bits == 64 else 'fmaf'}({a}, {b}, {c})"


def bitcast_text(w: Writer, stored: str, source: DType, target: DType) -> str:
    """The bits of a stored element as a stored element of another type of the same size."""
    if w.ctype(source) == w.ctype(target):
        return stored
    bits = w.use("bits")
    return f"{bits}<{w.ctype(target)}>::from({bits}<{w.ctype(source)}>::of({stored}))"


def _division(
    w: Writer, fn: str, a: str, b: str, kind: DType, constant: int | float | bool | None, count: int
) -> str:
    if kind.is_float:
        return f"{w.use('float_floor_div' if fn == 'floordiv' else 'float_mod')}({a}, {b})"
    if isinstance(constant, int) and constant > 0 and constant & (constant - 1) == 0:
        # Shifting and masking floor, for negative numbers too.
        text = f"{atom(a)} >> {constant.bit_length() - 1}" if fn == "floordiv" else f"{atom(a)} & {constant - 1}"
        return _in_type(w, text, kind)
    if kind.kind == "uint" and constant:
        return _in_type(w, f"{atom(a)} {'/' if fn == 'floordiv' else '%'} {atom(b)}", kind)
    long = constant is None and count >= MANY_ELEMENTS and kind.bits == 64  # no instruction does it
    name = "floor_div" if fn == "floordiv" else "floor_mod"
    return f"{w.use('called_' * long + name)}<{w.ctype(kind)}>({a}, {b})"


def compare_text(fn: str, a: str, b: str) -> str:
    """The comparison of two scalars."""
    return f"{atom(a)} {_SYMBOLS[fn]} {atom(b)}"


def cast_text(w: Writer, stored: str, source: DType, target: DType) -> str:
    """A stored element of `source` as a stored element of `target`."""
    if source == target:
        return stored
    if is_small(source):
        if target.is_float and target.bits < 64:
            return narrow(w, float_text(stored, source), target)
        return code_text(stored) if is_small(target) else cast_text(w, value_text(stored, source), i32, target)
    if is_small(target):
        if not source.is_float:
            return code_text(stored if source.kind != "bool" else f"(int){atom(stored)}")
        low = -8 if target.kind == "int" else 0
        number = f"{w.use(f'{w.ctype(compute_dtype(source))}_to_int')}({widen(w, stored, source)})"
        return code_text(f"{w.use(_clamped_cast('int', low, low + 15))}({number})")
    x = widen(w, stored, source)
    kind = compute_dtype(source)
    if target.kind == "bool":
        return f"{atom(x)} != {literal(0, kind)}"
    if kind.kind == "bool" and target.is_float:
        # Not a cast: NVRTC 13.0 folds the product of a cast truth and a negative constant to 0.0 instead of -0.0.
        one, zero = (literal(value, f64 if target.bits == 64 else f32) for value in (1.0, 0.0))
        text = f"{atom(x)} ? {one} : {zero}"
        return text if target.bits == 64 else narrow(w, text, target)
    if target.is_float:
        if target.bits == 64:
            return x if kind.bits == 64 and kind.is_float else f"(double){atom(x)}"
        once = find_helper(f"{target.name}_from_{kind.name}")
        if once is not None:
            return f"{w.use(once)}({x})"
        text = x if kind == f32 else f"(float){atom(x)}"
        return narrow(w, text, target)
    if kind.is_float:
        return _truncated(w, x, kind, target)
    return f"({w.ctype(target)}){atom(x)}"


def _truncated(w: Writer, x: str, source: DType, target: DType) -> str:
    """Float to integer: toward zero, saturating; not-a-number becomes 0."""
    wide = {("int", 64): "long_long", ("uint", 64): "unsigned_long_long", ("uint", 32): "unsigned"}.get(
        (target.kind, target.bits), "int"
    )
    text = f"{w.use(f'{w.ctype(source)}_to_{wide}')}({x})"
    if target.bits >= 32:
        return text
    span = 2**target.bits
    low, high = (0, span - 1) if target.kind == "uint" else (-span // 2, span // 2 - 1)
    return f"{w.use(_clamped_cast(w.ctype(target), low, high))}({text})"


@cache
def _clamped_cast(ctype: str, low: int, high: int) -> Helper:
    """An int that saturates to a narrower type: what a float beyond its range becomes."""
    name = f"clamp_to_{ctype.replace(' ', '_')}"
    body = f"return ({ctype})(x < {low} ? {low} : x > {high} ? {high} : x);"
    return device_function(name, ctype, (("int", "x"),), body)


def lowest(dtype: DType) -> str:
    """The neutral element of a maximum, in the computing type."""
    kind = compute_dtype(dtype)
    if kind.is_float:
        return literal(float("-inf"), kind)
    if kind.kind == "bool":
        return "false"
    return literal(0 if kind.kind == "uint" else -(2 ** (kind.bits - 1)), kind)


def highest(dtype: DType) -> str:
    """The neutral element of a minimum, in the computing type."""
    kind = compute_dtype(dtype)
    if kind.is_float:
        return literal(float("inf"), kind)
    if kind.kind == "bool":
        return "true"
    return literal(2**kind.bits - 1 if kind.kind == "uint" else 2 ** (kind.bits - 1) - 1, kind)
