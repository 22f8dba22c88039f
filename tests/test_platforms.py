"""Systems without NVIDIA's packages: what pip asks for there, and that kernels are read, simulated and checked."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from phalanx.cuda import nvrtc

ROOT = Path(__file__).resolve().parents[1]
REQUIRED = [Requirement(text) for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]]
NVIDIA = {"cuda-bindings", "nvidia-cuda-nvrtc"}
SYSTEMS = {
    "Linux on x86-64": ("linux", "x86_64", NVIDIA),
    "Linux on Arm": ("linux", "aarch64", NVIDIA),
    "Windows on x86-64": ("win32", "AMD64", NVIDIA),
    "Windows on Arm": ("win32", "ARM64", set()),
    "macOS on Arm": ("darwin", "arm64", set()),
    "macOS on x86-64": ("darwin", "x86_64", set()),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_pip_asks_for(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, machine, wanted = SYSTEMS[system]
    where = {"sys_platform": name, "platform_machine": machine}
    asked = {item.name for item in REQUIRED if item.marker is None or item.marker.evaluate(where)}
    assert asked - {"numpy", "ml_dtypes", "rich", "typer"} == wanted
    monkeypatch.setattr(sys, "platform", name)
    monkeypatch.setattr(nvrtc.platform, "machine", lambda: machine)
    assert nvrtc.has_packages() == bool(wanted)


PROGRAM = """
from support.bare_system import bare
bare()
import sys
import numpy as np
import phalanx as px
from phalanx.runtime.cache import DiskCache
from phalanx.tools.cli import main
from bare_kernels import double

x = np.arange(64, dtype=np.float32)
y = np.zeros_like(x)
double[1](x, y)
assert np.array_equal(y, 2 * x)
print(px.check(double[1], x, y, schedules=8))
print(px.explore(double[1], x, y).complete)
try:
    px.compile(double[1], x, y)
except px.Error as error:
    print(error.message, "|", error.remedy)
cache = DiskCache(sys.argv[1])
print(cache.store("0" * 16, {"n": 1}, {"blob": b"a\\r\\n\\x1a"}), cache.load("0" * 16).blobs, cache.disabled_reason)
sys.argv = ["phalanx", "explain", "bare_kernels.py"]
main()
"""
KERNELS = """
import numpy as np
import phalanx as px


@px.kernel(warps=1)
def double(X, Y):
    tile, full = px.shared((64,), X.dtype), px.barrier()
    with full.transaction():
        px.tma.load(X[0:64], tile, full)
    full.wait(0)
    px.store(Y[0:64], px.load(tile) * 2)


@px.example
def small():
    return double[1], (np.zeros(64, np.float32), np.zeros(64, np.float32))
"""


def test_kernels_are_simulated_checked_and_explained_without_nvidia_s_packages(tmp_path: Path) -> None:
    (tmp_path / "bare_kernels.py").write_text(KERNELS)
    paths = [str(ROOT / "src"), str(ROOT / "tests"), str(tmp_path)]
    program = f"import sys\nsys.path[:0] = {paths!r}\n{PROGRAM}"
    arguments = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning:phalanx"]
    done = subprocess.run([*arguments, "-c", program, "cache"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    checked, explored, refused, cached, *explained = done.stdout.splitlines()
    assert checked == "double: no findings under 8 schedules" and explored == "True"
    assert refused.startswith("NVRTC is not available: NVRTC can't be loaded: No module named 'cuda'")
    assert refused.endswith("the simulator and the checks work without it")
    assert cached == r"True {'blob': b'a\r\n\x1a'} "
    assert explained[0].startswith("double for sm_90a: 1 warp")
