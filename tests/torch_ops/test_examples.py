"""The examples with torch: both run in the simulator, train as torch does, and say that they are right."""

from __future__ import annotations

import importlib
import sys
from itertools import pairwise
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


@pytest.mark.long
@pytest.mark.parametrize("experts", (0, 4))
def test_training(experts: int) -> None:
    """The losses of both sides after the first steps are one."""
    found = importlib.import_module("train_gpt").main(
        ["--size", "tiny", "--steps", "2", "--rows", "2", "--timed", "0", "--experts", str(experts), "--eager"]
    )
    ours, theirs = found["ours"]["losses"], found["torch"]["losses"]
    assert ours[1] < ours[0] and ours == pytest.approx(theirs, rel=5e-4)


@pytest.mark.long
def test_serving(capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("serve").main(["--size", "tiny", "--sequences", "2", "--new", "3"])
    assert "right: all of" in capsys.readouterr().out


def test_text() -> None:
    gpt = importlib.import_module("gpt")
    text = gpt.Text(64, seed=1)
    tokens = text.batch(3, 40)
    assert tokens.shape == (3, 40) and all(b in text.next[a] for row in tokens for a, b in pairwise(row))
    assert len(text.words(tokens[0]).split()) == 40 and (gpt.Text(64, seed=1).batch(3, 40) == tokens).all()
