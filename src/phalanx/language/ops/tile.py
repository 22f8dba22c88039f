"""Register tiles: making them, elementwise functions, reductions, shapes and element types."""

from __future__ import annotations

from math import prod

from phalanx.ir.ops.tile import POSITIONS, Arange, Bitcast, CumSum, Full, Reduce, Reshape, Transpose
from phalanx.ir.types import DType, ScalarType, TileType, as_elements, bool_, f32, i32
from phalanx.ir.values import Const, Value
from phalanx.language.builder import Builder, operand
from phalanx.language.builtin import Builtin, builtin
from phalanx.language.objects import (
    OBJECTS_OF_TYPES,
    Arguments,
    BoundMethod,
    KernelObject,
    Keywords,
    Number,
    Numeric,
    PlainObject,
    as_object,
    attribute,
    describe,
    is_memory,
    load_scalar,
    method,
)
from phalanx.language.operators import (
    binary,
    cast,
    compare,
    convert,
    dtype_of,
    fused,
    is_scalar,
    is_tile,
    make_type,
    require_numeric,
    select,
    shape_of,
    skipping_product,
    truth,
    unary,
)
from phalanx.language.ops.tile_parts import tile_part
from phalanx.language.requirements import require_axis, require_dtype, require_shape


@builtin("zeros")
def zeros(ctx: Builder, shape: object, dtype: object = f32) -> Value:
    """A tile of zeros.

    Any agent; any GPU; no PTX of its own (registers). Example: ``acc = px.zeros((64, 64), px.f32)``.
    """
    return make_full(ctx, "px.zeros", shape, 0, dtype)


@builtin("full")
def full(ctx: Builder, shape: object, value: object, dtype: object = f32) -> Value:
    """A tile whose elements are all `value` (a number or a scalar).

    Any agent; any GPU; no PTX of its own. Example: ``m = px.full((64,), -float("inf"), px.f32)``.
    """
    return make_full(ctx, "px.full", shape, value, dtype)


def make_full(ctx: Builder, what: str, shape: object, value: object, dtype: object) -> Value:
    """A tile whose elements are all `value`, for the function named `what`."""
    sizes = require_shape(ctx, what, shape)
    element = require_dtype(ctx, what, dtype)
    value = load_scalar(ctx, value)
    if not is_scalar(value):
        order = f"write {what}(shape, value, dtype)" if isinstance(value, DType) else "tiles broadcast by themselves"
        ctx.fail(
            f"the value of {what} must be a number or a scalar, not {describe(value)}", order
        )
    result = Value(TileType(sizes, element))
    ctx.emit(Full(cast(ctx, value, element), result, loc=ctx.loc))
    return result


@builtin("arange")
def arange(ctx: Builder, n: object) -> Value:
    """The numbers 0 to n-1 as an i32 tile; `n` is a constant.

    Any agent; any GPU; no PTX of its own. Example: ``rows = m + px.arange(64)``.
    """
    if isinstance(n, tuple):
        ctx.fail("px.arange takes one number", "add an axis with .reshape, e.g. px.arange(64).reshape(64, 1)")
    (size,) = require_shape(ctx, "px.arange", n)
    result = Value(TileType((size,), i32))
    ctx.emit(Arange(result, loc=ctx.loc))
    return result


@builtin("where")
def where(ctx: Builder, cond: object, a: object, b: object) -> Numeric:
    """`a` where `cond` holds, else `b`; all broadcast.

    Any agent; any GPU; PTX ``selp``. Example: ``px.where(x > 0, x, 0.0)``.
    """
    return select(ctx, load_scalar(ctx, cond), load_scalar(ctx, a), load_scalar(ctx, b))


@builtin("maximum")
def maximum(ctx: Builder, a: object, b: object) -> Numeric:
    """The larger of two, elementwise; NaN where one of them is, as NumPy has it.

    Any agent; any GPU; PTX ``max``, of floats ``max.NaN``. Example: ``px.maximum(x, 0.0)``.
    """
    return binary(ctx, "max", load_scalar(ctx, a), load_scalar(ctx, b))


