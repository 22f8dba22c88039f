"""Reads expressions: names, arithmetic, subscripts, attributes, calls."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable
from types import ModuleType
from typing import NoReturn

from phalanx.ir.types import DType
from phalanx.ir.values import Value
from phalanx.language.builder import Builder
from phalanx.language.builtin import Builtin
from phalanx.language.limits import MAX_DEPTH, check_constant_size, check_length, check_power
from phalanx.language.objects import (
    KernelObject,
    Keywords,
    Number,
    Numeric,
    Slice,
    Unavailable,
    as_object,
    describe,
    is_memory,
    load_scalar,
    require_condition,
)
from phalanx.language.operators import binary, compare, dtype_of, folding, integer_limits, is_tile, select, unary

# What modules and Python functions do in kernels is registered by these two.
from phalanx.language.reader import modules, python_calls  # noqa: F401
from phalanx.language.reader.capture import CAPTURES, constant, is_of_the_language, kind_of
from phalanx.language.reader.frames import Frame
from phalanx.language.reader.other_languages import for_foreign, whole_name
from phalanx.language.reader.source import FunctionSource
from phalanx.language.reader.state import Key, State, same
from phalanx.location import Location

_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
}
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_REFUSED = {
    "Lambda": ("lambda", "write a function with def and decorate it with @px.func"),
    "ListComp": ("a comprehension", "write a loop over px.static_range(...)"),
    "SetComp": ("a comprehension", "write a loop over px.static_range(...)"),
    "DictComp": ("a comprehension", "write a loop over px.static_range(...)"),
    "GeneratorExp": ("a generator expression", "write a loop over px.static_range(...)"),
    "NamedExpr": ("':='", "assign in a statement of its own"),
    "Dict": ("a dict", "use a tuple, or a @px.struct for named fields"),
    "Set": ("a set", "use a tuple"),
    "Await": ("await", "kernels are not asynchronous functions"),
    "Yield": ("yield", "kernels return nothing: write results with px.store"),
    "YieldFrom": ("yield", "kernels return nothing: write results with px.store"),
}
"""Expressions of Python that kernels do not have, and what to write instead."""


Evaluation = Callable[[], object]
"""Evaluates one side of a choice."""
Combination = Callable[[object, object], object]
"""Makes one value of both sides where both were evaluated."""


class Expressions:
    """The expression half of the reader."""

    def __init__(self, ctx: Builder) -> None:
        self.ctx = ctx
        self.state: State = {}
        self.terminated = False
        self.role_depth = 0
        self.captured: dict[tuple[FunctionSource, str], object] = {}
        self.frames: list[Frame] = []
        self.depth = 0
        """Expressions and statements around this place."""
        self.block_depth = 0
        """How many of them are statements."""
        self.unused: set[ast.expr] = set()
        """Expressions whose value nobody takes."""

    # Provided by the reader.

    def locate(self, node: ast.AST) -> Location:
        """Where a part of the syntax tree stands in the user's file, with the calls that led there."""
        raise NotImplementedError

    def choose(self, cond: Value, then: Evaluation, orelse: Evaluation, combine: Combination, what: str) -> object:
        """One of two expressions, by a condition that is known at run time."""
        raise NotImplementedError

    def bind_variable(self, target: ast.expr, value: object) -> Key:
        """Assigns to a name or field; returns its key."""
        raise NotImplementedError

    def eval(self, node: ast.expr) -> object:
        """The front-end value of an expression; errors inside point at the innermost part."""
        if type(node) is ast.Name:  # most are variables, for which no place in the file is needed
            known = self.state.get((self.frames[-1].ident, node.id))
            if known is not None and not isinstance(known, Unavailable):
                return known
        handler = getattr(self, "eval_" + type(node).__name__, None)
        outer = self.ctx.loc
        self.ctx.loc = self.locate(node)
        if handler is None:
            name = type(node).__name__
            shown, remedy = _REFUSED.get(
                name,
                (
                    f"this kind of expression ({name})",
                    "kernels use arithmetic, comparisons, subscripts, calls and tuples",
                ),
            )
            self.ctx.fail(f"{shown} is not supported in kernels", remedy)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse_depth()
        value = check_constant_size(self.ctx, handler(node))
        self.depth -= 1
        self.ctx.loc = outer
        return value

    def refuse_depth(self) -> NoReturn:
        """The error for what stands inside too many others."""
        if 2 * self.block_depth > MAX_DEPTH:
            self.ctx.fail(
                f"statements are nested more than {MAX_DEPTH} deep",
                "use fewer branches inside branches; each elif stands in the one before",
            )
        self.ctx.fail(
            f"expressions are nested more than {MAX_DEPTH} deep", "give parts of it names, in statements of their own"
        )

    def value(self, node: ast.expr) -> object:
        """An expression where a number, scalar or tile is needed."""
        return load_scalar(self.ctx, self.eval(node))

    def condition(self, node: ast.expr, what: str) -> bool | Value:
        """An expression that decides what runs: a constant or a scalar, as a bool."""
        value = self.eval(node)
        with self.ctx.at(self.locate(node)):
            return require_condition(self.ctx, value, what)

    def eval_Constant(self, node: ast.Constant) -> object:
        """A literal: a number, a string, True, False or None."""
        if node.value is Ellipsis or isinstance(node.value, (bytes, complex)):
            shown = "..." if node.value is Ellipsis else repr(node.value)
            remedy = "literals are numbers, strings, True, False and None"
            if node.value is Ellipsis:
                remedy = "an index has an integer or a slice for each axis"
            self.ctx.fail(f"{shown} has no meaning in kernels", remedy)
        return node.value

    def eval_Name(self, node: ast.Name) -> object:
        """A variable of the function being read, or a constant of the scopes around it."""
        frame = self.frames[-1]
        value = self.state.get((frame.ident, node.id), self)
        if isinstance(value, Unavailable):
            self.ctx.fail(value.reason, value.remedy or None)
        if value is not self:
            return value
        if frame.source.is_local(node.id):
            self.ctx.fail(f"'{node.id}' is used before it is assigned", "assign it on every path that leads here")
        try:
            found = frame.source.lookup(node.id)
        except KeyError:
            self.ctx.fail(f"unknown name '{node.id}'", self.similar(node, frame))
        return self.capture(frame, node.id, found)

    def similar(self, node: ast.Name, frame: Frame) -> str | None:
        """The remedy for a name that is not known: what another language calls so, or a name that is like it."""
        foreign = for_foreign(whole_name(frame.source.node, node))
        if foreign is not None:
            return foreign
        known = [key[1] for key in self.state if key[0] == frame.ident]
        known += [n for n in frame.source.fn.__globals__ if not n.startswith("__")]
        close = difflib.get_close_matches(node.id, known, 1)
        return (
            f"did you mean '{close[0]}'?"
            if close
            else "names come from the kernel, its parameters or the enclosing scopes"
        )

    def capture(self, frame: Frame, name: str, found: object) -> object:
        """A constant of the enclosing scopes; it becomes part of the cache key."""
        value = constant(found)
        if value is None and found is not None:
            self.ctx.fail(
                f"'{name}' of the enclosing scope is {kind_of(found)}, which a kernel can't use",
                getattr(found, "instead_in_kernels", None) or f"kernels capture {CAPTURES}; pass arrays as arguments",
            )
        if not isinstance(value, Builtin) and not (isinstance(value, ModuleType) and is_of_the_language(value)):
            self.captured[(frame.source, name)] = value
        return value

    def eval_Tuple(self, node: ast.Tuple) -> object:
        """A tuple; a list means the same."""
        out: list[object] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                out += self.starred(item)
            else:
                out.append(self.eval(item))
        return tuple(out)

    def starred(self, node: ast.Starred) -> tuple[object, ...]:
        """The items of `*x` in a tuple or a call."""
        inner = self.eval(node.value)
        items = as_object(inner).unpacked()
        if items is None:
            self.ctx.fail(f"* can't unpack {describe(inner)}", "only tuples can be unpacked")
        return items

    eval_List = eval_Tuple

    def binary_operator(self, op: ast.operator, a: object, b: object) -> object:
        """One operator on two values; tuples and strings of constants can be joined."""
        if isinstance(op, ast.Pow):
            return self.power(a, b)
        if type(op) not in _BINARY:
            self.ctx.fail(
                "the operator '@' is not supported in kernels",
                "px.dot(a, b, acc) multiplies tiles, in registers or shared memory, and adds acc",
            )
        if isinstance(a, tuple) and isinstance(b, tuple) and isinstance(op, ast.Add):
            return a + b
        if isinstance(a, tuple) and isinstance(b, int) and isinstance(op, ast.Mult):
            check_length(self.ctx, "a tuple", len(a) * b)
            return a * b
        if isinstance(a, str) and isinstance(b, str) and isinstance(op, ast.Add):
            return a + b
        return binary(self.ctx, _BINARY[type(op)], a, b)

    def power(self, a: object, b: object) -> object:
        """`a ** b`: folded where both are constants, else a few multiplications."""
        if isinstance(a, Number) and isinstance(b, Number):
            check_power(self.ctx, a, b)
            return folding(self.ctx, "'**'", lambda x, y: x**y, a, b)
        if isinstance(b, int) and 1 <= b <= 8 and isinstance(a, Value):
            out: Numeric = a
            for _ in range(b - 1):
                out = binary(self.ctx, "mul", out, a)
            return out
        self.ctx.fail(
            "'**' needs constants, or an exponent that is a constant from 1 to 8", "use px.exp2(y * px.log2(x))"
        )

    def eval_BinOp(self, node: ast.BinOp) -> object:
        """`a + b + c`: the operators of a chain one after the other, so that a long one is not deep."""
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        value = self.value(chain[-1].left)
        for part in reversed(chain):
            right = self.value(part.right)
            with self.ctx.at(self.locate(part)):
                value = check_constant_size(self.ctx, self.binary_operator(part.op, value, right))
        return value

    def eval_UnaryOp(self, node: ast.UnaryOp) -> object:
        """`not`, `-`, `+` or `~` of a value."""
        x = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            if is_tile(x):
                self.ctx.fail("'not' can't be applied to a tile", "use ~ on a bool tile, or x == 0")
            truth = require_condition(self.ctx, x, "'not'")
            return unary(self.ctx, "not", truth)
        if isinstance(node.op, ast.USub):
            return unary(self.ctx, "neg", x)
        if isinstance(node.op, ast.UAdd):
            return binary(self.ctx, "add", x, 0) if not isinstance(x, Value) else x
        if isinstance(x, bool) or (isinstance(x, Value) and dtype_of(x).kind == "bool"):
            return unary(self.ctx, "not", x)
        if isinstance(x, int):
            return ~x
        if isinstance(x, Value) and dtype_of(x).is_float:
            self.ctx.fail(f"'~' needs integers or bools, not {dtype_of(x)}", "convert it first, e.g. x.to(px.i32)")
        ones = integer_limits(dtype_of(x))[1] if isinstance(x, Value) and dtype_of(x).kind == "uint" else -1
        return binary(self.ctx, "xor", x, ones)

    def eval_BoolOp(self, node: ast.BoolOp) -> object:
        """`and` and `or`: what would have an effect or read memory is evaluated only if the left side asks for it."""
        return self.bool_operator(isinstance(node.op, ast.And), node.values)

    def bool_operator(self, is_and: bool, parts: list[ast.expr]) -> object:
        """The value of `parts` joined by `and`, or by `or`: one after the other, so that a long chain is not deep."""
        value = self.truth_operand(is_and, parts[0])
        for part in parts[1:]:
            if isinstance(value, Value):
                value = self.joined(is_and, value, part)
            elif bool(value) == is_and:
                value = self.truth_operand(is_and, part)
            else:
                return value
        return value

    def joined(self, is_and: bool, first: Value, part: ast.expr) -> object:
        """A truth that is known at run time, joined with the next operand; a bool where that one settles it."""
        settled: list[object] = []

        def rest() -> object:
            item = self.truth_of(self.truth_operand(is_and, part))
            settled[:] = [] if isinstance(item, Value) else [item]
            return item

        def known() -> object:
            return not is_and

        def combine(a: object, b: object) -> object:
            if settled:
                return first if settled[0] == is_and else not is_and
            return binary(self.ctx, "and" if is_and else "or", first, a if is_and else b)

        then, orelse = (rest, known) if is_and else (known, rest)
        return self.choose(first, then, orelse, combine, f"this '{'and' if is_and else 'or'}'")

    def truth_operand(self, is_and: bool, node: ast.expr) -> object:
        """One operand: constants keep their value (`activation or identity`), what has a truth of its own becomes a bool."""
        item = self.value(node)
        if is_tile(item):
            word, sign = ("and", "&") if is_and else ("or", "|")
            self.ctx.fail(
                f"'{word}' can't be applied to tiles", f"use '{sign}' for elementwise logic", loc=self.locate(node)
            )
        if isinstance(item, Value) or (isinstance(item, KernelObject) and item.defines_truth()):
            return require_condition(self.ctx, item, "a boolean operator")
        return item

    def truth_of(self, item: object) -> object:
        """The other side of a choice by `and` or `or`, as a bool."""
        return item if isinstance(item, Value) else require_condition(self.ctx, item, "a boolean operator")

    def eval_Compare(self, node: ast.Compare) -> object:
        """`a < b <= c`: each neighbouring pair compared, joined by `and`."""
        left = self.value(node.left)
        result: object = None
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

    def compare_once(self, op: ast.cmpop, a: object, b: object) -> object:
        """One comparison; `is` knows None alone, `in` looks into tuples."""
        if isinstance(op, (ast.Is, ast.IsNot)):
            if a is not None and b is not None:
                self.ctx.fail("'is' compares with None only", "use ==")
            return (a is b) == isinstance(op, ast.Is)
        if isinstance(op, (ast.In, ast.NotIn)):
            items = as_object(b).unpacked()
            if items is None:
                self.ctx.fail(
                    f"'in' needs a tuple on its right, not {describe(b)}", "e.g. if X.dtype in (px.f16, px.bf16)"
                )
            found: Numeric = False
            for item in items:
                found = binary(self.ctx, "or", found, compare(self.ctx, "eq", a, load_scalar(self.ctx, item)))
            return found if isinstance(op, ast.In) else unary(self.ctx, "not", found)
        return compare(self.ctx, _COMPARE[type(op)], a, b)

    def eval_IfExp(self, node: ast.IfExp) -> object:
        """`a if cond else b`: a side that has an effect or reads memory is evaluated only if it is chosen."""
        cond = self.condition(node.test, "a conditional expression")
        if isinstance(cond, bool):
            return self.eval(node.body if cond else node.orelse)

        def combine(a: object, b: object) -> object:
            if same(a, b):
                return a
            if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
                return tuple(combine(x, y) for x, y in zip(a, b, strict=True))
            return select(self.ctx, cond, a, b, "a conditional expression")

        return self.choose(
            cond, lambda: self.value(node.body), lambda: self.value(node.orelse), combine, "this conditional expression"
        )

    def eval_JoinedStr(self, node: ast.JoinedStr) -> object:
        """An f-string of constants."""
        parts = []
        for part in node.values:
            if not isinstance(part, ast.FormattedValue):
                parts.append(str(self.eval(part)))
                continue
            item = self.value(part.value)
            if not (item is None or isinstance(item, (*Number, str, DType, tuple))) or _holds_values(item):
                self.ctx.fail(
                    f"an f-string takes constants, not {describe(item)}",
                    'pass it to px.print as an argument: px.print("k =", k)',
                    loc=self.locate(part.value),
                )
            spec = str(self.eval(part.format_spec)) if part.format_spec is not None else ""
            check_length(self.ctx, "an f-string", max(map(int, re.findall(r"\d+", spec)), default=0))
            conversions: dict[int, Callable[[object], object]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}
            shown = conversions.get(part.conversion, lambda x: x)(item)
            parts.append(folding(self.ctx, "an f-string", format, shown if spec else str(shown), spec))
        return "".join(parts)

    # Subscripts and attributes.

    def eval_Slice(self, node: ast.Slice) -> object:
        """`start:stop:step` inside a subscript."""
        with self.ctx.reading_once():
            ends = [self.value(part) if part is not None else None for part in (node.lower, node.upper, node.step)]
        return Slice(*ends)

    def eval_Subscript(self, node: ast.Subscript) -> object:
        """`x[index]`, as the value x has it."""
        owner = self.eval(node.value)
        if isinstance(node.slice, ast.List):
            self.ctx.fail(
                "a list can't be an index",
                "index with integers and slices, or with one tile of indices: A[rows, k:k+BK]",
            )
        raw = self.eval(node.slice)
        index = raw if isinstance(raw, tuple) else (raw,)
        return as_object(owner).subscript(self.ctx, index)

    def eval_Attribute(self, node: ast.Attribute) -> object:
        """`x.name`, as the value x has it; constants of the user's modules become part of the cache key."""
        owner = self.eval(node.value)
        value = as_object(owner).member(self.ctx, node.attr)
        if isinstance(owner, ModuleType) and not is_of_the_language(owner) and not isinstance(value, ModuleType):
            self.captured[(self.frames[-1].source, ast.unparse(node))] = value
        return value

    # Calls.

    def eval_Call(self, node: ast.Call) -> object:
        """`f(...)`, as the value f has it; a function with an `inout` parameter updates that variable."""
        hint, self.ctx.name_hint = self.ctx.name_hint, ""
        fn = self.eval(node.func)
        args: list[object] = []
        for item in node.args:
            if isinstance(item, ast.Starred):
                args += self.starred(item)
            else:
                args.append(self.eval(item))
        kwargs: Keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.ctx.fail("** arguments are not supported in kernels", "write each keyword out")
            kwargs[keyword.arg] = self.eval(keyword.value)
        self.ctx.name_hint = hint
        result = as_object(fn).call(self.ctx, tuple(args), kwargs)
        if isinstance(fn, Builtin) and fn.inout is not None:
            if node not in self.unused:
                self.ctx.fail(
                    f"px.{fn.name} updates the variable given as '{fn.inout}' and has no value",
                    f"call it by itself: px.{fn.name}(...)",
                )
            self.update_argument(node, fn, result)
            return None
        return result

    def update_argument(self, node: ast.Call, fn: Builtin, value: object) -> None:
        """Binds the variable given as the parameter that `fn` updates to its new value."""
        assert fn.inout is not None
        position = list(fn.signature.parameters).index(fn.inout)
        given: ast.expr | None = next((k.value for k in node.keywords if k.arg == fn.inout), None)
        if given is None:
            given = node.args[position] if position < len(node.args) else None
        if not isinstance(given, ast.Name | ast.Attribute):
            self.ctx.fail(
                f"px.{fn.name} updates its argument '{fn.inout}', which must be a variable",
                f"give the tile a name first: {fn.inout} = ...",
                loc=self.locate(given or node),
            )
        self.ctx.accumulators[self.bind_variable(given, value)] = None


def _holds_values(item: object) -> bool:
    """Whether a tuple has something in it that is known at run time only."""
    return isinstance(item, tuple) and any(
        isinstance(x, Value) or is_memory(x) or _holds_values(x) for x in item
    )
