"""The CUDA text of cluster launch control on the CPU: each block runs once, and its index is the one of the own position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from golden.blackwell import clc_scale
from sanitizer.test_clc import asks_after_a_refusal
from sim.test_clc import counted, ring_of_results
from support import host_cuda
from support.host_cuda import HostFailure, launch, module_for

pytestmark = pytest.mark.skipif(host_cuda.COMPILER is None, reason=host_cuda.MISSING)
SEEDS = range(4)


@pytest.mark.share(7)
@pytest.mark.parametrize(
    ("cluster", "grid"),
    [(1, (7,)), (2, (10,)), (4, (20,)), ((2, 2), (4, 6)), ((1, 2, 2), (3, 2, 4)), (1, (2, 3, 2))], ids=str,
)
def test_every_block_runs_exactly_once(cluster: Any, grid: tuple[int, ...]) -> None:
    """Also in grids and clusters of two and three dimensions: a wrong index would run one block twice, and none another."""
    blocks = int(np.prod(grid))
    args = [np.zeros(blocks, np.int32), np.zeros(blocks, np.int32), np.full(blocks, -1, np.int32)]
    module = module_for(counted, tuple(args), arch="sm_100a", CLUSTER=cluster)
    for seed in SEEDS:
        runs, starts, who = (arg.copy() for arg in args)
        launch(module, grid, [runs, starts, who], seed)
        assert (runs == 1).all(), (seed, runs)
        assert starts.max() == 1 and set(who) == set(np.flatnonzero(starts)), "only clusters that started run blocks"


@pytest.mark.share(2)
@pytest.mark.parametrize("cluster", [1, 2, (2, 2)], ids=str)
def test_roles_that_read_answers_at_their_own_pace(cluster: Any) -> None:
    grid = (8, 2)
    module = module_for(ring_of_results, (np.zeros((16, 2), np.int32),), arch="sm_100a", CLUSTER=cluster)
    for seed in SEEDS:
        runs = np.zeros((16, 2), np.int32)
        launch(module, grid, [runs], seed)
        assert (runs == 1).all(), (seed, runs)


@pytest.mark.share(7)
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a", "sm_120a"])
@pytest.mark.parametrize("ctas", [1, 2, 4])
def test_the_example_is_right(ctas: int, arch: str) -> None:
    x = np.random.default_rng(2).standard_normal((70, 130)).astype(np.float32)
    y = np.zeros_like(x)
    module = module_for(clc_scale, (x, y, 3.0), arch=arch, CTAS=ctas)
    for seed in SEEDS:
        y[:] = 0
        launch(module, -(-9 // ctas) * ctas, [x, y, 3.0], seed)
        assert np.array_equal(y, x * np.float32(3.0)), seed


def test_a_request_after_a_refusal_is_found_here_too() -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(HostFailure, match=r"clusterlaunchcontrol\.try_cancel after a response that was a refusal"):
        launch(module_for(asks_after_a_refusal, (x,), arch="sm_100a", BUG=True), 6, [x], 1)
    launch(module_for(asks_after_a_refusal, (x,), arch="sm_100a", BUG=False), 6, [x], 1)
    assert (x[:6] == 1).all()