@builtin("minimum")
def minimum(ctx: Builder, a: object, b: object) -> Numeric:
    """The smaller of two, elementwise; NaN where one of them is, as NumPy has it.

    Any agent; any GPU; PTX ``min``, of floats ``min.NaN``. Example: ``px.minimum(x, 6.0)``.
    """
    return binary(ctx, "min", load_scalar(ctx, a), load_scalar(ctx, b))


def _elementwise(name: str, what: str, ptx: str) -> Builtin:
    def impl(ctx: Builder, x: object) -> Numeric:
        return unary(ctx, name, load_scalar(ctx, x))

    impl.__doc__ = (
        f"{what} of a float scalar or tile, elementwise.\n\n"
        f"    Any agent; any GPU; PTX {ptx}. Example: ``y = px.{name}(x)``.\n    "
    )
    return Builtin(name, impl)


exp = _elementwise("exp", "e to the power", "``ex2.approx`` after a multiplication")
exp2 = _elementwise("exp2", "2 to the power", "``ex2.approx``")
log = _elementwise("log", "Natural logarithm", "``lg2.approx`` and a multiplication")
log2 = _elementwise("log2", "Logarithm to base 2", "``lg2.approx``")
sqrt = _elementwise("sqrt", "Square root", "``sqrt.rn``")
rsqrt = _elementwise("rsqrt", "Reciprocal square root", "``rsqrt.approx``")
reciprocal = _elementwise(
    "reciprocal", "1 / x without a division's steps, off by at most one in the last place,", "``rcp.approx.ftz``"
)


@builtin("tanh")
def tanh(ctx: Builder, x: object, *, approx: bool = False) -> Numeric:
    """Hyperbolic tangent of a float scalar or tile, elementwise.

    With `approx` it is one instruction with a relative error of at most 2**-10.9 (the simulator's is exact): enough
    where the result is rounded to bf16. Any agent; any GPU; PTX the CUDA math library's, or ``tanh.approx``.
    Example: ``y = px.tanh(x, approx=True)``.
    """
    if not isinstance(approx, bool):
        ctx.fail("approx= of px.tanh is a constant of the kernel, True or False", "write px.tanh(x, approx=True)")
    return unary(ctx, "tanh_approx" if approx else "tanh", load_scalar(ctx, x))


erf = _elementwise("erf", "Error function", "the CUDA math library's")
sigmoid = _elementwise("sigmoid", "1 / (1 + exp(-x))", "``ex2.approx`` and ``div``")
sin = _elementwise("sin", "Sine", "the CUDA math library's")
cos = _elementwise("cos", "Cosine", "the CUDA math library's")
floor = _elementwise("floor", "Largest integer not above", "``cvt.rmi``")
ceil = _elementwise("ceil", "Smallest integer not below", "``cvt.rpi``")
trunc = _elementwise("trunc", "Integer part", "``cvt.rzi``")


@builtin("round")
def round_(ctx: Builder, x: object) -> Numeric:
    """The nearest integer of a float scalar or tile, elementwise, as a float; halves go to the even one, as in NumPy.

    Any agent; any GPU; PTX ``cvt.rni``. Example: ``px.round(x * 127.0).to(px.i8)``.
    """
    return unary(ctx, "round", load_scalar(ctx, x))


@builtin("isnan")
def isnan(ctx: Builder, x: object) -> bool | Value:
    """Whether an element is NaN: a bool for each element of a float scalar or tile.

    Any agent; any GPU; PTX ``setp.neu`` of the element with itself. Example: ``px.where(px.isnan(x), 0.0, x)``.
    """
    x = require_numeric(ctx, "px.isnan", x)
    if isinstance(x, Number):
        return x != x
    if not dtype_of(x).is_float:
        ctx.fail(f"px.isnan needs a float, not {dtype_of(x)}", "integers and bools are never NaN: leave it out")
    if dtype_of(x).is_storage:
        x = cast(ctx, x, f32)
    return compare(ctx, "ne", x, x)


