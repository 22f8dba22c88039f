"""Arithmetic: promotion, broadcasting, constant folding, and the instructions that result."""

from __future__ import annotations

import math
from typing import Any

from phalanx.ir.ops.tile import Binary, Cast, Compare, Select, Unary
from phalanx.ir.types import DType, ScalarType, TileType, bool_, f32, i32, i64
from phalanx.ir.values import Const, Value, constant_type
from phalanx.language.affine import atom
from phalanx.language.builder import Builder, operand

Number = (bool, int, float)

_FLOAT_RANK = {"f64": 3, "f32": 2, "f16": 1, "bf16": 1}


def promote(a: DType, b: DType) -> DType | None:
    """The element type of an operation on `a` and `b`; None where there is none (fp8 needs an explicit `.to`).

    Equal types stay. A float wins over an integer or bool; of two floats the wider, f16 with bf16 gives f32. Of two
    integers the wider; signed with unsigned of the same width gives the next wider signed type (i64 at most).
    """
    if a == b:
        return None if a.is_fp8 else a
    if a.is_fp8 or b.is_fp8:
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
    return i32 if unsigned.bits < 32 else i64


def is_scalar(value: Any) -> bool:
    return isinstance(value, Number) or (isinstance(value, Value) and isinstance(value.type, ScalarType))


def is_tile(value: Any) -> bool:
    return isinstance(value, Value) and isinstance(value.type, TileType)


def dtype_of(value: Any) -> DType:
    """Element type of a number, scalar or tile."""
    return value.type.dtype if isinstance(value, Value) else constant_type(value).dtype


def shape_of(value: Any) -> tuple[int, ...]:
    return value.type.shape if isinstance(value, Value) else ()


def describe(value: Any) -> str:
    """How messages name a value's type."""
    return str(value.type) if isinstance(value, Value) else type(value).__name__


def make_type(shape: tuple[int, ...], dtype: DType, tile: bool) -> ScalarType | TileType:
    return TileType(shape, dtype) if tile else ScalarType(dtype)


def broadcast(ctx: Builder, *values: Any) -> tuple[int, ...]:
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


def cast(ctx: Builder, value: Any, dtype: DType) -> Any:
    """`value` converted to `dtype`; numbers become typed constants."""
    if not isinstance(value, Value):
        if dtype.is_float:
            return Const(float(value), ScalarType(dtype))
        if dtype == bool_:
            return Const(bool(value), ScalarType(dtype))
        return Const(int(value), ScalarType(dtype))
    if value.type.dtype == dtype:  # type: ignore[union-attr]
        return value
    if isinstance(value, Const):
        return cast(ctx, value.value, dtype)
    result = Value(make_type(shape_of(value), dtype, is_tile(value)), value.name)
    ctx.emit(Cast(value, result, loc=ctx.loc))
    if isinstance(value.type, ScalarType) and dtype in (i32, i64) and value.type.dtype in (i32, i64):
        ctx.affine[result] = ctx.affine_of(value)
    return result


def unify(ctx: Builder, what: str, a: Any, b: Any, *, floating: bool = False) -> tuple[Any, Any, DType]:
    """Both operands in one element type. Bare Python numbers adapt to the other side."""
    da, db = dtype_of(a), dtype_of(b)
    weak_a, weak_b = isinstance(a, Number), isinstance(b, Number)
    if weak_a != weak_b:
        weak, strong = (da, db) if weak_a else (db, da)
        number = a if weak_a else b
        if strong.is_fp8:
            target: DType | None = None
        elif weak.is_float and not strong.is_float:
            target = f32
        elif strong == bool_ and weak != bool_:
            target = weak
        else:
            target = i64 if weak == i64 and strong.is_integer and strong.bits < 64 else strong
        if target is not None and target.kind == "uint" and isinstance(number, int) and number < 0:
            target = promote(target, i32)
    else:
        target = promote(da, db)
    if target is None:
        ctx.fail(
            f"{what} is not defined on {da} and {db}",
            "convert fp8 operands first, e.g. x.to(px.f32)",
        )
    if floating and not target.is_float:
        target = f32
    return cast(ctx, a, target), cast(ctx, b, target), target


_PY_BINARY: dict[str, Any] = {
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
    "max": max,
    "min": min,
}
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>", "max": "maximum", "min": "minimum",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}
_PY_COMPARE: dict[str, Any] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def require_numeric(ctx: Builder, what: str, *values: Any) -> None:
    """Operands of arithmetic are numbers, scalars or tiles."""
    for value in values:
        if not (isinstance(value, Number) or isinstance(value, Value)):
            kind = getattr(value, "kind_name", None) or type(value).__name__
            ctx.fail(f"{what} can't be applied to {kind}", "operands are numbers, scalars or register tiles; px.load gives a tile")


