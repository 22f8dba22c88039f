"""Arithmetic on scalars and register tiles. Operands broadcast like NumPy's; their element types are already equal."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import ClassVar

import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.traits import Fold, Permutation
from phalanx.ir.type_rules import dtype_of, need, need_elementwise, needs_no_type_rule, shape_of, type_rules
from phalanx.ir.types import bool_, i32, u8
from phalanx.ir.values import Const, Value, constant_of
from phalanx.markers import attribute, defined, model, operand

UNARY = ("neg", "not", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "reciprocal", "tanh",
         "tanh_approx", "erf", "sigmoid", "sin", "cos", "floor", "ceil", "round", "trunc")
BINARY = ("add", "sub", "mul", "div", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "max", "min")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
REDUCE = ("sum", "max", "min", "argmax", "argmin")
POSITIONS = ("argmax", "argmin")
"""Reductions whose result is a place along the axis (i32), not an element."""


@frozen(eq=False, repr=False)
class Unary(Op):
    """`fn` of one operand, one of `UNARY`."""

    mnemonic: ClassVar[str] = "unary"
    fn: str = attribute()
    x: Value = operand()
    result: Value = defined()


@frozen(eq=False, repr=False)
class Binary(Op):
    """`fn` of two operands, one of `BINARY`. `floordiv` and `mod` floor, as in Python."""

    mnemonic: ClassVar[str] = "binary"
    fn: str = attribute()
    a: Value = operand()
    b: Value = operand()
    result: Value = defined()

    @property
    def can_fail(self) -> bool:
        """Whether it divides integers by what may be 0."""
        if self.fn not in ("floordiv", "mod") or self.result.type.dtype.is_float:
            return False
        return not constant_of(self.b)


@frozen(eq=False, repr=False)
class Fma(Op):
    """`a * b + c` of floats, rounded once."""

    mnemonic: ClassVar[str] = "fma"
    a: Value = operand()
    b: Value = operand()
    c: Value = operand()
    result: Value = defined()


@frozen(eq=False, repr=False)
class SkippingProduct(Op):
    """`x * factor`, where `factor` broadcasts to x's shape; a warp all of whose factors are 1 has nothing to do."""

    mnemonic: ClassVar[str] = "multiply"
    x: Value = operand()
    factor: Value = operand()
    result: Value = defined()


@frozen(eq=False, repr=False)
class Compare(Op):
    """A bool per element, `fn` one of `COMPARE`."""

    mnemonic: ClassVar[str] = "compare"
    fn: str = attribute()
    a: Value = operand()
    b: Value = operand()
    result: Value = defined()


@frozen(eq=False, repr=False)
class Select(Op):
    """`a` where `cond` holds, `b` elsewhere."""

    mnemonic: ClassVar[str] = "select"
    cond: Value = operand()
    a: Value = operand()
    b: Value = operand()
    result: Value = defined()


@frozen(eq=False, repr=False)
class Cast(Op):
    """To the element type of the result: floats round to nearest even, to small ones as `types.rounded` says, to integers
    they truncate."""

    mnemonic: ClassVar[str] = "cast"
    x: Value = operand()
    result: Value = defined()

    @property
    def converted(self) -> Value | None:
        """The elements before."""
        return self.x


@frozen(eq=False, repr=False)
class Bitcast(Op):
    """The bits of each element as an element of the result's type, which has as many."""

    mnemonic: ClassVar[str] = "bitcast"
    moves: ClassVar[bool] = True
    x: Value = operand()
    result: Value = defined()


@frozen(eq=False, repr=False)
class InlinePtx(Op):
    """What the user's PTX makes of each element: `$0` to `$n` in `text` are the results and then the operands.

    With `pack` two elements are in one register. `sim` is what the simulator computes instead, a function of NumPy arrays,
    and no part of what is compiled.
    """

    mnemonic: ClassVar[str] = "ptx"
    text: str = attribute()
    xs: tuple[Value, ...] = operand()
    results: tuple[Value, ...] = defined()
    pack: int = attribute(default=1)
    sim: Callable[..., object] | None = model()

    @property
    def assembly(self) -> str:
        """The user's text, which only the assembler checks."""
        return self.text


