"""Arithmetic on scalars and register tiles. Operands broadcast like NumPy's; their element types are already equal."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import ClassVar

from phalanx.frozen import frozen
from phalanx.ir.core import Op
from phalanx.ir.traits import Fold, Permutation
from phalanx.ir.values import Value, constant_of
from phalanx.markers import attribute, defined, model, operand

UNARY = ("neg", "not", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "reciprocal", "tanh",
         "tanh_approx", "erf", "sigmoid", "sin", "cos", "floor", "ceil", "round", "trunc")
BINARY = ("add", "sub", "mul", "div", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "max", "min")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
REDUCE = ("sum", "max", "min", "argmax", "argmin")
POSITIONS = ("argmax", "argmin")
"""Those whose result is a place along the axis (i32), not an element."""


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

    @property
    def factors(self) -> tuple[Value, Value] | None:
        """The two whose product it is."""
        return (self.a, self.b) if self.fn == "mul" else None


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
    """The same elements in row-major order under another shape."""

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
        """Of its operand."""
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
    """The same tile or scalar, held as it is: what was computed from it before is not kept for after."""

    mnemonic: ClassVar[str] = "keep"
    moves: ClassVar[bool] = True
    x: Value = operand()
    result: Value = defined()


@frozen(eq=False, repr=False)
class ConvertLayout(Op):
    """The same tile in another register layout; `how` says by which means. Written by the compiler."""

    mnemonic: ClassVar[str] = "convert_layout"
    x: Value = operand()
    how: str = attribute()
    result: Value = defined()
