"""Arithmetic on scalars, inline, and on register tiles, as NumPy arrays that nobody changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from phalanx.errors import Error
from phalanx.ir.ops import tile as ir
from phalanx.ir.types import ArrayType, DType, ScalarType
from phalanx.ir.values import Const, Value
from phalanx.sim import numerics
from phalanx.sim.agents import Agent
from phalanx.sim.codegen import Emitter
from phalanx.sim.combine import Combined, fold, scan
from phalanx.sim.fused import fused
from phalanx.sim.registry import inline, meaning
from phalanx.sim.report import division_by_zero

Run = Callable[..., Any]


def element(value: Value) -> DType:
    """The element type of a value."""
    return value.type.dtype


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of a scalar or a tile."""
    assert not isinstance(value.type, ArrayType)
    return value.type.shape


def is_scalar(value: Value) -> bool:
    """Whether a value is a scalar."""
    return isinstance(value.type, ScalarType)


def is_native_float(dtype: DType) -> bool:
    """Floats whose NumPy scalars compute as the hardware does."""
    return dtype.is_float and not numerics.is_narrow(dtype)


def shaped(run: Run, result: Value) -> Run:
    """`run` with its result in the form in which values of that type travel."""
    dtype = element(result)
    if is_scalar(result):
        return lambda *operands: numerics.scalar_of(run(*operands), dtype)
    return run


def wrapped(expression: str, dtype: DType, emit: Emitter) -> str:
    """An integer expression, brought back into its range where it left it."""
    low, high = numerics.integer_range(dtype)
    name = f"wrap_{dtype.name}"
    emit.makers[name] = lambda agent: lambda value: numerics.wrap(value, dtype)
    return f"(w if {low} <= (w := {expression}) <= {high} else {name}(w))"


# --- scalars, inline ------------------------------------------------------------------------------------------------

_WRAPPING = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//"}
_EXACT = {"mod": "%", "and": "&", "or": "|", "xor": "^"}
_FLOAT = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@inline(ir.Binary)
def inline_binary(op: ir.Binary, emit: Emitter) -> str | None:
    """A Python expression for scalar arithmetic that Python computes as the hardware does."""
    if not is_scalar(op.result):
        return None
    dtype, a, b = element(op.result), emit.expr(op.a), emit.expr(op.b)
    if dtype.kind == "bool" and op.fn in _EXACT:
        return f"{a} {_EXACT[op.fn]} {b}"
    if dtype.is_integer:
        if op.fn in _WRAPPING:
            return wrapped(f"{a} {_WRAPPING[op.fn]} {b}", dtype, emit)
        if op.fn in _EXACT:
            return f"{a} {_EXACT[op.fn]} {b}"
        if op.fn in ("max", "min"):
            return f"({a} if {a} {'>=' if op.fn == 'max' else '<='} {b} else {b})"
        if op.fn in ("shl", "shr") and isinstance(op.b, Const) and 0 <= int(op.b.value) < dtype.bits:
            return wrapped(f"({a} << {b})", dtype, emit) if op.fn == "shl" else f"{a} >> {b}"
    if is_native_float(dtype) and op.fn in _FLOAT:
        return f"{a} {_FLOAT[op.fn]} {b}"
    return None


@inline(ir.Unary)
def inline_unary(op: ir.Unary, emit: Emitter) -> str | None:
    """A Python expression for the negation of a scalar: a number or a bool."""
    if not is_scalar(op.result):
        return None
    dtype, x = element(op.result), emit.expr(op.x)
    if op.fn == "not" and dtype.kind == "bool":
        return f"not {x}"
    if op.fn == "neg" and is_native_float(dtype):
        return f"-{x}"
    if op.fn == "neg" and dtype.is_integer:
        return wrapped(f"-{x}", dtype, emit)
    return None


@inline(ir.Compare)
def inline_compare(op: ir.Compare, emit: Emitter) -> str | None:
    """A Python expression for a comparison of scalars."""
    if not is_scalar(op.result):
        return None
    expression = f"{emit.expr(op.a)} {_COMPARE[op.fn]} {emit.expr(op.b)}"
    dtype = element(op.a)
    if not dtype.is_float:
        return expression
    return f"bool({expression})" if is_native_float(dtype) else None


