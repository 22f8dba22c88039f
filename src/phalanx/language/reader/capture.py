"""What kernels may take from the Python around them: constants of the enclosing scopes, compared at later launches."""

from __future__ import annotations

import inspect
from types import ModuleType

import numpy as np

from phalanx.ir.types import DType
from phalanx.language.objects import HostFunction, KernelObject
from phalanx.language.reader.source import FunctionSource

PYTHON_FUNCTIONS = (range, min, max, abs, len, int, float, bool, tuple, print, sum, round, enumerate, zip)
"""Python's own functions that have a meaning in kernels (or an error of their own)."""

CAPTURES = "numbers, strings, dtypes, None, tuples of them, px.func and px.struct"


def kind_of(value: object) -> str:
    """`a list`, `an int`, `a NumPy array`: what a Python object is."""
    if isinstance(value, np.ndarray):
        return "a NumPy array"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def constant(found: object) -> object:
    """What a Python object stands for in a kernel; None if it has no meaning there."""
    if isinstance(found, (bool, int, float, str, DType, ModuleType)):
        return found
    if isinstance(found, KernelObject) and found.is_constant:
        return found
    if isinstance(found, np.ufunc):
        return HostFunction(found, f"numpy.{found.__name__} can't be used in kernels", "use the function of px of that name")
    if isinstance(found, np.generic) and found.dtype.kind in "biuf":
        return found.item()
    if isinstance(found, tuple):
        parts = tuple(constant(item) for item in found)
        return None if any(p is None and f is not None for p, f in zip(parts, found, strict=True)) else parts
    if any(found is known for known in PYTHON_FUNCTIONS) or inspect.isfunction(found):
        return found  # a plain function gets its error where it is called
    if inspect.isbuiltin(found) and found.__module__ == "math":
        return found
    return None


def same_constant(a: object, b: object) -> bool:
    """Exact equality of two constants: 1, 1.0 and True differ, so do 0.0 and -0.0; a NaN equals itself."""
    return a is b or exact(a) == exact(b)


def exact(value: object) -> object:
    """A hashable stand-in for a constant that differs wherever kernels could see a difference."""
    if isinstance(value, float):
        return (float, value.hex())
    if isinstance(value, tuple):
        return (tuple, *map(exact, value))
    return (type(value), value)


def still_holds(source: FunctionSource, name: str, value: object) -> bool:
    """Whether a captured name (dotted for a module's attribute) still stands for `value`."""
    try:
        now = source.lookup(name)
    except (KeyError, AttributeError):
        return False
    return now is value or same_constant(constant(now), value)


def is_of_the_language(module: ModuleType) -> bool:
    """Modules whose attributes never change: this package, math and numpy."""
    return module.__name__.partition(".")[0] in ("phalanx", "math", "numpy")
