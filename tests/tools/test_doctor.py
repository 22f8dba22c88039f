"""`phalanx doctor`: what it says of machines that are made up, whole texts and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import phalanx as px
from phalanx.cuda import nvrtc
from phalanx.machines.rates import rates_of, text_of
from phalanx.runtime import compiled
from phalanx.runtime.cache import DiskCache
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.timeline import cards
from phalanx.tools import doctor, trial
from phalanx.tools.cli import app
from support.fake_driver import FakeLibrary, fake_gpu

REQUIRES = [
    "numpy<3,>=2.0", "nvidia-cuda-nvrtc<14,>=13.0", 'torch<3,>=2.6; extra == "torch"', 'ruff<1,>=0.6; extra == "dev"',
]  # fmt: skip
CAPABILITIES = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)


class Machine:
    """What the doctor finds; a test changes what its machine lacks."""

    def __init__(self) -> None:
        self.python: tuple[Any, ...] = (3, 12, 4)
        self.versions = {"numpy": "2.1.3", "nvidia-cuda-nvrtc": "13.0.48", "torch": "2.8.0+cu130"}
        self.nvrtc: str | Exception = "13.0"
        self.capabilities = CAPABILITIES
        self.compiler: str | None = "/usr/bin/g++"
        self.trials: dict[str, Exception] = {}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A made-up machine with all that Phalanx wants, but for a driver."""
    made = Machine()

    def version(name: str) -> str:
        if name not in made.versions:
            raise metadata.PackageNotFoundError(name)
        return made.versions[name]

    def nvrtc_version() -> str:
        if isinstance(made.nvrtc, Exception):
            raise made.nvrtc
        return made.nvrtc

    def tried(name: str) -> Any:
        def run(*_: str) -> None:
            if name in made.trials:
                raise made.trials[name]

        return run

    def no_driver() -> Any:
        raise cuda.DriverError("CUDA_ERROR_NO_DRIVER", "libcuda.so.1 is not on this machine", remedy="install one")

    cache = tmp_path / "cache"
    monkeypatch.setattr(px, "__version__", "0.2.0")
    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)
    monkeypatch.setattr(doctor.platform, "python_version", lambda: ".".join(map(str, made.python)))
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(nvrtc, "nvrtc_version", nvrtc_version)
    monkeypatch.setattr(nvrtc, "nvrtc_capabilities", lambda: made.capabilities)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: made.compiler)
    monkeypatch.setattr(compiled, "disk_cache", lambda: DiskCache(cache))
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(cache))
    monkeypatch.delenv("PHALANX_CARD", raising=False)
    monkeypatch.setattr(cards, "_cards", {})
    monkeypatch.setattr(cuda, "get_driver", no_driver)
    for name in ("simulate", "compile_for", "launch"):
        monkeypatch.setattr(trial, name, tried(name))
    return made


@pytest.fixture
def gpu(machine: Machine) -> Iterator[FakeLibrary]:
    """The same with a GPU."""
    with fake_gpu() as library:
        yield library


def asked(tmp_path: Path, *options: str) -> tuple[str, int]:
    result = CliRunner().invoke(app, ["doctor", *options])
    return result.output.replace(str(tmp_path), "~"), result.exit_code


WITHOUT_GPU = """\
phalanx 0.2.0

works   Python             3.12.4, linux x86_64
works   numpy              2.1.3
works   nvidia-cuda-nvrtc  13.0.48
works   torch              2.8.0+cu130
works   NVRTC              13.0, for sm_90a, sm_100a, sm_100f, sm_103a, sm_103f, sm_110a, sm_110f, sm_120a, sm_121a; \
not for sm_107a, sm_107f, which 13.4 knows
absent  driver             libcuda.so.1 is not on this machine
                           -> kernels run in the simulator; for a GPU, install NVIDIA's driver
works   C++ compiler       /usr/bin/g++
works   cache              ~/cache, 0 KiB
works   model              the numbers that ship for the H200
works   simulator          a small kernel was run and checked
works   compiler           it was compiled for sm_90a
absent  launch             not tried: no GPU that runs kernels

Kernels can be simulated, checked and compiled here, not run on a GPU.
"""


def test_a_machine_without_a_gpu_is_well(machine: Machine, tmp_path: Path) -> None:
    assert asked(tmp_path) == (WITHOUT_GPU, 0)


