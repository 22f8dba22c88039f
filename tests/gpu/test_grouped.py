"""On the GPU: products of groups of rows, against torch in f32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.kernels.products.group_model import with_tiles
from phalanx.kernels.products.grouped import NARROW, GroupedConfig, grouped_matmul
from phalanx.kernels.products.moe import moe_gather_matmul
from phalanx.kernels.products.split_config import SplitConfig

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

CONFIGS = (
    None, GroupedConfig(cm=1, cn=1), GroupedConfig(cm=2, cn=1), GroupedConfig(cm=2, cn=2), GroupedConfig(band=3), NARROW,
    with_tiles(128, 1, 1), with_tiles(64, 2, 2), with_tiles(32, 1, 2),
)  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize(
    "sizes, k, n",
    [([1000, 0, 300, 1, 129], 512, 512), ([128], 192, 320), ([5] * 64, 192, 328), ([900] * 8, 4096, 1024), ([0, 0], 64, 64)],
    ids=str,
)
def test_uneven_groups(sizes: list[int], k: int, n: int, config: GroupedConfig | SplitConfig | None) -> None:
    rows = sum(sizes) + 3
    x = torch.randint(-3, 4, (rows, k), device="cuda").bfloat16()
    w = torch.randint(-3, 4, (len(sizes), n, k), device="cuda").bfloat16()
    bias = torch.randint(-3, 4, (len(sizes), n), device="cuda").bfloat16()
    want = torch.full((rows, n), 7.0, device="cuda")
    start = 0
    for g, size in enumerate(sizes):
        want[start : start + size] = x[start : start + size].float() @ w[g].float().T
        start += size
    for given in (sizes, torch.tensor(sizes, device="cuda")):
        out = torch.full((rows, n), 7.0, device="cuda", dtype=torch.bfloat16)
        assert torch.equal(grouped_matmul(x, w, given, out=out, config=config), want.bfloat16())
    with_bias = (want[:start] + bias.float().repeat_interleave(torch.tensor(sizes, device="cuda"), 0)).relu()
    got = grouped_matmul(x, w, sizes, bias=bias, activation="relu", config=config)
    assert torch.equal(got[:start], with_bias.bfloat16())


def test_f16() -> None:
    x = torch.randint(-3, 4, (700, 256), device="cuda").half()
    w = torch.randint(-3, 4, (3, 512, 256), device="cuda").half()
    sizes = [300, 257, 143]
    want = torch.cat([p.float() @ w[g].float().T for g, p in enumerate(torch.split(x, sizes))])
    assert torch.equal(grouped_matmul(x, w, sizes, config=replace(GroupedConfig(), band=1)), want.half())


@pytest.mark.parametrize("bm, split, ctas", [(128, 4, 2), (128, 2, 1), (64, 4, 2), (32, 2, 2)])
@pytest.mark.parametrize("sizes", [[138, 0, 79, 1], [30, 31, 32, 33, 0, 64], [500]], ids=str)
def test_few_rows_of_a_long_k(sizes: list[int], bm: int, split: int, ctas: int) -> None:
    """K split among the CTAs of a cluster, again and again into the same result."""
    k, n, rows = 7168, 1032, sum(sizes)
    x = torch.randint(-1, 2, (rows, k), device="cuda").bfloat16()
    w = torch.randint(-1, 2, (len(sizes), n, k), device="cuda").bfloat16()
    want = torch.cat([part.float() @ w[g].float().T for g, part in enumerate(torch.split(x, sizes))]).bfloat16()
    out = torch.empty(rows, n, device="cuda", dtype=torch.bfloat16)
    for _ in range(20):
        out.fill_(float("nan"))
        grouped_matmul(x, w, sizes, out=out, config=with_tiles(bm, split, ctas))
        assert torch.equal(out, want)


def test_few_rows_by_index() -> None:
    sizes, k = [70, 0, 13, 45], 4096
    idx = torch.randperm(200, device="cuda")[:128]
    x = torch.randint(-1, 2, (200, k), device="cuda").bfloat16()
    w = torch.randint(-1, 2, (4, 2048, k), device="cuda").bfloat16()
    want = torch.cat([part.float() @ w[g].float().T for g, part in enumerate(torch.split(x[idx], sizes))])
    assert torch.equal(moe_gather_matmul(x, idx, w, sizes), want.bfloat16())
