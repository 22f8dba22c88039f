"""`phalanx trace`: what it writes and says, exit codes."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from phalanx.tools.cli import app

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_pages_of_a_file(tmp_path: Path) -> None:
    file = str(EXAMPLES / "ring_copy.py")
    result = CliRunner().invoke(app, ["trace", file, "--to", str(tmp_path / "new"), "--perfetto"])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["ring_copy.html", "ring_copy.json"]
    assert "cycles" in result.output and "limited by" in result.output and "who waits" in result.output


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["trace", str(tmp_path / "missing.py")])
    assert result.exit_code == 2 and "there is no file" in result.output
