"""`phalanx draw`: which pictures it writes, what they show, exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import phalanx as px
from phalanx.tools.cli import app
from phalanx.tools.draw import ring_picture, timeline_picture

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_pictures_of_a_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["draw", str(EXAMPLES / "ring_copy.py"), "--to", str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    names = ["ring_copy.timeline.svg", "ring_copy.stages.svg"]
    assert result.output.split() == [str(tmp_path / "new" / name) for name in names]
    assert all((tmp_path / "new" / name).read_text().startswith("<svg ") for name in names)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["draw", str(tmp_path / "missing.py")])
    assert result.exit_code == 2 and "there is no file" in result.output


@px.kernel(warps=2)
def ring(X, Y, *, STAGES=2):
    s, full, empty, at = px.shared((STAGES, 8, 32), X.dtype), px.barrier(STAGES), px.barrier(STAGES), px.ring(STAGES)
    with px.warps(0, 1):
        for t in range(4):
            empty[at.stage].wait(at.parity ^ 1)
            with full[at.stage].transaction():
                px.tma.load(X[t * 8 : t * 8 + 8, 0:32], s[at.stage], full[at.stage])
            at.advance()
    with px.warps(1, 1):
        for t in range(4):
            full[at.stage].wait(at.parity)
            px.store(Y[t * 8 : t * 8 + 8, 0:32], px.load(s[at.stage]))
            empty[at.stage].arrive()
            at.advance()


def traced(stages: int) -> Any:
    x = np.ones((32, 32), np.float32)
    return px.trace(ring[1], x, np.zeros_like(x), STAGES=stages)


def test_a_picture_shows_as_much_as_it_is_told() -> None:
    made = traced(2)
    whole, part = timeline_picture(made), timeline_picture(made, most=1000)
    assert part.count("<rect") < whole.count("<rect")


def test_a_buffer_without_stages() -> None:
    with pytest.raises(ValueError, match="no stages of 'other' are used in CTA 0; there are s"):
        ring_picture(traced(2), "other")
