"""`px.export` of a function that launches kernels: one of the library, or a user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.runtime.exporting.c_function import CFunction, named_sizes
from phalanx.runtime.exporting.endings import endings_of
from phalanx.runtime.exporting.exported_ways import End, Fork, Tree, explore
from phalanx.runtime.exporting.parameters import kind_of_spec, require_names
from phalanx.runtime.launch.specialise import SOME_SIZE, Spec
from phalanx.runtime.symbolic.numbers import Undecided
from phalanx.runtime.symbolic.tracing import ArrayGiven, Given, ScalarGiven

MOST_KERNELS = 2
"""How many kernels an export has room for, unless the example needs more: others end in an error code."""

def function_export(
    function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any], archs: Sequence[str], name: str,
    sizes: dict[str, int],
) -> CFunction:
    """What is to be written for a function: its ways for all sizes, and the kernels at their ends, compiled."""
    bound = _bound(function, args, options)
    specs: dict[str, Spec] = {}
    arguments = _arguments(bound, specs)
    names = named_sizes(each for each in arguments if isinstance(each, ArrayGiven))
    require_names(name, arguments, names)
    example = _example(names, sizes)

    def call(given: list[Any]) -> Any:
        rest = iter(given)
        put = _replaced(bound.arguments, lambda: next(rest))
        again = inspect.BoundArguments(bound.signature, put)  # type: ignore[arg-type]
        return function(*again.args, **again.kwargs)

    try:
        way, tree = explore(call, arguments, example, archs[0], MOST_KERNELS)
    except Error:
        raise
    except Exception as error:
        raise _not_exported(name, error) from error
    for arch in archs[1:]:
        _, other = explore(call, arguments, example, arch, MOST_KERNELS)
        if _kernels(other) != _kernels(tree):
            raise Error(
                f"{name} launches other kernels on {arch} than on {archs[0]}", location=caller_location(),
                remedy="export it for each target into a folder of its own, under names of their own",
            )
    taken = {each.name for each in arguments} | set(names)
    endings = endings_of(tree, archs, way, "result" if any(each.startswith("out") for each in taken) else "out")
    if not endings.launches:
        raise Error(f"{name} launches no kernel", location=caller_location(), remedy="export a function that does")
    shown = ", ".join(f"{size} = {value}" for size, value in example.items())
    described = f"{name} for {', '.join(archs)}" + (f", chosen for {shown}" if shown else "")
    kinds = {each: kind_of_spec(spec) for each, spec in specs.items()}
    return CFunction(name, described, tuple(archs), names, arguments, kinds, tree, endings)


def _not_exported(name: str, error: Exception) -> Error:
    """The error for what a function did for the example, as far as it is none of our own."""
    if isinstance(error, Undecided):
        why, remedy = f"for all sizes: {error}", "give that size as a number in px.spec, or pass a config="
    else:
        why = f"as it is: {type(error).__name__}: {error}"
        remedy = "it gets arrays without elements: look at shapes, make views and results, and launch kernels"
    return Error(f"{name} can't be exported {why}", location=caller_location(), remedy=remedy)


def _bound(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> inspect.BoundArguments:
    try:
        return inspect.signature(function).bind(*args, **options)
    except TypeError as error:
        raise Error(
            f"px.export of {getattr(function, '__name__', function)}: {error}", location=caller_location(),
            remedy="pass what a call of the function takes, arrays as px.spec",
        ) from None


def _is_given(value: Any) -> bool:
    """Whether an argument is what the C function takes: an array that is described, or a number with a fraction."""
    return isinstance(value, Spec | float)


def _replaced(arguments: dict[str, Any], next_one: Callable[[], Any]) -> dict[str, Any]:
    """The arguments with others in the place of those that the C function takes, in their order."""

    def put(value: Any) -> Any:
        if _is_given(value):
            return next_one()
        if isinstance(value, tuple):
            return tuple(map(put, value))
        return {key: put(part) for key, part in value.items()} if isinstance(value, dict) else value

    return {name: put(value) for name, value in arguments.items()}


def _arguments(bound: inspect.BoundArguments, specs: dict[str, Spec]) -> tuple[Given, ...]:
    """What the C function takes among the arguments, by the names of the parameters; `specs` gets those of the arrays."""
    found: list[Given] = []

    def take(name: str, value: Any) -> None:
        if isinstance(value, Spec):
            specs[name] = value
            found.append(ArrayGiven(name, value.dtype.name, value.sizes))
        elif isinstance(value, float):
            found.append(ScalarGiven(name, value))
        elif isinstance(value, tuple):
            for number, part in enumerate(value):
                take(f"{name}_{number}", part)
        elif isinstance(value, dict):
            for key, part in value.items():
                take(str(key), part)

    for name, value in bound.arguments.items():
        take(name, value)
    if any(spec.dense for spec in specs.values()):
        raise Error("a dense px.spec for a function", location=caller_location(), remedy="export the kernel itself")
    return tuple(found)


def _example(names: tuple[str, ...], sizes: dict[str, int]) -> dict[str, int]:
    wrong = [size for size in sizes if size not in names]
    if wrong or not all(isinstance(value, int) and 0 < value < 2**31 for value in sizes.values()):
        raise Error(
            f"sizes={sizes!r} for a function whose sizes are {', '.join(names) or 'all numbers'}",
            location=caller_location(),
            remedy="give an example of each named size, which tiles are chosen for",
        )
    return {name: sizes.get(name, SOME_SIZE) for name in names}


def _kernels(tree: Tree) -> Any:
    """What a tree launches and on which conditions, to compare two."""
    if isinstance(tree, Fork):
        return tree.guard.text, _kernels(tree.holds), _kernels(tree.fails)
    if isinstance(tree, End):
        return [(id(launch.specialisation), str(launch.grid)) for launch in tree.way.launches]
    return None
