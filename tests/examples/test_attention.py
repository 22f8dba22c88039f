"""The attention ladder: every rung right in the simulator, checked, and compiled without spills."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phalanx as px

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "attention"
RUNGS = tuple(f"v{n}" for n in range(5))


def module(rung: str) -> Any:
    """A rung under a name of its own: other ladders have modules of the same names."""
    name = f"attention_{rung}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{rung}.py")
        assert spec is not None and spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules[name] = found
        sys.path.insert(0, str(FOLDER))
        try:
            spec.loader.exec_module(found)
        finally:
            sys.path.remove(str(FOLDER))
    return sys.modules[name]


def case(rung: str, *sizes: int, **constants: Any) -> Any:
    return module(rung).example(np.random.default_rng(0), *sizes, **constants)


@pytest.mark.share(2)
@pytest.mark.parametrize("rung", ["v0", "v2", "v4"])
def test_is_right(rung: str) -> None:
    case(rung).run()


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(3, 150, 64), (1, 1, 64), (2, 400, 128)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rung", RUNGS)
def test_is_right_causal_and_elsewhere(rung: str, causal: bool, sizes: tuple[int, ...]) -> None:
    case(rung, *sizes, CAUSAL=causal).run()


@pytest.mark.long
@pytest.mark.parametrize("rung", RUNGS)
def test_is_checked_clean(rung: str) -> None:
    made = case(rung, CAUSAL=True)
    report = px.check(made.launch, *made.args, **made.constants)
    assert report.ok, report


@pytest.mark.long
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("rung", RUNGS)
def test_compiles_without_spills(rung: str, dim: int) -> None:
    made = case(rung, 1, 100, dim)
    compiled = px.compile(made.launch, *made.args, arch="sm_90a", **made.constants)
    assert compiled.spills == 0
    assert "wgmma.mma_async" in compiled.ptx and ("setmaxnreg" in compiled.ptx) == (rung > "v0")