@frozen(eq=False, repr=False)
class Full(Op):
    """A tile whose elements are all `value`."""

    mnemonic: ClassVar[str] = "full"
    value: Value = operand()
    result: Value = defined()

    @property
    def filled_with(self) -> int | float | bool | None:
        """Its number, where that is a constant."""
        return constant_of(self.value)


@frozen(eq=False, repr=False)
class Empty(Op):
    """A tile with nothing in it yet: reading it before it is written is a mistake."""

    mnemonic: ClassVar[str] = "empty"
    computes: ClassVar[bool] = False
    result: Value = defined()

    @property
    def filled_with(self) -> int:
        """Anything may be there: 0 is as good."""
        return 0


@frozen(eq=False, repr=False)
class Arange(Op):
    """0, 1, 2 and so on, as i32."""

    mnemonic: ClassVar[str] = "arange"
    result: Value = defined()

    @property
    def numbers(self) -> int:
        """Its length."""
        return prod(self.result.type.shape)  # type: ignore[union-attr]


@frozen(eq=False, repr=False)
class Reduce(Op):
    """Folds one axis with `fn`, one of `REDUCE`; f16 and bf16 sums accumulate in f32. All axes gone: a scalar."""

    mnemonic: ClassVar[str] = "reduce"
    fn: str = attribute()
    x: Value = operand()
    axis: int = attribute()
    keepdims: bool = attribute()
    result: Value = defined()

    @property
    def fold(self) -> Fold:
        """A fold of its operand along its axis."""
        return Fold(self.fn, self.x, self.axis)


@frozen(eq=False, repr=False)
class CumSum(Op):
    """Running sums along one axis."""

    mnemonic: ClassVar[str] = "cumsum"
    x: Value = operand()
    axis: int = attribute()
    result: Value = defined()


@frozen(eq=False, repr=False)
class Combine:
    """A function of two elements, each one or several scalars: what a user's `@px.func` computes, without effects.

    `params` are the scalars of the left element, those of the right one, and what the function takes from around it.
    """

    name: str
    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]


@frozen(eq=False, repr=False)
class ReduceBy(Op):
    """Folds one axis of tiles of one shape with the function `by`, which is associative. All axes gone: scalars.

    The left element always comes before the right one; in which groups they are joined is open.
    """

    mnemonic: ClassVar[str] = "reduce_by"
    xs: tuple[Value, ...] = operand()
    taken: tuple[Value, ...] = operand()
    axis: int = attribute()
    keepdims: bool = attribute()
    by: Combine = attribute()
    results: tuple[Value, ...] = defined()


@frozen(eq=False, repr=False)
class ScanBy(Op):
    """Running results of the associative function `by` along one axis of tiles of one shape, as `ReduceBy` joins them."""

    mnemonic: ClassVar[str] = "scan_by"
    xs: tuple[Value, ...] = operand()
    taken: tuple[Value, ...] = operand()
    axis: int = attribute()
    by: Combine = attribute()
    results: tuple[Value, ...] = defined()


@frozen(eq=False, repr=False)
class Reshape(Op):
    """A tile's elements in row-major order under another shape."""

    mnemonic: ClassVar[str] = "reshape"
    moves: ClassVar[bool] = True
    x: Value = operand()
    result: Value = defined()

    @property
    def reshaped(self) -> Value:
        """Its operand."""
        return self.x


@frozen(eq=False, repr=False)
class Transpose(Op):
    """Axes permuted."""

    mnemonic: ClassVar[str] = "transpose"
    moves: ClassVar[bool] = True
    x: Value = operand()
    perm: tuple[int, ...] = attribute()
    result: Value = defined()

    @property
    def permutation(self) -> Permutation:
        """Its operand, with the axes in its order."""
        return Permutation(self.x, self.perm)


