"""`px.export` of a kernel with its grid: a function with one launch, whose arguments are the kernel's."""

from __future__ import annotations

from typing import Any

from phalanx.errors import Error
from phalanx.ir.archs import arch_of
from phalanx.ir.types import ArrayType
from phalanx.language.kernel import call_with_constants
from phalanx.runtime.choosing.candidates import has_choice
from phalanx.runtime.choosing.choice import choice_of
from phalanx.runtime.exporting.c_function import CFunction, named_sizes
from phalanx.runtime.exporting.endings import CArray, endings_of
from phalanx.runtime.exporting.exported_ways import tree_of
from phalanx.runtime.exporting.parameters import require_names
from phalanx.runtime.launch.auto_grid import leaves_grid
from phalanx.runtime.launch.dispatch import BoundLaunch
from phalanx.runtime.launch.specialise import SOME_SIZE, Argument, Spec, read_arguments, resolved_constants, specialise
from phalanx.runtime.symbolic.expressions import constant, symbol
from phalanx.runtime.symbolic.numbers import Guard, Number, Trace, tracing
from phalanx.runtime.symbolic.reals import RealExpression
from phalanx.runtime.symbolic.tracing import (
    ArrayGiven,
    ArrayView,
    Given,
    ScalarGiven,
    TracedLaunch,
    Way,
    open_choice,
    open_number_of_tiles,
)


def kernel_export(
    bound: BoundLaunch, args: tuple[Any, ...], options: dict[str, Any], archs: tuple[str, ...], name: str
) -> CFunction:
    """What is to be written for a kernel, which is compiled for every target."""
    kernel = bound.kernel
    arguments = read_arguments(kernel, args)
    constants = kernel.bind_constants(options)
    if has_choice(constants) and any(isinstance(each.value, Spec) and each.value.names for each in arguments):
        raise open_choice(kernel)
    constants = choice_of(kernel, bound.grid, arguments, constants, arch_of(archs[0])).constants
    specialisation = specialise(kernel, arguments, constants)
    named = [(name, each) for name, each in zip(kernel.parameters, arguments, strict=True) if each.type is not None]
    given = tuple(_given(name, argument) for name, argument in named)
    sizes = named_sizes(each for each in given if isinstance(each, ArrayGiven))
    require_names(name, given, sizes)
    if leaves_grid(bound.grid):
        guards: tuple[Guard, ...] = ()
        counts = None
        if specialisation.fitting(bound.grid, arguments, numbers=False).one_each:
            raise open_number_of_tiles(kernel)
    else:
        counts, guards = _counts(bound, sizes, resolved_constants(kernel, arguments, constants))
    way = Way(guards, (TracedLaunch(specialisation, counts, tuple(map(_value, given)), arguments),))
    tree = tree_of([way])
    endings = endings_of(tree, archs, way)
    (launch,) = endings.launches
    kinds = {each.name: part.kind for each, part in zip(given, launch.arguments, strict=True) if isinstance(part, CArray)}
    described = f"{kernel.name} of {kernel.location.short}, for {', '.join(archs)}"
    return CFunction(name, described, archs, sizes, given, kinds, tree, endings)


def _given(name: str, argument: Argument) -> Given:
    assert argument.type is not None
    if not isinstance(argument.type, ArrayType):
        return ScalarGiven(name, argument.value, argument.type.dtype.name)
    if isinstance(argument.value, Spec):
        return ArrayGiven(name, argument.type.dtype.name, argument.value.sizes)
    assert argument.info is not None
    return ArrayGiven(name, argument.type.dtype.name, argument.info.shape)


def _value(given: Given) -> Any:
    """What the launch gets of an argument: the array itself, or the number."""
    if isinstance(given, ScalarGiven):
        if given.dtype in ("f32", "f64"):
            return RealExpression.named(given.name)
        return symbol(given.name, -(2**63), 2**64)
    shape = tuple(symbol(size) if isinstance(size, str) else constant(size) for size in given.sizes)
    strides = tuple(symbol(given.stride(axis), -(2**62), 2**62) for axis in range(len(shape)))
    return ArrayView(given.name, given.dtype, symbol(given.name, 0, 2**64), shape, strides)


def _counts(bound: BoundLaunch, sizes: tuple[str, ...], constants: dict[str, Any]) -> tuple[Any, tuple[Guard, ...]]:
    """The grid in numbers of the named sizes, and the comparisons that say that it divides by none that is 0."""
    kernel, grid = bound.kernel, bound.grid
    values = dict.fromkeys(sizes, SOME_SIZE)
    trace = Trace(values, values)
    if callable(grid):
        numbers = {size: Number(trace, symbol(size), SOME_SIZE) for size in sizes}
        with tracing(trace):
            grid = call_with_constants(kernel, "the grid", grid, {**constants, **numbers})
    for guard in trace.guards:
        if guard.sign != "<=" or guard.right.constant != 0:
            raise Error(
                f"a grid decides by {', '.join(sorted(guard.symbols))}, which only the exported function's caller knows",
                remedy="compute the grid by + - * // % and px.cdiv; for the smaller of two numbers of CTAs deal tiles by "
                "px.persistent and leave the grid to px.auto",
            )
    axes = grid if isinstance(grid, tuple) else (grid,)
    if not all(isinstance(axis, Number) or type(axis) is int for axis in axes):
        raise Error(
            f"the grid of kernel '{kernel.name}' is {grid!r}",
            location=kernel.location,
            remedy="a grid is an int, a tuple of up to three, or a function of constants and named sizes; it counts CTAs",
        )
    return (*axes, 1, 1)[:3], tuple(trace.guards)