@inline(ir.Select)
def inline_select(op: ir.Select, emit: Emitter) -> str | None:
    """A choice by a scalar is a choice of the whole, where both sides have the result's shape."""
    if not is_scalar(op.cond) or not shape_of(op.a) == shape_of(op.b) == shape_of(op.result):
        return None
    return f"({emit.expr(op.a)} if {emit.expr(op.cond)} else {emit.expr(op.b)})"


@inline(ir.Cast)
def inline_cast(op: ir.Cast, emit: Emitter) -> str | None:
    """A Python expression for a conversion between scalars that are integers or bools."""
    source, target, x = element(op.x), element(op.result), emit.expr(op.x)
    if source == target:
        return x
    if not is_scalar(op.result) or source.is_float or target.is_float:
        return None
    if target.kind == "bool":
        return f"{x} != 0"
    if source.kind == "bool":
        return f"int({x})"
    (low, high), (to_low, to_high) = numerics.integer_range(source), numerics.integer_range(target)
    return x if to_low <= low and high <= to_high else wrapped(x, target, emit)


# --- tiles ----------------------------------------------------------------------------------------------------------


@meaning(ir.Unary)
def unary(op: ir.Unary, agent: Agent) -> Run:
    """A function of one tile or scalar, elementwise."""
    if is_scalar(op.result):
        function, to = numerics.unary(op.fn, element(op.x)), element(op.x).numpy
        return shaped(lambda x: function(to.type(x)), op.result)
    return numerics.unary(op.fn, element(op.x))


@meaning(ir.Binary)
def binary(op: ir.Binary, agent: Agent) -> Run:
    """An operation on two tiles or scalars, elementwise."""
    function, to = numerics.binary(op.fn, element(op.a)), element(op.a).numpy
    if op.can_fail:
        function = nonzero(function, op)
    if is_scalar(op.result):
        return shaped(lambda a, b: function(to.type(a), to.type(b)), op.result)
    if is_scalar(op.a):
        return lambda a, b: function(to.type(a), b)
    return function


def nonzero(function: Run, op: ir.Binary) -> Run:
    """A division of integers that refuses zeros among its divisors: a GPU gives 0 for them, and says nothing."""

    def run(a: Any, b: Any) -> Any:
        if not np.all(b):
            raise division_by_zero(op.loc, int(np.size(b) - np.count_nonzero(b)), int(np.size(b)))
        return function(a, b)

    return run


@meaning(ir.Fma)
def fma(op: ir.Fma, agent: Agent) -> Run:
    """`a * b + c` rounded once."""
    function, to = fused(element(op.result)), element(op.result).numpy
    return shaped(lambda a, b, c: function(np.asarray(a, to), np.asarray(b, to), np.asarray(c, to)), op.result)


@meaning(ir.InlinePtx)
def inline_ptx(op: ir.InlinePtx, agent: Agent) -> Run:
    """What the user's function says of it: a function of arrays, or of numbers where there are only scalars."""
    function = op.sim
    if function is None:
        raise Error(
            f"px.ptx without sim=: the simulator does not know what '{op.text}' computes", location=op.loc,
            remedy="give a NumPy function of the inputs: px.ptx(..., sim=np.exp2); px.compile needs none",
        )
    inputs = [element(x).numpy for x in op.xs]
    shape, outputs = shape_of(op.results[0]), [element(result).numpy for result in op.results]

    def run(xs: tuple[Any, ...]) -> Any:
        given = [np.asarray(x, dtype)[()] for x, dtype in zip(xs, inputs)]
        try:
            found = function(*given)
            parts = tuple(found) if len(outputs) > 1 else (found,)  # type: ignore[arg-type, call-overload]
            if len(parts) != len(outputs):
                raise ValueError(f"it gave {len(parts)} arrays, not {len(outputs)}")
            typed = [np.asarray(part).astype(dtype) for part, dtype in zip(parts, outputs, strict=True)]
            made = [np.broadcast_to(part, shape) for part in typed]
        except Exception as problem:
            raise Error(
                f"sim= of px.ptx failed: {type(problem).__name__}: {problem}", location=op.loc,
                remedy="it gets the inputs as NumPy arrays and gives "
                + ("an array of their shape" if len(outputs) == 1 else f"{len(outputs)} arrays of their shape"),
            ) from problem
        return tuple(part if shape else part[()].item() for part in made)

    return run