@frozen(eq=False, repr=False)
class Part(Op):
    """The part of a tile that begins at `starts` and has the result's shape."""

    mnemonic: ClassVar[str] = "part"
    moves: ClassVar[bool] = True
    x: Value = operand()
    starts: tuple[int, ...] = attribute()
    result: Value = defined()


@frozen(eq=False, repr=False)
class Unpack(Op):
    """A tile of bytes as the elements that share them: along `axis` there are `DType.per_byte` times as many, those in the
    lower bits first. Written by the compiler, behind a load of packed memory."""

    mnemonic: ClassVar[str] = "unpack"
    x: Value = operand()
    axis: int = attribute()
    result: Value = defined()


@frozen(eq=False, repr=False)
class Pack(Op):
    """A tile of elements as the bytes that they share, along `axis`. Written by the compiler, before a store to packed
    memory."""

    mnemonic: ClassVar[str] = "pack"
    x: Value = operand()
    axis: int = attribute()
    result: Value = defined()


@frozen(eq=False, repr=False)
class Keep(Op):
    """A tile or scalar, held as it is: what was computed from it before is not kept for after."""

    mnemonic: ClassVar[str] = "keep"
    moves: ClassVar[bool] = True
    x: Value = operand()
    result: Value = defined()


@frozen(eq=False, repr=False)
class ConvertLayout(Op):
    """A tile in another register layout; `how` says by which means. Written by the compiler."""

    mnemonic: ClassVar[str] = "convert_layout"
    x: Value = operand()
    how: str = attribute()
    result: Value = defined()


# What the types of operands and results must be.


@type_rules(Unary)
def _check_unary(op: Unary) -> None:
    need_elementwise(op, op.x)


@type_rules(Binary)
def _check_binary(op: Binary) -> None:
    need_elementwise(op, op.a, op.b)


@type_rules(Compare)
def _check_compare(op: Compare) -> None:
    need_elementwise(op, op.a, op.b, result=bool_)


@type_rules(Fma)
def _check_fma(op: Fma) -> None:
    need_elementwise(op, op.a, op.b, op.c)


@type_rules(InlinePtx)
def _check_ptx(op: InlinePtx) -> None:
    shape = np.broadcast_shapes(*(shape_of(x) for x in op.xs))
    need(all(shape_of(result) == shape for result in op.results), op, f"results of another shape than {shape}")


@type_rules(SkippingProduct)
def _check_skipping_product(op: SkippingProduct) -> None:
    need_elementwise(op, op.x, op.factor)
    need(shape_of(op.x) == shape_of(op.result), op, "factors of another shape than the tile")


@type_rules(Select)
def _check_select(op: Select) -> None:
    need(dtype_of(op.cond) == bool_, op, "a condition that is not bool")
    need(dtype_of(op.a) == dtype_of(op.b) == dtype_of(op.result), op, "operands of different element types")
    joined = np.broadcast_shapes(shape_of(op.cond), shape_of(op.a), shape_of(op.b))
    need(shape_of(op.result) == joined, op, f"result of shape {shape_of(op.result)}, not {joined}")


@type_rules(Cast)
def _check_cast(op: Cast | Bitcast) -> None:
    need(shape_of(op.x) == shape_of(op.result), op, f"{op.x.type} becomes {op.result.type}")


@type_rules(Bitcast)
def _check_bitcast(op: Bitcast) -> None:
    _check_cast(op)
    need(dtype_of(op.x).bits == dtype_of(op.result).bits, op, f"{op.x.type} becomes {op.result.type}")


@type_rules(Full)
def _check_full(op: Full) -> None:
    need(shape_of(op.value) == () and dtype_of(op.value) == dtype_of(op.result), op, f"filled with {op.value.type}")


@type_rules(Arange)
def _check_arange(op: Arange) -> None:
    need(len(shape_of(op.result)) == 1 and dtype_of(op.result) == i32, op, f"result is {op.result.type}")


