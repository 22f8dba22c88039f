"""Values and functions as texts that differ wherever what they do may differ: what a search on disk is known by.

A Python function is its source and all that it names, followed from function to function and file to file: helpers, kernels
with the constants they capture, classes. This package itself is known by the compiler's fingerprint, other
installed packages by their versions. What has no text (an open file, a tensor) is named by the exception.

Byte code is read for one thing: which names a function loads, and what it imports when it runs. The bytes of cloudpickle
would not do as a key. It writes a function of an importable module as that module's name, so that an edited helper would go
unseen; what it writes by value has line numbers and file names in it, so that a comment or another folder would look like a
change; it does not follow imports inside functions; and equal values need not give equal bytes (sets come in any order),
while a key must be the same in every process.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import CodeType, MethodType, ModuleType
from typing import Any

import numpy as np

from phalanx.frozen import frozen
from phalanx.ir.types import DType
from phalanx.language.builtin import Builtin
from phalanx.language.inlined import InlinedFunction
from phalanx.language.kernel import Kernel
from phalanx.language.reader.capture import kind_of
from phalanx.runtime.cache import digest

OURS = "phalanx"
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders whose packages are known by their versions."""


class NoText(Exception):
    """Something differs from run to run or can't be read: `what` it is, and by which `names` it was reached."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.names: list[str] = []

    def __str__(self) -> str:
        return f"{'.'.join(self.names)} is {self.what}" if self.names else self.what


def text_of(value: Any) -> str:
    """A text that differs wherever two values do; `NoText` for what has none."""
    return _Writer().write(value)


@functools.cache
def version_of(package: str) -> str | None:
    """The version of an installed package, "" where it does not say; None for files of the user's own."""
    if package == OURS:
        return "by its fingerprint"
    if package in sys.stdlib_module_names:
        return sys.version.split()[0]
    if package == "__main__":
        return None
    try:
        found = getattr(sys.modules.get(package), "__spec__", None) or importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    places = [found.origin or "", *(found.submodule_search_locations or ())] if found is not None else []
    if not any(INSTALLED & set(Path(place).parts) for place in places):
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(package), "__version__", ""))


def _top(module: str | None) -> str:
    return (module or "").partition(".")[0]


@frozen
class Names:
    """What the code of a function names: globals, attributes of anything, and modules it imports (level, name)."""

    globals: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[tuple[int, str]]


def names_in(codes: Iterable[CodeType]) -> Names:
    """The names in some code, and in the functions and comprehensions inside it."""
    found: set[str] = set()
    attributes: set[str] = set()
    imports: set[tuple[int, str]] = set()
    waiting = list(codes)
    while waiting:
        code = waiting.pop()
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        constants: list[Any] = [0, 0]
        for instruction in dis.get_instructions(code):
            name, argument = instruction.opname, instruction.argval
            if name in ("LOAD_CONST", "LOAD_SMALL_INT"):
                constants.append(argument)
            elif name == "IMPORT_NAME":  # after its level and the names that are wanted
                imports.add((constants[-2] if isinstance(constants[-2], int) else 0, argument))
            elif name in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
                attributes.add(argument)
            elif name.startswith("LOAD") and ("GLOBAL" in name or name == "LOAD_NAME"):
                found.add(argument)
    return Names(frozenset(found), frozenset(attributes), frozenset(imports))


