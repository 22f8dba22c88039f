"""The example of cluster launch control: right, clean and whole in clusters of 1, 2 and 4."""

from __future__ import annotations

import importlib
import runpy

import numpy as np
import pytest

import phalanx as px
from examples.blackwell import FOLDER
from phalanx.language.examples import launch_of
from phalanx.runtime.checking import check_launch

example = importlib.import_module("clc_scale")


@pytest.mark.share(7)
@pytest.mark.parametrize("shape", [(1, 4), (150, 200), (33, 65), (256, 64)])
@pytest.mark.parametrize("ctas", [1, 2, 4])
def test_is_right_and_clean(ctas: int, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    y = np.zeros_like(x)
    launch = example.clc_scale[example.blocks(x, CTAS=ctas)]
    report = px.check(launch, x, y, 3.0, CTAS=ctas, schedules=6, strict=True)
    assert report.ok, report
    launch(x, y, 3.0, CTAS=ctas)
    assert np.array_equal(y, x * np.float32(3.0))


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a", "sm_120a"])
def test_its_declared_launches_are_clean_on_every_target(arch: str) -> None:
    for declared in (example.alone, example.in_pairs):
        launch = launch_of(declared)
        report = check_launch(launch.bound, launch.args, launch.constants, 5, arch=arch)
        assert report.ok, report


def test_main_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FOLDER / "clc_scale.py"), run_name="__main__")
    assert capsys.readouterr().out.count("right") == 3
