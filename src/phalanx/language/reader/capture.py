"""What kernels may take from the Python around them: constants of the enclosing scopes, compared at later launches."""

from __future__ import annotations

import dataclasses
import inspect
from functools import cached_property
from types import ModuleType
from weakref import WeakKeyDictionary

import numpy as np

from phalanx.frozen import is_frozen
from phalanx.ir.types import DType
from phalanx.language.builder import Builder
from phalanx.language.objects import HostFunction, KernelObject
from phalanx.language.reader.source import FunctionSource

PYTHON_FUNCTIONS = (range, min, max, abs, len, int, float, bool, tuple, print, sum, round, enumerate, zip)
"""Python's own functions that have a meaning in kernels (or an error of their own)."""

CAPTURES = "numbers, strings, dtypes, None, tuples and frozen dataclasses of them, px.func and px.struct"


EXACT = "_phalanx_exact"
"""Where an instance of a frozen dataclass keeps its `exact_record`."""


def kind_of(value: object) -> str:
    """`a list`, `an int`, `a NumPy array`: what a Python object is."""
    if isinstance(value, np.ndarray):
        return "a NumPy array"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


class ConstantRecord(KernelObject):
    """A frozen dataclass as a constant of a kernel: its fields and properties are constants, ``config.stages``."""

    is_constant = True

    def __init__(self, value: object) -> None:
        self.value = value

    @property
    def kind_name(self) -> str:
        """Its class, with an article."""
        return kind_of(self.value)

    def member(self, ctx: Builder, name: str) -> object:
        """A field or property, as Python reads it; methods are not called in kernels."""
        cls = type(self.value)
        if name not in record_fields(cls) and not is_property(cls, name):
            properties = sorted(known for known in dir(cls) if is_property(cls, known))
            ctx.fail(f"{cls.__name__} has no attribute '{name}'", f"it has {', '.join((*record_fields(cls), *properties))}")
        raw = getattr(self.value, name)
        found = constant(raw)
        if found is None and raw is not None:
            ctx.fail(f"{cls.__name__}.{name} is {kind_of(raw)}", f"kernels use {CAPTURES}")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantRecord) and exact(self.value) == exact(other.value)

    def __hash__(self) -> int:
        return hash(exact(self.value))


_RECORDS: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def is_record(kind: type) -> bool:
    """Whether a class is a frozen dataclass whose instances have a meaning in kernels by their fields alone."""
    found = _RECORDS.get(kind)
    if found is None:
        found = dataclasses.is_dataclass(kind) and not issubclass(kind, KernelObject | DType) and is_frozen(kind)
        _RECORDS[kind] = found
    return found


def record_fields(kind: type) -> tuple[str, ...]:
    """The names of a dataclass's fields."""
    return tuple(field.name for field in dataclasses.fields(kind))


def is_property(kind: type, name: str) -> bool:
    """Whether a class computes an attribute of its instances."""
    return isinstance(inspect.getattr_static(kind, name, None), property | cached_property)


def constant(found: object) -> object:
    """What a Python object stands for in a kernel; None if it has no meaning there."""
    if isinstance(found, (bool, int, float, str, DType, ModuleType)):
        return found
    if isinstance(found, KernelObject) and found.is_constant:
        return found
    if is_record(type(found)):
        fields = [getattr(found, name) for name in record_fields(type(found))]
        return ConstantRecord(found) if all(field is None or constant(field) is not None for field in fields) else None
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
    if is_record(type(value)):
        return exact_record(value)
    return (type(value), value)


def exact_record(value: object) -> object:
    """The stand-in for a frozen dataclass, by its fields. It is kept with the instance, which never changes."""
    kept: dict[str, object] | None = getattr(value, "__dict__", None)
    if kept is not None and EXACT in kept:
        return kept[EXACT]
    found = (type(value), *(exact(getattr(value, name)) for name in record_fields(type(value))))
    if kept is not None:
        kept[EXACT] = found
    return found


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