@type_rules(Reduce)
def _check_reduce(op: Reduce) -> None:
    shape = shape_of(op.x)
    need(0 <= op.axis < len(shape), op, f"axis {op.axis} of shape {shape}")
    rest = shape[: op.axis] + (1,) * op.keepdims + shape[op.axis + 1 :]
    need(shape_of(op.result) == rest, op, f"result of shape {shape_of(op.result)}, not {rest}")


@type_rules(ReduceBy, ScanBy)
def _check_by(op: ReduceBy | ScanBy) -> None:
    """Operands of one shape; a function from two elements to one, whose instructions are right themselves."""
    shape, dtypes = shape_of(op.xs[0]), [dtype_of(x) for x in op.xs]
    need(all(shape_of(x) == shape for x in op.xs), op, "operands of different shapes")
    need(0 <= op.axis < len(shape), op, f"axis {op.axis} of shape {shape}")
    keep = (shape[op.axis],) if isinstance(op, ScanBy) else (1,) * op.keepdims
    rest = shape[: op.axis] + keep + shape[op.axis + 1 :]
    need(all(shape_of(result) == rest for result in op.results), op, f"results of another shape than {rest}")
    for values in (op.results, op.by.results, op.by.params[: len(dtypes)], op.by.params[len(dtypes) : 2 * len(dtypes)]):
        need([dtype_of(value) for value in values] == dtypes, op, "a function of other element types")
    need(len(op.by.params) == 2 * len(dtypes) + len(op.taken), op, "a function of other parameters")
    known = set(op.by.params)
    for inner in op.by.ops:
        need(inner.effects().is_pure and inner.defines is not None, op, f"{inner.mnemonic} in its function")
        need(all(isinstance(v, Const) or v in known for v in inner.operands()), op, "an undefined value in its function")
        rule = type_rules.of(inner)
        if rule is not None:
            rule(inner)
        known.update(inner.defined_values())
    need(all(isinstance(v, Const) or v in known for v in op.by.results), op, "an undefined value in its function")


@type_rules(Reshape)
def _check_reshape(op: Reshape) -> None:
    need(dtype_of(op.x) == dtype_of(op.result), op, "another element type")
    need(prod(shape_of(op.x)) == prod(shape_of(op.result)), op, f"{shape_of(op.x)} has not as many elements")


@type_rules(Transpose)
def _check_transpose(op: Transpose) -> None:
    shape = shape_of(op.x)
    need(sorted(op.perm) == list(range(len(shape))), op, f"{op.perm} is no permutation of the axes of {shape}")
    need(shape_of(op.result) == tuple(shape[axis] for axis in op.perm), op, "result of another shape")


@type_rules(Part)
def _check_part(op: Part) -> None:
    whole, part = shape_of(op.x), shape_of(op.result)
    need(dtype_of(op.x) == dtype_of(op.result), op, f"{op.x.type} becomes {op.result.type}")
    need(len(whole) == len(part) == len(op.starts), op, f"a part of shape {part} of {whole} from {op.starts} on")
    inside = all(0 <= start <= size - extent for start, size, extent in zip(op.starts, whole, part, strict=True))
    need(inside, op, f"a part of shape {part} of {whole} from {op.starts} on")


@type_rules(CumSum, ConvertLayout, Keep)
def _same_type(op: CumSum | ConvertLayout | Keep) -> None:
    need(op.x.type == op.result.type, op, f"{op.x.type} becomes {op.result.type}")


@type_rules(Pack, Unpack)
def _check_packing(op: Pack | Unpack) -> None:
    elements, whole = (op.x, op.result) if isinstance(op, Pack) else (op.result, op.x)
    shape, dtype = list(shape_of(whole)), elements.type.dtype
    need(whole.type.dtype == u8 and dtype.per_byte > 1, op, f"{op.x.type} becomes {op.result.type}")
    need(0 <= op.axis < len(shape), op, f"axis {op.axis} of a tile of {tuple(shape)}")
    shape[op.axis] *= dtype.per_byte
    need(shape_of(elements) == tuple(shape), op, f"{op.x.type} becomes {op.result.type}")


needs_no_type_rule(Empty, why="it has a result alone, of any type")
