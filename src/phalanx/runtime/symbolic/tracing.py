"""One run of a function for given sizes: which kernels it launches with what, and on which conditions it would again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.types import DTYPES, ArrayType, ScalarType
from phalanx.language.kernel import call_with_constants
from phalanx.runtime.device.arrays import PER_BYTE, describe
from phalanx.runtime.device.devices import described
from phalanx.runtime.device.outlines import taking_launches
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.dispatch import BoundLaunch, debugging
from phalanx.runtime.launch.options import split_target
from phalanx.runtime.launch.replay import recording
from phalanx.runtime.launch.specialise import (
    Argument,
    Spec,
    Specialisation,
    read_argument,
    resolved_constants,
    specialise,
)
from phalanx.runtime.symbolic.expressions import ANYTHING, Expression, symbol
from phalanx.runtime.symbolic.numbers import Guard, Number, Trace, expression_of, tracing
from phalanx.runtime.symbolic.reals import Real
from phalanx.runtime.symbolic.traced_array import Memory, NotExported, TracedArray, contiguous

FIRST_POINTER = 1 << 56
"""Where arguments lie while a function is traced: far from each other and from new arrays."""
POINTER_STEP = 1 << 44
_I32 = -(1 << 31), (1 << 31) - 1


@frozen
class ArrayGiven:
    """An array argument of an exported function."""

    name: str
    spec: Spec

    def stride(self, axis: int) -> str:
        """The name of the stride of an axis."""
        return f"{self.name}_{axis}"


@frozen
class ScalarGiven:
    """A number with a fraction among the arguments, and the example's value."""

    name: str
    value: float


@frozen
class Viewed:
    """An array that a launch gets: some memory by name, and expressions for the rest."""

    memory: str
    dtype: str
    data: Expression
    shape: tuple[Expression, ...]
    strides: tuple[Expression, ...]


@frozen
class Taken:
    """A launch: the kernel for its types and constants, its grid (None: as many clusters as fit), and its arguments.

    Arguments are arrays, expressions of integers, and numbers; those that are None have no place.
    """

    specialisation: Specialisation
    grid: tuple[Expression, Expression, Expression] | None
    arguments: tuple[Any, ...]
    types: tuple[Any, ...]


@frozen
class Path:
    """What a run did: its guards in their order, its launches, its new memory, and its results; or why it can't be.

    Results are views.
    """

    values: dict[str, Any]
    guards: tuple[Guard, ...]
    launches: tuple[Taken, ...] = ()
    memories: tuple[Memory, ...] = ()
    results: tuple[Viewed, ...] = ()
    refusal: str | None = None
    error: Exception | None = None


Given = ArrayGiven | ScalarGiven


def values_for(arguments: Sequence[Given], sizes: dict[str, int]) -> dict[str, Any]:
    """The values of all symbols for given sizes: arrays are contiguous, and begin at multiples of 256 bytes."""
    values: dict[str, Any] = dict(sizes)
    for number, given in enumerate(arguments):
        if isinstance(given, ScalarGiven):
            values[given.name] = given.value
            continue
        shape = [sizes[size] if isinstance(size, str) else size for size in given.spec.sizes]
        values[given.name] = FIRST_POINTER + number * POINTER_STEP
        for axis, step in enumerate(contiguous(tuple(max(size, 1) for size in shape))):
            values[given.stride(axis)] = step
    return values


def run_traced(
    call: Callable[[list[Any]], Any], arguments: Sequence[Given], values: dict[str, Any], example: dict[str, Any], arch: str
) -> Path:
    """Runs a function for some sizes; `call` calls it with traced arrays and numbers in the place of its arguments.

    `example` are the values for which the library's choices are made, on a GPU of the target `arch`.
    """
    trace = Trace(values, example)
    launches: list[Taken] = []
    with tracing(trace), recording(), taking_launches(lambda *launch: launches.append(_taken(*launch)), described(arch)):
        try:
            with warnings.catch_warnings():
                # The library says so before it copies an operand.
                warnings.filterwarnings("ignore", r"\w+ copies \w+, of shape", UserWarning)
                given = [
                    _traced(trace, each) if isinstance(each, ArrayGiven) else Real.named(trace, each.name)
                    for each in arguments
                ]
                results = _views(call(given))
        except Exception as error:  # whatever a user's function does to arrays that have no elements
            text = error.message if isinstance(error, Error) else str(error)
            return Path(values, tuple(trace.guards), refusal=text, error=error)
    return Path(values, tuple(trace.guards), tuple(launches), tuple(trace.memories), tuple(map(viewed, results)))


