"""What the disk cache's key must tell apart."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import phalanx as px
from phalanx.cuda import nvrtc
from phalanx.cuda.prepare import prepare_for
from phalanx.ir.printer import text
from phalanx.ir.types import ArrayType, f32
from phalanx.language.reader.reading import read_kernel
from phalanx.runtime import compiled
from phalanx.runtime.cache import DiskCache
from phalanx.runtime.launch import memory


@px.kernel
def copy(X, Y, *, N=64):
    px.store(Y[0:N], px.load(X[0:N]))


def listing(first: ArrayType, kernel=copy, **constants: int) -> str:
    return text(prepare_for(read_kernel(kernel, (first, ArrayType(1, f32)), {"N": 64, **constants}).function))


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("aligned", [True, False])
def test_every_fact_of_an_array_is_in_the_key(inner: bool, aligned: bool) -> None:
    mine = listing(ArrayType(1, f32, inner, aligned))
    others = [(a, b) for a in (True, False) for b in (True, False) if (a, b) != (inner, aligned)]
    assert all(listing(ArrayType(1, f32, *other)) != mine for other in others)


def test_constants_warps_and_cluster_are_in_the_key() -> None:
    plain = listing(ArrayType(1, f32))
    assert listing(ArrayType(1, f32), N=128) != plain
    assert listing(ArrayType(1, f32), kernel=dataclasses.replace(copy, warps=8)) != plain
    assert listing(ArrayType(1, f32), kernel=dataclasses.replace(copy, cluster=2)) != plain


@px.kernel
def to_itself(X, *, N=64):
    s, done = px.shared((2, N), px.f32), px.barrier()
    px.store(s[0], px.load(X[0:N]))
    px.fence.async_proxy()
    with done.transaction():
        px.cluster.copy(s[0], s[1], done, cta=0)
    done.wait(0)


def test_a_push_inside_one_cta_is_launched_as_a_cluster_of_one() -> None:
    x = px.spec((64,), px.f32)
    assert px.compile(to_itself[1], x).addresses_cluster
    assert not px.compile(copy[1], x, x).addresses_cluster


def test_the_cache_remembers_that_it_addresses_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))  # a home may be missing, or not be ours to write
    memory.forget()
    x = px.spec((64,), px.f32)
    px.compile(to_itself[1], x)
    memory.forget()
    again = px.compile(to_itself[1], x)
    assert again.from_cache and again.addresses_cluster


@pytest.mark.parametrize("found", [True, False])
def test_without_nvrtc(found: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whether a wheel of it is found or not: it can't be loaded."""

    def missing() -> str:
        raise nvrtc.CompilerMissing("NVRTC can't be loaded: no such file")

    monkeypatch.setattr(compiled, "disk_cache", lambda: DiskCache(tmp_path))
    monkeypatch.setattr(nvrtc, "nvrtc_identity", (lambda: "13.4.1") if found else missing)
    monkeypatch.setattr(nvrtc, "_nvrtc", missing)
    memory.forget()
    with pytest.raises(px.Error) as error:
        px.compile(copy[1], px.spec((64,), px.f32), px.spec((64,), px.f32))
    assert error.value.message == "NVRTC is not available: NVRTC can't be loaded: no such file"
    assert error.value.remedy == "install the package nvidia-cuda-nvrtc; the simulator and the checks work without it"
    assert error.value.location.file == __file__


def test_an_nvrtc_that_does_not_know_the_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Such as the one that torch pins: the error says which version does, not that the text is wrong."""
    monkeypatch.setattr(compiled, "disk_cache", lambda: DiskCache(tmp_path))
    monkeypatch.setattr(nvrtc, "nvrtc_capabilities", lambda: (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121))
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: "13.0")
    memory.forget()
    x = px.spec((64,), px.f32)
    assert px.compile(copy[1], x, x, arch="sm_100a").cubin
    with pytest.raises(px.Error) as error:
        px.compile(copy[1], x, x, arch="sm_107a")
    assert error.value.message == "NVRTC 13.0 does not know the target sm_107a: 13.4 is the first that does"
    assert error.value.remedy == (
        'pip install "nvidia-cuda-nvrtc>=13.4,<14", and compile before anything that brings an older one, such as torch, '
        "has loaded it"
    )
    assert error.value.location.file == __file__


def test_each_nvrtc_has_entries_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiled, "disk_cache", lambda: DiskCache(tmp_path))
    x = px.spec((64,), px.f32)
    cached = []
    for identity in ("13.4.1", "13.4.1", "13.4.2", "13.4.1"):
        monkeypatch.setattr(nvrtc, "nvrtc_identity", lambda identity=identity: identity)
        memory.forget()
        cached.append(px.compile(copy[1], x, x).from_cache)
    assert cached == [False, True, False, True]


def test_what_another_nvrtc_compiled_than_it_seemed_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    monkeypatch.setattr(compiled, "disk_cache", lambda: cache)
    answers = iter(("13.4.1", "13.0"))  # before a compile, for its key, and after it
    monkeypatch.setattr(nvrtc, "nvrtc_identity", lambda: next(answers))
    memory.forget()
    x = px.spec((64,), px.f32)
    assert px.compile(copy[1], x, x).cubin
    assert cache.size_bytes() == 0


WARM = """
import sys
import phalanx as px
sys.path.insert(0, sys.argv[1])
from small_fill import fill
made = px.compile(fill[1], px.spec((64,), px.f32))
loaded = "/libnvrtc.so" in open("/proc/self/maps").read()
assert loaded or "cuda.bindings" not in sys.modules
print(made.from_cache, loaded)
"""
FILL = """
import phalanx as px


