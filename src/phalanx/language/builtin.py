"""Functions that users call inside kernels: documented stubs whose bodies write IR."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.language.builder import Builder
from phalanx.language.objects import Arguments, KernelObject, Keywords, check_arguments, signature_after, without_types

BUILTINS: list[Builtin] = []
"""Every public in-kernel function, for the documentation test."""


class Builtin(KernelObject):
    """A function of the language. Outside a kernel it explains itself, or runs its host version if it has one."""

    is_constant = True

    def __init__(
        self, name: str, impl: Callable[..., Any], host: Callable[..., Any] | None = None, inout: str | None = None
    ) -> None:
        self.name = name
        self.impl = impl
        self.host = host
        self.inout = inout
        self.__doc__ = impl.__doc__
        self.__name__ = name
        BUILTINS.append(self)

    @property
    def signature(self) -> inspect.Signature:
        """What users give to it; worked out when first asked for, since `import phalanx` makes a hundred of them."""
        return signature_after(1, self.impl)

    __signature__ = signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.host is not None:
            return self.host(*args, **kwargs)
        raise Error(
            f"px.{self.name} was called outside a kernel",
            location=caller_location(),
            remedy="call it inside a function decorated with @px.kernel or @px.func",
        )

    def __repr__(self) -> str:
        return f"<px.{self.name}{self.signature}>"

    @property
    def kind_name(self) -> str:
        """Its name in messages."""
        return f"the function '{self.name}'"

    @property
    def as_call(self) -> str:  # type: ignore[override]
        """The function with its parameters."""
        return f"px.{self.name}{without_types(self.signature)}"

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> object:
        """Runs the implementation for a call in a kernel, with the signature checked."""
        check_arguments(ctx, f"px.{self.name}", self.signature, args, kwargs)
        return self.impl(ctx, *args, **kwargs)


def builtin(
    name: str, host: Callable[..., Any] | None = None, inout: str | None = None
) -> Callable[[Callable[..., Any]], Builtin]:
    """Declares `px.<name>`; the decorated function takes the builder first.

    `inout` names the parameter whose variable the call updates: the reader binds it to what the function returns.
    """

    def wrap(impl: Callable[..., Any]) -> Builtin:
        return Builtin(name, impl, host, inout)

    return wrap