def binary(ctx: Builder, fn: str, a: Any, b: Any) -> Any:
    """One of the two-operand operations on numbers, scalars and tiles."""
    symbol = SYMBOLS[fn]
    require_numeric(ctx, f"'{symbol}'", a, b)
    if isinstance(a, Number) and isinstance(b, Number):
        try:
            return _PY_BINARY[fn](a, b)
        except ZeroDivisionError:
            ctx.fail("division by zero in a constant expression")
        except TypeError:
            ctx.fail(f"'{symbol}' is not defined on {type(a).__name__} and {type(b).__name__}")
    simple = _identity(fn, a, b)
    if simple is not None:
        return simple
    shape = broadcast(ctx, a, b)
    x, y, dtype = unify(ctx, f"'{symbol}'", a, b, floating=fn == "div")
    if fn in ("and", "or", "xor", "shl", "shr") and dtype.is_float:
        ctx.fail(f"'{symbol}' needs integers or bools, not {dtype}")
    if dtype == bool_ and fn in ("add", "sub", "mul", "floordiv", "mod", "shl", "shr"):
        x, y, dtype = cast(ctx, x, i32), cast(ctx, y, i32), i32
    tile = is_tile(a) or is_tile(b)
    result = Value(make_type(shape, dtype, tile))
    ctx.emit(Binary(fn, x, y, result, loc=ctx.loc))
    if not tile and dtype in (i32, i64):
        _record_affine(ctx, fn, a, b, result)
    return result


def _identity(fn: str, a: Any, b: Any) -> Any:
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


def _record_affine(ctx: Builder, fn: str, a: Any, b: Any, result: Value) -> None:
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


def compare(ctx: Builder, fn: str, a: Any, b: Any) -> Any:
    """A comparison: a bool, or a bool per element."""
    if isinstance(a, Number) and isinstance(b, Number):
        return _PY_COMPARE[fn](a, b)
    if not isinstance(a, Value) and not isinstance(b, Value):
        if fn in ("eq", "ne"):
            return _PY_COMPARE[fn](a, b)
    require_numeric(ctx, f"'{SYMBOLS[fn]}'", a, b)
    shape = broadcast(ctx, a, b)
    x, y, _ = unify(ctx, f"'{SYMBOLS[fn]}'", a, b)
    tile = is_tile(a) or is_tile(b)
    result = Value(make_type(shape, bool_, tile))
    ctx.emit(Compare(fn, x, y, result, loc=ctx.loc))
    return result


_PY_UNARY: dict[str, Any] = {
    "neg": lambda x: -x, "abs": abs, "exp": math.exp, "exp2": lambda x: 2.0**x, "log": math.log, "log2": math.log2,
    "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "tanh": math.tanh, "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "sin": math.sin, "cos": math.cos, "floor": math.floor, "ceil": math.ceil,
}


def unary(ctx: Builder, fn: str, x: Any) -> Any:
    """One of the one-operand operations; math functions take floats."""
    require_numeric(ctx, f"'{fn}'", x)
    if isinstance(x, Number):
        if fn == "not":
            return not x
        return _PY_UNARY[fn](x)
    dtype = dtype_of(x)
    if fn == "not":
        if dtype != bool_:
            x = compare(ctx, "eq", x, 0)
            return x
    elif fn in ("neg", "abs"):
        if dtype.is_fp8 or dtype == bool_:
            ctx.fail(f"'{fn}' is not defined on {dtype}", "convert it first, e.g. x.to(px.f32)")
    elif not dtype.is_float or dtype.is_fp8:
        ctx.fail(f"px.{fn} needs a float tile, not {dtype}", "convert it first: x.to(px.f32)")
    result = Value(make_type(shape_of(x), dtype_of(x), is_tile(x)))
    ctx.emit(Unary(fn, x, result, loc=ctx.loc))
    if fn == "neg" and is_scalar(x) and dtype in (i32, i64):
        ctx.affine[result] = ctx.affine_of(x).scale(-1)
    return result


def select(ctx: Builder, cond: Any, a: Any, b: Any) -> Any:
    """`a` where `cond` holds, else `b`."""
    require_numeric(ctx, "px.where", cond, a, b)
    if isinstance(cond, Number):
        return a if cond else b
    if dtype_of(cond) != bool_:
        ctx.fail(f"the condition must be bool, not {dtype_of(cond)}", "compare it with something, e.g. x > 0")
    shape = broadcast(ctx, cond, a, b)
    x, y, dtype = unify(ctx, "px.where", a, b)
    tile = is_tile(cond) or is_tile(a) or is_tile(b)
    result = Value(make_type(shape, dtype, tile))
    ctx.emit(Select(cond, x, y, result, loc=ctx.loc))
    return result


def index_operand(value: Any) -> Value:
    """An operand for offsets and indices."""
    return operand(value)
