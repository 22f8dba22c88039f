"""One run of a function on arrays without elements: which kernels it launches with what, and on which conditions again.

The function's array arguments are `TracedArray`s, whose sizes, strides and addresses are numbers of a trace. What it
compares is among the trace's guards; a launch is written down instead of made, with expressions of those numbers. Exports of
functions and plans of library calls are both made of such runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.types import DTYPES, ArrayType, ScalarType
from phalanx.language.kernel import Kernel, call_with_constants
from phalanx.runtime.choosing.candidates import has_choice
from phalanx.runtime.device.arrays import PER_BYTE, describe
from phalanx.runtime.device.outlines import taking_launches
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.dispatch import BoundLaunch, debugging
from phalanx.runtime.launch.launch_list import recording
from phalanx.runtime.launch.options import split_target
from phalanx.runtime.launch.specialise import (
    MAX_AXIS,
    Argument,
    Specialisation,
    _array_type,
    read_argument,
    resolved_constants,
    specialise,
)
from phalanx.runtime.symbolic.expressions import Expression, symbol
from phalanx.runtime.symbolic.numbers import Number, Trace, expression_of, tracing
from phalanx.runtime.symbolic.reals import Real
from phalanx.runtime.symbolic.traced_array import NotExported, TracedArray, TracedMemory

LEAST_I32 = -(1 << 31)
MOST_I32 = (1 << 31) - 1
Grid = tuple[Expression, Expression, Expression]


@frozen
class ArrayGiven:
    """An array argument of a traced function; a size is a number, or the name of a symbol.

    `like` names an argument whose strides it has.
    """

    name: str
    dtype: str
    sizes: tuple[int | str, ...]
    like: str = ""

    def stride(self, axis: int) -> str:
        """The name of the stride of an axis."""
        return f"{self.like or self.name}_{axis}"


@frozen
class ScalarGiven:
    """A number among the arguments, with the value that it has in the example."""

    name: str
    value: Any
    dtype: str = "f64"


Given = ArrayGiven | ScalarGiven


@frozen
class ArrayView:
    """An array in expressions: the name of the memory that it is in, its address, sizes and strides."""

    memory: str
    dtype: str
    data: Expression
    shape: tuple[Expression, ...]
    strides: tuple[Expression, ...]


@frozen
class NewArray:
    """An array that a function makes while it runs."""

    name: str
    dtype: str
    sizes: tuple[Expression, ...]


@frozen
class TracedLaunch:
    """A launch: the kernel for its types and constants, its grid in numbers of the trace, and its arguments.

    `counts` is None where the grid is as many clusters as fit. `values` are the arguments that are not None: array views,
    expressions, and values that are the same for all sizes. `arguments` has all of them, as they were read.
    """

    specialisation: Specialisation
    counts: tuple[Any, Any, Any] | None
    values: tuple[Any, ...]
    arguments: list[Argument]

    @property
    def grid(self) -> Grid | None:
        """The grid in expressions."""
        if self.counts is None:
            return None
        x, y, z = map(expression_of, self.counts)
        return x, y, z

    @property
    def types(self) -> tuple[Any, ...]:
        """The types of the arguments that are not None."""
        return tuple(argument.type for argument in self.arguments if argument.type is not None)


@frozen
class Way:
    """What a run did: its guards and choices in their order, its launches, what it made, and what it gives back.

    An export's launches are `TracedLaunch`es, its results views, and `values` are those of all symbols; where the function
    could not be run so, `refusal` says why, and `error` is what it raised. A plan's launches are `LaunchTerms` of loaded
    kernels; each of its results is the number of an argument, a view of something new, or None, and `several` says that
    they are a tuple.
    """

    guards: tuple[Any, ...]
    launches: tuple[Any, ...] = ()
    memories: tuple[NewArray, ...] = ()
    results: tuple[Any, ...] = ()
    several: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    refusal: str | None = None
    error: Exception | None = None


def run_traced(
    trace: Trace, call: Callable[[list[Any]], Any], given: Sequence[Given | None],
    take: Callable[[TracedLaunch], None], *, fixed: frozenset[str] = frozenset(), device: Any = None,
) -> tuple[list[Any], Any]:
    """Runs a function; `call` calls it with a list of traced arguments. Gives these, and what the function returned.

    `take` gets each launch. Symbols in `fixed` are plain integers to the function. The library chooses as for `device`, or
    for the real one.
    """

    def taken(bound: BoundLaunch, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        with debugging(bound.kernel):
            launch = _launch(trace, bound, args, options)
        take(launch)

    with tracing(trace), recording(), taking_launches(taken, device), warnings.catch_warnings():
        # The library warns before it copies an operand, which no traced function does.
        warnings.filterwarnings("ignore", r"\w+ copies \w+, of shape", UserWarning)
        arguments = [None if each is None else _traced(trace, each, fixed) for each in given]
        return arguments, call(arguments)


def _traced(trace: Trace, given: Given, fixed: frozenset[str]) -> TracedArray | Real:
    if isinstance(given, ScalarGiven):
        return Real.named(trace, given.name)

    def number(name: str, low: int, high: int) -> Number | int:
        value = trace.values[name]
        return value if name in fixed else Number(trace, symbol(name, low, high), value)

    shape = tuple(number(size, 0, MAX_AXIS) if isinstance(size, str) else size for size in given.sizes)
    strides = tuple(number(given.stride(axis), -(2**62), 2**62) for axis in range(len(shape)))
    memory = TracedMemory(given.name, number(given.name, 0, 2**64), given.dtype, shape, new=False)
    return TracedArray(trace, memory, 0, shape, strides)


def viewed(array: TracedArray) -> ArrayView:
    """A traced array in expressions."""
    shape = tuple(map(expression_of, array.shape))
    strides = tuple(map(expression_of, array.strides))
    return ArrayView(array.memory.name, array.dtype_name, expression_of(array.pointer), shape, strides)


def new_arrays(trace: Trace) -> tuple[NewArray, ...]:
    """What the function made, in expressions."""
    return tuple(NewArray(each.name, each.dtype, tuple(map(expression_of, each.sizes))) for each in trace.memories)


def _launch(trace: Trace, bound: BoundLaunch, args: tuple[Any, ...], options: dict[str, Any]) -> TracedLaunch:
    """A launch in expressions. A size that is a constant of the kernel is settled by it."""
    kernel = bound.kernel
    plain = {name: int(value) if isinstance(value, Number) else value for name, value in options.items()}
    named, arch, pipelined = split_target(kernel, plain)
    if arch is not None and trace.asks_again:
        raise NotExported(f"the launch of '{kernel.name}' names a target", remedy="leave arch= out")
    constants = kernel.bind_constants(named)
    if has_choice(constants):
        raise open_choice(kernel)
    if len(args) != len(kernel.parameters):
        raise Error(
            f"kernel '{kernel.name}' takes {len(kernel.parameters)} run-time arguments, not {len(args)}",
            location=kernel.location,
            remedy=f"its positional parameters are {', '.join(kernel.positional)}",
        )
    arguments = [_argument(trace, kernel, name, value) for name, value in zip(kernel.parameters, args, strict=True)]
    specialisation = specialise(kernel, arguments, constants)
    counts = None if leaves_grid(bound.grid) else _counts(bound, resolved_constants(kernel, arguments, constants))
    if counts is None and specialisation.fitting(bound.grid, arguments, numbers=False).one_each:
        raise open_number_of_tiles(kernel)
    values = tuple(_value(argument.value) for argument in arguments if argument.type is not None)
    return TracedLaunch(specialisation if pipelined else specialisation.plain, counts, values, arguments)


def open_choice(kernel: Kernel) -> Error:
    """The error for px.choose in a kernel whose sizes only a later call knows."""
    return NotExported(
        f"kernel '{kernel.name}' leaves constants to px.choose, which takes those that suit the sizes of a call",
        remedy="give the constants, or all sizes as numbers",
        location=kernel.location,
    )


def open_number_of_tiles(kernel: Kernel) -> Error:
    """The error for px.auto as the grid of a kernel that needs a cluster for every tile."""
    return NotExported(
        f"kernel '{kernel.name}' has a cluster for every tile, whose number px.auto leaves open",
        remedy=f"give the grid as a function of the sizes: {kernel.name}[lambda m: ...]",
        location=kernel.location,
    )


def _counts(bound: BoundLaunch, constants: dict[str, Any]) -> tuple[Any, Any, Any]:
    chosen = bound.grid
    if callable(chosen):
        chosen = call_with_constants(bound.kernel, "the grid", chosen, constants)
    x, y, z = (*(chosen if isinstance(chosen, tuple) else (chosen,)), 1, 1)[:3]
    return x, y, z


def _argument(trace: Trace, kernel: Kernel, name: str, value: Any) -> Argument:
    """What a value is to the kernel: `read_argument`, for traced arrays and numbers as well."""
    if isinstance(value, Number):
        if value >= LEAST_I32 and value <= MOST_I32:
            return Argument(value, ScalarType(DTYPES["i32"]))
        if value >= -(1 << 63) and value < 1 << 63:
            return Argument(value, ScalarType(DTYPES["i64"]))
        raise NotExported(f"argument '{name}' does not fit 64 bits", remedy="pass a smaller number")
    if isinstance(value, Real):
        return Argument(value, ScalarType(DTYPES["f32"]))
    if not isinstance(value, TracedArray):
        if describe(value) is not None:
            raise NotExported(
                f"argument '{name}' of kernel '{kernel.name}' is an array that is no argument of the function",
                remedy="pass it to the function that is exported",
            )
        return read_argument(kernel, name, value)
    info = describe(value)
    assert info is not None
    if any(size > MAX_AXIS for size in info.shape):
        raise NotExported(f"argument '{name}' has an axis that is too long", remedy="an axis has at most 2^31 - 1 elements")
    if trace.asks_again:
        rank, dtype, inner, aligned, whole, chunk, dense = info.facts
        return Argument(value, _array_type(rank, dtype, inner, aligned, whole, tuple(map(int, chunk)), dense), info)
    fixed = not info.shape or not isinstance(info.shape[-1], Number)
    inner, aligned = bool(info.contiguous_inner), bool(info.aligned16)
    # Whether rows end at multiples of 16 bytes is asked of fixed lengths alone: else there would be a kernel for each.
    whole = fixed and aligned and inner and bool(info.whole_rows)
    if info.dtype_name in PER_BYTE and not inner:
        raise NotExported(f"argument '{name}' has neighbours that share bytes and lie apart", remedy="transpose it")
    return Argument(value, ArrayType(len(info.shape), DTYPES[info.dtype_name], inner, aligned, whole, ()), info)


def _value(value: Any) -> Any:
    if isinstance(value, TracedArray):
        return viewed(value)
    return value.expression if isinstance(value, Number | Real) else value
