"""One run of a library function on described tensors: its launches as expressions of their sizes, and on which conditions.

The function itself runs, with arrays whose sizes, strides and addresses remember how they came about (`TracedArray`). The
same rules that a launch goes by are asked, with the same numbers: the types that kernels are specialised for, the limits of
grids and descriptors. What they compare is among the guards, and so is what the library chooses. Where all guards turn out
the same, a call with other sizes launches what the expressions say.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.frozen import frozen
from phalanx.ir.types import DTYPES, ScalarType
from phalanx.language.kernel import call_with_constants
from phalanx.runtime.device.arrays import PER_BYTE, ArrayInfo, describe
from phalanx.runtime.device.outlines import taking_launches
from phalanx.runtime.device.tensormap import Geometry, geometry
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.dispatch import BoundLaunch, is_launchable, wants_watchdog
from phalanx.runtime.launch.launcher import Launcher
from phalanx.runtime.launch.options import split_target
from phalanx.runtime.launch.overlaps import has_empty
from phalanx.runtime.launch.replay import Captured, memory_of, recording
from phalanx.runtime.launch.routes import Route
from phalanx.runtime.launch.specialise import (
    MAX_AXIS,
    Argument,
    _array_type,
    constants_key,
    read_argument,
    resolved_constants,
)
from phalanx.runtime.symbolic.expressions import Expression, constant, symbol
from phalanx.runtime.symbolic.numbers import Number, Trace, expression_of, tracing
from phalanx.runtime.symbolic.traced_array import Memory, TracedArray
from phalanx.runtime.symbolic.tracing import Viewed, viewed

_I32 = -(1 << 31), (1 << 31) - 1


class NotPlanned(Exception):
    """What a call does can't be said by expressions of its sizes; the message says why."""


@frozen
class MapTerms:
    """A descriptor: what is the same for all sizes, and expressions for the rest."""

    fixed: Geometry
    pointer: Expression
    dims: tuple[Expression, ...]
    byte_strides: tuple[Expression, ...]


@frozen
class LaunchTerms:
    """A launch of a kernel that is loaded: expressions for its grid, its arguments and its descriptors.

    Arguments are views, expressions of integers, and values that are the same for all sizes.
    """

    launcher: Launcher
    captured: Captured
    grid: tuple[Expression, Expression, Expression]
    arguments: tuple[Any, ...]
    maps: tuple[MapTerms, ...]


@frozen
class NewMemory:
    """An array that a call makes."""

    name: str
    dtype: str
    sizes: tuple[Expression, ...]


@frozen
class Way:
    """What a run did: its guards and choices in their order, its launches, what it made, and what it gives back.

    Each of `results` is the number of an argument, a view of something new, or None; `several`: they are a tuple.
    """

    guards: tuple[Any, ...]
    launches: tuple[LaunchTerms, ...]
    memories: tuple[NewMemory, ...]
    results: tuple[int | Viewed | None, ...]
    several: bool


def size_name(number: int, axis: int) -> str:
    """What the size of an argument's axis is called in expressions."""
    return f"s{number}_{axis}"


def stride_name(number: int, axis: int) -> str:
    """The same of a stride."""
    return f"t{number}_{axis}"


def pointer_name(number: int) -> str:
    """The same of an argument's address."""
    return f"p{number}"


