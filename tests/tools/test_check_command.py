"""`phalanx check`, `@px.example`, and the fixture `px_check`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import phalanx as px
from phalanx.language.examples import launch_of
from phalanx.tools.cli import app

FOLDER = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(
    path for path in (*FOLDER.glob("*.py"), *FOLDER.glob("gemm/v*.py"), *FOLDER.glob("simple/*.py"))
    if path.stem not in ("common", "arrays", "gpt", "serve", "step_table", "train_gpt")  # the last are for torch
)  # fmt: skip

KERNELS = '''
import numpy as np
import phalanx as px

X = np.arange(64, dtype=np.float32)


@px.kernel(warps=1)
def copy(X, Y, *, N, WAIT=True):
    s = px.shared((N,), X.dtype)
    bar = px.barrier()
    with bar.transaction():
        px.tma.load(X[0:N], s, bar)
    if WAIT:
        bar.wait(0)
    px.store(Y[0:N], px.load(s))
    if not WAIT:
        bar.wait(0)


@px.kernel(warps=1)
def double(X, Y):
    px.store(Y[0:64], px.load(X[0:64]) * 2)


@px.example
def waits():
    return copy[1], (X, np.zeros_like(X)), dict(N=64)


@px.example
def plain():
    return double[1], [X, np.zeros_like(X)]
'''
BAD = KERNELS + '''

@px.example
def reads_early():
    return copy[1], (X, np.zeros_like(X)), dict(N=64, WAIT=False)
'''


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str, name: str = "kernels.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def run(*arguments: str):
    return CliRunner().invoke(app, ["check", *arguments])


def test_clean_kernels(file) -> None:
    result = run(file(KERNELS), "--schedules", "4", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "copy: no findings under 4 schedules" in result.output and "double: no findings" in result.output


PRODUCT = '''
import numpy as np
import phalanx as px


@px.kernel(warps=4)
def product(X):
    a = px.shared((64, 64), px.f16)
    px.store(a, px.zeros((64, 64), px.f16))
    px.fence.async_proxy()
    acc = px.zeros((64, 64), px.f32)
    px.wgmma(a, a.T, acc)
    px.wgmma_commit()
    px.wgmma_wait(0)
    px.store(X[0:64, 0:64], acc)


@px.example
def once():
    return product[1], (np.ones((64, 64), np.float32),)
'''


def test_a_target_can_be_named(file) -> None:
    path = file(PRODUCT, "product.py")
    assert run(path).exit_code == 0 and run(path, "--arch", "sm_90a").exit_code == 0
    result = run(path, "--arch", "sm_103f")
    assert result.exit_code == 2
    assert "sm_103f has no wgmma" in result.output and "px.wgmma(a, a.T, acc)" in result.output
    result = run(path, "--arch", "sm_80")
    assert result.exit_code == 2 and "unknown target 'sm_80'" in result.output


def test_findings_exit_with_1(file) -> None:
    result = run(file(BAD))
    assert result.exit_code == 1
    assert "race" in result.output and "px.store(Y[0:N], px.load(s))" in result.output


def test_notes_are_printed_and_are_no_findings(file) -> None:
    text = KERNELS.replace("@px.kernel(warps=1)\ndef double(X, Y):", "@px.kernel(warps=1, pdl=True)\ndef double(X, Y):")
    early = "    x = px.load(X[0:64])\n    px.wait_prior()\n    px.store(Y[0:64], x)"
    text = text.replace("    px.store(Y[0:64], px.load(X[0:64]) * 2)", early)
    line = text[: text.index("x = px.load")].count("\n") + 1
    why = "px.load reads X before px.wait_prior(): right only if no launch before this one on the stream writes it"
    result = run(file(text) + ":double")
    assert result.exit_code == 0, result.output
    assert f"note: kernels.py:{line}: {why}" in " ".join(result.output.split())
    (report,) = json.loads(run(file(text) + ":double", "--json").stdout)
    assert report["ok"] and report["notes"] == [f"kernels.py:{line}: {why}"]


def test_one_kernel(file) -> None:
    result = run(file(BAD) + ":double")
    assert result.exit_code == 0 and "copy" not in result.output
    result = run(file(BAD) + ":triple")
    assert result.exit_code == 2 and "its examples launch copy, double" in result.output


def test_json(file) -> None:
    result = run(file(BAD), "--json")
    assert result.exit_code == 1
    reports = json.loads(result.stdout)
    assert [report["kernel"] for report in reports] == ["copy", "double", "copy"]
    assert [report["ok"] for report in reports] == [True, True, False]
    assert reports[2]["findings"][0]["kind"] == "race"


def test_what_can_not_be_checked_exits_with_2(file) -> None:
    for target, text in ((file("x = 1\n", "empty.py"), "declares no example"), ("missing.py", "no file")):
        result = run(target)
        assert result.exit_code == 2 and text in result.output


def test_an_example_returns_a_launch() -> None:
    @px.example
    def wrong():
        return 3

    with pytest.raises(px.Error, match="not a bound launch"):
        launch_of(wrong)
    with pytest.raises(px.Error, match="on a function"):
        px.example(3)


@pytest.mark.share(28)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_example_is_clean_under_5_schedules(path: Path) -> None:
    result = run(str(path), "--schedules", "5")
    assert result.exit_code == 0, result.output
    assert "no findings under 5 schedules" in result.output


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_example_is_clean_under_50_schedules(path: Path) -> None:
    result = run(str(path), "--schedules", "50", "--seed", "100")
    assert result.exit_code == 0, result.output
    assert "no findings under 50 schedules" in result.output


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=() if path.stem in ("v0", "v3", "clc_scale") else pytest.mark.long, id=path.stem)
        for path in sorted((*FOLDER.glob("blackwell/v*.py"), *FOLDER.glob("blackwell/clc*.py")))
    ],
)  # fmt: skip
def test_every_rung_for_blackwell_is_clean(path: Path) -> None:
    """Under further schedules, too, where something might go otherwise in another order."""
    result = run(str(path), "--schedules", "5")
    assert result.exit_code == 0, result.output
    assert "no findings under" in result.output


UNABLE = {
    "a syntax error": ("def f(:\n    pass\n", "case.py does not compile: invalid syntax\n --> case.py:1:7"),
    "an import error": ("import nothing_like_it\n", "case.py raises ModuleNotFoundError: No module named 'nothing_like_it'"),
    "an exception": (
        "def inner():\n    raise ValueError('two')\n\n\ninner()\n", "case.py raises ValueError: two\n --> case.py:2:5",
    ),
    "an exit": ("import sys\n\nsys.exit(0)\n", "case.py exits (code 0): nothing was checked\n --> case.py:3:1"),
    "a raising example": (
        "import phalanx as px\n\n\n@px.example\ndef small():\n    return 1 / 0\n",
        "the example 'small' raises ZeroDivisionError: division by zero\n --> case.py:6:5",
    ),
    "an example that exits": (
        "import sys\n\nimport phalanx as px\n\n\n@px.example\ndef small():\n    sys.exit(1)\n",
        "the example 'small' exits (code 1): nothing was checked",
    ),
    **{
        f"an example that returns {value}": (
            "import phalanx as px\n\n\n@px.kernel(warps=1)\ndef k(X):\n    px.store(X[0], 1)\n\n\n"
            f"@px.example\ndef small():\n    return {value}\n",
            f"the example 'small' returns {problem}\n  --> case.py:10:1\n   |\n10 | def small():\n   | ^^^^^^^^^^^^\n"
            "  = help: return kernel[grid], (x, y) or, with constants, kernel[grid], (x, y), dict(BM=64)",
        )
        for value, problem in {
            "None": "NoneType, not a bound launch and its arguments", "3": "int, not a bound launch and its arguments",
            "k[1], 3": "its arguments as int, not as a tuple",
            "k[1], (), 5": "its constants as int, not as a dict by their names",
        }.items()
    },
    "no example": ("x = 1\n", "case.py declares no example"),
    "no text": ("\0", "case.py does not compile"),
}


@pytest.mark.parametrize("what", UNABLE)
def test_what_can_not_be_checked_is_one_message(what: str, file, tmp_path: Path, monkeypatch) -> None:
    """Exit code 2, and one message without this package's own frames."""
    text, expected = UNABLE[what]
    file(text, "case.py")
    monkeypatch.chdir(tmp_path)
    result = run("case.py")
    assert result.exit_code == 2
    said = "\n".join(line[:-1] if line.endswith(" ") else line for line in result.stderr.splitlines())
    flat = said.replace("  -->", " -->")
    assert flat.startswith(expected), result.stderr
    assert result.stdout == "" and "Traceback" not in said and "phalanx/tools" not in said
    assert said.count("= help:") == 1


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    code = "from phalanx.tools.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], text=True, check=False, **options)