@px.kernel
def fill(X):
    px.store(X[0:64], 1.0)
"""


def test_a_kernel_of_the_cache_needs_no_compiler(tmp_path: Path) -> None:
    """A fresh process that finds its kernel there loads NVRTC only to ask which it is, where no wheel says so."""
    (tmp_path / "small_fill.py").write_text(FILL)
    environment = {**os.environ, "PHALANX_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", WARM, str(tmp_path)]
    said = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    asked = nvrtc.wheel_in(nvrtc.package_folders()) is None
    assert said == ["False True\n", f"True {asked}\n"]


SERIALISED = (
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient "
    "register resources for the wgmma pipeline crossing function boundary at a function call in the function 'copy_kernel'"
)
HINT = "ptxas info    : (C7519) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements."


def test_a_loss_of_performance_is_an_error_with_the_whole_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The log is NVRTC's own, with two lines of ptxas added where the compiler's log is read."""
    read = nvrtc._text
    monkeypatch.setattr(compiled, "disk_cache", lambda: DiskCache(tmp_path))  # an empty one, so that NVRTC is asked

    def text_of(size_of: Any, get: Any, program: Any) -> str:
        log = read(size_of, get, program)
        return f"{log}\n{SERIALISED}\n{HINT}\n" if "Used" in log else log

    monkeypatch.setattr(nvrtc, "_text", text_of)
    x = px.spec((64,), px.f32)
    with pytest.raises(px.Error) as caught:
        px.compile(copy[1], x, x, N=32)
    shown = str(caught.value)
    first, second = (line.split(") ", 1)[1] for line in (SERIALISED, HINT))
    assert f"kernel 'copy' compiles with a loss of performance: C7510 {first}" in shown
    assert f"C7519 {second}" in shown and "test_compiled.py" in shown
    assert "most registers of a thread hold tiles after test_compiled.py" in shown
    assert caught.value.remedy == (
        "use fewer registers: smaller tiles, more warps, regs= for the roles that need them; "
        '@px.kernel(on_loss="note") takes it as it is'
    )
    monkeypatch.setattr(nvrtc, "_text", read)
    made = px.compile(copy[1], x, x, N=32)
    assert made.registers > 0 and not made.from_cache, "nothing of it was kept"


@pytest.mark.parametrize("said, help_", [
    ("C7508 Potential Performance Loss: 'setmaxnreg' ignored", "give the role more registers"),
    ("C7514 ... due to non wgmma instructions defining accumulator registers of a wgmma", "leave accumulators alone"),
    ("C7510 ... due to the presence of Extern calls in the function", "nothing that becomes a call"),
    ("C7511 ... something new", "keep what stands between px.wgmma and its px.wgmma_wait simple"),
])  # fmt: skip
def test_every_loss_of_performance_has_a_remedy(said: str, help_: str) -> None:
    assert help_ in compiled.remedy_for(said)


@px.kernel(warps=16)
def crowded(X, Y, n):
    """More tiles than 128 registers hold, all alive around a loop."""
    a = px.load(X[0:256, 0:128])
    b = px.load(Y[0:256, 0:128])
    for _ in range(n):
        a, b = px.exp2(a * b.T.reshape(256, 128)), px.exp2(b + a)
    px.store(X[0:256, 0:128], a)
    px.store(Y[0:256, 0:128], b)


def test_spills_are_noted_with_the_place_where_registers_are_few() -> None:
    x = px.spec((256, 128), px.f32)
    made = px.compile(crowded[1], x, x, 3)
    assert made.spills > 0
    found = re.fullmatch(
        r"(\d+) bytes of registers are spilled; most registers of a thread hold tiles after test_compiled.py:\d+: "
        r"(.*), (\d+) of 128, beside addresses and scalars", made.notes[-1],
    )
    assert found and int(found[1]) == made.spills and "a 64" in found[2] and "b 64" in found[2] and int(found[3]) >= 128