WITH_GPU = """\
works   driver             for CUDA 13.4
works   GPU 0              Fake GPU, 132 SMs, capability 9.0, target sm_90a
works   GPU 1              Fake GPU, 132 SMs, capability 9.0, target sm_90a
works   C++ compiler       /usr/bin/g++
works   cache              ~/cache, 0 KiB
absent  model              the model of time has no numbers of this Fake GPU and uses those of the H200
                           -> `phalanx calibrate` measures this card
works   simulator          a small kernel was run and checked
works   compiler           it was compiled for sm_90a
works   launch             it ran on GPU 0

Kernels can be simulated, checked, compiled and run on a GPU here.
"""


@pytest.mark.usefixtures("gpu")
def test_a_machine_with_gpus(tmp_path: Path) -> None:
    text, code = asked(tmp_path)
    assert text[text.index("works   driver") :] == WITH_GPU and code == 0


BROKEN = """\
phalanx 0.2.0

broken  Python             3.10.2, linux x86_64
                           -> Phalanx needs Python 3.11 or newer
broken  numpy              1.26.4, and <3,>=2.0 is needed
                           -> pip install "numpy<3,>=2.0"
broken  nvidia-cuda-nvrtc  not installed
                           -> pip install "nvidia-cuda-nvrtc<14,>=13.0"
absent  torch              not installed
                           -> pip install "phalanx-gpu[torch]"
broken  NVRTC              NVRTC can't be loaded: no libnvrtc.so
                           -> pip install "nvidia-cuda-nvrtc>=13.0,<14" "cuda-bindings>=13.0,<14"
absent  driver             libcuda.so.1 is not on this machine
                           -> kernels run in the simulator; for a GPU, install NVIDIA's driver
absent  C++ compiler       none found
                           -> needed to build what px.export writes, and by some tests of ours
absent  cache              off: PHALANX_CACHE turns it off
                           -> kernels are compiled anew in every process
works   model              the numbers that ship for the H200
broken  simulator          the simulator computes something else
                           -> the lines above may say why; if none does, please report it with this text
absent  compiler           not tried: NVRTC does not work
absent  launch             not tried: no GPU that runs kernels

Kernels can't be used here.
"""


