"""The rungs of the ladder for Blackwell, by name; they are files of the same names as those for Hopper."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "blackwell"
sys.path += [str(FOLDER), str(FOLDER.parent)]  # behind others: v0 to v7 are the names of another ladder's files, too

RUNGS = tuple(f"v{n}" for n in range(8))


def rung(name: str) -> Any:
    """The module of a rung."""
    known = f"blackwell_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


def case(name: str, *shape: int, make: str = "example", **constants: Any) -> Any:
    """A launch of a rung on random operands, with what must come out."""
    return getattr(rung(name), make)(np.random.default_rng(0), *shape, **constants)
