"""Choices of the library, made at the example's sizes while a function is traced for an export.

How a product is cut, or in which order its tiles go, changes how long it takes and not what comes out. Such a choice would
leave hundreds of guards behind, and bind the export to a few sizes. So it is made for the example alone, and the export has
it for all sizes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.runtime.exporting.numbers import at_example, is_traced, unguarded

Function = TypeVar("Function", bound=Callable[..., Any])


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


def chosen_at_example(choose: Function) -> Function:
    """Decorates a function that chooses, for whatever sizes: any answer of it is right for any other sizes.

    For functions of the library; no hardware is involved. Example::

        @chosen_at_example
        @lru_cache
        def choose_band(heads, config, ctas): ...
    """

    @functools.wraps(choose)
    def call(*args: Any, **options: Any) -> Any:
        if not is_traced():
            return choose(*args, **options)
        with unguarded():
            return choose(*map(plain, args), **{name: plain(value) for name, value in options.items()})

    for name in ("cache_clear", "cache_info"):
        if hasattr(choose, name):
            setattr(call, name, getattr(choose, name))
    return call  # type: ignore[return-value]


def not_chosen_in_exports(choose: Function) -> Function:
    """Decorates a function whose answer is right for the sizes that it was asked for alone: exports get None.

    For functions of the library whose callers can do without an answer; no hardware is involved.
    """

    @functools.wraps(choose)
    def call(*args: Any, **options: Any) -> Any:
        return None if is_traced() else choose(*args, **options)

    for name in ("cache_clear", "cache_info"):
        if hasattr(choose, name):
            setattr(call, name, getattr(choose, name))
    return call  # type: ignore[return-value]
