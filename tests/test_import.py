"""What `import phalanx` loads, and that all its names can be found although some are loaded later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import phalanx

LATER = ("phalanx.kernels", "phalanx.language.reader.reader", "phalanx.layouts", "phalanx.passes", "phalanx.runtime")
FLOORS = ("phalanx.sim", "phalanx.sanitizer", "phalanx.cuda", "phalanx.tools")
"""What a kernel needs when it is read, compiled, run or checked."""
COSTLY = ("cuda", "hashlib", "json", "multiprocessing", "pathlib", "rich", "subprocess", "tempfile", "torch", "typer")
"""Modules that NumPy does not load and that take their time."""

SIMULATED = {"phalanx.cuda", "phalanx.cuda.abi", "phalanx.cuda.prepare"}
"""The room's own file, what a build may have beside the kernel, and the choice of a target, before the simulator too."""


def loaded_by(code: str) -> set[str]:
    script = f"import sys, numpy, ml_dtypes\nbefore = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_what_kernels_need_when_they_run_is_loaded_then() -> None:
    loaded = loaded_by("import phalanx")
    assert "phalanx.language.kernel" in loaded
    found = [name for name in loaded if name.startswith((*LATER, *FLOORS)) or name.partition(".")[0] in COSTLY]
    assert not found


def test_defining_a_kernel_loads_nothing() -> None:
    loaded = loaded_by("import phalanx as px\nbefore = set(sys.modules)\n@px.kernel\ndef nothing(X, *, N=1): pass")
    assert not loaded


RUN = """
import numpy as np, phalanx as px, sys
sys.path.insert(0, {folder!r})
from small_copy import copy
x = np.ones((8, 64), np.float32)
y = np.zeros_like(x)
{use}
"""
KERNEL = """
import phalanx as px


@px.kernel(warps=1)
def copy(X, Y):
    tile, full = px.shared((8, 64), X.dtype), px.barrier()
    full.arrive_and_expect_tx(tile.nbytes)
    px.tma.load(X[0:8, 0:64], tile, full)
    full.wait(0)
    px.store(Y[0:8, 0:64], px.load(tile))
"""


@pytest.mark.parametrize(
    ("use", "parts"),
    [
        ("copy[1](x, y); assert (x == y).all()", ("phalanx.cuda", "phalanx.layouts")),
        ("assert px.check(copy[1], x, y).ok", ("phalanx.cuda.nvrtc",)),
    ],
)
def test_the_simulator_and_the_checks_load_no_compiler(use: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    """A check plans the kernel for a GPU, to say what `px.compile` would refuse; it compiles nothing."""
    (tmp_path / "small_copy.py").write_text(KERNEL)
    loaded = loaded_by(RUN.format(folder=str(tmp_path), use=use)) - SIMULATED
    assert "phalanx.sim.run" in loaded
    parts = (*parts, "phalanx.runtime.compiled")
    costly = ("cuda", "concurrent", "hashlib", "multiprocessing", "subprocess", "tempfile")
    assert not [name for name in loaded if name.startswith(parts) or name.partition(".")[0] in costly]


def test_names_can_be_discovered() -> None:
    code = "import phalanx as px\nassert set(px.__all__) <= set(dir(px)), set(px.__all__) - set(dir(px))"
    assert "phalanx.runtime" not in loaded_by(code), "finding a name does not load it"


@pytest.mark.parametrize("name", phalanx.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(phalanx, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'phalanx' has no attribute 'nothing'"):
        _ = phalanx.nothing  # type: ignore[attr-defined]