@builtin("fma")
def fma(ctx: Builder, a: object, b: object, c: object) -> Value:
    """`a * b + c` of float scalars and tiles, elementwise, rounded once; all broadcast.

    `a * b + c` written out is rounded after each of the two in the simulator, and left to the compiler on a GPU.
    Any agent; any GPU; PTX ``fma.rn``, of f16 and bf16 too. Example: ``y = px.fma(x, scale, bias)``.
    """
    return fused(ctx, load_scalar(ctx, a), load_scalar(ctx, b), load_scalar(ctx, c))


@builtin("multiply")
def multiply(ctx: Builder, x: object, factor: object, skip_ones: bool = False) -> Numeric:
    """`x * factor`, elementwise; both broadcast.

    With `skip_ones` every warp looks first whether all its factors are 1, and then leaves `x`, a tile of floats to whose
    shape and type `factor` fits, as it is: the result is the same, for less where that is the rule. The sums of a softmax
    whose maxima seldom grow are an example. Any agent; any GPU; PTX ``mul.rn``, with `skip_ones` behind a ``vote.any``.
    Example: ``o = px.multiply(o, alpha.reshape(64, 1), skip_ones=True)``.
    """
    x, factor = load_scalar(ctx, x), load_scalar(ctx, factor)
    if not isinstance(skip_ones, bool):
        ctx.fail(f"skip_ones must be True or False, not {describe(skip_ones)}", "choose it by a constant of the kernel")
    return skipping_product(ctx, x, factor) if skip_ones else binary(ctx, "mul", x, factor)


@builtin("bitcast")
def bitcast(ctx: Builder, x: object, dtype: object) -> Numeric:
    """The bits of each element of a scalar or tile, read as another element type of the same size.

    Which NaN a computation leaves is open, and so are its bits. Any agent; any GPU; PTX ``mov.b32`` and the like, or
    nothing. Example: ``exponent = (px.bitcast(x, px.i32) >> 23) & 255``.
    """
    x = require_numeric(ctx, "px.bitcast", x)
    source, target = dtype_of(x), require_dtype(ctx, "px.bitcast", dtype)
    if bool_ in (source, target):
        ctx.fail(f"px.bitcast from {source} to {target}", "a bool is 0 or 1, nothing else: convert it with .to")
    if source.bits != target.bits:
        remedy = f"elements keep their size: use a type of {source.bits} bits, or convert the value with .to"
        if source.bits < 8 or target.bits < 8:
            remedy = "convert the value with .to, or pass the kernel the array's bytes, as u8"
        ctx.fail(f"px.bitcast from {source} ({source.bits} bits) to {target} ({target.bits} bits)", remedy)
    if source == target:
        return x
    if isinstance(x, (*Number, Const)):
        number = x.value if isinstance(x, Const) else x
        return Const(_same_bits(number, source, target), ScalarType(target))
    result = Value(make_type(shape_of(x), target, is_tile(x)))
    ctx.emit(Bitcast(operand(x), result, loc=ctx.loc))
    return result


def _same_bits(value: int | float | bool, source: DType, target: DType) -> int | float | bool:
    bits = as_elements(value, source).view(target.numpy)
    return float(bits) if target.is_float else int(bits)


@builtin("abs")
def abs_(ctx: Builder, x: object) -> Numeric:
    """Absolute value of a scalar or tile, elementwise.

    Any agent; any GPU; PTX ``abs``. Example: ``y = px.abs(x)``.
    """
    return unary(ctx, "abs", load_scalar(ctx, x))


def require_tile(ctx: Builder, what: str, x: object) -> Value:
    """What is folded or scanned along an axis."""
    if not is_tile(x):
        remedy = (
            "load the view first: px.load(view)" if is_memory(x) else "reductions fold an axis of a register tile"
        )
        ctx.fail(f"{what} needs a tile, not {describe(x)}", remedy)
    return x  # type: ignore[no-any-return]


