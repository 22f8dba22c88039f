"""One run of a library function on described tensors: its launches as expressions of their sizes, and on which conditions.

The function is traced as for an export (`symbolic.tracing`). Besides, the rules that a launch goes by are asked with the
numbers of the trace: the types that kernels are specialised for, the limits of grids and descriptors. What they compare is
among the guards, and so is what the library chooses. Where all guards turn out the same, a call with other sizes launches
what the expressions say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phalanx.frozen import frozen
from phalanx.runtime.device.arrays import PER_BYTE, ArrayInfo
from phalanx.runtime.device.map_layout import UNIT, MapLayout, map_layout
from phalanx.runtime.device.tensormap import geometry
from phalanx.runtime.launch.dispatch import is_launchable, wanted_extras, wants_watchdog
from phalanx.runtime.launch.launch_list import Captured
from phalanx.runtime.launch.launcher import Launcher
from phalanx.runtime.launch.overlaps import has_empty
from phalanx.runtime.symbolic.expressions import Expression, combined, constant, symbol
from phalanx.runtime.symbolic.numbers import Trace, expression_of
from phalanx.runtime.symbolic.traced_array import TracedArray
from phalanx.runtime.symbolic.tracing import ArrayGiven, ArrayView, Grid, TracedLaunch, Way, new_arrays, run_traced, viewed


class NotPlanned(Exception):
    """What a call does can't be said by expressions of its sizes; the message says why."""


@frozen
class MapTerms:
    """A descriptor: where its fields are, and expressions for its address, its sizes and its strides in bytes."""

    layout: MapLayout
    pointer: Expression
    dims: tuple[Expression, ...]
    byte_strides: tuple[Expression, ...]

    @property
    def numbers(self) -> tuple[Expression, ...]:
        """The numbers of its fields: the address, sizes less one, strides in units."""
        sizes = [combined("-", size, constant(1)) for size in self.dims]
        return (self.pointer, *sizes, *[combined("//", step, constant(UNIT)) for step in self.byte_strides])


@frozen
class LaunchTerms:
    """A launch of a kernel that is loaded: expressions for its grid, its arguments and its descriptors.

    Arguments are views, expressions of integers, and values that are the same for all sizes.
    """

    launcher: Launcher
    captured: Captured
    grid: Grid
    arguments: tuple[Any, ...]
    maps: tuple[MapTerms, ...]


def size_name(number: int, axis: int) -> str:
    """What the size of an argument's axis is called in expressions."""
    return f"s{number}_{axis}"


def stride_name(number: int, axis: int) -> str:
    """What the stride of an argument's axis is called."""
    return f"p{number}_{axis}"


def pointer_name(number: int) -> str:
    """What the address of an argument is called."""
    return f"p{number}"


def given_array(number: int, dtype: str, rank: int, like: int) -> ArrayGiven:
    """An array argument, with the names above; sizes and strides are called like those of the argument `like`."""
    sizes = tuple(size_name(like, axis) for axis in range(rank))
    return ArrayGiven(pointer_name(number), dtype, sizes, pointer_name(like))


def trace_way(
    call: Callable[..., Any], infos: Sequence[ArrayInfo | None], device: int, alike: Sequence[int],
    fixed: frozenset[str] = frozenset(),
) -> Way:
    """Runs a function, which `call` calls with its array arguments, on arrays that `infos` describe.

    `alike` has for each array the number of the first one with the same type, sizes and strides, or its own. Nothing is
    launched. What is in `fixed` is a plain integer to the function: all calls of the way have it. Raises `NotPlanned`, or
    whatever the function does to arrays that have no elements; `Undecided` where more is to be fixed.
    """
    values: dict[str, int] = {}
    given: list[ArrayGiven | None] = []
    for number, info in enumerate(infos):
        if info is None:
            given.append(None)
            continue
        if info.dtype_name in PER_BYTE or info.dense:
            raise NotPlanned("neighbours share bytes")
        array = given_array(number, info.dtype_name, len(info.shape), alike[number])
        values[array.name] = info.pointer
        values |= dict(zip(array.sizes, info.shape))  # type: ignore[arg-type]
        values |= {array.stride(axis): step for axis, step in enumerate(info.strides)}
        given.append(array)
    trace = Trace(values, values, device=device, asks_again=True)
    launches: list[LaunchTerms] = []
    for name in sorted(fixed & values.keys()):
        trace.compare(symbol(name, -(2**62), 2**64), "==", constant(values[name]), True, settled=True)
    arguments, result = run_traced(
        trace, lambda arrays: call(*arrays), given, lambda one: launches.append(_launch_terms(one, device)), fixed=fixed
    )
    several = type(result) is tuple
    results = tuple(_result(x, arguments) for x in (result if several else (result,)))
    if not launches:
        raise NotPlanned("nothing is launched")
    if any(each.dtype in PER_BYTE for each in trace.memories):
        raise NotPlanned("neighbours share bytes")
    new = [each.memory for each in results if isinstance(each, ArrayView)]
    if len(set(new)) < len(new):
        raise NotPlanned("two results are in one array")
    return Way(tuple(trace.guards), tuple(launches), new_arrays(trace), results, several)


def _result(x: Any, given: Sequence[Any]) -> int | ArrayView | None:
    if x is None:
        return None
    for number, argument in enumerate(given):
        if argument is x:
            return number
    if not isinstance(x, TracedArray) or not x.memory.new or expression_of(x.offset).constant != 0:
        raise NotPlanned("the result is neither an argument nor all of a new array")
    return viewed(x)


def _launch_terms(launch: TracedLaunch, device: int) -> LaunchTerms:
    """A launch of the kernel that is loaded for it."""
    found, name = launch.specialisation, launch.specialisation.kernel.name
    if launch.grid is None or launch.counts is None or wants_watchdog(found.kernel):
        raise NotPlanned(f"the launch of '{name}' is no plain one")
    if has_empty(launch.arguments):
        found = found.plain
    elif found.watched:
        raise NotPlanned(f"'{name}' looks at what its arguments share")
    launcher, compiled = found.launchers.get((device, wanted_extras(found.kernel)), (None, None))
    if launcher is None or compiled.signature.debug:
        raise NotPlanned(f"'{name}' is not loaded, or reports")
    if not is_launchable(launch.counts, found.reading.function.cluster):
        raise NotPlanned("nothing, or too much, is launched")
    infos = [each.info for each in launch.arguments if each.type is not None]
    maps = tuple(_map_terms(launcher.driver, slot, infos[slot.array]) for slot in launcher.signature.tensor_maps)
    return LaunchTerms(launcher, found.captured, launch.grid, launch.values, maps)


def _map_terms(driver: Any, slot: Any, info: ArrayInfo | None) -> MapTerms:
    assert info is not None
    if slot.expands:
        raise NotPlanned("a copy puts room between elements")
    if slot.walk:
        raise NotPlanned("a copy brings patches of a convolution")
    if info.pointer % 16:
        raise NotPlanned("a descriptor of an array that begins anywhere")
    found = geometry(slot, info.dtype_name, info.shape, info.strides)
    layout = map_layout(
        driver, found._replace(dims=(1,) * len(found.dims), byte_strides=(UNIT,) * len(found.byte_strides))
    )
    if layout is None:
        raise NotPlanned("nobody knows where the driver's descriptors have their numbers")
    dims, strides = tuple(map(expression_of, found.dims)), tuple(map(expression_of, found.byte_strides))
    return MapTerms(layout, expression_of(info.pointer), dims, strides)