def _traced(trace: Trace, given: ArrayGiven) -> TracedArray:
    values = trace.values
    shape = tuple(
        Number(trace, symbol(size), values[size]) if isinstance(size, str) else size for size in given.spec.sizes
    )
    strides = tuple(
        Number(trace, symbol(given.stride(axis), -(2**62), 2**62), values[given.stride(axis)]) for axis in range(len(shape))
    )
    pointer = Number(trace, symbol(given.name, 0, 2**64), values[given.name])
    return TracedArray(trace, Memory(given.name, pointer, given.spec.dtype.name, shape, new=False), 0, shape, strides)


def viewed(array: TracedArray) -> Viewed:
    """A traced array in expressions."""
    return Viewed(
        array.memory.name, array.dtype_name, expression_of(array.pointer), tuple(map(expression_of, array.shape)),
        tuple(map(expression_of, array.strides)),
    )


def _views(result: Any) -> list[TracedArray]:
    """The arrays of a result: one, several, or none."""
    if result is None:
        return []
    if isinstance(result, tuple | list):
        return [array for part in result for array in _views(part)]
    if isinstance(result, TracedArray):
        return [result]
    raise NotExported(
        f"the function returns a {type(result).__name__}", remedy="return arrays, or None where it writes to its arguments"
    )


def _taken(bound: BoundLaunch, args: tuple[Any, ...], given: dict[str, Any]) -> Taken:
    """A launch in the place of which something is written down. A size that is a constant of the kernel is settled by it."""
    kernel = bound.kernel
    given = {name: int(value) if isinstance(value, Number) else value for name, value in given.items()}
    with debugging(kernel):
        named, _, pipelined = split_target(kernel, given)
        constants = kernel.bind_constants(named)
        if len(args) != len(kernel.parameters):
            raise Error(
                f"kernel '{kernel.name}' takes {len(kernel.parameters)} run-time arguments, not {len(args)}",
                location=kernel.location,
                remedy=f"its positional parameters are {', '.join(kernel.parameters)}",
            )
        arguments = [_argument(kernel, name, value) for name, value in zip(kernel.parameters, args, strict=True)]
        specialisation = specialise(kernel, arguments, constants)
        grid: tuple[Expression, Expression, Expression] | None = None
        if leaves_grid(bound.grid):
            if specialisation.fitting(bound.grid, arguments, numbers=False).one_each:
                raise NotExported(
                    f"kernel '{kernel.name}' has a cluster for every tile, whose number px.auto leaves open",
                    remedy=f"give the grid as a function of the sizes: {kernel.name}[lambda m: ...]",
                )
        else:
            chosen = bound.grid
            if callable(chosen):
                chosen = call_with_constants(kernel, "the grid", chosen, resolved_constants(kernel, arguments, constants))
            axes = chosen if isinstance(chosen, tuple) else (chosen,)
            x, y, z = (*map(expression_of, axes), expression_of(1), expression_of(1))[:3]
            grid = x, y, z
        chosen_one = specialisation if pipelined else specialisation.plain
        present = [argument for argument in arguments if argument.type is not None]
        values = tuple(_kept(argument.value) for argument in present)
        return Taken(chosen_one, grid, values, tuple(argument.type for argument in present))


def _kept(value: Any) -> Any:
    if isinstance(value, TracedArray):
        return viewed(value)
    return value.expression if isinstance(value, Number | Real) else value


def _argument(kernel: Any, name: str, value: Any) -> Argument:
    """What a value is to the kernel: `read_argument`, for traced arrays and numbers as well."""
    if isinstance(value, Number):
        fits = value >= _I32[0] and value <= _I32[1]
        return Argument(value, ScalarType(DTYPES["i32" if fits else "i64"]))
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
    if any(isinstance(size, Number) and size > _I32[1] for size in info.shape):
        raise NotExported(f"argument '{name}' has an axis that is too long", remedy="an axis has at most 2^31 - 1 elements")
    fixed = not info.shape or not isinstance(info.shape[-1], Number)
    inner, aligned = bool(info.contiguous_inner), bool(info.aligned16)
    # Whether rows end at multiples of 16 bytes is asked of fixed lengths alone: else there would be a kernel for each.
    whole = fixed and aligned and inner and bool(info.whole_rows)
    if info.dtype_name in PER_BYTE and not inner:
        raise NotExported(f"argument '{name}' has neighbours that share bytes and lie apart", remedy="transpose it")
    return Argument(value, ArrayType(len(info.shape), DTYPES[info.dtype_name], inner, aligned, whole, ()), info)


__all__ = ["ANYTHING", "ArrayGiven", "Path", "Taken", "Viewed", "run_traced", "values_for", "viewed"]
