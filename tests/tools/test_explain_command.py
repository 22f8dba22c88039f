"""`phalanx explain`: notes below the lines that they are about, exit codes, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx.tools.cli import app

FOLDER = Path(__file__).resolve().parents[2] / "examples"

KERNELS = '''
import ml_dtypes
import numpy as np
import phalanx as px


@px.func
def sums(x):
    return px.sum(x.to(px.f32), 1)


@px.kernel(warps=4)
def rows(X, ODD, Y, Z, *, BM=64, BK=64):
    total = px.zeros((BM,), px.f32)
    for k in px.pipelined(range(0, X.shape[1], BK), stages=2):
        total = total + sums(px.load(X[0:BM, k:k+BK]))
        total = total + sums(px.load(ODD[0:BM, k:k+BK]))
        total = total + px.load(Y[0:BM])
        px.store(Y[0:BM], total)
    px.store(Z[0:BM], total)


@px.kernel(warps=1)
def double(X, Y):
    px.store(Y[0:64], px.load(X[0:64]) * 2)


@px.example
def small():
    x = np.zeros((64, 130), ml_dtypes.bfloat16)
    y = np.zeros(64, np.float32)
    return rows[1], (x[:, :128].copy(), x[:, :129], y, np.zeros_like(y))


@px.example
def plain():
    return double[1], (np.zeros(64, np.float32), np.zeros(64, np.float32))
'''


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return str(path)


def run(*arguments: str):
    return CliRunner().invoke(app, ["explain", *arguments])


def below(output: str, line: str) -> list[str]:
    """What is said right below a line of the kernel."""
    lines = output.splitlines()
    said = []
    for text in lines[next(n for n, text in enumerate(lines) if text.endswith(line)) + 1 :]:
        margin, bar, note = text.partition(" | ")
        if not bar or margin.strip():
            break
        said.append(note.strip())
    return " ".join(said).removeprefix("= ").split(" = ") if said else []


def test_notes_stand_below_their_lines(file: str) -> None:
    result = run(f"{file}:rows")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("rows for sm_90a: ")
    (head,) = below(result.output, "stages=2):")
    assert head.startswith("px.pipelined: 4 warps more fetch")
    staged = "px.load of X: staged by the copy engine, in a ring of 2 stages; registers load it from there"
    assert staged in below(result.output, "sums(px.load(X[0:BM, k:k+BK]))")
    by_threads = "px.load of ODD: staged by the producer's threads ('ODD' is not aligned to 16 bytes"
    assert below(result.output, "sums(px.load(ODD[0:BM, k:k+BK]))")[0].startswith(by_threads)
    stays = "px.load of Y is not staged: 'Y' is written at kernels.py:19: what is read ahead might be old"
    assert below(result.output, "total + px.load(Y[0:BM])") == [stays]


def test_every_line_of_the_kernel_is_there_once(file: str) -> None:
    output = run(f"{file}:double").output.splitlines()
    first = KERNELS[: KERNELS.index("def double")].count("\n")
    wanted = KERNELS.splitlines()[first - 1 : first + 2]
    assert [line.rstrip() for line in output[1:-1]] == [f"{first + n} | {line}" for n, line in enumerate(wanted)]
    assert output[0] == "double for sm_90a: 1 warp, 0 bytes of shared memory" and output[-1] == ""


def test_both_kernels_and_other_targets(file: str) -> None:
    result = run(file, "--arch", "sm_120a")
    assert result.exit_code == 0 and "rows for sm_120a" in result.output and "double for sm_120a" in result.output


def test_json(file: str) -> None:
    result = run(file, "--json")
    assert result.exit_code == 0
    rows, double = json.loads(result.stdout)
    assert (rows["kernel"], rows["arch"], rows["warps"]) == ("rows", "sm_90a", 8)
    assert rows["shared_bytes"] > 2 * 2 * 64 * 64 * 2 and double["notes"] == []
    assert {(Path(note["file"]).name, note["line"]) for note in rows["notes"]} >= {("kernels.py", 16), ("kernels.py", 17)}


@pytest.mark.parametrize("name", ["simple/matmul", "gemm/v0"])
def test_examples(name: str) -> None:
    result = run(str(FOLDER / f"{name}.py"))
    assert result.exit_code == 0, result.output
    assert "tma.load of A: tensor copy" in result.output


def test_what_can_not_be_explained_exits_with_2(file: str, tmp_path: Path) -> None:
    refused = tmp_path / "refused.py"
    refused.write_text(KERNELS.replace("px.store(Y[0:BM], total)", "px.sync()"))
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    for target, text in (
        ("missing.py", "no file"), (str(empty), "declares no example"),
        (f"{file}:triple", "its examples launch double, rows"), (str(refused), "px.sync in a loop over px.pipelined"),
    ):  # fmt: skip
        result = run(target)
        assert result.exit_code == 2 and text in result.stderr and result.stdout == "", result.output
    result = run(file, "--arch", "sm_80")
    assert result.exit_code == 2 and "unknown target 'sm_80'" in result.stderr


def test_what_was_chosen_stands_below_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "choosing.py"
    path.write_text("""
import numpy as np
import phalanx as px

@px.kernel(warps=1)
def double(X, Y, *, BM=px.choose(16, 64)):
    m = px.block_id(0) * BM
    px.store(Y[m:m+BM], px.load(X[m:m+BM]) * 2)

@px.example
def small():
    return double[lambda BM: 64 // BM], (np.zeros(64, np.float32), np.zeros(64, np.float32))
""")
    found = run(str(path))
    assert found.exit_code == 0, found.output
    (said,) = below(found.output, "def double(X, Y, *, BM=px.choose(16, 64)):")
    assert said.startswith("BM=") and "(px.choose): " in said
    assert "the quickest of 2" in said
