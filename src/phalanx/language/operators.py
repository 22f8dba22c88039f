"""Arithmetic: promotion, broadcasting, constant folding, and the instructions that result.

The promotion table (`promote`), both orders alike:

=================  ==============================  =========================================================
operands           element type                    examples
=================  ==============================  =========================================================
equal types        that type                       f16 + f16: f16; i8 + i8: i8
float, float       the wider; f16 with bf16: f32   f16 + f32: f32; bf16 + f16: f32; f32 + f64: f64
float, integer     the float                       bf16 + i64: bf16; f16 + u8: f16
bool, other        the other                       bool + i8: i8; bool + f16: f16
same signedness    the wider                       i8 + i32: i32; u16 + u64: u64
signed, unsigned   the signed one if it is wider,  i32 + u16: i32; i8 + u8: i16; i32 + u32: i64; i64 + u64: i64
                   else the next wider signed
8 bits or less     an error                        convert first: x.to(px.f32)
=================  ==============================  =========================================================

A bare Python number takes the type of the other side; a float next to an integer or bool makes f32, an integer that
does not fit counts as i32 (i64 beyond that). ``/`` of integers gives f32, arithmetic on two bools i32. Two bare numbers
are computed by Python while the kernel is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeGuard

from phalanx.ir.ops.tile import Binary, Cast, Compare, Fma, Select, SkippingProduct, Unary
from phalanx.ir.types import BOOL, ArrayType, DType, ScalarType, TileType, bool_, f32, i16, i32, i64
from phalanx.ir.values import Const, Value, constant_type
from phalanx.language.affine import atom
from phalanx.language.builder import Builder, operand
from phalanx.language.limits import check_shift
from phalanx.language.objects import Number, Numeric, as_object, describe, is_memory, load_scalar

_FLOAT_RANK = {"f64": 3, "f32": 2, "f16": 1, "bf16": 1}


def promote(a: DType, b: DType) -> DType | None:
    """The element type of an operation on `a` and `b`; None where there is none (small floats need an explicit `.to`).

    The table is in this module's docstring.
    """
    if a == b:
        return None if a.is_storage else a
    if a.is_storage or b.is_storage:
        return None
    if a.is_float and b.is_float:
        if _FLOAT_RANK[a.name] == _FLOAT_RANK[b.name]:
            return f32
        return a if _FLOAT_RANK[a.name] > _FLOAT_RANK[b.name] else b
    if a.is_float or b.is_float:
        return a if a.is_float else b
    if a.kind == "bool" or b.kind == "bool":
        return b if a.kind == "bool" else a
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return {8: i16, 16: i32}.get(unsigned.bits, i64)


def is_scalar(value: object) -> TypeGuard[Numeric]:
    """Whether a value is a number or an IR scalar."""
    return isinstance(value, Number) or (isinstance(value, Value) and isinstance(value.type, ScalarType))


def is_tile(value: object) -> TypeGuard[Value]:
    """Whether a value is a register tile."""
    return isinstance(value, Value) and isinstance(value.type, TileType)


def dtype_of(value: Numeric) -> DType:
    """Element type of a number, scalar or tile."""
    return value.type.dtype if isinstance(value, Value) else constant_type(value).dtype


def shape_of(value: object) -> tuple[int, ...]:
    """The shape of a register tile; () for everything else."""
    return value.type.shape if isinstance(value, Value) and not isinstance(value.type, ArrayType) else ()


def make_type(shape: tuple[int, ...], dtype: DType, tile: bool) -> ScalarType | TileType:
    """The type of a tile of this shape, or of a scalar."""
    return TileType(shape, dtype) if tile else ScalarType(dtype)


def broadcast(ctx: Builder, *values: Numeric) -> tuple[int, ...]:
    """The common shape, by NumPy's rule."""
    shapes = [shape_of(v) for v in values]
    rank = max(map(len, shapes))
    out = []
    for axis in range(-rank, 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1:
            listed = " and ".join(str(s) for s in shapes if s)
            ctx.fail(
                f"tiles of shapes {listed} do not broadcast",
                "shapes are aligned at their last axis; each pair of sizes must be equal or contain a 1 (use .reshape)",
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def cast(ctx: Builder, value: Numeric, dtype: DType) -> Value:
    """`value` converted to `dtype`. Bare numbers become typed constants, and must fit."""
    if not isinstance(value, Value):
        return Const(fitted(ctx, value, dtype), ScalarType(dtype))
    if value.type.dtype == dtype:
        return value
    if isinstance(value, Const):
        return Const(folded(value.value, dtype), ScalarType(dtype))
    result = Value(make_type(shape_of(value), dtype, is_tile(value)), value.name)
    ctx.emit(Cast(value, result, loc=ctx.loc))
    if isinstance(value.type, ScalarType) and dtype in (i32, i64) and value.type.dtype in (i32, i64):
        ctx.affine[result] = ctx.affine_of(value)
    return result


def convert(ctx: Builder, value: object, dtype: DType) -> Value:
    """An explicit conversion (`x.to`, `px.f32(x)`): bare numbers are folded as the hardware would convert them."""
    source = require_numeric(ctx, f"conversion to {dtype}", value)
    return cast(ctx, source, dtype) if isinstance(source, Value) else Const(folded(source, dtype), ScalarType(dtype))


def integer_limits(dtype: DType) -> tuple[int, int]:
    """The smallest and largest integer of a type."""
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def fits(value: int | float | bool, dtype: DType) -> bool:
    """Whether a bare number can be a `dtype` without changing its value (rounding to a float is no change)."""
    if dtype.is_float:
        return True
    if value != value or value in (math.inf, -math.inf) or value != int(value):
        return False
    low, high = (0, 1) if dtype == bool_ else integer_limits(dtype)
    return low <= value <= high


def fitted(ctx: Builder, value: int | float | bool, dtype: DType) -> int | float | bool:
    """A bare number as an element of `dtype`; one that does not fit is an error."""
    if not fits(value, dtype):
        low, high = (0, 1) if dtype == bool_ else integer_limits(dtype)
        ctx.fail(
            f"the number {value} does not fit {dtype}",
            f"{dtype} holds integers from {low} to {high}; px.{dtype}({value}) converts as the hardware does",
        )
    return folded(value, dtype)


def folded(value: int | float | bool, dtype: DType) -> int | float | bool:
    """A constant converted as the hardware does: small floats saturate, floats truncate and saturate, integers wrap."""
    if dtype == bool_:
        return bool(value)
    if dtype.is_float:
        try:
            number = float(value)
        except OverflowError:
            number = math.copysign(math.inf, value)
        return dtype(number) if dtype.is_storage else number
    low, high = integer_limits(dtype)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        return max(low, min(high, int(value))) if math.isfinite(value) else high if value > 0 else low
    return (int(value) - low) % (1 << dtype.bits) + low


def unify(ctx: Builder, what: str, a: Numeric, b: Numeric, *, floating: bool = False) -> tuple[Value, Value, DType]:
    """Both operands in one element type. Bare Python numbers adapt to the other side."""
    da, db = dtype_of(a), dtype_of(b)
    target: DType | None
    if isinstance(a, Number) and isinstance(b, Value):
        target = adapted(a, da, db)
    elif isinstance(a, Value) and isinstance(b, Number):
        target = adapted(b, db, da)
    else:
        target = promote(da, db)
    if target is None:
        ctx.fail(
            f"{what} is not defined on {da} and {db}",
            "convert operands of 8 bits and less first, e.g. x.to(px.f32)",
        )
    if floating and not target.is_float:
        target = f32
    return cast(ctx, a, target), cast(ctx, b, target), target


def adapted(number: int | float | bool, weak: DType, strong: DType) -> DType | None:
    """The element type of an operation on a bare number (which alone would be `weak`) and a value of type `strong`."""
    if strong.is_storage:
        return None
    if strong.is_float:
        return strong
    if weak.is_float:
        return f32
    if strong == bool_:
        return weak
    return strong if fits(number, strong) else promote(strong, weak)


def _py_extreme(choose: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Python's own `max` or `min`, but a NaN on either side is the result."""
    return lambda a, b: a if a != a else b if b != b else choose(a, b)


_PY_BINARY: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "max": _py_extreme(max),
    "min": _py_extreme(min),
}
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>", "max": "maximum", "min": "minimum",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}
_PY_COMPARE: dict[str, Callable[..., Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def require_numeric(ctx: Builder, what: str, value: object) -> Numeric:
    """The number, scalar or tile that `value` is, as arithmetic needs it: an element of memory is read."""
    if is_scalar(value) or is_tile(value):
        return value
    value = load_scalar(ctx, value)
    if is_scalar(value):
        return value
    remedy = "operands are numbers, scalars or register tiles"
    if isinstance(value, DType):
        remedy = "a type is compared with a type: X.dtype == px.f32"
    if isinstance(value, str):
        remedy = 'texts are not computed with: px.print("x is", x) takes a text and values one after the other'
    if isinstance(value, Value):
        remedy = f"slice and load it first, e.g. px.load({value.name}[m:m+64])"
    elif is_memory(value):
        remedy = "px.load(view) brings it into registers"
    elif isinstance(value, tuple):
        remedy = "a tuple, or a list, is no tile: px.load, px.full and px.arange make tiles"
    elif value is None:
        remedy = "sums begin with px.zeros(shape, dtype); copies give no value: px.load reads where they arrive"
    elif as_object(value).as_call:
        remedy = f"call it: {as_object(value).as_call}"
    ctx.fail(f"{what} can't be applied to {describe(value)}", remedy)


_CHECK_CONSTANTS = "the operands are known while the kernel is read: check the constants they come from"


def folding(ctx: Builder, what: str, fn: Callable[..., Any], *numbers: object) -> Any:
    """`fn` of bare numbers, computed by Python; what Python refuses is an error of the kernel."""
    try:
        result = fn(*numbers)
    except ZeroDivisionError:
        ctx.fail(f"{what} divides by zero", _CHECK_CONSTANTS)
    except (TypeError, ValueError, OverflowError, MemoryError) as problem:
        ctx.fail(f"{what} can't be computed on {', '.join(map(describe, numbers))}: {problem}", _CHECK_CONSTANTS)
    if isinstance(result, complex):
        ctx.fail(f"{what} on {', '.join(map(describe, numbers))} is a complex number", _CHECK_CONSTANTS)
    return result


def binary(ctx: Builder, fn: str, a: object, b: object) -> Numeric:
    """One of the two-operand operations on numbers, scalars and tiles."""
    symbol = SYMBOLS[fn]
    a, b = (require_numeric(ctx, f"'{symbol}'", item) for item in (a, b))
    if isinstance(a, Number) and isinstance(b, Number):
        if fn == "shl":
            check_shift(ctx, b)
        return folding(ctx, f"'{symbol}'", _PY_BINARY[fn], a, b)
    simple = _identity(fn, a, b)
    if simple is not None:
        return simple
    shape = broadcast(ctx, a, b)
    x, y, dtype = unify(ctx, f"'{symbol}'", a, b, floating=fn == "div")
    if fn in ("and", "or", "xor", "shl", "shr") and dtype.is_float:
        ctx.fail(f"'{symbol}' needs integers or bools, not {dtype}", "convert it first, e.g. x.to(px.i32)")
    if fn in ("floordiv", "mod") and not dtype.is_float and isinstance(b, Number) and not b:
        ctx.fail(f"'{symbol}' by the constant 0", "the divisor of integers must not be 0")
    if dtype == bool_:
        if fn in ("max", "min"):
            fn = "or" if fn == "max" else "and"
        elif fn not in ("and", "or", "xor"):
            x, y, dtype = cast(ctx, x, i32), cast(ctx, y, i32), i32
    tile = is_tile(a) or is_tile(b)
    result = Value(make_type(shape, dtype, tile))
    ctx.emit(Binary(fn, x, y, result, loc=ctx.loc))
    if not tile and dtype in (i32, i64):
        _record_affine(ctx, fn, a, b, result)
    return result


def _identity(fn: str, a: Numeric, b: Numeric) -> Numeric | None:
    """Trivial integer cases that keep the IR and its affine forms short."""
    if isinstance(b, bool) or isinstance(a, bool):
        return None
    if isinstance(b, int) and is_scalar(a) and dtype_of(a).is_integer:
        if fn in ("add", "sub", "or", "xor", "shl", "shr") and b == 0:
            return a
        if fn in ("mul", "floordiv") and b == 1:
            return a
        if fn == "mul" and b == 0:
            return 0
    if isinstance(a, int) and is_scalar(b) and dtype_of(b).is_integer:
        if fn == "add" and a == 0:
            return b
        if fn == "mul" and a == 1:
            return b
        if fn == "mul" and a == 0:
            return 0
    return None


def _record_affine(ctx: Builder, fn: str, a: Numeric, b: Numeric, result: Value) -> None:
    fa, fb = ctx.affine_of(a), ctx.affine_of(b)
    if fn == "add":
        ctx.affine[result] = fa.combine(fb, 1)
    elif fn == "sub":
        ctx.affine[result] = fa.combine(fb, -1)
    elif fn == "mul" and (fa.number is not None or fb.number is not None):
        factor, form = (fa.number, fb) if fa.number is not None else (fb.number, fa)
        ctx.affine[result] = form.scale(factor or 0)
    else:
        ctx.affine[result] = atom((fn, fa, fb))


def is_comparable(a: object, b: object) -> bool:
    """Whether two constants may be equal at all: a function that is not called, or a type, is equal to its like alone."""
    for one, other in ((a, b), (b, a)):
        if one is None or other is None:
            return True
        if as_object(one).as_call and not as_object(other).as_call and isinstance(other, (*Number, str)):
            return False
        if isinstance(one, DType) and isinstance(other, (*Number, str)):
            return False
    return True


def compare(ctx: Builder, fn: str, a: object, b: object) -> bool | Value:
    """A comparison: a bool, or a bool per element. Tuples are equal where all their items are."""
    a, b = load_scalar(ctx, a), load_scalar(ctx, b)
    if isinstance(a, Number) and isinstance(b, Number):
        return _PY_COMPARE[fn](a, b)
    if isinstance(a, tuple) and isinstance(b, tuple) and fn in ("eq", "ne"):
        equal: Numeric = len(a) == len(b)
        for x, y in zip(a, b, strict=False):
            equal = binary(ctx, "and", equal, compare(ctx, "eq", x, y))
        found = equal if fn == "eq" else unary(ctx, "not", equal)
        return found if isinstance(found, Value) else bool(found)
    if not isinstance(a, Value) and not isinstance(b, Value):
        if fn in ("eq", "ne") and is_comparable(a, b):
            return _PY_COMPARE[fn](a, b)
    a, b = (require_numeric(ctx, f"'{SYMBOLS[fn]}'", item) for item in (a, b))
    shape = broadcast(ctx, a, b)
    x, y, _ = unify(ctx, f"'{SYMBOLS[fn]}'", a, b)
    tile = is_tile(a) or is_tile(b)
    result = Value(make_type(shape, bool_, tile))
    ctx.emit(Compare(fn, x, y, result, loc=ctx.loc))
    return result


_PY_UNARY: dict[str, Callable[..., Any]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "tanh": math.tanh,
    "tanh_approx": math.tanh,
    "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sin": math.sin,
    "cos": math.cos,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
}


def unary(ctx: Builder, fn: str, x: object) -> Numeric:
    """One of the one-operand operations; math functions take floats."""
    name = {"neg": "'-'", "not": "'not'", "tanh_approx": "px.tanh"}.get(fn, f"px.{fn}")
    x = require_numeric(ctx, name, x)
    if isinstance(x, Number):
        return not x if fn == "not" else folding(ctx, name, _PY_UNARY[fn], x)
    dtype = dtype_of(x)
    if fn == "not":
        if dtype != bool_:
            x = compare(ctx, "eq", x, 0)
            return x
    elif fn in ("neg", "abs"):
        if dtype.is_storage:
            ctx.fail(f"{name} is not defined on {dtype}", "convert it first, e.g. x.to(px.f32)")
        if dtype == bool_:
            x, dtype = cast(ctx, x, i32), i32
    elif not dtype.is_float or dtype.is_storage:
        ctx.fail(f"{name} needs a float, not {dtype}", "convert it first: x.to(px.f32)")
    result = Value(make_type(shape_of(x), dtype_of(x), is_tile(x)))
    ctx.emit(Unary(fn, x, result, loc=ctx.loc))
    if fn == "neg" and is_scalar(x) and dtype in (i32, i64):
        ctx.affine[result] = ctx.affine_of(x).scale(-1)
    return result


def fused(ctx: Builder, a: object, b: object, c: object) -> Value:
    """`a * b + c`, rounded once, in the element type that arithmetic on all three has."""
    a, b, c = (require_numeric(ctx, "px.fma", item) for item in (a, b, c))
    if all(isinstance(x, Number) for x in (a, b, c)):
        ctx.fail("px.fma of three bare numbers", "write a * b + c: Python computes it while the kernel is read")
    shape = broadcast(ctx, a, b, c)
    strong = [x for x in (a, b, c) if not isinstance(x, Number)]
    dtype: DType | None = dtype_of(strong[0])
    for x in strong[1:]:
        dtype = None if dtype is None else promote(dtype, dtype_of(x))
    if dtype is None or not dtype.is_float or dtype.is_storage:
        ctx.fail(
            f"px.fma needs floats, not {', '.join(str(dtype_of(x)) for x in strong)}",
            "convert them first: x.to(px.f32); a * b + c of integers is exact anyway",
        )
    result = Value(make_type(shape, dtype, any(is_tile(x) for x in strong)))
    a, b, c = (cast(ctx, x, dtype) for x in (a, b, c))
    ctx.emit(Fma(a, b, c, result, loc=ctx.loc))
    return result


def skipping_product(ctx: Builder, x: object, factor: object) -> Value:
    """`x * factor`, of which a warp without factors other than 1 does nothing."""
    x, factor = (require_numeric(ctx, "px.multiply", item) for item in (x, factor))
    if not is_tile(x) or not dtype_of(x).is_float or dtype_of(x).is_storage:
        ctx.fail(
            f"px.multiply(skip_ones=True) needs a tile of floats, not {describe(x)}",
            "convert it with .to(px.f32), or write x * factor: a single product costs no more than the question",
        )
    if broadcast(ctx, x, factor) != shape_of(x):
        ctx.fail(
            f"the factors of px.multiply(skip_ones=True) have shape {shape_of(factor)}, the tile {shape_of(x)}",
            "the tile must have the shape of the result: factors broadcast to it",
        )
    if not isinstance(factor, Number) and promote(dtype_of(x), dtype_of(factor)) != dtype_of(x):
        ctx.fail(
            f"the factors of px.multiply(skip_ones=True) are {dtype_of(factor)}, the tile is {dtype_of(x)}",
            f"convert the tile, or the factors with .to(px.{dtype_of(x)})",
        )
    result = Value(make_type(shape_of(x), dtype_of(x), True))
    ctx.emit(SkippingProduct(x, cast(ctx, factor, dtype_of(x)), result, loc=ctx.loc))
    return result


def _chosen(ctx: Builder, cond: bool, a: Numeric, b: Numeric, what: str) -> Value:
    """One of two by a constant, in the type and shape that a run-time condition would give."""
    shape = broadcast(ctx, a, b)
    x, y, dtype = unify(ctx, what, a, b)
    taken = x if cond else y
    if shape_of(taken) == shape and is_tile(taken) == (is_tile(a) or is_tile(b)):
        return taken
    result = Value(make_type(shape, dtype, True))
    ctx.emit(Select(Const(cond, BOOL), x, y, result, loc=ctx.loc))
    return result


def select(ctx: Builder, cond: object, a: object, b: object, what: str = "px.where") -> Numeric:
    """`a` where `cond` holds, else `b`."""
    cond, a, b = (require_numeric(ctx, what, item) for item in (cond, a, b))
    if isinstance(cond, Number):
        if isinstance(a, Number) and isinstance(b, Number):
            return a if cond else b
        return _chosen(ctx, bool(cond), a, b, what)
    if dtype_of(cond) != bool_:
        ctx.fail(f"the condition of {what} must be bool, not {dtype_of(cond)}", "compare it with something, e.g. x > 0")
    shape = broadcast(ctx, cond, a, b)
    x, y, dtype = unify(ctx, what, a, b)
    tile = is_tile(cond) or is_tile(a) or is_tile(b)
    result = Value(make_type(shape, dtype, tile))
    ctx.emit(Select(cond, x, y, result, loc=ctx.loc))
    return result


def truth(ctx: Builder, value: Numeric) -> Value:
    """A scalar or tile as bool, as Python's truth value would be."""
    if dtype_of(value) != bool_:
        value = unary(ctx, "not", unary(ctx, "not", value))
    return operand(value)
