"""Few rows across K in heights of no whole panels, on the GPU."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.kernels.products.split_config import candidates
from phalanx.kernels.products.split_k import split_k_matmul

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")


def make(*shape: int) -> Any:
    """Small integers: sums are exact in any order."""
    return torch.randint(-3, 4, shape, device="cuda").bfloat16()


@pytest.mark.parametrize("rows", [72, 80, 104, 176, 208])
def test_rows_across_k_of_any_height(rows: int) -> None:
    a, b = make(2304, rows).T, make(1024, 2304).T
    want = a.double() @ b.double()
    found = [config for config in candidates(rows, 2304, False) if config.bn == 128][::7]
    assert found
    for config in found:
        assert torch.equal(split_k_matmul(a, b, out=torch.empty(rows, 1024, device="cuda"), config=config).double(), want)
