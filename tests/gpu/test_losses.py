"""Cross entropy of rows of any length and beginning, on the GPU."""

from __future__ import annotations

from typing import Any

import pytest

import phalanx as px

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")
COLUMNS = (
    1, 7, 32, 35, 64, 99, 145, 256, 463, 1000, 1088, 1216, 1749, 3328, 3377, 5435, 8350, 20_001, 33_333, 50_257, 300_001,
)  # fmt: skip
"""One at least for each number of threads to a row, whole vectors and others, and rows in pieces."""


@pytest.mark.parametrize("name", ("float32", "bfloat16", "float16"))
@pytest.mark.parametrize("columns", COLUMNS)
def test_losses_and_their_mean(columns: int, name: str) -> None:
    torch.manual_seed(columns)
    rows = min(5003, 20_000_000 // columns)
    x = (3 * torch.randn(rows, columns, device="cuda")).to(getattr(torch, name))
    targets = torch.randint(0, columns, (rows,), device="cuda")
    targets[rows // 2] = -100
    want = torch.nn.functional.cross_entropy(x.double(), targets, reduction="none")
    for _ in range(2):  # the second time as the first was remembered
        got = px.kernels.cross_entropy(x, targets, reduction="none")
        assert float((got.double() - want).abs().max()) < 1e-5
        assert float((px.kernels.cross_entropy(x, targets).double() - want.sum() / (rows - 1)).abs()) < 1e-5
        x, targets = x.clone(), targets.clone()
