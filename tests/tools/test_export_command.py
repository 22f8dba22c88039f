"""`phalanx export`."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from phalanx.tools.cli import app

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_kernels_of_a_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", str(EXAMPLES / "vector_add.py"), "--to", str(tmp_path), "--arch", "sm_90a"])
    assert done.exit_code == 0, done.output
    (folder,) = tmp_path.iterdir()
    assert folder.name == "add"
    assert (folder / "add_sm_90a.cubin").read_bytes()[:4] == b"\x7fELF"
    assert (folder / "add.h").exists()


def test_what_can_not_be_done(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", str(tmp_path / "none.py"), "--to", str(tmp_path)])
    assert done.exit_code == 2
    assert "there is no file" in done.output
    done = CliRunner().invoke(app, ["export", str(EXAMPLES / "vector_add.py"), "--to", str(tmp_path), "--arch", "sm_1"])
    assert done.exit_code == 2