def _reduce(ctx: Builder, fn: str, x: object, axis: object, keepdims: object) -> Value:
    x = require_tile(ctx, f"px.{fn}", x)
    if not isinstance(keepdims, bool):
        ctx.fail("keepdims= must be True or False", "it decides the shape of the result")
    rank = len(shape_of(x))
    if axis is None:
        if not keepdims and rank > 1 and all(size & (size - 1) == 0 for size in shape_of(x)):
            flat = Value(TileType((prod(shape_of(x)),), dtype_of(x)))  # at once: registers, then lanes, then warps
            ctx.emit(Reshape(x, flat, loc=ctx.loc))
            return _reduce(ctx, fn, flat, 0, False)
        for position in reversed(range(rank)):
            x = _reduce(ctx, fn, x, position, keepdims)
        return x
    where_ = require_axis(ctx, axis, rank)
    shape = list(shape_of(x))
    if keepdims:
        shape[where_] = 1
    else:
        del shape[where_]
    dtype = dtype_of(x)
    if dtype.is_storage:
        ctx.fail(f"px.{fn} is not defined on {dtype}", "convert it first: x.to(px.f32)")
    if dtype == bool_ and fn == "sum":
        x, dtype = cast(ctx, x, i32), i32
    out = i32 if fn in POSITIONS else dtype
    result = Value(make_type(tuple(shape), out, bool(shape)))
    ctx.emit(Reduce(fn, x, where_, keepdims, result, loc=ctx.loc))
    return result


@builtin("sum")
def sum_(ctx: Builder, x: object, axis: object = None, keepdims: object = False) -> Value:
    """The sum over one axis, or over all; f16 and bf16 accumulate in f32.

    Any agent; any GPU; registers, then ``redux.sync`` or ``shfl.sync``, then shared memory between warps.
    Example: ``px.sum(x, axis=1)``.
    """
    return _reduce(ctx, "sum", x, axis, keepdims)


@builtin("max")
def max_(ctx: Builder, x: object, axis: object = None, keepdims: object = False) -> Value:
    """The largest element over one axis, or over all; NaN where one of them is.

    Any agent; any GPU; registers, then ``redux.sync`` or ``shfl.sync``, then shared memory between warps.
    Example: ``px.max(x, axis=1)``.
    """
    return _reduce(ctx, "max", x, axis, keepdims)


@builtin("min")
def min_(ctx: Builder, x: object, axis: object = None, keepdims: object = False) -> Value:
    """The smallest element over one axis, or over all; NaN where one of them is.

    Any agent; any GPU; registers, then ``redux.sync`` or ``shfl.sync``, then shared memory between warps.
    Example: ``px.min(x, axis=1)``.
    """
    return _reduce(ctx, "min", x, axis, keepdims)


@builtin("argmax")
def argmax(ctx: Builder, x: object, axis: object, keepdims: object = False) -> Value:
    """The index (i32) of the largest element along an axis; the first of equals, or of the NaNs where there are any.

    Any agent; any GPU; registers, then ``redux.sync`` or ``shfl.sync``, then shared memory between warps.
    Example: ``px.argmax(x, axis=1)``.
    """
    return _position(ctx, "argmax", x, axis, keepdims)


@builtin("argmin")
def argmin(ctx: Builder, x: object, axis: object, keepdims: object = False) -> Value:
    """The index (i32) of the smallest element along an axis; the first of equals, or of the NaNs where there are any.

    Any agent; any GPU; registers, then ``redux.sync`` or ``shfl.sync``, then shared memory between warps.
    Example: ``px.argmin(x, axis=1)``.
    """
    return _position(ctx, "argmin", x, axis, keepdims)


def _position(ctx: Builder, fn: str, x: object, axis: object, keepdims: object) -> Value:
    if axis is None:
        ctx.fail(f"px.{fn} needs an axis", "reshape the tile to one axis for the index in the whole tile")
    return _reduce(ctx, fn, x, axis, keepdims)


@builtin("any")
def any_(ctx: Builder, x: object, axis: object = None, keepdims: object = False) -> Value:
    """Whether some element along one axis, or of all, is not 0 (a NaN is not): bool.

    Any agent; any GPU; registers, then a vote or ``shfl.sync``, then shared memory between warps.
    Example: ``if px.any(x > 0):``.
    """
    return _reduce(ctx, "max", _truth(ctx, "any", x), axis, keepdims)