@dataclass
class _Writer:
    """One text. Functions and classes are numbered where they are met, and written out in that order, each once."""

    numbers: dict[int, int] = field(default_factory=dict)
    waiting: deque[tuple[Any, list[str]]] = field(default_factory=deque)
    open: list[Any] = field(default_factory=list)
    """The containers and modules that are being written: one that contains itself has no text."""
    kept: list[Any] = field(default_factory=list)
    """Whatever is numbered, so that no other object takes over its identity."""
    path: list[str] = field(default_factory=list)
    """The names that lead to what is being written."""

    def write(self, value: Any) -> str:
        texts = [self.text(value)]
        while self.waiting:
            found, self.path = self.waiting.popleft()
            try:
                whole = self.whole_class(found) if isinstance(found, type) else self.whole_function(found)
            except NoText as problem:
                problem.names = problem.names or self.path
                raise
            texts.append(f"#{self.numbers[id(found)]} = {whole}")
        return "\n".join(texts)

    def numbered(self, value: Any) -> str:
        """A function or class by its number."""
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.numbers)
            self.kept.append(value)
            self.waiting.append((value, [*self.path]))
        return f"#{self.numbers[id(value)]}"

    def named(self, name: str, value: Any, attributes: frozenset[str] = frozenset()) -> str:
        """`name: text` of what a name stands for."""
        self.path.append(name)
        try:
            text = self.module(value, attributes) if isinstance(value, ModuleType) else self.text(value)
        except NoText as problem:
            problem.names = problem.names or [*self.path]
            raise
        finally:
            self.path.pop()
        return f"{name}: {text}"

    # Values ------------------------------------------------------------------------------------------------

    def text(self, value: Any) -> str:
        if value is None or value is ... or isinstance(value, (bool, int, str, bytes, complex, range, slice)):
            # An enum's member or another subclass is more than the number it prints as.
            return repr(value) if type(value) in PLAIN else self.special(value)
        if isinstance(value, float):
            return f"{type(value).__name__} {value.hex()}"
        if isinstance(value, CONTAINERS):
            return self.container(value)
        return self.special(value)

    def container(self, value: Any) -> str:
        if any(value is other for other in self.open):
            raise NoText(f"{kind_of(value)} that contains itself")
        self.open.append(value)
        try:
            kind = type(value).__name__ if type(value) in CONTAINERS else self.text(type(value))
            if isinstance(value, dict):
                return f"{kind}{{{', '.join(f'{self.text(key)}: {self.text(item)}' for key, item in value.items())}}}"
            parts = [self.text(item) for item in value]
            return f"{kind}[{', '.join(parts if isinstance(value, (tuple, list)) else sorted(parts))}]"
        finally:
            self.open.pop()

    def special(self, value: Any) -> str:
        if isinstance(value, DType):
            return f"dtype {value.name}"
        if isinstance(value, Builtin):
            return f"px.{value.name}"
        if isinstance(value, enum.Enum):
            return f"{self.text(type(value))}.{value.name}"
        if isinstance(value, InlinedFunction):
            return f"px.func {self.text(value.fn)}"
        if isinstance(value, functools.partial):
            return f"partial {self.text([value.func, value.args, value.keywords])}"
        if isinstance(value, MethodType):
            return f"method {self.text([value.__func__, value.__self__])}"
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind != "O":
            return f"{value.dtype.str} {value.dtype.name} {value.shape} {digest(value.tobytes())}"
        if isinstance(value, (PurePath, re.Pattern, np.dtype)) or _is_plain_of_torch(value):
            return f"{type(value).__qualname__} {value!r}"
        if isinstance(value, type) or inspect.isfunction(value):
            return self.numbered(value)
        if inspect.isfunction(getattr(value, "__wrapped__", None)):  # functools.cache
            return f"{type(value).__qualname__} {self.text(value.__wrapped__)}"
        if inspect.isbuiltin(value) or inspect.ismethoddescriptor(value) or inspect.isdatadescriptor(value):
            return self.descriptor(value)
        if dataclasses.is_dataclass(value):
            fields = [f for f in dataclasses.fields(value) if f.init or not isinstance(value, Kernel)]
            parts = {f.name: getattr(value, f.name) for f in fields}  # without the launches that a kernel remembers
            return f"{self.text(type(value))} {self.text(parts)}"
        raise NoText(kind_of(value))

    def descriptor(self, value: Any) -> str:
        """A function of C, or what a class makes of its functions."""
        if isinstance(value, (staticmethod, classmethod)):
            return f"{type(value).__name__} {self.text(value.__func__)}"
        if isinstance(value, property):
            return f"property {self.text([value.fget, value.fset, value.fdel])}"
        if isinstance(value, functools.cached_property):
            return f"cached property {self.text(value.func)}"
        if inspect.isbuiltin(value) and not isinstance(value.__self__, (ModuleType, type(None))):
            return f"{value.__qualname__} of {self.text(value.__self__)}"
        return f"{type(value).__qualname__} {getattr(value, '__module__', '')} {getattr(value, '__qualname__', '')}"

    def module(self, module: ModuleType, attributes: frozenset[str]) -> str:
        """The names of a module that the code names as attributes of anything."""
        version = version_of(_top(module.__name__))
        if version is not None:
            return f"module {module.__name__} {version}"
        if any(module is other for other in self.open):
            return f"module {module.__name__}"
        self.open.append(module)
        try:
            used = sorted(attributes & vars(module).keys())
            return f"module {module.__name__} {[self.named(name, vars(module)[name], attributes) for name in used]}"
        finally:
            self.open.pop()

    # Functions and classes ---------------------------------------------------------------------------------

    def whole_function(self, fn: Any) -> str:
        name = f"{fn.__module__}.{fn.__qualname__}"
        if _top(fn.__module__) == OURS:
            return name
        around = version_of(_top(fn.__globals__.get("__name__")))
        if around is not None:
            inner = getattr(fn, "__wrapped__", None)  # what a decorator of that package made of a function
            return f"{name} {around} {self.text(inner) if inner is not None else ''}"
        values = [self.named("its default", default) for default in fn.__defaults__ or ()]
        values += [self.named(key, default) for key, default in (fn.__kwdefaults__ or {}).items()]
        return "\n".join([name, _source(fn), *values, *self.named_by(fn)])

    def named_by(self, fn: Any) -> Iterator[str]:
        """What a function names: closures, globals, modules that it imports when it runs."""
        names = names_in([fn.__code__])
        for free, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            yield self.named(free, value, names.attributes)
        for name in sorted(names.globals & fn.__globals__.keys()):
            yield self.named(name, fn.__globals__[name], names.attributes)
        for level, name in sorted(names.imports):
            yield from self.imported(fn, level, name, names.attributes)

    def imported(self, fn: Any, level: int, name: str, attributes: frozenset[str]) -> Iterator[str]:
        try:
            full = importlib.util.resolve_name("." * level + name, fn.__globals__.get("__package__"))
            version = version_of(_top(full))
            if version is not None:
                yield f"module {full} {version}"
                return
            modules = [importlib.import_module(part) for part in dict.fromkeys((_top(full), full))]
        except Exception as problem:
            raise NoText(f"a module that can't be imported: {type(problem).__name__}: {problem}") from None
        for module in modules:
            yield self.named(module.__name__, module, attributes)

    def whole_class(self, cls: type) -> str:
        name = f"{cls.__module__}.{cls.__qualname__}"
        version = version_of(_top(cls.__module__))
        if version is not None:
            return f"{name} {version}"
        fields = getattr(cls, "_fields", None)  # collections.namedtuple has no source
        parts = [name, _source(cls) if fields is None else repr(fields), *(self.text(base) for base in cls.__bases__)]
        for key, value in sorted(vars(cls).items()):
            if not (key.startswith("_") and key.endswith("_")) or inspect.isfunction(value):
                parts.append(self.named(key, value))
        return "\n".join(parts)


CONTAINERS = (tuple, list, set, frozenset, dict)
PLAIN = (bool, int, str, bytes, complex, range, slice, type(None), type(...))


def _source(value: Any) -> str:
    """The text of a function or class; of a function without one (dataclasses write such) its byte code."""
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        if isinstance(value, type):
            raise NoText("a class whose source is not at hand") from None
        return _code_text(value.__code__)


def _code_text(code: CodeType) -> str:
    constants = [_code_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _is_plain_of_torch(value: Any) -> bool:
    """Its dtypes, devices, layouts: values that print as what they are."""
    kind = type(value)
    return kind.__module__ == "torch" and kind.__name__ in ("dtype", "device", "layout", "memory_format", "Size")
