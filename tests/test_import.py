"""What `import phalanx` loads, and that all its names can be found although some are loaded later."""

from __future__ import annotations

import subprocess
import sys

import pytest

import phalanx

LATER = ("phalanx.kernels", "phalanx.language.reader", "phalanx.layouts", "phalanx.passes", "phalanx.runtime")
FLOORS = ("phalanx.sim", "phalanx.sanitizer", "phalanx.cuda", "phalanx.tools")
"""What a kernel needs when it is read, compiled, run or checked."""
COSTLY = ("cuda", "hashlib", "json", "multiprocessing", "pathlib", "rich", "subprocess", "tempfile", "torch", "typer")
"""Modules that NumPy does not load and that take their time."""


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


def test_names_can_be_discovered() -> None:
    code = "import phalanx as px\nassert set(px.__all__) <= set(dir(px)), set(px.__all__) - set(dir(px))"
    assert "phalanx.runtime" not in loaded_by(code), "finding a name does not load it"


@pytest.mark.parametrize("name", phalanx.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(phalanx, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'phalanx' has no attribute 'nothing'"):
        _ = phalanx.nothing  # type: ignore[attr-defined]
