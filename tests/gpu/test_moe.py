"""On the GPU: the grouped products of a mixture of experts, against torch."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.kernels.products.moe import moe_gather_matmul, moe_matmul, moe_matmul_scatter

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


def make(sizes: list[int], tokens: int, k: int, n: int) -> tuple[Any, ...]:
    x = torch.randint(-3, 4, (tokens, k), device="cuda").to(torch.bfloat16)
    w = torch.randint(-3, 4, (len(sizes), n, k), device="cuda").to(torch.bfloat16)
    idx = torch.randint(0, tokens, (sum(sizes),), device="cuda", dtype=torch.int32)
    return x, w, idx, torch.tensor(sizes, device="cuda", dtype=torch.int32)


def products(rows: Any, w: Any, sizes: list[int]) -> Any:
    parts = torch.split(rows.float(), sizes)
    return torch.cat([part @ w[e].float().T for e, part in enumerate(parts)])


@pytest.mark.parametrize(
    "sizes, k, n",
    [([1000, 0, 300, 1, 129], 512, 512), ([128], 192, 320), ([5] * 64, 192, 320), ([900] * 8, 4096, 1024)],
)
def test_gather_matmul(sizes: list[int], k: int, n: int) -> None:
    x, w, idx, counts = make(sizes, 777, k, n)
    rows = x[idx.long()]
    expected = products(rows, w, sizes).to(torch.bfloat16)
    assert torch.equal(moe_gather_matmul(x, idx, w, counts), expected)
    assert torch.equal(moe_matmul(rows, w, counts), expected)


@pytest.mark.parametrize("sizes", [[1000, 0, 300, 1, 129], [5] * 64], ids=str)
def test_matmul_scatter(sizes: list[int]) -> None:
    h, w, idx, counts = make(sizes, sum(sizes), 512, 768)
    gate = torch.randint(1, 4, (sum(sizes),), device="cuda").float()
    out = torch.ones(sum(sizes), 768, device="cuda")
    expected = out.clone().index_add_(0, idx, gate[:, None] * products(h, w, sizes))
    moe_matmul_scatter(h, w, counts, idx, gate, out)
    assert torch.equal(out, expected), "integers: exact in any order"


def test_indices_of_64_bits_name_no_row_that_32_would() -> None:
    x, w, _, counts = make([6, 4], 20, 512, 512)
    idx = torch.tensor([3, 2**32, 2**32 + 1, -(2**32), 2**31, 2**63 - 1, -(2**63), -1, 2**32 - 1, 5], device="cuda")
    there = (idx >= 0) & (idx < 20)
    rows = torch.where(there[:, None], x[torch.where(there, idx, 0)], 0)
    assert torch.equal(moe_gather_matmul(x, idx, w, counts), products(rows, w, [6, 4]).to(torch.bfloat16))
    out, expected = torch.zeros(20, 512, device="cuda"), torch.zeros(20, 512, device="cuda")
    expected[idx[there]] = products(x[:10], w, [6, 4])[there]
    moe_matmul_scatter(x[:10], w, counts, idx, torch.ones(10, device="cuda"), out)
    assert torch.equal(out, expected)
