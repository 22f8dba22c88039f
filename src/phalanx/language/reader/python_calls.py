"""Calls of Python's own functions in kernels: the few that make sense on numbers, scalars and tuples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from phalanx.ir.types import DTYPES, bool_, f32, i32
from phalanx.ir.values import Value
from phalanx.language.builder import Builder
from phalanx.language.builtin import BUILTINS
from phalanx.language.limits import MAX_BITS, check_length
from phalanx.language.objects import (
    Arguments,
    Keywords,
    Number,
    Numeric,
    PlainObject,
    RunTimeRange,
    as_object,
    describe,
    load_scalar,
)
from phalanx.language.operators import binary, convert, folding, is_tile, unary
from phalanx.language.ranges import RangeObject
from phalanx.language.reader.other_languages import in_our_words
from phalanx.language.values import require_index

LARGE_RESULTS = {"factorial": 0, "comb": 0, "perm": 0, "round": 1, "ldexp": 1}
"""Functions of numbers whose results, or what leads to them, may be long; from this argument on they grow with it."""


def length_of(items: range) -> int:
    """The length of a range, also of one longer than a machine word counts, for which `len` gives up."""
    return max(0, -((items.start - items.stop) // items.step))


class FunctionObject(PlainObject):
    """A function or a class of Python: a few can be called in kernels."""

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> object:
        """The value of the call."""
        return call_python(ctx, self.value, args, kwargs)


def call_python(ctx: Builder, fn: Any, args: Arguments, kwargs: Keywords) -> object:
    """The value of a call of one of Python's functions; all others are errors that say what to write instead."""
    args = tuple(load_scalar(ctx, a) for a in args)
    if fn is range and not kwargs:
        return make_range(ctx, args)
    if fn is print:
        ctx.fail("print is not available in kernels", "use px.print")
    if fn in (min, max) and not kwargs:
        return extreme(ctx, fn, args)
    if fn is sum and not kwargs and len(args) == 1:
        total: Numeric = 0
        for item in items_of(ctx, "sum", args[0]):
            total = binary(ctx, "add", total, load_scalar(ctx, item))
        return total
    if fn is abs and len(args) == 1 and not kwargs:
        return unary(ctx, "abs", args[0])
    if fn is len and len(args) == 1 and not kwargs:
        return len(items_of(ctx, "len", args[0]))
    if fn in (int, float, bool) and len(args) == 1 and not kwargs:
        if isinstance(args[0], Value):
            return convert(ctx, args[0], {int: i32, float: f32, bool: bool_}[fn])
        if not isinstance(args[0], (*Number, str)):
            ctx.fail(f"{fn.__name__}() takes a number or a scalar, not {describe(args[0])}", "e.g. float(k), int(x)")
        return folding(ctx, f"{fn.__name__}()", fn, args[0])
    if fn in (tuple, enumerate, zip):
        sequences = [items_of(ctx, fn.__name__, a) for a in args]
        return tuple(folding(ctx, f"{fn.__name__}()", lambda *a: fn(*a, **kwargs), *sequences))
    name = getattr(fn, "__name__", str(fn))
    module = (getattr(fn, "__module__", "") or "").partition(".")[0]
    if fn is round or module == "math":
        if all(isinstance(a, Number) for a in args):
            if name in LARGE_RESULTS and any(isinstance(a, int) and abs(a) > MAX_BITS for a in args[LARGE_RESULTS[name] :]):
                ctx.fail(
                    f"{name}() of {', '.join(map(describe, args))} has too many digits",
                    "the integers of a kernel have at most 64 bits: check the constants it comes from",
                )
            return folding(ctx, f"{name}()", lambda *a: fn(*a, **kwargs), *args)
        ctx.fail(
            f"{name}() takes constants only, not {describe(next(a for a in args if not isinstance(a, Number)))}",
            instead(name),
        )
    if module == "phalanx":
        ctx.fail(
            f"px.{name} is for the code around kernels", "call it outside the kernel and pass its result as an argument"
        )
    if module == "numpy":
        ctx.fail(f"numpy.{name} can't be used in kernels", in_our_words(name) or instead(name))
    if inspect.isfunction(fn):
        ctx.fail(f"'{name}' is a plain Python function", "decorate it with @px.func, or call it outside the kernel")
    ctx.fail(f"'{name}' can't be called like this in a kernel", instead(name))


def instead(name: str) -> str:
    """The remedy for a function that has, or has not, a counterpart in the language."""
    if name in DTYPES or any(entry.name == name for entry in BUILTINS):
        return f"px.{name} works on scalars and tiles"
    return "kernels call px functions, @px.func helpers, and range, len, min, max, abs, sum, int, float, bool of Python"


def items_of(ctx: Builder, what: str, value: object) -> Arguments:
    """The items of a tuple or of a range of constants."""
    items = as_object(value).constant_items()
    if isinstance(items, range):
        check_length(ctx, f"{what}() of a range", length_of(items))
    if items is not None:
        return tuple(items)
    of_tiles = {"len": "the sizes of a tile are x.shape", "sum": "px.sum(x) adds up a tile"} if is_tile(value) else {}
    ctx.fail(f"{what}() takes a tuple, not {describe(value)}", of_tiles.get(what, f"e.g. {what}(A.shape)"))


def extreme(ctx: Builder, fn: Callable[..., object], args: Arguments) -> object:
    """`min` and `max` of scalars."""
    name = fn.__name__
    items = items_of(ctx, name, args[0]) if len(args) == 1 else args
    if any(is_tile(a) for a in items):
        ctx.fail(f"{name}() can't be applied to tiles", f"use px.{name}(x, axis), or px.{name}imum(a, b) for two tiles")
    if not items:
        ctx.fail(f"{name}() of nothing", "give it at least one number or scalar")
    out = load_scalar(ctx, items[0])
    for item in items[1:]:
        out = binary(ctx, name, out, load_scalar(ctx, item))
    return out


def make_range(ctx: Builder, args: Arguments) -> RangeObject:
    """`range(...)` of numbers and scalars."""
    if not 1 <= len(args) <= 3:
        ctx.fail(
            f"range takes one to three integers, not {len(args)}",
            "range(stop), range(start, stop) or range(start, stop, step)",
        )
    bounds = [require_index(ctx, "an argument of range", item) for item in args]
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if isinstance(step, int) and step == 0:
        ctx.fail("the step of a range is 0", "use a positive or a negative step")
    return RangeObject(RunTimeRange(start, stop, step))


for _kind in (FunctionType, BuiltinFunctionType, type):
    as_object.register(_kind, FunctionObject)