@meaning(ir.SkippingProduct)
def skipping_product(op: ir.SkippingProduct, agent: Agent) -> Run:
    """A product like any other: what is multiplied by 1 does not change."""
    return numerics.binary("mul", element(op.x))


@meaning(ir.Compare)
def compare(op: ir.Compare, agent: Agent) -> Run:
    """A comparison, elementwise."""
    return shaped(numerics.compare(op.fn, element(op.a)), op.result)


@meaning(ir.Select)
def select(op: ir.Select, agent: Agent) -> Run:
    """One of two values by a condition, elementwise."""
    dtype, shape = element(op.result).numpy, shape_of(op.result)

    def run(cond: Any, a: Any, b: Any) -> Any:
        chosen = np.where(cond, np.asarray(a, dtype), np.asarray(b, dtype))
        return chosen if chosen.shape == shape else np.broadcast_to(chosen, shape)

    return shaped(run, op.result)


@meaning(ir.Cast)
def cast(op: ir.Cast, agent: Agent) -> Run:
    """A conversion to another element type, as the hardware converts."""
    return shaped(numerics.cast(element(op.x), element(op.result)), op.result)


@meaning(ir.Bitcast)
def bitcast(op: ir.Bitcast, agent: Agent) -> Run:
    """The bits of a tile under another element type."""
    source, target = element(op.x).numpy, element(op.result).numpy
    return shaped(lambda x: np.ascontiguousarray(x, source).reshape(np.shape(x)).view(target), op.result)


@meaning(ir.Full)
def full(op: ir.Full, agent: Agent) -> Run:
    """A tile whose elements are all alike."""
    shape, dtype = shape_of(op.result), element(op.result).numpy
    if isinstance(op.value, Const):
        constant = np.full(shape, numerics.scalar_of(op.value.value, element(op.result)), dtype)
        constant.setflags(write=False)
        return lambda value: constant
    return lambda value: np.full(shape, value, dtype)


