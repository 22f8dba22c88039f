"""The CUDA text of pushes and reductions, run on the CPU: what its addresses, barriers and turns really do."""

from __future__ import annotations

import pytest

import host_cuda
from cluster_cases import MAKERS, Shape, case, label
from host_cluster import run_cluster

pytestmark = pytest.mark.skipif(host_cuda.COMPILER is None, reason="needs a C++ compiler")
NEEDS_TMA = {"read_by_an_engine"}
SHAPES: tuple[Shape, ...] = ((1, 1, 1), (4, 1, 1), (2, 2, 1))


@pytest.mark.parametrize("shape", SHAPES, ids=label)
@pytest.mark.parametrize("name", [name for name in MAKERS if name not in NEEDS_TMA])
def test_text_does_what_the_simulator_says(name: str, shape: Shape) -> None:
    for seed in range(3):
        made = case(name, shape, seed)
        run_cluster(made.kernel, made.grid, *made.args, seed=seed, **made.constants)
        made.check(made.args[1])
