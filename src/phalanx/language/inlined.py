"""What `@px.func` makes, and how pickle takes what the decorators of the language make."""

from __future__ import annotations

import importlib
import inspect
import pickle
from collections.abc import Callable
from types import FunctionType
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.language.builder import Builder
from phalanx.language.objects import Arguments, KernelObject, Keywords


class InlinedFunction(KernelObject):
    """What `@px.func` makes: a helper that is inlined where kernels call it."""

    kind_name = "a px.func"
    is_constant = True

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__name__ = fn.__name__
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def __reduce__(self) -> tuple[Any, ...]:
        return by_name(self, self.fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Outside kernels it is the plain Python function: useful for host-side arithmetic."""
        if len(args) == 1 and isinstance(args[0], FunctionType) and not kwargs and not self._takes(*args):
            raise Error(
                f"{self.__name__} is a px.func, and decorates {args[0].__name__}", location=caller_location(),
                remedy=f"write @px.kernel or @px.func above {args[0].__name__}, and call {self.__name__} in it",
            )
        return self.fn(*args, **kwargs)

    def _takes(self, *args: Any) -> bool:
        """Whether it may be called with so many arguments."""
        try:
            inspect.signature(self.fn).bind(*args)
        except TypeError:
            return False
        return True

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> object:
        """Reads the function's body in the place of the call."""
        return ctx.inline(self.fn, args, kwargs)


def by_name(made: object, named: Any) -> tuple[Any, ...]:
    """How pickle takes what a decorator made of `named`: by the module and the name under which it is found there."""
    module, name = named.__module__, named.__qualname__
    try:
        found = find_named(module, name)
    except (ImportError, AttributeError):
        found = None
    if found is not made:
        raise pickle.PicklingError(
            f"{name} can't be pickled: it is not what {module}.{name} stands for; define it at the top of a module"
        )
    return find_named, (module, name)


def find_named(module: str, name: str) -> object:
    """What a dotted name stands for in a module: how another process finds what was pickled by name."""
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
