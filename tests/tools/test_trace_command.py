"""`phalanx trace`: what it writes and says, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx.runtime.device.driver import has_gpu
from phalanx.tools.cli import app

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_pages_of_a_file(tmp_path: Path) -> None:
    file = str(EXAMPLES / "ring_copy.py")
    result = CliRunner().invoke(app, ["trace", file, "--to", str(tmp_path / "new"), "--perfetto"])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["ring_copy.html", "ring_copy.json"]
    assert "cycles" in result.output and "limited by" in result.output and "who waits" in result.output


def test_beside_a_launch_on_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.tools.trace.copied_to_gpu", lambda args: list(args))  # the model stands for the GPU
    file = str(EXAMPLES / "ring_copy.py")
    result = CliRunner().invoke(app, ["trace", file, "--to", str(tmp_path), "--gpu"])
    assert result.exit_code == 0, result.output
    assert "(1.000)" in result.output and "waits: " in result.output
    assert "ring_copy: two timelines" in (tmp_path / "ring_copy.html").read_text()


@pytest.mark.skipif(has_gpu(), reason="says what is missing where there is no GPU")
def test_without_a_gpu() -> None:
    result = CliRunner().invoke(app, ["trace", str(EXAMPLES / "ring_copy.py"), "--gpu"])
    assert result.exit_code == 2 and "there is none" in result.output


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["trace", str(tmp_path / "missing.py")])
    assert result.exit_code == 2 and "there is no file" in result.output
