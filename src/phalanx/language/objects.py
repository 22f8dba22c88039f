"""What a name in a kernel can stand for, and what happens where the kernel uses it.

The reader asks values: what is ``x.name``, ``x[i]``, ``x(...)``, what are the iterations of ``for i in x``, the items of
``a, b = x``, the truth of ``if x``, the region of ``with x``? Every kind of value answers for itself: it is a class derived
from `KernelObject`. Numbers, tuples, tiles and others whose classes are Python's or the IR's have an adapter, which
`as_object` finds. So a new kind (a view of another memory, an engine) is one more class; the reader does not know its name.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import ModuleType
from typing import Any, NoReturn, Protocol, TypeAlias

from phalanx.frozen import frozen
from phalanx.ir.ops.control import Pipelining
from phalanx.ir.types import Type
from phalanx.ir.values import Value
from phalanx.ir.views import BarrierArray, BarrierRef, Buffer
from phalanx.language.builder import Builder

Number = (bool, int, float)
"""The classes of bare Python numbers, which have no element type yet."""
Numeric: TypeAlias = bool | int | float | Value
"""A bare number, a scalar or a register tile: what arithmetic takes and gives."""
Arguments: TypeAlias = tuple[object, ...]
Keywords: TypeAlias = dict[str, object]


@frozen
class Slice:
    """`start:stop` of a subscript; None where the user left it out."""

    start: object
    stop: object
    step: object


@frozen
class Unavailable:
    """A name that has no value here, and why."""

    reason: str
    remedy: str = ""


@frozen
class RunTimeRange:
    """`range(...)`, possibly over run-time values; `unroll`: how many iterations the loop writes out at a time.

    `dealt`: its numbers are tiles that are dealt to the clusters of the grid, to each its share; `unordered`: in
    an order that is the compiler's. `pipelined`: its loads run ahead.
    """

    start: int | Value
    stop: int | Value
    step: int | Value
    unroll: int = 0
    dealt: bool = False
    pipelined: Pipelining | None = None
    unordered: bool = False


@frozen
class DrawnTiles:
    """Tiles that are dealt one by one, as clusters ask; `n` is how many there are, `schedule` says who deals them."""

    n: int | Value
    schedule: str


@frozen
class MappedTiles:
    """Tiles of which a loop names more than their numbers: where it begins, `begin` says how that follows from one."""

    tiles: RunTimeRange | DrawnTiles
    begin: Callable[[Builder], Callable[[Value], tuple[object, ...]]]


class RegionReader(Protocol):
    """What the reader offers to a value that opens a region (`with x:`). `body` reads the statements of the region."""

    ctx: Builder
    terminated: bool

    def role(
        self, first: int, count: int, copies: int, regs: int | None, body: Callable[[], None],
        bind: Callable[[object], None] | None,
    ) -> None:
        """Reads a region that `copies` times `count` warps run, from `first` on; `bind` names the number of the copy."""

    def transaction(self, barrier: BarrierRef, body: Callable[[], None]) -> None:
        """Reads a region whose copies' bytes `barrier` expects, with one arrival."""

    def closed(self, body: Callable[[], None]) -> None:
        """Reads a region that no `break`, `continue` or `return` leaves."""


METHODS_ELSEWHERE = {
    **dict.fromkeys(("astype", "type", "cast"), "x.to(px.f16) converts"),
    **{fn: f"px.{fn}(x, axis) is a function" for fn in ("sum", "max", "min", "argmax", "argmin", "cumsum", "all", "any")},
    **{fn: f"px.{fn}(x) is a function" for fn in ("exp", "log", "sqrt", "abs", "tanh", "sigmoid", "round")},
    "mean": "px.sum(x, axis) / n is the mean",
    **dict.fromkeys(("float", "float32"), "x.to(px.f32) converts"),
    **dict.fromkeys(("half", "bfloat16", "int", "long", "double", "bool"), "x.to(px.bf16) converts"),
    **dict.fromkeys(("flatten", "ravel"), "x.reshape(n) is a row of all n elements"),
    **dict.fromkeys(("unsqueeze", "squeeze", "expand"), "x[:, None] has one axis more; operands are broadcast as in NumPy"),
    **dict.fromkeys(("item", "tolist"), "an element of memory is a number by itself: V[i]; px.sum and px.max fold a tile"),
    **dict.fromkeys(("ndim", "dim"), "len(x.shape) is the number of axes"),
    **dict.fromkeys(("size", "numel"), "x.shape has the sizes"),
    **dict.fromkeys(("stride", "strides"), "the compiler computes addresses: A[m:m+BM, k:k+BK] is enough"),
    "load": "px.load(view) is a function",
    "store": "px.store(view, value) is a function",
    "clone": "tiles are values: y = x is enough",
    "view": "px.bitcast(x, px.i32) reads the bits as another type, x.reshape(...) is another shape",
    "transpose": "x.T transposes a matrix, x.permute(...) any axes",
    **dict.fromkeys(("append", "extend"), "a list is a tuple in kernels, and never changes: items = (*items, x)"),
}
"""What arrays and lists of Python have under these names, in kernels."""

