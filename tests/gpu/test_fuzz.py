"""A small share of the random kernels on the GPU: as in the simulator, bit by bit. `make fuzz FUZZ=--gpu` runs more."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.outcomes import Options

pytestmark = pytest.mark.gpu
pytest.importorskip("torch")


def test_tile_kernels(tmp_path: Path) -> None:
    tiles = pytest.importorskip("fuzz.tiles")
    outcomes = list(tiles.judge(range(30), Options(gpu=True, host=False, folder=tmp_path)))
    wrong = [outcome.problem for outcome in outcomes if outcome.problem is not None]
    assert len(outcomes) == 30 and not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("first", [0, 10, 20])
def test_choreographies(first: int, tmp_path: Path) -> None:
    from fuzz.choreography import judge

    outcomes = list(judge(range(first, first + 10), Options(gpu=True, host=False, folder=tmp_path)))
    wrong = [outcome.problem for outcome in outcomes if outcome.problem is not None]
    assert len(outcomes) == 10 and not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("first", range(0, 300, 20))
def test_pipelined_loops(first: int, tmp_path: Path) -> None:
    from fuzz.pipelines import judge

    outcomes = list(judge(range(first, first + 20), Options(gpu=True, host=False, folder=tmp_path)))
    wrong = [outcome.problem for outcome in outcomes if outcome.problem is not None]
    assert len(outcomes) == 20 and not wrong, "\n\n".join(wrong)