def test_version_and_mistakes_on_the_command_line() -> None:
    shown = command("--version", capture_output=True)
    assert (shown.returncode, shown.stdout) == (0, f"phalanx {px.__version__}\n")
    wrong = command("nonsense", capture_output=True)
    assert wrong.returncode == 2 and "No such command 'nonsense'" in wrong.stderr and "Traceback" not in wrong.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_output_that_can_not_be_written(file) -> None:
    with open("/dev/full", "w") as full:
        result = command("check", file(KERNELS), stdout=full, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (2, "the output can't be written: No space left on device\n")


def test_a_reader_that_has_gone(file) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        result = command("check", file(KERNELS), stdout=pipe, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (141, "")


def test_every_command_says_its_exit_codes() -> None:
    for arguments in ([], ["check"], ["explain"]):
        text = " ".join(CliRunner().invoke(app, [*arguments, "--help"]).output.split())
        assert "Exit codes: 0 done, nothing found; 1 findings; 2 it could not be done;" in text


def test_shapes_that_are_not_there() -> None:
    result = command("bench", "gemm", "--shapes", "nofile", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert result.returncode == 2
    message = "the shapes of nofile can't be read: No such file or directory\n  = help: name a text file"
    assert result.stderr.startswith(message)


def test_the_fixture_passes_a_clean_kernel(px_check) -> None:
    @px.kernel(warps=1)
    def double(X, Y):
        px.store(Y[0:64], px.load(X[0:64]) * 2)

    x = np.ones(64, np.float32)
    assert px_check(double[1], x, np.zeros_like(x), schedules=2).ok


def test_the_fixture_fails_a_test_with_the_report(px_check) -> None:
    @px.kernel(warps=1)
    def early(X, Y):
        s = px.shared((64,), X.dtype)
        bar = px.barrier()
        with bar.transaction():
            px.tma.load(X[0:64], s, bar)
        px.store(Y[0:64], px.load(s))

    x = np.ones(64, np.float32)
    with pytest.raises(pytest.fail.Exception, match="race"):
        px_check(early[1], x, np.zeros_like(x))


@px.kernel(warps=1)
def nothing(X):
    px.sync()


@pytest.mark.parametrize("item", [3, len, nothing])
def test_an_example_is_a_function(item: Any) -> None:
    with pytest.raises(px.Error, match=r"@px\.example is put on a function") as caught:
        px.example(item)
    assert caught.value.location.file == __file__ and caught.value.remedy == "write @px.example above a def"