_MASK = "elements outside an array are masked by themselves; px.where(condition, a, b) chooses among others"
_TRANSPOSED = "b.T is the transpose"
ARGUMENTS_ELSEWHERE = {
    "mask": _MASK,
    "other": "fill= is what elements outside the array load as",
    "dim": "the axis is called axis",
    "keepdim": "it is called keepdims",
    **dict.fromkeys(("trans_a", "trans_b", "transpose_a", "transpose_b"), _TRANSPOSED),
    "swizzle": "the compiler chooses how shared memory is laid out",
    "num_warps": "it is called warps",
    "px.zeros": "a shape of several axes is a tuple: px.zeros((8, 8), px.f32)",
    "px.arange": "px.arange(n) counts from 0 in i32: px.arange(8) + start, px.arange(8).to(px.f32)",
    "px.wait": "a barrier has it: bar.wait(parity)",
}
"""What other libraries call arguments, and functions whose other signatures people know: what to write here."""


class KernelObject:
    """One kind of value. Every method has a default, which refuses that use with an error at the user's line.

    Methods marked `@method` and `@attribute` are what kernels see as ``x.name``.
    """

    is_constant = False
    """Whether kernels may take it from the Python code around them."""
    is_memory = False
    """Whether it names memory, which `px.load` brings into registers."""
    gives_value = False
    """Whether ``with x as name:`` has something to bind."""
    as_call: str | None = None
    """How it is called, where being called is all that it is for."""

    @property
    def kind_name(self) -> str:
        """How messages name it: what it is, in the user's terms."""
        return f"a {type(self).__name__}"

    @property
    def short_name(self) -> str:
        """How messages name it where an attribute is missing."""
        return self.kind_name

    def has_member(self, name: str) -> bool:
        """Whether kernels can write ``x.name``."""
        return hasattr(getattr(type(self), name, None), "__exposed__")

    def member(self, ctx: Builder, name: str) -> object:
        """The value of ``x.name``: an exposed attribute or method; unknown names list what there is."""
        cls: type = type(self)
        fn = getattr(cls, name, None)
        exposed = getattr(fn, "__exposed__", None)
        if exposed == "attribute" and fn is not None:
            return fn(self, ctx)
        if exposed == "method" and fn is not None:
            return BoundMethod(self, name, fn)
        listed = ", ".join("." + known for known in exposed_names(cls))
        remedies = [METHODS_ELSEWHERE[name]] if name in METHODS_ELSEWHERE else []
        remedies += [f"it has {listed}"] if listed else []
        every = "; ".join(remedies) or "arrays, views, tiles, barriers, structs and modules have attributes"
        ctx.fail(f"{self.short_name} has no attribute '{name}'", every)

    def member_key(self, ctx: Builder, name: str) -> tuple[Hashable, str]:
        """Where the reader keeps the field that ``x.name = ...`` assigns to."""
        ctx.fail(f"the attributes of {self.kind_name} can't be assigned", "only fields of a @px.struct can")

    def subscript(self, ctx: Builder, index: Arguments) -> object:
        """The value of ``x[index]``."""
        ctx.fail(f"{self.kind_name} can't be indexed", "arrays, shared buffers, barriers, tuples and tiles can")

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> object:
        """The value of ``x(*args, **kwargs)``."""
        ctx.fail(f"{self.kind_name} can't be called", "kernels call px functions, @px.func helpers, structs and dtypes")

    def unpacked(self) -> tuple[object, ...] | None:
        """The items that ``a, b = x`` and ``f(*x)`` take; None where it has none."""
        return None

    def iterations(self) -> Sequence[object] | RunTimeRange | DrawnTiles | MappedTiles | None:
        """What ``for i in x`` goes through: a sequence is unrolled; None where there is no loop over it."""
        return None

    def constant_items(self) -> Sequence[object] | None:
        """What ``len(x)``, ``sum(x)`` or ``tuple(x)`` go through while the kernel is read; None where it has none."""
        return None

    def truth(self, ctx: Builder, what: str) -> bool | Value:
        """Its truth as the condition of `what`: a constant, or a bool scalar."""
        ctx.fail(f"the condition of {what} is {self.kind_name}", "conditions are numbers, bools and scalars")

    @classmethod
    def defines_truth(cls) -> bool:
        """Whether values of this kind are conditions."""
        return cls.truth is not KernelObject.truth

    def element(self, ctx: Builder) -> object:
        """What stands for it where a number, scalar or tile is needed: itself, unless it names an element of memory."""
        return self

    def open(
        self, reader: RegionReader, body: Callable[[], None], bind: Callable[[object], None] | None
    ) -> None:
        """Reads the region of ``with x as name:``; `bind` assigns to that name, where there is one."""
        reader.ctx.fail(
            f"{self.kind_name} is not a region",
            f"call it: with {self.as_call}" if self.as_call else
            "with takes px.warps(...), barrier.transaction(), pipe.produce() or pipe.consume()",
        )

    def storage(self) -> Buffer | BarrierArray | None:
        """The static shared memory that ``px.shared(reuse=x)`` takes over; None where it has none."""
        return None

    # Where run-time paths meet, a value may differ in some scalars: its parts. The rest is its form.

    def held(self) -> Iterable[Value]:
        """The IR values that it is made of."""
        return ()

    def form(self) -> Hashable | None:
        """What two values must have in common to become one where paths meet; None where that can't be."""
        return None

    def parts(self) -> tuple[object, ...]:
        """The numbers and scalars that may differ between values of one form."""
        return ()

    def with_parts(self, parts: tuple[object, ...]) -> KernelObject:
        """The value of this form with other parts."""
        return self


