"""The CUDA text of pushes and reductions, run on the CPU: what its addresses, barriers and turns really do."""

from __future__ import annotations

import pytest

import support.collective_cases as collective_cases
import support.host_cuda as host_cuda
import support.host_tma  # noqa: F401  # host versions of copies by descriptor
from support.cluster_cases import MAKERS, case, label
from support.cluster_launches import Shape
from support.host_cluster import run_cluster

pytestmark = pytest.mark.skipif(host_cuda.COMPILER is None, reason=host_cuda.MISSING)
NAMES = [name for name in MAKERS if name != "read_by_an_engine"]  # that one needs a TMA engine


def check(name: str, shape: Shape, seed: int) -> None:
    made = case(name, shape, seed)
    run_cluster(made.kernel, made.grid, *made.args, seed=seed, **made.constants)
    made.check(made.args[1])


@pytest.mark.share(24)
@pytest.mark.parametrize("name", NAMES)
def test_text_does_what_the_simulator_does(name: str) -> None:
    for seed in range(2):
        check(name, (4, 1, 1), seed)


@pytest.mark.long
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 2, 1), (3, 1, 1)], ids=label)
@pytest.mark.parametrize("name", NAMES)
def test_text_does_what_the_simulator_does_in_every_shape(name: str, shape: Shape) -> None:
    for seed in range(2, 4):
        check(name, shape, seed)


@pytest.mark.share(2)
@pytest.mark.parametrize("shape", [(2, 1, 1), (2, 2, 1)], ids=label)
@pytest.mark.parametrize("name", collective_cases.MAKERS)
def test_collective_copies_land_where_the_simulator_says(name: str, shape: Shape) -> None:
    made = collective_cases.case(name, shape)
    run_cluster(made.kernel, made.grid, *made.args, seed=1, **made.constants)
    made.check(made.args[1])
