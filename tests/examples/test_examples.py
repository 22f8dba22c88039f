"""Every example: right in the simulator for random shapes under every schedule kind, and compiled for both targets."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

import phalanx as px
from examples.cases import EXAMPLES, random_case

WITH_TORCH = ("gpt", "train_gpt", "serve", "step_table")
"""Their tests are in tests/torch_ops."""
FOLDER = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.share(9)
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("seed", range(4))
def test_is_right_in_the_simulator(name: str, seed: int) -> None:
    random_case(name, seed).run()


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("seed", range(4, 60))
def test_is_right_in_the_simulator_for_many_shapes(name: str, seed: int) -> None:
    random_case(name, seed).run()


@pytest.mark.share(14)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_compiles_without_spills(name: str, arch: str) -> None:
    case = random_case(name, 0)
    made = px.compile(case.launch, *case.args, arch=arch, **case.constants)
    assert made.cubin[:4] == b"\x7fELF"
    assert made.spills == 0


@pytest.mark.share(7)
@pytest.mark.parametrize("name", [*EXAMPLES, "demo"])
def test_main_runs(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert "right" in capsys.readouterr().out


def test_the_list_is_complete() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"common", "demo", *WITH_TORCH}
    assert files == set(EXAMPLES)