def test_a_machine_that_lacks_most(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine.python = (3, 10, 2)
    monkeypatch.setattr(sys, "version_info", machine.python)
    machine.versions = {"numpy": "1.26.4"}
    machine.nvrtc = nvrtc.CompilerMissing("NVRTC can't be loaded: no libnvrtc.so")
    machine.compiler = None
    machine.trials["simulate"] = ArithmeticError("the simulator computes something else")
    monkeypatch.setenv("PHALANX_CACHE", "0")
    lines = doctor.report(doctor.examine())  # the command's own parser may not run on an old Python
    assert lines + "\n" == BROKEN


def line_of(what: str, tmp_path: Path) -> tuple[str, int]:
    """The lines about one thing, without the spaces between columns."""
    text, code = asked(tmp_path, "--json")
    (found,) = (line for line in json.loads(text) if line["what"] == what)
    return f"{found['state']}: {found['found']}" + (f" -> {found['remedy']}" if found["remedy"] else ""), code


def test_a_system_without_nvidia_s_packages_is_well(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(doctor.platform, "machine", lambda: "arm64")
    requires = ["numpy<3,>=2.0", "nvidia-cuda-nvrtc<14,>=13.0; (sys_platform == 'linux' and platform_machine == 'x86_64')"]
    monkeypatch.setattr(metadata, "requires", lambda name: requires)
    machine.nvrtc = nvrtc.CompilerMissing("NVIDIA publishes none for darwin arm64")
    text, code = asked(tmp_path)
    assert code == 0 and "nvidia-cuda-nvrtc" not in text
    assert "absent  NVRTC         NVIDIA publishes none for darwin arm64\n" in text
    assert "-> kernels are simulated and checked here; compile on Linux or Windows\n" in text
    assert text.endswith("Kernels can be simulated and checked here, not compiled or run on a GPU.\n")


def test_an_nvrtc_that_does_not_know_hopper(machine: Machine, tmp_path: Path) -> None:
    machine.capabilities = (75, 80)
    text = 'broken: 13.0, which does not know sm_90a -> pip install "nvidia-cuda-nvrtc>=13.0,<14"'
    assert line_of("NVRTC", tmp_path) == (text, 1)


def test_a_kernel_that_does_not_compile(machine: Machine, tmp_path: Path) -> None:
    machine.trials["compile_for"] = px.Error("ptxas says no\nmore", remedy="try again")
    text, code = line_of("compiler", tmp_path)
    assert text.startswith("broken: ptxas says no") and code == 1 and "\n" not in text


def test_a_launch_that_fails(machine: Machine, gpu: FakeLibrary, tmp_path: Path) -> None:
    machine.trials["launch"] = ArithmeticError("the GPU computes something else")
    text, code = line_of("launch", tmp_path)
    assert text.startswith("broken: the GPU computes something else -> ") and code == 1


@pytest.mark.parametrize(
    ("number", "said", "code"),
    [
        ((8, 0), "absent: Fake GPU, 132 SMs, capability 8.0 -> kernels need Hopper (9.0) or newer; they run in the", 0),
        ((10, 0), "works: Fake GPU, 132 SMs, capability 10.0, target sm_100a", 0),
        ((9, 9), "absent: Fake GPU, 132 SMs, capability 9.9 -> there is no target sm_99a; ", 0),
    ],
)
def test_capabilities(
    gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: tuple[int, int], said: str, code: int
) -> None:
    values = {16: 132, 38: 60 << 20, 75: number[0], 76: number[1], 81: 233472, 97: 232448, 120: 1}
    monkeypatch.setattr(gpu, "_cuDeviceGetAttribute", lambda out, which, device: gpu._write_int(out, values[which]))
    text, found = line_of("GPU 0", tmp_path)
    assert text.startswith(said) and found == code


def test_an_old_driver(gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu, "_cuDriverGetVersion", lambda out: gpu._write_int(out, 12080))
    remedy = "a driver for CUDA 13 (580 or newer) loads what NVRTC 13 compiles"
    assert line_of("driver", tmp_path) == (f"broken: for CUDA 12.8 -> {remedy}", 1)


def test_a_driver_without_devices(gpu: FakeLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu, "_cuDeviceGetCount", lambda out: gpu._write_int(out, 0))
    assert line_of("GPU", tmp_path) == ("absent: the driver sees none -> kernels run in the simulator", 0)


def test_a_cache_that_can_not_be_written(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(**_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "NamedTemporaryFile", refuse)
    text, code = line_of("cache", tmp_path)
    assert text.startswith("broken: ~/cache can't be written: Permission denied -> ") and code == 1


def test_the_file_of_a_card(machine: Machine, gpu: FakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cache" / "cards" / "fake_gpu.json"
    path.parent.mkdir(parents=True)
    path.write_text(text_of(replace(rates_of("h200"), device="Fake GPU")))
    assert line_of("model", tmp_path) == ("works: ~/cache/cards/fake_gpu.json", 0)
    path.write_text("{}")
    cards._cards.clear()
    text, code = line_of("model", tmp_path)
    assert text.startswith("absent: ~/cache/cards/fake_gpu.json is left out (it has not the numbers of a card") and code == 0
    monkeypatch.setenv("PHALANX_CARD", str(tmp_path / "none"))
    text, code = line_of("model", tmp_path)
    assert text.startswith("broken: PHALANX_CARD names ~/none, which is no card's file: ") and code == 1


def test_a_folder_that_is_not_installed(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert line_of("packages", tmp_path) == ("absent: phalanx runs from a folder and is not installed -> pip install .", 0)


@pytest.mark.parametrize(
    ("version", "spec", "holds"),
    [
        ("2.0", ">=2.0,<3", True), ("2.0.1", "<3,>=2.0", True), ("3.0.0rc1", ">=2.0,<3", False), ("1.26", ">=2", False),
        ("13.4.92", "<14,>=13.0", True), ("2.8.0+cu130", ">=2.6,<3", True), ("5", "", True), ("2.1", "!=2.1", False),
    ],
)  # fmt: skip
def test_bounds(version: str, spec: str, holds: bool) -> None:
    assert doctor.satisfies(version, spec) is holds


def test_the_trial_on_this_machine() -> None:
    trial.simulate()
    trial.compile_for("sm_90a")
