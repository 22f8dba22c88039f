"""Choices of the library while a function is traced: made at the example's sizes for exports, asked again by plans.

How a product is cut, or in which order its tiles go, changes how long it takes and not what comes out. Such a choice would
leave hundreds of guards behind, and bind an export to a few sizes. So it is made for the example alone, and the export has
it for all sizes. A plan of a call (`runtime.planning`) asks for the choice with the sizes that it is given, and holds if it
is the one that was made when it was traced.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.frozen import frozen
from phalanx.runtime.symbolic.expressions import symbol
from phalanx.runtime.symbolic.numbers import Number, Trace, at_example, current_trace, unguarded

Function = TypeVar("Function", bound=Callable[..., Any])
ANY_INTEGER = -(2**62), 2**62


@frozen
class Choice:
    """`function` gave `result` for some arguments, which may hold numbers of a trace.

    With a `name` it is the result's integers that the trace goes on with, each by that name, and its field's if it has some.
    """

    function: Any
    args: tuple[Any, ...]
    options: dict[str, Any]
    result: Any
    name: str = ""

    @property
    def numbers(self) -> dict[str, str]:
        """The fields of a result that has a name, and what the trace calls them; a plain integer is the field ""."""
        if not self.name or isinstance(self.result, int):
            return {"": self.name} if self.name else {}
        return {field.name: f"{self.name}_{field.name}" for field in dataclasses.fields(self.result)}

    @property
    def text(self) -> str:
        """What was asked, whatever came of it."""
        given = [*map(str, self.args), *[f"{name}={value}" for name, value in self.options.items()]]
        return f"{self.function.__module__}.{self.function.__qualname__}({', '.join(given)})"


def is_sized(value: Any) -> bool:
    """Whether something is a number of a trace, or holds some."""
    if isinstance(value, tuple) and type(value) is tuple:
        return any(map(is_sized, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(is_sized(getattr(value, field.name)) for field in dataclasses.fields(value))
    return isinstance(value, Number)


def _chosen(trace: Trace, choose: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a function chooses for the values that the trace's numbers have, noted where that is asked again."""
    with unguarded():
        found = choose(*map(plain, args), **{name: plain(value) for name, value in options.items()})
    if trace.asks_again and any(map(is_sized, (*args, *options.values()))):
        trace.note_choice(Choice(choose, args, options, found))
    return found


def plain(value: Any) -> Any:
    """A value with the example's integers in the place of traced numbers, in tuples and dataclasses as well."""
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(plain, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        changed = {name: plain(item) for name, item in fields.items()}
        same = all(changed[name] is item for name, item in fields.items())
        return value if same else dataclasses.replace(value, **changed)
    return at_example(value)


def _counted(trace: Trace, choose: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a function answers, with its integers as numbers of the trace."""
    with unguarded():
        found = choose(*map(plain, args), **{name: plain(value) for name, value in options.items()})
    if not any(map(is_sized, (*args, *options.values()))):
        return found
    choice = Choice(choose, args, options, found, f"n{len(trace.counted)}")
    if choice.text not in trace.counted:
        trace.note_choice(choice)
        numbers = {
            field: Number(trace, symbol(name, *ANY_INTEGER), int(getattr(found, field) if field else found))
            for field, name in choice.numbers.items()
        }
        trace.counted[choice.text] = numbers[""] if "" in numbers else dataclasses.replace(found, **numbers)
    return trace.counted[choice.text]


def _decorated(choose: Function, traced: Callable[[Trace, tuple[Any, ...], dict[str, Any]], Any]) -> Function:
    """The function, which goes the way of `traced` in a trace."""

    @functools.wraps(choose)
    def call(*args: Any, **options: Any) -> Any:
        trace = current_trace()
        return choose(*args, **options) if trace is None else traced(trace, args, options)

    for name in ("cache_clear", "cache_info"):
        if hasattr(choose, name):
            setattr(call, name, getattr(choose, name))
    return call  # type: ignore[return-value]


def chosen_at_example(choose: Function) -> Function:
    """Decorates a function that chooses, for whatever sizes: any answer of it is right for any other sizes.

    Exports have its answer for the example's sizes; plans look into it. For functions of the library; no hardware is
    involved. Example::

        @chosen_at_example
        def choose_band(heads, config, ctas): ...
    """

    def traced(trace: Trace, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return choose(*args, **options) if trace.asks_again else _chosen(trace, choose, args, options)

    return _decorated(choose, traced)


def not_chosen_in_exports(choose: Function) -> Function:
    """Decorates a function whose answer is right for the sizes that it was asked for alone: exports get None.

    Plans look into it. For functions of the library whose callers can do without an answer; no hardware is involved.
    """
    return _decorated(
        choose, lambda trace, args, options: choose(*args, **options) if trace.asks_again else None
    )


def chosen_by_sizes(choose: Function) -> Function:
    """Decorates a function that plans ask as a whole, where its own comparisons would be many or settle the sizes.

    Its answer depends on its arguments alone, and is compared: so it holds nothing that differs where the launch does not,
    such as a predicted time. Plans ask once for equal arguments: sizes are best rounded before they come. Exports look
    into it. For functions of the library; no hardware is involved. Example::

        @chosen_by_sizes
        @cache
        def choose(columns, itemsize): ...
    """

    def traced(trace: Trace, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return _chosen(trace, choose, args, options) if trace.asks_again else choose(*args, **options)

    return _decorated(choose, traced)


def counted_by_sizes(choose: Function) -> Function:
    """Decorates a function whose answer is an integer, or a dataclass of integers, that kernels and grids get as numbers.

    As `chosen_by_sizes`, but that a plan goes on with whatever it answers. Example::

        @counted_by_sizes
        @cache
        def choose_band(heads, config, ctas): ...
    """

    def traced(trace: Trace, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return _counted(trace, choose, args, options) if trace.asks_again else choose(*args, **options)

    return _decorated(choose, traced)