@builtin("all")
def all_(ctx: Builder, x: object, axis: object = None, keepdims: object = False) -> Value:
    """Whether every element along one axis, or of all, is not 0 (a NaN is not): bool.

    Any agent; any GPU; registers, then a vote or ``shfl.sync``, then shared memory between warps.
    Example: ``px.all(x == y, axis=1)``.
    """
    return _reduce(ctx, "min", _truth(ctx, "all", x), axis, keepdims)


def _truth(ctx: Builder, name: str, x: object) -> Value:
    """The tile as bools."""
    x = require_tile(ctx, f"px.{name}", x)
    if dtype_of(x).is_storage:
        x = cast(ctx, x, f32)
    return x if dtype_of(x) == bool_ else operand(compare(ctx, "ne", x, 0))


@builtin("cumsum")
def cumsum(ctx: Builder, x: object, axis: object) -> Value:
    """Running sums along an axis.

    Any agent; any GPU; registers, then ``shfl.sync``, then shared memory between warps.
    Example: ``px.cumsum(x, axis=0)``.
    """
    if not is_tile(x):
        ctx.fail(f"px.cumsum needs a tile, not {describe(x)}", "running sums go along an axis of a register tile")
    where_ = require_axis(ctx, axis, len(shape_of(x)))
    if dtype_of(x).is_storage:
        ctx.fail(f"px.cumsum is not defined on {dtype_of(x)}", "convert it first: x.to(px.f32)")
    if dtype_of(x) == bool_:
        x = cast(ctx, x, i32)
    result = Value(x.type)
    ctx.emit(CumSum(x, where_, result, loc=ctx.loc))
    return result


class TileObject(KernelObject):
    """A scalar or a register tile."""

    def __init__(self, value: Value) -> None:
        assert isinstance(value.type, ScalarType | TileType)
        self.value = value
        self.type = value.type

    @property
    def kind_name(self) -> str:
        """A tile or a scalar, with its type."""
        return f"{self.short_name} of type {self.type}"

    @property
    def short_name(self) -> str:
        """A tile or a scalar."""
        return "a tile" if isinstance(self.type, TileType) else "a scalar"

    @attribute
    def shape(self, ctx: Builder) -> tuple[int, ...]:
        """Its extents, a tuple of constants; () for a scalar."""
        return self.type.shape

    @attribute
    def dtype(self, ctx: Builder) -> DType:
        """Its element type."""
        return self.type.dtype

    @attribute
    def T(self, ctx: Builder) -> Value:
        """The axes in reverse order.

        Any agent, all its threads; any GPU; PTX ``shfl.sync`` or shared memory where elements change threads.
        Example: ``px.store(Y[n:n+64, m:m+64], px.load(X[m:m+64, n:n+64]).T)``.
        """
        if not isinstance(self.type, TileType):
            ctx.fail("a scalar has no transpose", "it has no axes: use it as it is")
        return transposed(ctx, self.value, tuple(reversed(range(len(self.type.shape)))))

    @method
    def permute(self, ctx: Builder, *axes: object) -> Value:
        """The axes in another order: axis d of the result is axis `axes[d]`.

        Any agent, all its threads; any GPU; PTX as for `.T`. Example: ``x.permute(1, 0, 2)``.
        """
        rank = len(self.type.shape)
        if len(axes) == 1 and isinstance(axes[0], tuple):
            axes = axes[0]
        order = tuple(axis for axis in axes if isinstance(axis, int))
        if sorted(order) != list(range(rank)) or len(axes) != rank:
            ctx.fail(
                f".permute of a tile with {rank} axes takes each of them once, not {', '.join(map(describe, axes))}",
                f"name all axes in their new order: .permute({', '.join(map(str, reversed(range(rank))))}) is .T",
            )
        return transposed(ctx, self.value, order)

    @method
    def to(self, ctx: Builder, dtype: object) -> Value:
        """Converted to another element type.

        Any agent; any GPU; PTX ``cvt``: floats round to the nearest, to integers they truncate and saturate, floats of
        8 bits and less saturate, integers wrap. f8e8m0 takes the next power of two upwards, without the sign. What
        sm_90a has no ``cvt`` for (f8e8m0, f6e2m3, f6e3m2, f4e2m1) is computed there. Example: ``acc.to(px.bf16)``.
        """
        return convert(ctx, self.value, require_dtype(ctx, ".to", dtype))

    @method
    def reshape(self, ctx: Builder, *shape: object) -> Value:
        """The tile's elements in row-major order under another shape.

        Any agent, all its threads; any GPU; PTX ``shfl.sync`` or shared memory where elements change threads.
        Example: ``px.arange(64).reshape(64, 1)``.
        """
        if len(shape) == 1 and isinstance(shape[0], tuple):
            shape = shape[0]
        sizes = require_shape(ctx, ".reshape", tuple(shape))
        if not isinstance(self.type, TileType):
            ctx.fail("a scalar can't be reshaped", "px.full((1,), x, dtype) makes a tile of it")
        if prod(sizes) != self.type.size:
            ctx.fail(
                f"a tile of shape {self.type.shape} has {self.type.size} elements, {sizes} has {prod(sizes)}",
                "a reshape keeps the number of elements",
            )
        if sizes == self.type.shape:
            return self.value
        result = Value(TileType(sizes, self.type.dtype))
        ctx.emit(Reshape(self.value, result, loc=ctx.loc))
        return result

    def subscript(self, ctx: Builder, index: Arguments) -> object:
        """A part of a tile."""
        return tile_part(ctx, self.value, index) if isinstance(self.type, TileType) else super().subscript(ctx, index)

    def truth(self, ctx: Builder, what: str) -> Value:
        """A scalar's truth: a bool."""
        if isinstance(self.type, TileType):
            ctx.fail(
                f"the condition of {what} is a tile of type {self.type}",
                "use px.where to choose elementwise, or reduce it to a scalar with px.max or px.min",
            )
        return truth(ctx, self.value)


