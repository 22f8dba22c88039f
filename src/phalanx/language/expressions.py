"""Reads expressions: names, arithmetic, subscripts, attributes, calls."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType
from typing import Any

import numpy as np

from phalanx.ir.location import Location
from phalanx.ir.types import DType
from phalanx.ir.values import Param, Value
from phalanx.language.builder import Builder
from phalanx.language.builtin import Builtin
from phalanx.language.control import require_condition
from phalanx.language.mbarrier import BarrierMembers
from phalanx.language.operators import Number, binary, cast, compare, is_tile, select, unary
from phalanx.language.state import State
from phalanx.language.structs import RING, NewStruct, advanced
from phalanx.language.tiles import ScalarConversion, TileMembers
from phalanx.language.values import (
    ArrayMembers,
    BarrierValue,
    BoundMethod,
    Slice,
    StructClass,
    StructValue,
    Unavailable,
    ViewValue,
    array_subscript,
    get_member,
    load_scalar,
    require_index,
    type_name,
)

_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
}
_PYTHON_FUNCTIONS = (range, min, max, abs, len, int, float, bool, tuple, print, sum, round, enumerate, zip)
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}


class InlinedFunction:
    """What `@px.func` makes: a helper that is inlined where kernels call it."""

    kind_name = "a px.func"

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Outside kernels it is the plain Python function: useful for host-side arithmetic."""
        return self.fn(*args, **kwargs)


class StructMethod:
    """A method of a struct instance."""

    def __init__(self, owner: StructValue, fn: Any) -> None:
        self.owner, self.fn = owner, fn