class Unwritten:
    """A tile in which nothing was written yet: whatever looks into it is refused."""

    __slots__ = ("op",)

    def __init__(self, op: ir.Empty) -> None:
        self.op = op

    def refuse(self) -> NoReturn:
        """Raises the error for a read of a tile that nothing was written into."""
        error = Error(
            f"the tile made at {self.op.loc.short} is read, but nothing was written into it", kind="uninitialised-read",
            remedy="begin with px.zeros, or let the first product overwrite it (accumulate=False)",
        )
        error.other = self.op.loc
        raise error

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse()

    def __array_ufunc__(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse()

    def __getitem__(self, _: Any) -> NoReturn:
        self.refuse()

    def __getattr__(self, name: str) -> NoReturn:
        self.refuse()


@meaning(ir.Empty)
def empty(op: ir.Empty, agent: Agent) -> Run:
    """Poisoned, so that reading it shows; under a monitor, reading it is refused."""
    if agent.cta.cluster.machine.monitor is not None:
        unwritten = Unwritten(op)
        return lambda: unwritten
    shape, dtype = shape_of(op.result), element(op.result).numpy
    poison = np.frombuffer(b"\xff" * dtype.itemsize, dtype)
    tile = np.broadcast_to(poison, shape)
    return lambda: tile


@meaning(ir.Arange)
def arange(op: ir.Arange, agent: Agent) -> Run:
    """The numbers 0 to n - 1."""
    numbers = np.arange(shape_of(op.result)[0], dtype=element(op.result).numpy)
    numbers.setflags(write=False)
    return lambda: numbers


@meaning(ir.Reduce)
def reduce(op: ir.Reduce, agent: Agent) -> Run:
    """A fold along an axis: sums of narrow floats in f32, positions the first of equals."""
    source, target, axis, keep = element(op.x), element(op.result), op.axis, op.keepdims
    narrow = numerics.cast(source, source)
    if numerics.is_narrow(source):
        widen, narrow = numerics.cast(source, numerics.f32), numerics.cast(numerics.f32, source)
    else:
        widen = narrow

    maximum: Run = np.maximum.reduce
    minimum: Run = np.minimum.reduce

    def total(x: np.ndarray) -> Any:
        return narrow(np.sum(widen(x), axis=axis, keepdims=keep, dtype=numerics.accumulator(target)))

    def largest(x: np.ndarray) -> Any:
        return narrow(maximum(widen(x), axis=axis, keepdims=keep))

    def smallest(x: np.ndarray) -> Any:
        return narrow(minimum(widen(x), axis=axis, keepdims=keep))

    def position(x: np.ndarray) -> Any:
        """The place of the first largest (or smallest) element; a NaN comes before everything."""
        find = np.argmax if op.fn == "argmax" else np.argmin
        return find(np.asarray(widen(x)), axis=axis, keepdims=keep).astype(target.numpy)

    runs = {"sum": total, "max": largest, "min": smallest, "argmax": position, "argmin": position}
    return shaped(runs[op.fn], op.result)


@meaning(ir.CumSum)
def cumsum(op: ir.CumSum, agent: Agent) -> Run:
    """Running sums along an axis."""
    dtype, to, axis = numerics.accumulator(element(op.result)), element(op.result).numpy, op.axis
    return lambda x: np.cumsum(x.astype(dtype, copy=False), axis=axis, dtype=dtype).astype(to, copy=False)


@meaning(ir.ReduceBy)
def reduce_by(op: ir.ReduceBy, agent: Agent) -> Run:
    """A fold along an axis by the user's function."""
    function, axis, shape = Combined(op.by, agent), op.axis, shape_of(op.results[0])
    dtypes, scalar = [element(result) for result in op.results], is_scalar(op.results[0])

    def run(xs: tuple[Any, ...], taken: tuple[Any, ...]) -> tuple[Any, ...]:
        found = [part.reshape(shape) for part in fold(function, xs, axis, taken)]
        return tuple(map(numerics.scalar_of, found, dtypes)) if scalar else tuple(found)

    return run


@meaning(ir.ScanBy)
def scan_by(op: ir.ScanBy, agent: Agent) -> Run:
    """Running folds along an axis by the user's function."""
    function, axis = Combined(op.by, agent), op.axis
    return lambda xs, taken: tuple(scan(function, xs, axis, taken))


@meaning(ir.Reshape)
def reshape(op: ir.Reshape, agent: Agent) -> Run:
    """The elements of a tile under another shape."""
    shape = shape_of(op.result)
    if is_scalar(op.result):
        return shaped(lambda x: np.asarray(x).reshape(()), op.result)
    dtype = element(op.result).numpy
    return lambda x: np.asarray(x, dtype).reshape(shape)


@meaning(ir.Part)
def part(op: ir.Part, agent: Agent) -> Run:
    """A part of a tile."""
    key = tuple(slice(start, start + size) for start, size in zip(op.starts, shape_of(op.result)))
    return lambda x: np.asarray(x)[key]


@meaning(ir.Transpose)
def transpose(op: ir.Transpose, agent: Agent) -> Run:
    """The axes of a tile in another order."""
    perm = op.perm
    return lambda x: x.transpose(perm)


@meaning(ir.Unpack)
def unpack(op: ir.Unpack, agent: Agent) -> Run:
    """The elements of every byte, those in the lower bits first."""
    dtype, axis = op.result.type.dtype, op.axis
    shifts, mask, shape = [dtype.bits * part for part in range(dtype.per_byte)], (1 << dtype.bits) - 1, shape_of(op.result)

    def run(x: np.ndarray) -> np.ndarray:
        parts = np.stack([x >> np.uint8(shift) & np.uint8(mask) for shift in shifts], axis + 1)
        return parts.reshape(shape).view(dtype.numpy)

    return run


@meaning(ir.Pack)
def pack(op: ir.Pack, agent: Agent) -> Run:
    """Every byte that elements share, the first of them in its lower bits."""
    dtype, axis, shape = op.x.type.dtype, op.axis, shape_of(op.result)

    def run(x: np.ndarray) -> np.ndarray:
        codes = np.ascontiguousarray(x).view(np.uint8).reshape(*shape[: axis + 1], dtype.per_byte, *shape[axis + 1 :])
        parts = [codes.take(part, axis + 1) << np.uint8(dtype.bits * part) for part in range(dtype.per_byte)]
        return np.bitwise_or.reduce(parts)

    return run


@meaning(ir.Keep)
def keep(op: ir.Keep, agent: Agent) -> Run:
    """Registers are a matter of the GPU."""
    return lambda x: x


@meaning(ir.ConvertLayout)
def convert_layout(op: ir.ConvertLayout, agent: Agent) -> Run:
    """Does nothing: threads hold no elements here."""
    return lambda x: x
