"""Products whose warpgroups take tiles in turn, and few rows across K in heights of no whole panels, on the GPU."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px
from phalanx.kernels.products.matmul import matmul
from phalanx.kernels.products.matmul_config import Problem, complete
from phalanx.kernels.products.split_config import candidates
from phalanx.kernels.products.split_k import split_k_matmul

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


def make(*shape: int) -> Any:
    """Small integers: sums are exact in any order."""
    return torch.randint(-3, 4, shape, device="cuda").bfloat16()


@pytest.mark.parametrize("cluster", [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("k", [64, 200, 512])
def test_results_in_turns(k: int, swapped: bool, cluster: tuple[int, int]) -> None:
    a, b = make(6, 1000, k), make(6, 1200, k).mT
    config = complete(Problem(1000, 1200, k, 6, out_itemsize=4), 128, 128, 2, cluster, swapped, turns=True)
    want = a.double() @ b.double()
    for _ in range(3):
        assert torch.equal(matmul(a, b, out_dtype=px.f32, config=config).double(), want)


@pytest.mark.parametrize("rows", [72, 80, 104, 176, 208])
def test_rows_across_k_of_any_height(rows: int) -> None:
    a, b = make(2304, rows).T, make(1024, 2304).T
    want = a.double() @ b.double()
    found = [config for config in candidates(rows, 2304, False) if config.bn == 128][::7]
    assert found
    for config in found:
        assert torch.equal(split_k_matmul(a, b, out=torch.empty(rows, 1024, device="cuda"), config=config).double(), want)