def trace_way(
    call: Callable[..., Any], infos: Sequence[ArrayInfo | None], device: int, fixed: frozenset[str] = frozenset()
) -> Way:
    """Runs a function, which `call` calls with its array arguments, on arrays that `infos` describe.

    Nothing is launched. What is in `fixed` is a plain integer to the function: all calls of the way have it. Raises
    `NotPlanned`, or whatever the function does to arrays that have no elements; `Undecided` where more is to be fixed.
    """
    values: dict[str, int] = {}
    for number, info in enumerate(infos):
        if info is not None:
            if info.dtype_name in PER_BYTE or info.dense:
                raise NotPlanned("neighbours share bytes")
            values[pointer_name(number)] = info.pointer
            values |= {size_name(number, axis): size for axis, size in enumerate(info.shape)}
            values |= {stride_name(number, axis): step for axis, step in enumerate(info.strides)}
    trace = Trace(values, values, device=device, asks_again=True)
    launches: list[LaunchTerms] = []

    def take(bound: BoundLaunch, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        launches.append(_launch_terms(bound, args, given, device))

    for name in sorted(fixed & values.keys()):
        trace.compare(symbol(name, -(2**62), 2**64), "==", constant(values[name]), True, settled=True)
    given = [None if info is None else _traced(trace, number, info, fixed) for number, info in enumerate(infos)]
    with tracing(trace), recording(), taking_launches(take), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\w+ copies \w+, of shape", UserWarning)
        result = call(*given)
        several = type(result) is tuple
        results = tuple(_result(x, given) for x in (result if several else (result,)))
    if not launches:
        raise NotPlanned("nothing is launched")
    made = tuple(NewMemory(each.name, each.dtype, tuple(map(expression_of, each.sizes))) for each in trace.memories)
    if any(each.dtype in PER_BYTE for each in made):
        raise NotPlanned("neighbours share bytes")
    new = [each.memory for each in results if isinstance(each, Viewed)]
    if len(set(new)) < len(new):
        raise NotPlanned("two results are in one array")
    return Way(tuple(trace.guards), tuple(launches), made, results, several)


def _traced(trace: Trace, number: int, info: ArrayInfo, fixed: frozenset[str]) -> TracedArray:
    values = trace.values

    def named(name: str, low: int, high: int) -> Number | int:
        return values[name] if name in fixed else Number(trace, symbol(name, low, high), values[name])

    axes = range(len(info.shape))
    shape = tuple(named(size_name(number, axis), 0, MAX_AXIS) for axis in axes)
    strides = tuple(named(stride_name(number, axis), -(2**62), 2**62) for axis in axes)
    pointer = named(pointer_name(number), 0, 2**64)
    memory = Memory(pointer_name(number), pointer, info.dtype_name, shape, new=False)
    return TracedArray(trace, memory, 0, shape, strides)


def _result(x: Any, given: Sequence[Any]) -> int | Viewed | None:
    if x is None:
        return None
    for number, argument in enumerate(given):
        if argument is x:
            return number
    if not isinstance(x, TracedArray) or not x.memory.new or expression_of(x.offset).constant != 0:
        raise NotPlanned("the result is neither an argument nor all of a new array")
    return viewed(x)


def _launch_terms(bound: BoundLaunch, args: tuple[Any, ...], given: dict[str, Any], device: int) -> LaunchTerms:
    """A launch in terms of the trace's numbers. A size that is a constant of the kernel is settled by it."""
    kernel = bound.kernel
    given = {name: int(value) if isinstance(value, Number) else value for name, value in given.items()}
    named, arch, pipelined = split_target(kernel, given)
    if arch is not None or leaves_grid(bound.grid) or wants_watchdog(kernel) or len(args) != len(kernel.parameters):
        raise NotPlanned(f"the launch of '{kernel.name}' is no plain one")
    constants = kernel.bind_constants(named)
    arguments = [_argument(kernel, name, value) for name, value in zip(kernel.parameters, args, strict=True)]
    chosen = bound.grid
    if callable(chosen):
        chosen = call_with_constants(kernel, "the grid", chosen, resolved_constants(kernel, arguments, constants))
    x, y, z = (*(chosen if isinstance(chosen, tuple) else (chosen,)), 1, 1)[:3]
    found = memory_of(kernel).specialisations.get((tuple(each.type for each in arguments), constants_key(constants)))
    if found is None:
        raise NotPlanned(f"'{kernel.name}' was launched for other types")
    if not pipelined or has_empty(arguments):
        found = found.plain
    elif found.watched:
        raise NotPlanned(f"'{kernel.name}' looks at what its arguments share")
    launcher, compiled = found.launchers.get((device, False), (None, None))
    if launcher is None or compiled.signature.debug:
        raise NotPlanned(f"'{kernel.name}' is not loaded, or reports")
    if not is_launchable((x, y, z), found.reading.function.cluster):
        raise NotPlanned("nothing, or too much, is launched")
    present = [each for each in arguments if each.type is not None]
    maps = tuple(_map_terms(slot, present[slot.array].info) for slot in launcher.signature.tensor_maps)
    captured = Route(found, launcher, ()).captured
    grid = expression_of(x), expression_of(y), expression_of(z)
    return LaunchTerms(launcher, captured, grid, tuple(_kept(each.value) for each in present), maps)


def _argument(kernel: Any, name: str, value: Any) -> Argument:
    """What a value is to the kernel: `read_argument`, with the trace's numbers."""
    if isinstance(value, Number):
        fits = value >= _I32[0] and value <= _I32[1]
        if not fits and not (value >= -(1 << 63) and value < 1 << 63):
            raise NotPlanned("a number that does not fit 64 bits")
        return Argument(value, ScalarType(DTYPES["i32" if fits else "i64"]))
    if not isinstance(value, TracedArray):
        if describe(value) is not None:
            raise NotPlanned(f"'{kernel.name}' takes an array that is no argument of the function")
        return read_argument(kernel, name, value)
    info = describe(value)
    assert info is not None
    if info.dtype_name in PER_BYTE or any(size > MAX_AXIS for size in info.shape):
        raise NotPlanned("neighbours share bytes, or an axis is too long")
    rank, dtype, inner, aligned, whole, chunk, dense = info.facts
    return Argument(value, _array_type(rank, dtype, inner, aligned, whole, tuple(map(int, chunk)), dense), info)


def _map_terms(slot: Any, info: ArrayInfo | None) -> MapTerms:
    assert info is not None
    if slot.expands:
        raise NotPlanned("a copy puts room between elements")
    if slot.walk:
        raise NotPlanned("a copy brings patches of a convolution")
    if info.pointer % 16:
        raise NotPlanned("a descriptor of an array that begins anywhere")
    found = geometry(slot, info.dtype_name, info.shape, info.strides)
    fixed = found._replace(dims=(1,) * len(found.dims), byte_strides=(16,) * len(found.byte_strides))
    return MapTerms(
        fixed, expression_of(info.pointer), tuple(map(expression_of, found.dims)),
        tuple(map(expression_of, found.byte_strides)),
    )


def _kept(value: Any) -> Any:
    if isinstance(value, TracedArray):
        return viewed(value)
    return value.expression if isinstance(value, Number) else value


__all__ = [
    "LaunchTerms", "MapTerms", "NewMemory", "NotPlanned", "Way", "pointer_name", "size_name", "stride_name", "trace_way",
]
