"""A small share of the random kernels on the GPU: as in the simulator, bit by bit. `make fuzz FUZZ=--gpu` runs more."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from fuzz import batches
from fuzz.outcomes import Options

pytestmark = pytest.mark.gpu
pytest.importorskip("torch")
HAND = 20
"""Seeds that a process takes: it has a context of its own, which takes seconds to begin."""


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


def test_pipelined_loops(tmp_path: Path) -> None:
    """300 launches of some 190 kernels, a process for each core: most of the time is the compiler's."""
    seeds, options = range(0, 1500, 5), Options(gpu=True, host=False, folder=tmp_path)
    hands = [("pipelines", list(seeds[n : n + HAND]), options) for n in range(0, len(seeds), HAND)]
    found = [outcome for hand in batches.outcomes(hands, min(len(hands), os.cpu_count() or 1), math.inf) for outcome in hand]
    wrong = [outcome.problem for outcome in found if outcome.problem is not None]
    late = [outcome.seed for outcome in found if outcome.verdict == "slow to compile"]
    assert len(found) == len(seeds) and not late and not wrong, "\n\n".join(wrong) or f"slow to compile: {late}"


BYTES_ROUND_A_LOOP = (20223, 20900, 20915, 21069)
"""Programs whose f8 operands go round an unrolled loop: ptxas took their bytes from the wrong registers."""


def test_products_in_flight(tmp_path: Path) -> None:
    """300 programs, a process for each core; `make fuzz KIND=flights FUZZ=--gpu` runs more."""
    seeds, options = [*range(5_000, 5_300), *BYTES_ROUND_A_LOOP], Options(gpu=True, host=False, folder=tmp_path)
    hands = [("flights", seeds[n : n + HAND], options) for n in range(0, len(seeds), HAND)]
    found = [outcome for hand in batches.outcomes(hands, min(len(hands), os.cpu_count() or 1), math.inf) for outcome in hand]
    wrong = [outcome.problem for outcome in found if outcome.problem is not None]
    assert len(found) == len(seeds) and not wrong, "\n\n".join(wrong)
