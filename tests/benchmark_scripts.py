"""Files of benchmarks/ as modules; the folder itself is not on the path."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def script(*names: str, register: Callable[[str, ModuleType], object] = sys.modules.__setitem__) -> Any:
    """The last of these files as a module; those before it are what it imports. `register` makes a module known."""
    for name in names:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        register(name, made)
        spec.loader.exec_module(made)
    return made