def transposed(ctx: Builder, tile: Value, axes: tuple[int, ...]) -> Value:
    """The tile with its axes in this order."""
    if axes == tuple(range(len(axes))):
        return tile
    result = Value(TileType(tuple(shape_of(tile)[axis] for axis in axes), dtype_of(tile)))
    ctx.emit(Transpose(tile, axes, result, loc=ctx.loc))
    return result


class NumberObject(PlainObject):
    """A bare Python number: it can be converted to an element type."""

    def has_member(self, name: str) -> bool:
        """A number can be converted, and has no other attribute."""
        return name == "to"

    def member(self, ctx: Builder, name: str) -> object:
        """``(3).to(px.f32)``; numbers have no other attribute."""
        return BoundMethod(self, "to", NumberObject.to) if name == "to" else super().member(ctx, name)

    def to(self, ctx: Builder, dtype: object) -> Value:
        """Converted to an element type, as the hardware converts."""
        return convert(ctx, self.value, require_dtype(ctx, ".to", dtype))


class DTypeObject(KernelObject):
    """An element type: a constant with a few attributes, and a conversion where it is called."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    @property
    def kind_name(self) -> str:
        """The dtype's name."""
        return f"the dtype {self.dtype}"

    def member(self, ctx: Builder, name: str) -> object:
        """Its size, its bits, its name."""
        if name not in ("itemsize", "bits", "name"):
            ctx.fail(f"a dtype has no attribute '{name}'", "it has .itemsize, .bits, .name")
        return getattr(self.dtype, name)

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> Value:
        """`px.f32(x)`: a conversion."""
        if len(args) != 1 or kwargs:
            ctx.fail(f"px.{self.dtype}(x) takes one value", f"write px.{self.dtype}(x), or x.to(px.{self.dtype})")
        return convert(ctx, load_scalar(ctx, args[0]), self.dtype)


OBJECTS_OF_TYPES[ScalarType] = OBJECTS_OF_TYPES[TileType] = TileObject
as_object.register(int, NumberObject)
as_object.register(float, NumberObject)
as_object.register(DType, DTypeObject)