class Expressions:
    """The expression half of the reader."""

    def __init__(self, ctx: Builder) -> None:
        self.ctx = ctx
        self.state: State = {}
        self.terminated = False
        self.static_exit: str | None = None
        self.unrolled_at: list[int] = []
        self.role_depth = 0
        self.captured: dict[tuple[str, str], Any] = {}
        self.frames: list[Any] = []

    # Provided by the reader.

    def locate(self, node: ast.AST) -> Location:
        raise NotImplementedError

    def call_function(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError

    def fresh_ident(self) -> int:
        raise NotImplementedError

    def adopt(self, value: Any) -> Any:
        """Puts new structs on the heap."""
        if isinstance(value, NewStruct):
            made = StructValue(value.cls, self.fresh_ident())
            for name, item in value.fields.items():
                self.state[(made.ident, name)] = item
            return made
        return value

    def eval(self, node: ast.expr) -> Any:
        """The front-end value of an expression; errors inside point at the innermost part."""
        handler = getattr(self, "eval_" + type(node).__name__, None)
        outer = self.ctx.loc
        self.ctx.loc = self.locate(node)
        if handler is None:
            self.ctx.fail(
                f"this kind of expression ({type(node).__name__}) is not supported in kernels",
                "kernels use names, numbers, arithmetic, comparisons, subscripts, attributes, calls and tuples",
            )
        value = self.adopt(handler(node))
        self.ctx.loc = outer
        return value

    def value(self, node: ast.expr) -> Any:
        """An expression where a number, scalar or tile is needed."""
        return load_scalar(self.ctx, self.eval(node))

    def eval_Constant(self, node: ast.Constant) -> Any:
        if node.value is Ellipsis or isinstance(node.value, (bytes, complex)):
            self.ctx.fail(f"{node.value!r} has no meaning in kernels")
        return node.value

    def eval_Name(self, node: ast.Name) -> Any:
        frame = self.frames[-1]
        value = self.state.get((frame.ident, node.id), self)
        if value is self:
            try:
                found = frame.source.lookup(node.id)
            except KeyError:
                self.ctx.fail(f"unknown name '{node.id}'", self.similar(node.id, frame))
            return self.capture(frame, node.id, found)
        if isinstance(value, Unavailable):
            self.ctx.fail(value.reason, value.remedy or None)
        return value

    def similar(self, name: str, frame: Any) -> str | None:
        import difflib

        known = [key[1] for key in self.state if key[0] == frame.ident] + list(frame.source.fn.__globals__)
        close = difflib.get_close_matches(name, known, 1)
        return f"did you mean '{close[0]}'?" if close else "names come from the kernel, its parameters or the enclosing scopes"

    def capture(self, frame: Any, name: str, found: Any) -> Any:
        """A constant of the enclosing scopes; it becomes part of the cache key."""
        value = self.constant(found)
        if value is None and found is not None:
            self.ctx.fail(
                f"'{name}' is a {type(found).__name__} of the enclosing scope, which a kernel can't use",
                "kernels capture numbers, strings, dtypes, tuples of them, px.func and px.struct; pass arrays as arguments",
            )
        if not isinstance(value, (ModuleType, Builtin)):
            self.captured[(frame.source.fn.__qualname__, name)] = (frame.source, value)
        return value

    def constant(self, found: Any) -> Any:
        """What a captured Python object stands for; None if it has no meaning in kernels."""
        if isinstance(found, (bool, int, float, str, DType, Builtin, InlinedFunction, StructClass, ModuleType)):
            return found
        if isinstance(found, np.generic) and found.dtype.kind in "biuf":
            return found.item()
        if isinstance(found, tuple):
            parts = tuple(self.constant(item) for item in found)
            return None if any(p is None and f is not None for p, f in zip(parts, found, strict=True)) else parts
        if any(found is known for known in _PYTHON_FUNCTIONS) or inspect.isfunction(found):
            return found  # a plain function gets its error where it is called
        if inspect.isbuiltin(found) and found.__module__ == "math":
            return found
        return None

    def eval_Tuple(self, node: ast.Tuple) -> Any:
        out: list[Any] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = self.eval(item.value)
                if not isinstance(inner, tuple):
                    self.ctx.fail(f"can't unpack {type_name(inner)}")
                out += inner
            else:
                out.append(self.eval(item))
        return tuple(out)

    eval_List = eval_Tuple

    def binary_operator(self, op: ast.operator, a: Any, b: Any) -> Any:
        a, b = load_scalar(self.ctx, a), load_scalar(self.ctx, b)
        if isinstance(op, ast.Pow):
            return self.power(a, b)
        if type(op) not in _BINARY:
            self.ctx.fail(f"the operator {type(op).__name__} is not supported in kernels", "tensor products are px.dot and px.wgmma")
        if isinstance(a, tuple) and isinstance(b, tuple) and isinstance(op, ast.Add):
            return a + b
        if isinstance(a, tuple) and isinstance(b, int) and isinstance(op, ast.Mult):
            return a * b
        if isinstance(a, str) and isinstance(b, str) and isinstance(op, ast.Add):
            return a + b
        return binary(self.ctx, _BINARY[type(op)], a, b)

    def power(self, a: Any, b: Any) -> Any:
        if isinstance(a, Number) and isinstance(b, Number):
            return a**b
        if isinstance(b, int) and 1 <= b <= 8 and isinstance(a, Value):
            out = a
            for _ in range(b - 1):
                out = binary(self.ctx, "mul", out, a)
            return out
        self.ctx.fail("** needs constants, or a small constant integer exponent", "use px.exp2(y * px.log2(x))")

    def eval_BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.eval(node.left), self.eval(node.right)
        return self.binary_operator(node.op, left, right)

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Any:
        x = self.value(node.operand)
        if isinstance(node.op, ast.UAdd):
            return x
        if isinstance(node.op, ast.USub):
            return unary(self.ctx, "neg", x)
        if isinstance(node.op, ast.Not):
            if is_tile(x):
                self.ctx.fail("'not' of a tile", "use x == 0, or ~ on a bool tile")
            return unary(self.ctx, "not", x) if isinstance(x, Value) else not x
        if isinstance(x, Value) and x.type.dtype.kind == "bool":  # type: ignore[union-attr]
            return unary(self.ctx, "not", x)
        return ~x if isinstance(x, int) else binary(self.ctx, "xor", x, -1)

    def eval_BoolOp(self, node: ast.BoolOp) -> Any:
        """`and` and `or` on scalars evaluate both sides at run time; constants short-circuit."""
        is_and = isinstance(node.op, ast.And)
        result: Any = is_and
        for part in node.values:
            item = self.value(part)
            if is_tile(item):
                self.ctx.fail(f"'{'and' if is_and else 'or'}' of tiles", f"use '{'&' if is_and else '|'}' for elementwise logic")
            if not isinstance(item, Value):
                if bool(item) != is_and:
                    return item if not isinstance(result, Value) else (not is_and)
                if not isinstance(result, Value):
                    result = item
                continue
            item = require_condition(self.ctx, item, "a boolean operator")
            result = item if not isinstance(result, Value) else binary(self.ctx, "and" if is_and else "or", result, item)
        return result

    def eval_Compare(self, node: ast.Compare) -> Any:
        left = self.value(node.left)
        result: Any = None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            step = self.compare_once(op, left, right)
            if result is None:
                result = step
            elif not isinstance(result, Value) and not isinstance(step, Value):
                result = result and step
            else:
                result = binary(self.ctx, "and", result, step)
            left = right
        return result

    def compare_once(self, op: ast.cmpop, a: Any, b: Any) -> Any:
        if isinstance(op, (ast.Is, ast.IsNot)):
            if a is not None and b is not None:
                self.ctx.fail("'is' compares with None only", "use ==")
            return (a is b) == isinstance(op, ast.Is)
        if isinstance(op, (ast.In, ast.NotIn)):
            if isinstance(b, tuple) and not isinstance(a, Value) and not any(isinstance(x, Value) for x in b):
                return (a in b) == isinstance(op, ast.In)
            self.ctx.fail("'in' needs constants")
        return compare(self.ctx, _COMPARE[type(op)], a, b)

    def eval_IfExp(self, node: ast.IfExp) -> Any:
        cond = require_condition(self.ctx, self.eval(node.test), "a conditional expression")
        if isinstance(cond, bool):
            return self.eval(node.body if cond else node.orelse)
        return select(self.ctx, cond, self.value(node.body), self.value(node.orelse))

    def eval_JoinedStr(self, node: ast.JoinedStr) -> Any:
        parts = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                item = self.eval(part.value)
                if isinstance(item, Value):
                    self.ctx.fail("a run-time value in an f-string", 'pass it as an argument: px.print("k =", k)')
                parts.append(str(item))
        return "".join(parts)

    # Subscripts and attributes.

    def eval_Slice(self, node: ast.Slice) -> Any:
        ends = [self.value(part) if part is not None else None for part in (node.lower, node.upper, node.step)]
        return Slice(*ends)

    def eval_Subscript(self, node: ast.Subscript) -> Any:
        owner = self.eval(node.value)
        raw = self.eval(node.slice)
        index = raw if isinstance(raw, tuple) else (raw,)
        if isinstance(owner, Param) and owner.is_array:
            return array_subscript(self.ctx, owner, index)
        if isinstance(owner, (ViewValue, BarrierValue)):
            return owner.subscript(self.ctx, index)
        if isinstance(owner, tuple):
            return self.tuple_item(owner, index)
        self.ctx.fail(f"{type_name(owner)} can't be indexed", "arrays, shared buffers, barriers and tuples can; a tile can't")

    def tuple_item(self, owner: tuple[Any, ...], index: tuple[Any, ...]) -> Any:
        item = load_scalar(self.ctx, index[0]) if len(index) == 1 else None
        if isinstance(item, Slice):
            parts = (item.start, item.stop, item.step)
            if all(p is None or isinstance(p, int) for p in parts):
                return owner[slice(*parts)]
        if not isinstance(item, int):
            self.ctx.fail("a tuple is indexed by a constant", "unroll the loop with px.static_range")
        if not -len(owner) <= item < len(owner):
            self.ctx.fail(f"index {item} is outside a tuple of {len(owner)}")
        return owner[item]

    def eval_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.eval(node.value)
        return self.member(owner, node.attr)

    def member(self, owner: Any, name: str) -> Any:
        ctx = self.ctx
        if isinstance(owner, ModuleType):
            if not hasattr(owner, name):
                import difflib

                shown = "px" if owner.__name__ == "phalanx" else "px." + owner.__name__.rsplit(".", 1)[-1]
                shown = shown if owner.__name__.startswith("phalanx") else owner.__name__
                close = difflib.get_close_matches(name, dir(owner), 1)
                ctx.fail(f"{shown} has no '{name}'", f"did you mean {shown}.{close[0]}?" if close else None)
            found = self.constant(getattr(owner, name))
            if found is None:
                ctx.fail(f"'{name}' of module {owner.__name__} can't be used in kernels")
            return found
        if isinstance(owner, StructValue):
            if (owner.ident, name) in self.state:
                value = self.state[(owner.ident, name)]
                if isinstance(value, Unavailable):
                    ctx.fail(value.reason, value.remedy or None)
                return value
            if name in owner.cls.methods:
                return StructMethod(owner, owner.cls.methods[name])
            if owner.cls is RING and name == "advance":
                return StructMethod(owner, None)
            known = [*owner.cls.fields, *(m + "()" for m in owner.cls.methods)] + (["advance()"] if owner.cls is RING else [])
            ctx.fail(f"{owner.cls.name} has no attribute '{name}'", f"it has {', '.join(known)}")
        if isinstance(owner, BarrierValue):
            return get_member(ctx, owner, BarrierMembers, name, "a barrier")
        if isinstance(owner, ViewValue):
            return get_member(ctx, owner, ViewValue, name, owner.kind_name)
        if isinstance(owner, Param) and owner.is_array:
            return get_member(ctx, owner, ArrayMembers, name, f"the array '{owner.name}'")
        if isinstance(owner, Value):
            return get_member(ctx, owner, TileMembers, name, f"a {'tile' if is_tile(owner) else 'scalar'}")
        if isinstance(owner, DType) and name in ("itemsize", "bits", "name"):
            return getattr(owner, name)
        ctx.fail(f"{type_name(owner)} has no attribute '{name}'")

    # Calls.

    def eval_Call(self, node: ast.Call) -> Any:
        hint, self.ctx.name_hint = self.ctx.name_hint, ""
        fn = self.eval(node.func)
        args: list[Any] = []
        for item in node.args:
            if isinstance(item, ast.Starred):
                inner = self.eval(item.value)
                if not isinstance(inner, tuple):
                    self.ctx.fail(f"can't unpack {type_name(inner)}")
                args += inner
            else:
                args.append(self.eval(item))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.ctx.fail("** arguments are not supported in kernels")
            kwargs[keyword.arg] = self.eval(keyword.value)
        self.ctx.name_hint = hint
        return self.call(fn, tuple(args), kwargs)

    def call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(fn, Builtin):
            return fn.invoke(self.ctx, args, kwargs)
        if isinstance(fn, BoundMethod):
            return fn.invoke(self.ctx, args, kwargs)
        if isinstance(fn, InlinedFunction):
            return self.call_function(fn.fn, args, kwargs)
        if isinstance(fn, StructMethod):
            return self.call_method(fn, args, kwargs)
        if isinstance(fn, StructClass):
            return self.make_struct(fn, args, kwargs)
        if isinstance(fn, DType):
            return ScalarConversion.invoke(self.ctx, fn, args)
        if callable(fn):
            return self.python_function(fn, args, kwargs)
        self.ctx.fail(f"{type_name(fn)} can't be called")

    def call_method(self, fn: StructMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if fn.fn is None:  # ring.advance()
            if args or kwargs:
                self.ctx.fail(".advance() takes no arguments")
            ident = fn.owner.ident
            n, stage, parity = (self.state[(ident, f)] for f in ("n", "stage", "parity"))
            self.state[(ident, "stage")], self.state[(ident, "parity")] = advanced(self.ctx, n, stage, parity)
            return None
        return self.call_function(fn.fn, (fn.owner, *args), kwargs)

    def make_struct(self, cls: StructClass, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) > len(cls.fields):
            self.ctx.fail(f"{cls.name} takes {len(cls.fields)} fields, {len(args)} were given", f"its fields are {', '.join(cls.fields)}")
        values = dict(zip(cls.fields, args, strict=False))
        for name, item in kwargs.items():
            if name not in cls.fields or name in values:
                self.ctx.fail(f"{cls.name} has no free field '{name}'", f"its fields are {', '.join(cls.fields)}")
            values[name] = item
        for name in cls.fields:
            if name not in values:
                if name not in cls.defaults:
                    self.ctx.fail(f"{cls.name}: the field '{name}' is missing")
                values[name] = cls.defaults[name]
        return NewStruct(cls, {name: load_scalar(self.ctx, v) for name, v in values.items()})

    def python_function(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The few Python builtins that make sense on numbers, scalars and tuples."""
        ctx = self.ctx
        args = tuple(load_scalar(ctx, a) for a in args)
        if fn is range:
            return self.make_range(args)
        if fn is print:
            ctx.fail("print is not available in kernels", "use px.print")
        if fn in (min, max) and not kwargs:
            items = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
            if any(is_tile(a) for a in items):
                ctx.fail(f"{fn.__name__}() of tiles", f"use px.{fn.__name__}(x, axis) or px.{fn.__name__}imum(a, b)")
            out = items[0]
            for item in items[1:]:
                out = binary(ctx, fn.__name__, out, item)
            return out
        if fn is abs and len(args) == 1:
            return unary(ctx, "abs", args[0])
        if fn is len and len(args) == 1 and isinstance(args[0], tuple):
            return len(args[0])
        if fn in (int, float, bool) and len(args) == 1:
            if isinstance(args[0], Value):
                from phalanx.ir.types import bool_, f32, i32

                return cast(ctx, args[0], {int: i32, float: f32, bool: bool_}[fn])
            try:
                return fn(args[0])
            except (TypeError, ValueError) as problem:
                ctx.fail(str(problem))
        if fn in (tuple, enumerate, zip, sum, round) and not any(isinstance(a, Value) for a in args):
            items = tuple(fn(*args)) if fn in (enumerate, zip) else fn(*args)
            return items
        module = getattr(fn, "__module__", "")
        if module in ("math", "numpy") and all(isinstance(a, Number) for a in args):
            return fn(*args)
        name = getattr(fn, "__name__", str(fn))
        if inspect.isfunction(fn):
            ctx.fail(f"'{name}' is a plain Python function", "decorate it with @px.func to call it in a kernel")
        ctx.fail(f"'{name}' can't be called in a kernel")

    def make_range(self, args: tuple[Any, ...]) -> Any:
        from phalanx.language.reader import RangeValue

        if not 1 <= len(args) <= 3:
            self.ctx.fail("range takes one to three integers")
        for item in args:
            require_index(self.ctx, "an argument of range", item)
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        if isinstance(step, int) and step == 0:
            self.ctx.fail("the step of a range is 0")
        return RangeValue(start, stop, step)


__all__ = ["Expressions", "InlinedFunction"]