@frozen
class BoundMethod(KernelObject):
    """A method of a value, ready to be called."""

    owner: KernelObject
    name: str
    fn: Callable[..., object]
    kind_name = "a method"

    @property
    def as_call(self) -> str:  # type: ignore[override]
        """The method with its parameters."""
        return f".{self.name}{without_types(signature_after(2, self.fn))}"

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> object:
        """Runs the method, with the signature checked."""
        check_arguments(ctx, f".{self.name}", signature_after(2, self.fn), args, kwargs)
        return self.fn(self.owner, ctx, *args, **kwargs)


def method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Exposes a method of a `KernelObject` to kernels; it takes the builder first."""
    fn.__exposed__ = "method"  # type: ignore[attr-defined]
    return fn


def attribute(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Exposes a computed attribute of a `KernelObject` to kernels; it takes the builder."""
    fn.__exposed__ = "attribute"  # type: ignore[attr-defined]
    return fn


@functools.cache
def exposed_names(cls: type) -> list[str]:
    """The attributes and methods of a class that kernels see, sorted."""
    return sorted(name for name in dir(cls) if hasattr(getattr(cls, name), "__exposed__"))


# Adapters.


class PlainObject(KernelObject):
    """A Python object that has no meaning of its own but as a constant: None, a string, a function."""

    def __init__(self, value: object) -> None:
        self.value = value

    @property
    def kind_name(self) -> str:
        """The value itself where it is short, else what it is."""
        value = self.value
        if value is None or isinstance(value, (*Number, str)):
            return repr(value)
        name = getattr(value, "__name__", None)
        if isinstance(value, ModuleType):
            return f"the module {name}"
        return f"the function '{name}'" if callable(value) and name else f"a {type(value).__name__}"

    def subscript(self, ctx: Builder, index: Arguments) -> object:
        """Nothing is in it; an argument that is None is one that the caller left out."""
        if self.value is None:
            ctx.fail("None can't be indexed", "an argument that may be None is used under `if X is not None:`")
        return super().subscript(ctx, index)

    def truth(self, ctx: Builder, what: str) -> bool | Value:
        """Python's own truth of numbers, strings and None; other objects are no conditions."""
        if self.value is None or isinstance(self.value, (*Number, str)):
            return bool(self.value)
        return super().truth(ctx, what)


class HostFunction(KernelObject):
    """A function of Python or NumPy that kernels can't call, but may hand on to be called in the simulator."""

    def __init__(self, function: Callable[..., object], message: str, remedy: str) -> None:
        self.function, self.message, self.remedy = function, message, remedy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostFunction) and other.function is self.function

    def __hash__(self) -> int:
        return hash(self.function)

    @property
    def kind_name(self) -> str:
        """The function's name."""
        return f"the function '{getattr(self.function, '__name__', self.function)}'"

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> object:
        """Refused: what Python computes, a GPU does not."""
        ctx.fail(self.message, self.remedy)


