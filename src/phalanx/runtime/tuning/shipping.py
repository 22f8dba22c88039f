"""Functions and values as bytes for another process, also those of a script or of a file that is no module's.

Pickle names a function by its module. A worker imports that module, or, where it can't (a script is `__main__` only to
itself), runs the module's file under another name.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import sys
from types import ModuleType
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen


@frozen
class Parcel:
    """A value as bytes, and the files of the modules that it names."""

    data: bytes
    files: dict[str, str]

    def open(self) -> Any:
        """Makes the value again, in another process."""
        return _Opener(self.data, self.files).load()


def parcel(value: Any, what: str) -> Parcel:
    """`value` for another process; an error that names `what` where it can't travel."""
    try:
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        names = _Names(io.BytesIO(data))
        names.load()
    except Exception:
        raise Error(
            f"{what} can't be sent to the process that measures: it is a lambda, or made inside a function",
            location=caller_location(),
            remedy="define it with def at the top of a file, or pass isolate=False to measure in this process",
        ) from None
    files = {}
    for name in sorted(names.modules):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            files[name] = file
    return Parcel(data, files)


class _Names(pickle.Unpickler):
    """Reads a pickle for the modules in it."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module)
        return super().find_class(module, name)


class _Opener(pickle.Unpickler):
    def __init__(self, data: bytes, files: dict[str, str]) -> None:
        super().__init__(io.BytesIO(data))
        self.files = files

    def find_class(self, module: str, name: str) -> Any:
        found: Any = _module(module, self.files.get(module))
        for part in name.split("."):
            found = getattr(found, part)
        return found


_LOADED: dict[str, ModuleType] = {}


def _module(name: str, file: str | None) -> ModuleType:
    if name == "__main__" and file is None:
        raise ImportError("the function was typed at a prompt: write it into a file")
    if name != "__main__":
        try:
            return importlib.import_module(name)
        except ImportError:
            if file is None:
                raise
    assert file is not None
    if file not in _LOADED:
        alias = f"phalanx_tuned_{len(_LOADED)}"
        spec = importlib.util.spec_from_file_location(alias, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[alias] = _LOADED[file] = module
        spec.loader.exec_module(module)
    return _LOADED[file]
