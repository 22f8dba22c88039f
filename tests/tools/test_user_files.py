"""Files without `@px.example`: `check`, `explain`, `draw` and `export` take what the file launches when it is imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from phalanx.tools.cli import app
from phalanx.tools.user_files import declared

ROOT = Path(__file__).resolve().parents[2]

KERNELS = """
import numpy as np
import phalanx as px


@px.kernel(warps=1)
def twice(X, *, N=64):
    px.store(X[0:N], px.load(X[0:N]) * 2)


@px.kernel(warps=1)
def early(X, Y):
    s = px.shared((64,), X.dtype)
    bar = px.barrier()
    with bar.transaction():
        px.tma.load(X[0:64], s, bar)
    px.store(Y[0:64], px.load(s))


x = np.ones(64, np.float32)
"""


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str, name: str = "kernels.py") -> str:
        path = tmp_path / name
        path.write_text(KERNELS + text)
        return str(path)

    return write


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def test_a_launch_is_taken_with_the_values_before_it(file) -> None:
    (launch,) = declared(file("twice[1](x, N=32)\nassert x.sum() == 96\nprint('said')\n"))
    assert launch.name == "twice" and launch.constants == {"N": 32}
    assert np.array_equal(launch.args[0], np.ones(64, np.float32))


def test_several_launches_that_differ_in_values_alone_are_one(file) -> None:
    text = "for n in range(3):\n    twice[1](x)\ntwice[1](np.ones(128, np.float32))\ntwice[1](x, N=32)\n"
    launches = declared(file(text))
    assert [launch.args[0].size for launch in launches] == [64, 128, 64]
    assert [launch.constants for launch in launches] == [{}, {}, {"N": 32}]


@pytest.mark.parametrize("call", ["px.check(early[1], x, x.copy())", "px.explore(early[1], x, x.copy(), limit=1)"])
def test_what_is_only_checked_or_explored_is_taken_too(call: str, file) -> None:
    result = run("check", file(f"print({call})\n"))
    assert result.exit_code == 1 and "race" in result.stdout, result.output


def test_what_is_only_compiled_is_taken_unless_there_is_data(file) -> None:
    compiled = "px.compile(twice[1], px.spec((64,), px.f32))\n"
    assert "twice for sm_90a" in run("explain", file(compiled, "described.py")).stdout
    (launch,) = declared(file(compiled + "twice[1](x)\n", "both.py"))
    assert isinstance(launch.args[0], np.ndarray)


def test_an_example_goes_before_launches(file) -> None:
    text = "twice[1](x)\n\n\n@px.example\ndef small():\n    return early[1], (x, x.copy())\n"
    assert [launch.name for launch in declared(file(text))] == ["early"]


def test_launches_of_the_library_are_not_the_file_s_own(file) -> None:
    result = run("check", file("px.kernels.softmax(np.ones((2, 8), np.float32))\n"))
    assert result.exit_code == 2 and "declares no example and launches no kernel when it is imported" in result.stderr


def test_what_the_file_prints_does_not_mix_with_the_output(file) -> None:
    result = run("explain", file("print('hello')\ntwice[1](x)\n"), "--json")
    assert [item["kernel"] for item in json.loads(result.stdout)] == ["twice"] and "hello" in result.stderr


def test_draw_and_export(file, tmp_path: Path) -> None:
    path = file("twice[1](x)\n")
    drawn = run("draw", path, "--to", str(tmp_path / "drawn"))
    assert drawn.exit_code == 0 and (tmp_path / "drawn" / "twice.timeline.svg").exists(), drawn.output
    exported = run("export", path, "--to", str(tmp_path / "made"))
    assert exported.exit_code == 0 and (tmp_path / "made" / "twice" / "twice.h").exists(), exported.output


def test_a_file_beside_it_takes_no_package_s_place(file, tmp_path: Path) -> None:
    """The command's own packages are imported late; a `rich.py` in the user's folder is not one of them."""
    for name in ("rich", "typer", "click", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken')\n")
    (tmp_path / "beside_it.py").write_text("SIZE = 64\n")
    path = file("import beside_it\ntwice[1](x, N=beside_it.SIZE)\n")
    code = "from phalanx.tools.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "check", path], capture_output=True, text=True)
    assert done.returncode == 0 and "no findings" in done.stdout, done.stderr


def test_the_readme_s_command_works_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "README.md").read_text()
    (tmp_path / "matmul.py").write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])
    assert "`phalanx explain matmul.py`" in page
    monkeypatch.chdir(tmp_path)
    result = run("explain", "matmul.py")
    assert result.exit_code == 0, result.stderr
    notes = re.findall(r"matmul\.py:13: (.*)", page)
    flat = " ".join(re.sub(r"^ *\| *(= )?", "", line) for line in result.stdout.splitlines())
    assert len(notes) == 3 and all(note in flat for note in notes), result.stdout