class TupleObject(KernelObject):
    """A tuple: indexed by constants, unpacked, and unrolled by loops."""

    def __init__(self, items: tuple[object, ...]) -> None:
        self.items = items

    @property
    def kind_name(self) -> str:
        """How many items it has."""
        return f"a tuple of {len(self.items)}"

    def subscript(self, ctx: Builder, index: Arguments) -> object:
        """An item, or a part of the tuple, by constants."""
        items = self.items
        item = load_scalar(ctx, index[0]) if len(index) == 1 else None
        if isinstance(item, Slice):
            bounds = [bound for bound in (item.start, item.stop, item.step) if bound is None or isinstance(bound, int)]
            if len(bounds) == 3:
                return items[slice(*bounds)]
        if not isinstance(item, int):
            ctx.fail("a tuple is indexed by a constant integer", "unroll the loop with px.static_range")
        if not -len(items) <= item < len(items):
            ctx.fail(
                f"index {item} is outside a tuple of {len(items)}",
                f"valid indices are {-len(items)} to {len(items) - 1}",
            )
        return items[item]

    def unpacked(self) -> tuple[object, ...]:
        """Its items."""
        return self.items

    def iterations(self) -> tuple[object, ...]:
        """Its items: the loop is unrolled."""
        return self.items

    def constant_items(self) -> tuple[object, ...]:
        """Its items."""
        return self.items

    def truth(self, ctx: Builder, what: str) -> bool:
        """Whether it has any items."""
        return bool(self.items)


@functools.singledispatch
def as_object(value: object) -> KernelObject:
    """The behaviour of any value of a kernel. Adapters for Python's classes are registered here, by class."""
    return PlainObject(value)


OBJECTS_OF_TYPES: dict[type[Type], Callable[[Any], KernelObject]] = {}
"""The adapter for the IR values of each type: scalars, tiles, arrays."""

as_object.register(KernelObject, lambda value: value)
as_object.register(tuple, TupleObject)
as_object.register(Value, lambda value: OBJECTS_OF_TYPES[type(value.type)](value))


def describe(value: object) -> str:
    """How messages name a value: what it is, in the user's terms."""
    return as_object(value).kind_name


def plural(count: int, noun: str, several: str = "") -> str:
    """`1 axis`, `2 axes`."""
    return f"{count} {noun if count == 1 else several or noun + 's'}"


def load_scalar(ctx: Builder, item: object) -> object:
    """A view of rank 0 becomes the element it names; everything else stays."""
    return item.element(ctx) if isinstance(item, KernelObject) else item


def is_memory(value: object) -> bool:
    """Whether a value names memory that could be loaded."""
    return isinstance(value, KernelObject) and value.is_memory


def require_condition(ctx: Builder, value: object, what: str) -> bool | Value:
    """The truth of a condition of control flow: a constant or a bool scalar."""
    return as_object(load_scalar(ctx, value)).truth(ctx, what)


# Signatures.


@functools.cache
def signature_after(count: int, fn: Callable[..., Any]) -> inspect.Signature:
    """What users give to `fn`, whose first `count` parameters are the compiler's."""
    return inspect.Signature(list(inspect.signature(fn).parameters.values())[count:])


def check_arguments(
    ctx: Builder, name: str, signature: inspect.Signature, args: Arguments, kwargs: Keywords
) -> inspect.BoundArguments:
    """Binds arguments to a signature; a mismatch is an error that shows the signature."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as problem:
        refuse_arguments(ctx, name, signature, problem)


def refuse_arguments(ctx: Builder, name: str, signature: inspect.Signature, problem: TypeError) -> NoReturn:
    """The error for arguments that do not fit."""
    words = re.findall(r"'(\w+)'", str(problem)) if "unexpected" in str(problem) else [name]
    hints = [ARGUMENTS_ELSEWHERE[word] for word in words if word in ARGUMENTS_ELSEWHERE]
    ctx.fail(f"{name}: {problem}", "; ".join([*hints, f"its signature is {name}{without_types(signature)}"]))


def without_types(signature: inspect.Signature) -> inspect.Signature:
    """A signature as messages show it."""
    return signature.replace(
        parameters=[p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
