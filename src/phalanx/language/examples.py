"""`@px.example`: launches that a file declares, for `phalanx check` and other tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from phalanx.errors import Error, caller_location
from phalanx.language.kernel import Kernel
from phalanx.language.reader.source import read_source
from phalanx.location import NOWHERE

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__phalanx_example__"


@dataclass
class Launch:
    """A bound launch with its arguments and constants."""

    bound: Any
    args: tuple[Any, ...]
    constants: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.bound.kernel.name


def example(function: F) -> F:
    """Declares a function as an example of a kernel: it returns a bound launch and its arguments.

    Anyone may use it, on functions without parameters at the top of a file; `phalanx check FILE` runs the checks on
    each. The function returns ``kernel[grid], arguments`` or ``kernel[grid], arguments, constants``. Example::

        @px.example
        def small():
            x = np.ones((64, 64), np.float32)
            return copy[1], (x, np.zeros_like(x)), dict(BM=64)
    """
    if not callable(function) or not hasattr(function, "__dict__") or isinstance(function, Kernel):
        raise Error(
            "@px.example is put on a function", location=caller_location(), remedy="write @px.example above a def"
        )
    setattr(function, MARK, True)
    return function


def is_example(item: Any) -> bool:
    """Whether something in a file was declared with `@px.example`."""
    return callable(item) and getattr(item, MARK, False) is True


def launch_of(function: Callable[..., Any]) -> Launch:
    """What an example returns, checked."""
    value = function()
    parts = value if isinstance(value, tuple) else (value,)
    if not 1 <= len(parts) <= 3 or not isinstance(getattr(parts[0], "kernel", None), Kernel):
        raise _broken(function, f"returns {type(value).__name__}, not a bound launch and its arguments")
    args, constants = parts[1] if len(parts) > 1 else (), parts[2] if len(parts) > 2 else {}
    if not isinstance(args, (tuple, list)):
        raise _broken(function, f"returns its arguments as {type(args).__name__}, not as a tuple")
    if not isinstance(constants, dict) or not all(isinstance(name, str) for name in constants):
        raise _broken(function, f"returns its constants as {type(constants).__name__}, not as a dict by their names")
    return Launch(parts[0], tuple(args), dict(constants))


def _broken(function: Callable[..., Any], problem: str) -> Error:
    """The error for an example that returns something else, at its `def` where its text is known."""
    try:
        source = read_source(function)
        place = source.locate(source.node)
    except (Error, AttributeError, TypeError):  # an object that is called, or a function that was made by exec()
        place = NOWHERE
    return Error(
        f"the example '{getattr(function, '__name__', '?')}' {problem}", location=place,
        remedy="return kernel[grid], (x, y) or, with constants, kernel[grid], (x, y), dict(BM=64)",
    )
